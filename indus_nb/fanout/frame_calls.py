"""What a data frame needs beside ``map``: rows that pass, answers about many rows, pairs, and the best rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Unpack

from indus_nb.fanout import joining, ranking, reducing
from indus_nb.fanout.calls import Calls, FilterOptions, ReduceOptions, RoundOptions
from indus_nb.fanout.filtering import Kept
from indus_nb.fanout.mapping import Map
from indus_nb.fanout.packing import SYSTEM_PROMPT
from indus_nb.fanout.reporting import usual_reporter
from indus_nb.fanout.rounds import ROWS, Rounds
from indus_nb.fanout.rows import Table, table_of
from indus_nb.fanout.running import completed
from indus_nb.fanout.template import Template

if TYPE_CHECKING:
    from indus_nb.fanout.question import RowQuestion


class FrameCalls(Calls):
    """The definitions of this process, and questions whose answers choose, join, order and sum up rows."""

    def filter(self, template: str, data: object, **options: Unpack[FilterOptions]) -> Kept:
        """Ask a question with yes or no about each row, and keep the rows that it is yes for.

        Args:
            template: The question, in which ``{column}`` stands for a value of the row.
            data: A data frame, a list of rows, or anything to iterate over; what is no row itself is ``{item}``.
            **options: The options of ``map`` but for ``result``.

        Returns:
            The rows that pass, in their order: ``frame`` has them with the columns of the data, ``answers`` what became
            of each row, and ``unknown`` the numbers of those without an answer.

        Raises:
            IndusError: Nothing could be asked, as for ``map``.
        """
        table = table_of(data)
        asked = self._asked(template, table, FilterOptions, options, bool)
        return completed(partial(Kept, data, table), lambda: Map(data, asked).here(usual_reporter(options)))

    def join(
        self,
        template: str,
        left: object,
        right: object,
        *,
        on: joining.On | None = None,
        embed: joining.Embed | None = None,
        nearest: int = joining.NEAREST,
        max_pairs: int = joining.MAX_PAIRS,
        **options: Unpack[FilterOptions],
    ) -> joining.Pairs:
        """Ask a question with yes or no about pairs of rows, and keep the pairs that it is yes for.

        Without ``on`` and ``embed`` each row on the left is paired with each on the right.

        Args:
            template: The question, in which ``{left.column}`` and ``{right.column}`` stand for values of the two rows.
            left: A data frame, a list of rows, or anything to iterate over.
            right: Another one, or the same.
            on: What must be equal for two rows to be asked about: a column, a function of a row as a dictionary, or one
                for the left and one for the right. A row whose key is ``None`` is asked about with none.
            embed: A function that is called with a list of texts and returns a vector for each, of one length: what the
                question shows of a row is compared by it. Needs numpy.
            nearest: How many rows on the right each row on the left is asked about with, those whose vectors are
                nearest by their angle.
            max_pairs: The number of pairs above which nothing is asked.
            **options: The options of ``map`` but for ``result``; rows are pairs here.

        Returns:
            The pairs that are found: ``frame`` has them with the columns of both sides, ``pairs`` their numbers,
            ``answers`` what became of each pair that was asked about, and ``unknown`` those without an answer.

        Raises:
            IndusError: Nothing could be asked, as for ``map``; or there would be more than ``max_pairs`` pairs.
        """
        tables = table_of(left), table_of(right)
        pairing = joining.paired(
            Template(template), (left, right), tables, on=on, embed=embed, nearest=nearest, max_pairs=max_pairs
        )
        table = pairing.table
        asked = self._asked(template, table, FilterOptions, options, bool)
        made = partial(joining.Pairs, pairing, table)
        return completed(made, lambda: Map(table.rows, asked).here(usual_reporter(options)))

    def reduce(
        self,
        question: str,
        data: object,
        *,
        of: str | None = None,
        by: str | Sequence[str] = (),
        characters: int = reducing.CHARACTERS,
        **options: Unpack[ReduceOptions],
    ) -> reducing.Notes:
        """Ask one question about many rows together, and get one answer, or one for each group.

        As many rows as fit stand in a prompt. Where one does not hold all, the question is asked about the answers
        once more, until there is one.

        Args:
            question: The question, which names no column.
            data: A data frame, a list of rows, or anything to iterate over; what is no row itself is ``{item}``.
            of: What is shown of each row, with ``{column}`` for its values; not needed for data with one column.
            by: A column, or several, by whose values rows are grouped; without one all rows are one group.
            characters: How many characters the rows of one prompt have together. A longer row has a prompt of its own.
            **options: The options of ``map`` that hold for several rounds: ``result``, ``model``, ``provider``,
                ``thinking``, ``system_prompt``, ``timeout``, ``parallel``, ``rpm``, ``tpm``, ``max_cost``,
                ``max_tokens``, ``journal``, ``cheap``, ``sure``, ``sessions``, ``estimate``, which knows the first
                round alone, and ``progress``.

        Returns:
            The answers, one for each group; ``groups`` has the rows that each was made of, and its parts.

        Raises:
            IndusError: Nothing could be asked, as for ``map``.
        """
        reduction = reducing.Reduction(question, data, table_of(data), of, by, characters)
        asked = self._in_rounds(reduction.template, ReduceOptions, options)
        rounds: Rounds[reducing.Notes] = Rounds(asked, lambda rounds: reduction.steps(rounds, asked.kind))
        return rounds.here(usual_reporter(options))

    def topk(
        self,
        question: str,
        data: object,
        *,
        k: int = ranking.K,
        of: str | None = None,
        compared: int | None = None,
        **options: Unpack[RoundOptions],
    ) -> ranking.Ranking:
        """Ask which rows are the best, and get them in order.

        Some rows at a time are compared in one prompt, and the best ``k`` of them go on, round after round, until the
        last ones fit into one prompt.

        Args:
            question: The question that says which rows are better; it names no column.
            data: A data frame, a list of rows, or anything to iterate over; what is no row itself is ``{item}``.
            k: How many rows are wanted.
            of: What is shown of each row, with ``{column}`` for its values; not needed for data with one column.
            compared: How many rows stand in one prompt, more than ``k``; by default 20, or twice ``k`` if that is more.
            **options: The options of ``map`` that hold for several rounds: those of ``reduce`` but for ``result``.

        Returns:
            The best rows, the best first; ``numbers`` are their numbers in the data, and ``missing`` those of the rows
            that could not be placed.

        Raises:
            IndusError: Nothing could be asked, as for ``map``.
        """
        tournament = ranking.Tournament(question, data, table_of(data), k, of, compared)
        asked = self._in_rounds(tournament.template, RoundOptions, options)
        rounds: Rounds[ranking.Ranking] = Rounds(asked, tournament.steps)
        return rounds.here(usual_reporter(options))

    def _in_rounds(self, template: str, known: type, options: ReduceOptions | RoundOptions) -> RowQuestion:
        usual = {**options, "system_prompt": options.get("system_prompt") or SYSTEM_PROMPT}
        return self._asked(template, Table((ROWS,), ()), known, usual)

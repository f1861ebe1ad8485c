"""``indus_nb.agent``: what a program defines for its sessions, and one question for many rows."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Any, Unpack, cast

from indus_nb.extend.definitions import agent as definitions
from indus_nb.fanout.calls import MapOptions, StreamOptions
from indus_nb.fanout.cascade import Sure
from indus_nb.fanout.frame_calls import FrameCalls
from indus_nb.fanout.mapping import Map
from indus_nb.fanout.partitions import is_partitioned
from indus_nb.fanout.question import MAX_TOKENS, MAX_TURNS, PARALLEL
from indus_nb.fanout.reporting import usual_reporter
from indus_nb.fanout.results import Answers
from indus_nb.fanout.rows import Table, rows_in
from indus_nb.fanout.stream import Stream
from indus_nb.fanout.template import Template


class Agent(FrameCalls):
    """The definitions of this process, and one question for many rows: ``map``, and what is made of it."""

    def map(  # noqa: PLR0913 - each is an option of its own
        self,
        template: str,
        data: object,
        *,
        result: Any = None,
        model: str | None = None,
        provider: str | None = None,
        thinking: str = "off",
        tools: Sequence[str] = (),
        files: Sequence[str] = (),
        system_prompt: str | None = None,
        parallel: int = PARALLEL,
        rpm: float | None = None,
        tpm: float | None = None,
        max_cost: float | None = None,
        max_tokens: int | None = MAX_TOKENS,
        max_turns: int | None = MAX_TURNS,
        timeout: float | None = None,
        journal: Path | str | None = None,
        batch: bool = False,
        over: Executor | None = None,
        dedupe: bool = True,
        cheap: str | None = None,
        sure: Sure | None = None,
        sample: int | None = None,
        estimate: bool = False,
        sessions: bool = True,
        progress: bool = True,
    ) -> Answers:
        """Ask one question about each row, and wait for the answers.

        Works in programs and in notebook cells. Ctrl-C, or the interruption of the cell, lets no more rows begin: rows
        that were asked come to their end, and then ``KeyboardInterrupt`` is raised. ``agent.interrupted`` has the
        answers so far; the others are ``None``. Another interruption cuts the rows off that are asked.

        Args:
            template: The prompt, in which ``{column}`` stands for a value of the row; ``{{`` and ``}}`` are braces.
            data: A data frame, a list of rows, or anything to iterate over; what is no row itself is ``{item}``.
            result: The type of the answers: any type that pydantic's ``TypeAdapter`` takes, a JSON schema as a mapping,
                or ``None`` for texts.
            model: The model; by default the one that the journal was begun with, then that of the notebook's
                conversation, then that of the settings.
            provider: The provider, such as ``offline``.
            thinking: The thinking level of the model.
            tools: The names of tools that rows may use; by default none, and rows then read nothing but their prompt.
            files: Columns whose texts are paths of images or texts within the working directory. Pillow's images, bytes
                of images, and ``pathlib.Path`` are read in every column that the prompt names; other texts never are.
            system_prompt: A text in place of the usual system prompt.
            parallel: The number of rows that are asked at once.
            rpm: The number of requests to a model that may begin in a minute.
            tpm: The number of tokens that requests to a model may read and write in a minute, cached ones aside.
            max_cost: US dollars for all of it, what a journal says of earlier processes included.
            max_tokens: The longest answer to one request, thinking included; ``None`` for the model's own limit.
            max_turns: The most answers that the model may give for a row that has tools; ``None`` for no limit.
            timeout: The seconds that a row may take with one model, waits included.
            journal: A file of what is done: the next call with it asks for nothing that was answered.
            batch: Whether Anthropic may take up to a day for the answers, for half the price. ``parallel`` does not
                count then. Interrupted, it is left to the next call with the same journal; without one it is cancelled.
            over: An executor, such as ``ProcessPoolExecutor()``: its workers run the functions of ``tools``, and
                this process does all the rest.
            dedupe: Whether rows with the same prompt are asked once, and share the answer: those without tools, of a
                template that names a column.
            cheap: A cheap model that is asked about each row first, of the same provider unless it is
                ``provider/id``; ``model`` is asked about rows that it is not sure of, or fails at. Not for rows with
                tools, nor with ``batch``.
            sure: When the answer of ``cheap`` is taken: from this probability on (0.9), from 0 to 1, which it gives
                with its answer; ``"twice"`` if it gives the same one twice; or if this function of the answer says so.
                The function is called between requests, so it must not take long.
            sample: How many rows, from all over the data, are asked for now; their answers say what all will cost, and
                ``retry()`` asks for the others. ``None`` for all rows.
            estimate: Whether to ask nothing, and only say in ``summary`` and ``estimate`` what it would cost.
            sessions: Whether each row's conversation is kept as a session file.
            progress: Whether to show how far it is, on a terminal or in a notebook.

        Returns:
            The answers, one for each row in their order.

        Raises:
            IndusError: Nothing could be asked: the prompt does not fit the data, there is no model or no key, or the
                journal cannot be used. What goes wrong in a row is its ``error``.
            KeyboardInterrupt: The user has interrupted it.
        """
        given = locals()
        options = cast("MapOptions", {name: given[name] for name in MapOptions.__annotations__})
        return Map(*self._question(template, data, options)).here(usual_reporter(options))

    async def map_async(self, template: str, data: object, **options: Unpack[MapOptions]) -> Answers:
        """Run ``map`` on the event loop of the caller; cancelling it cuts off the rows that are asked.

        Args:
            template: The prompt, in which ``{column}`` stands for a value of the row.
            data: The rows.
            **options: The options of ``map``; ``progress`` shows nothing here.

        Returns:
            The answers, one for each row in their order.

        Raises:
            IndusError: As for ``map``.
        """
        # In a thread where the loop would wait for data that is computed.
        asking = partial(self._question, template, data, options)
        return await Map(*(await asyncio.to_thread(asking) if is_partitioned(data) else asking())).run()

    def stream(self, template: str, data: object, **options: Unpack[StreamOptions]) -> Stream:
        """Ask one question about each row as it is read, and give back each with its result, in the order of the data.

        For data of any length: a generator, a cursor of a database, lines of a file. It is read on the thread that
        takes the results, no more than four times ``parallel`` rows ahead of them, and nothing is kept of rows that
        were taken; while the data has no next row, none is given back. Use it in a ``with`` statement, or in a loop
        without a name for it: the end of either cuts off the rows that are asked by then.

        Args:
            template: The prompt, in which ``{column}`` stands for a value of the row.
            data: The rows: what ``map`` takes, but for frames of Dask.
            **options: The options of ``map`` without ``batch``, ``dedupe``, ``sample`` and ``estimate``; ``sessions``
                is ``False`` unless it is given. A journal is held in memory; with one, a prompt that it has is not
                asked again.

        Returns:
            An iterator of pairs: the row as a dictionary, and its ``RowAnswer``.

        Raises:
            IndusError: As for ``map``; where there is no model or no key, when the first row is taken. From the
                iterator, once it has given back what was read: no money is left, the journal cannot be written, or 20
                rows one after the other have failed.
        """
        columns, rows = rows_in(data)
        known = Template(template).columns if columns is None else columns
        options = {"sessions": False, **options}
        asked = self._asked(template, Table(known, ()), StreamOptions, options)
        return Stream(rows, asked, usual_reporter(options))


agent: Agent = Agent(definitions)
"""The definitions of this process, and ``map``."""

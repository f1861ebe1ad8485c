"""A run of a notebook's cells in a fresh kernel, compared with the outputs in the notebook.

What this module promises: cells that ask the agent are not run, nor those that the notebook has never run; the first
cell that fails is the last one that runs, unless a tag allows it to fail; no model is asked (``models.unasked``), so
that a cell whose code asks one ends there, and the next ones run; when it ends, in whatever way, the kernel and all
that its cells started have ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import itertools
import json
import os
import re
import symtable
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

from indus_nb.base.messages import Attachment, going_along
from indus_nb.base.textcut import counted, middle, one_line
from indus_nb.base.variables import ASK_NO_MODEL, set_variable
from indus_nb.base.wire import JsonObject, clean_text
from indus_nb.kernel.cell_names import cell_name
from indus_nb.kernel.document.claimed import Claimed, Evaluate, compared_now
from indus_nb.kernel.document.notebook_file import Cell, joined_text
from indus_nb.kernel.document.selection import name_for_model
from indus_nb.render.markup import plain
from indus_nb.safety.redaction import hide, labelled_secrets
from indus_nb.tools.commands.shell import printed_text
from indus_nb.tools.processes import sweep
from indus_nb.tools.tool import ToolError

if TYPE_CHECKING:
    from indus_nb.kernel.undo import Maker

_READY_SECONDS = 60
_CELL_SECONDS = 1800
_ALIVE_EVERY = 0.5
_DIED = "the kernel died"
_MAX_TEXT_CHARACTERS = 20_000
_MAX_DIFFERENCE_LINES = 12
_MAX_SIDE_LINES = 3
_MAX_LINE_CHARACTERS = 160
_CHARACTERS_BEFORE = 40
_VIEWS = (
    "print(__import__('json').dumps(__import__('indus_nb.kernel.values.describe', fromlist=['views'])"
    ".views(globals(), {!r})))"
)
"""Code that prints views of variables in the fresh kernel."""
_REFUSED = "getattr(getattr(__import__('sys').modules.get('indus_nb.models.unasked'), 'refusals', None), 'count', 0)"
"""Expression for how many requests for a model were refused in the fresh kernel."""
_ASKS_MODEL = ("NotAskedError", "MissingKeyError")
"""Errors of code that asks a model there; the second where the key was typed in the user's kernel."""
_KEEPS = "`%agent keep answers.json` before that cell is run keeps its answers, which are used here then."
_Run: TypeAlias = Callable[[str], Awaitable[tuple[str | None, list[JsonObject]]]]
"""Runs code there; returns its error, and its outputs."""
_MAX_LISTED = 5
_WRITES_CODE = "`%agent cell all` in a new cell {where} writes its code into cells."
_AFTERWARDS = f"Right after that, {_WRITES_CODE}"
_ASKS_AGENT = re.compile(r"^[ \t]*(?:[\w.]+[ \t]*=[ \t]*)?%%?agent\b", re.MULTILINE)
_NOT_DEFINED = re.compile(r"NameError: name '(\w{1,200})' is not defined")
_SKIPPED = frozenset({"skip-execution", "nbval-skip"})
_MAY_FAIL = frozenset({"raises-exception", "nbval-raises-exception"})
_NOT_COMPARED = frozenset({"nbval-ignore-output"})
"""Tags of cells, by which nbclient, Jupyter Book and nbval go too."""
_MAX_TITLE_CHARACTERS = 60
_MAX_ERROR_CHARACTERS = 600
_FIGURES = ("image/", "application/vnd.plotly", "application/vnd.vega")
_DOLLARS = r"\$\d[\d,]*(?:\.\d+)?"
_COST = (
    rf"(?:at least )?(?:{_DOLLARS}(?: and an unknown cost)?|cost unknown)"
    rf"(?: \(up to {_DOLLARS} more for answers that broke off\))?(?: now, {_DOLLARS} before)?"
)
_VARYING = (
    # A journal or kept answers are used the next time: how many rows were answered before, and what was paid, differs.
    (
        re.compile(
            rf"\b(answered|rounds?)(?:, \d[\d,]* of them (?:answered )?before)?"
            rf"((?:, \d[\d,]* (?:failed|not asked))*), {_COST}"
        ),
        r"\1\2, [cost]",
    ),
    (re.compile(r"(?<![\w.,])\d[\d,]*(?:\.\d+)?\s?[a-z]+/(?:ms|s|sec|min|h)\b"), "[rate]"),
    (re.compile(r"\b0x[0-9a-fA-F]{6,}\b"), "0x…"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"), "[time]"),
    (re.compile(r"\b\d{1,2}:\d\d:\d\d(?:[.,]\d+)?\b"), "[time]"),
    (re.compile(r"\b\d+(?:\.\d+)?\s?(?:ns|µs|us|ms|s|sec|seconds|min)\b"), "[time]"),
    (re.compile(r"ipykernel_\d+/\d+\.py"), "ipykernel"),
)
_COLUMN = re.compile(r"- (.+?): (.+)")
_FRACTION = re.compile(r"(?<![\w.])-?\d+\.\d+(?:[eE][-+]?\d+)?(?![\w.])")


class ByAgent(NamedTuple):
    """A variable that a call of the agent made or changed in the user's kernel.

    Attributes:
        maker: The call, if one is known.
        cell: The cell in which that was asked for; ``None`` where it was in none of the notebook.
    """

    name: str
    maker: Maker | None
    cell: int | None


@dataclass(slots=True)
class Verified:
    """Result of running a notebook afresh; cells are counted from 1.

    Attributes:
        name: The name of the notebook's file; empty if it is not known.
        tagged: Cells that are not run because of their tags.
        unrun: Cells that are not run because they never were.
        asking: Cells that ended where their code asked a model.
        different: Cells that gave something else, and the difference.
        names: What cells are called for the user, and in ``model_names`` for the model.
        running: The cell that runs, and its first line.
        lacks: The variable that the failed cell did not find.
        others: Variables that the agent's calls changed, and how they differ in the fresh kernel.
        same: How many values in answers are the same.
        claims: Cells whose answers have other values now, with a line for each.
        unsaved: Cells whose answers have values that are not in the file, and so are not compared.
        below: The cell below the failed one that assigns what that lacks.
        answers: The cell above it that asks the agent for what that lacks.
        makes: The one of ``asking`` that assigns it.
    """

    name: str = ""
    ran: list[int] = field(default_factory=list[int])
    skipped: list[int] = field(default_factory=list[int])
    tagged: list[int] = field(default_factory=list[int])
    unrun: list[int] = field(default_factory=list[int])
    asking: list[int] = field(default_factory=list[int])
    left: list[int] = field(default_factory=list[int])
    failed: tuple[int, str] | None = None
    different: dict[int, str] = field(default_factory=dict[int, str])
    running: tuple[int, str] | None = None
    is_over: bool = False
    names: Mapping[int, str] = field(default_factory=dict[int, str])
    model_names: Mapping[int, str] = field(default_factory=dict[int, str])
    lacks: ByAgent | None = None
    others: dict[ByAgent, str] = field(default_factory=dict[ByAgent, str])
    same: int = 0
    claims: dict[int, list[str]] = field(default_factory=dict[int, list[str]])
    unsaved: list[int] = field(default_factory=list[int])
    below: int | None = None
    answers: int | None = None
    makes: int | None = None

    @property
    def is_good(self) -> bool:
        """Return whether all cells ran, and gave what the notebook shows."""
        differs = self.different or self.others or self.claims
        return self.is_over and self.failed is None and not differs

    def at_work(self) -> str:
        """Describe the progress for the user."""
        if self.running is None:
            return "a fresh kernel starts, to run the notebook's cells in"
        number, line = self.running
        return hide(f"{self._name(number)} runs in a fresh kernel: {line}", labelled_secrets())

    def _name(self, number: int) -> str:
        return self.names.get(number, f"cell {number}")

    def _begin(self, number: int) -> str:
        name = self._name(number)
        return f"{name[0].upper()}{name[1:]}"

    def _listed(self, numbers: Sequence[int]) -> str:
        """Name cells, of many only the first ones."""
        named = [self._name(number) for number in numbers[:_MAX_LISTED]]
        others = len(numbers) - len(named)
        return ", ".join([*named, *([f"and {counted(others, 'other')}"] if others else [])])

    def _cure(self, failed: int) -> list[str]:
        """Name the cell that was left out and made what the failed one lacks, and what brings its code into cells."""
        before = [number for number in self.skipped if number < failed]
        if self.lacks is None:
            return [f"It may lack what is made in {self._listed(self.asking)}."] if self.asking else []
        name, maker, cell = self.lacks
        below: list[str] = []
        if self.below is not None:
            it = self._begin(self.below)
            move = f"If that is its code, move it above {self._name(failed)}."
            below = [f"{it} stands below and assigns {name}.", *_steps(move)]
        if self.answers is not None:
            given = f"{name} is an answer that {self._name(self.answers)} asks the agent for, which was left out."
            return [given, *_steps(f"Write its value into a cell above {self._name(failed)}."), *below]
        if self.makes is not None or (self.asking and maker is None):
            which = self._listed(self.asking if self.makes is None else [self.makes])
            made = "may be made" if self.makes is None else "is made"
            return [f"{name} {made} in {which}, not run to its end, for it asks a model.", *_steps(_KEEPS), *below]
        if maker is None:
            if not before:
                return below
            made = f"Left out before it: {self._listed(before)}. If {name} was made there by the agent:"
            return [made, *_steps("Run that cell again.", _AFTERWARDS.format(where="right below it")), *below]
        return [*self._origin(f"{name} was made", maker, cell), *below]

    def fail(self, failed: int, error: str, cells: Sequence[Cell], find: Callable[[str], ByAgent]) -> None:
        """Note that a cell has failed, and which ones would have made the variable that it does not find.

        Args:
            find: Returns by whom a variable was made.
        """
        self.failed = failed, middle(error, _MAX_ERROR_CHARACTERS, " … ")
        if (missing := _NOT_DEFINED.match(error)) is None:
            return
        name = missing[1]
        self.lacks = find(name)
        self.below = _making(name, [(number, cells[number - 1]) for number in self.left])
        self.makes = _making(name, [(number, cells[number - 1]) for number in reversed(self.asking)])
        asked = [number for number in reversed(self.skipped) if number < failed]
        self.answers = next((number for number in asked if _asks_for(name, cells[number - 1])), None)

    def _origin(self, made: str, maker: Maker, cell: int | None, *, is_there: bool = False) -> list[str]:
        """Say in which cell the agent did something, and what brings its code into cells.

        Args:
            is_there: Whether the variable has been made before, so that the code changes it a second time.
        """
        if cell is None:
            made, again = f"{made} by the agent, whose code stands in no cell.", "Ask for it again."
            where = "below" if self.failed is None else f"above {self._name(self.failed[0])}"
        else:
            made, again = f"{made} by the agent in {self._name(cell)}, which was left out.", "Run that cell again."
            where = "right below it"
        if maker.is_of_last_prompt:
            return [made, *_steps(_WRITES_CODE.format(where=where))]
        if is_there:
            return [made, *_steps(f"Write the code of that call, which its card shows, into a cell {where}.")]
        return [made, *_steps(again, _AFTERWARDS.format(where=where))]

    async def compare_claims(
        self, number: int, claims: Sequence[Claimed], evaluate: Evaluate, *, is_last: bool
    ) -> list[Claimed]:
        """Compare the values in an answer with those of the fresh kernel.

        Returns:
            Those that could not be computed; but for the last time they are differences.
        """
        found = await compared_now(claims, evaluate)
        self.same += sum(not each.difference for each in found)
        if differing := [each.difference for each in found if each.difference and (is_last or each.is_computed)]:
            self.claims.setdefault(number, []).extend(differing)
        return [] if is_last else [each.claim for each in found if not each.is_computed]

    def _differing(self) -> list[str]:
        """Describe what is not as the notebook shows it, and how many values of answers are."""
        rows: list[str] = []
        for number, difference in self.different.items():
            rows += [f"≠ {self._begin(number)} gives something else:", *_indented(difference.split("\n"))]
        for number, lines in sorted(self.claims.items()):
            rows += [f"≠ Values in the answer of {self._name(number)} do not hold now:", *_indented(lines)]
        for (name, maker, cell), difference in self.others.items():
            rows += [f"≠ {name} is another in the fresh kernel:", *_indented(difference.split("\n"))]
            rows += [] if maker is None else self._origin(f"{name} was changed last", maker, cell, is_there=True)
        if self.same:
            rows.append(f"{counted(self.same, 'value')} in answers: the same.")
        if self.unsaved:
            unsaved = self._listed(self.unsaved)
            rows.append(f"Values in answers are not compared where the cell was not saved since: {unsaved}.")
        return rows

    def text(self, *, fixes: bool = False) -> str:
        """Describe the result, so far or at the end.

        Args:
            fixes: Whether the agent is asked to look into it by itself.
        """
        count = len(self.ran) + len(self.left) + (self.failed is not None or self.running is not None)
        named = f"{self.name}: " if self.name else ""
        rows = [f"{named}{len(self.ran)} of {count} cells ran well in a fresh kernel."]
        if self.skipped:
            rows.append(f"Not run, for they are for the agent: {self._listed(self.skipped)}.")
        if self.asking:
            rows.append(f"Not run to their end, for they ask a model: {self._listed(self.asking)}.")
        if self.tagged:
            rows.append(f"Not run, for their tags say so: {self._listed(self.tagged)}.")
        if self.unrun:
            rows.append(f"Left out, for the notebook has never run them: {self._listed(self.unrun)}.")
        if self.running is not None:
            rows.append(f"{self._begin(self.running[0])} was running when it was stopped.")
        if self.failed is not None:
            number, error = self.failed
            rows.append(f"✗ {self._begin(number)} fails: {error}")
            rows += self._cure(number)
        if self.left:
            rows.append(f"Not run, for they come after it: {self._listed(self.left)}.")
        rows += self._differing()
        if self.is_good:
            rows.append("✓ All outputs are as the notebook shows them.")
        elif self.is_over and not fixes:
            rows.append("`%agent verify --fix` has the agent look into it.")
        return hide(plain(clean_text("\n".join(rows))), labelled_secrets())

    def prompt(self) -> tuple[str, Attachment]:
        """Write the prompt that asks the agent to fix the differences: words, and what goes along for the model."""
        report = replace(self, names=self.model_names).text(fixes=True)
        task = (
            "I ran the cells of my notebook in a fresh kernel, from top to bottom. Cells are named by their ids, as in "
            "the tool `notebook`. Find out why it does not give what the notebook shows, and propose the mended cells "
            f"with propose_cell; an output that is only out of date needs no change, say so.\n\n{report}"
        )
        return "Fix this notebook", going_along("what a fresh kernel gives", task)


def _steps(*steps: str) -> list[str]:
    """Return what is to be done as lines of a list, with numbers where there are several."""
    return _indented([f"→ {steps[0]}"] if len(steps) == 1 else [f"{n}. {step}" for n, step in enumerate(steps, 1)])


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]


async def verify(  # noqa: PLR0913 - what is known of the notebook and its kernel, each by itself
    cells: Sequence[Cell],
    directory: Path,
    on_progress: Callable[[Verified], None] = lambda _: None,
    *,
    name: str = "",
    maker: Callable[[str], Maker | None] = lambda _name: None,
    made: Mapping[str, tuple[Maker, str]] | None = None,
    claims: Mapping[int, Sequence[Claimed] | None] | None = None,
    never_run: Collection[int] = (),
) -> Verified:
    """Run the code cells of a notebook that have been run in a fresh kernel, until one fails.

    Args:
        cells: The cells, with the outputs that the notebook shows.
        directory: Where the kernel works.
        on_progress: Called with the results until then: before each cell, and at the end.
        name: Of the notebook; empty if it is not known.
        maker: Finds the agent's call that made a variable of the user's kernel.
        made: Variables that the agent's calls changed there outside of cells: the call, and a view of the value.
        claims: Values in answers, by the numbers of their cells; ``None`` where the file does not hold those shown.
        never_run: Numbers of cells that have never been run, which are left out unless that are all.

    Raises:
        ToolError: The notebook has no cells to run, or the kernel does not start.
    """
    shown = [cell.shown_as for cell in cells]
    outcome = Verified(
        name,
        names={number: cell_name(number, shown) for number, _ in enumerate(cells, 1)},
        model_names={number: name_for_model(cells, number) for number, _ in enumerate(cells, 1)},
    )
    code = [(number, cell) for number, cell in enumerate(cells, 1) if cell.type == "code" and cell.source.strip()]
    outcome.tagged = [number for number, cell in code if _SKIPPED & cell.tags]
    outcome.skipped = [
        number for number, cell in code if _ASKS_AGENT.search(cell.source) and number not in outcome.tagged
    ]
    claims = claims or {}
    outcome.unsaved = [number for number in outcome.skipped if claims.get(number, ()) is None]
    without = {*outcome.skipped, *outcome.tagged}
    of_code = [(number, cell) for number, cell in code if number not in without]
    # Where nothing was run, as in a notebook whose outputs were stripped, all of them are.
    to_run = [(number, cell) for number, cell in of_code if number not in never_run] or of_code
    outcome.unrun = [number for number, cell in of_code if (number, cell) not in to_run]
    if not to_run:
        raise ToolError("The notebook has no cells that could be run without the agent.")
    places = {cells[each - 1].id: each for each in outcome.skipped}

    def by_agent(variable: str, call: Maker | None) -> ByAgent:
        return ByAgent(variable, call, None if call is None or call.cell is None else places.get(call.cell))

    outcome.left = [number for number, _ in to_run]
    on_progress(outcome)
    comparing = _Comparing(outcome, code, claims)
    refused = _Refused()
    async with _fresh_kernel(directory) as (run, evaluate):
        for number, cell in code:
            await comparing.reach(number, evaluate)
            if number not in outcome.left:
                continue
            outcome.left.remove(number)
            outcome.running = number, one_line(cell.first_line(), _MAX_TITLE_CHARACTERS)
            on_progress(outcome)
            error, outputs = await run(cell.source)
            outcome.running = None
            if error != _DIED and await refused.grew(error, evaluate):
                outcome.asking.append(number)
                continue
            if error is not None and (not _MAY_FAIL & cell.tags or error == _DIED):
                outcome.fail(number, error, cells, lambda variable: by_agent(variable, maker(variable)))
                break
            outcome.ran.append(number)
            if cell.was_run and not _NOT_COMPARED & cell.tags and (found := difference(cell.outputs, outputs)):
                outcome.different[number] = found
        if outcome.failed is None or outcome.failed[1] != _DIED:
            await comparing.end(evaluate)
        if made and outcome.failed is None and not outcome.asking:  # else what is missing is why they differ
            there = await _views(run, made)
            compared = ((name, _other_value(made[name][1], view)) for name, view in there.items())
            outcome.others = {by_agent(name, made[name][0]): found for name, found in compared if found}
    outcome.is_over = True
    on_progress(outcome)
    return outcome


class _Refused:
    """Tells which cells ask a model, also where their code goes on after the error."""

    def __init__(self) -> None:
        self._count = "0"

    async def grew(self, error: str | None, evaluate: Evaluate) -> bool:
        """Return whether the cell that has run, with that error or none, has asked a model."""
        before, self._count = self._count, await evaluate(_REFUSED) or self._count
        return self._count != before or (error is not None and error.startswith(_ASKS_MODEL))


class _Comparing:
    """Compares values in answers where the agent's own cells below have run, and at the end those that failed there.

    An answer may name what its agent wrote into cells, which stand below the cell that asks.
    """

    def __init__(
        self, outcome: Verified, code: Sequence[tuple[int, Cell]], claims: Mapping[int, Sequence[Claimed] | None]
    ) -> None:
        self._outcome = outcome
        self._cells = dict(code)
        self._claims = claims
        self._waiting: dict[int, Sequence[Claimed]] = {}
        """The values of the answers above that are not compared yet."""
        self._later: dict[int, Sequence[Claimed]] = {}

    async def reach(self, number: int, evaluate: Evaluate) -> None:
        """Compare what is due before a cell."""
        if not self._cells[number].by_agent:
            await self._compare(evaluate)
        if number in self._outcome.skipped and (found := self._claims.get(number)):
            self._waiting[number] = found

    async def _compare(self, evaluate: Evaluate) -> None:
        while self._waiting:
            number, claims = self._waiting.popitem()
            if later := await self._outcome.compare_claims(number, claims, evaluate, is_last=False):
                self._later[number] = later

    async def end(self, evaluate: Evaluate) -> None:
        """Compare the rest, where the last cell has run."""
        await self._compare(evaluate)
        for number, claims in self._later.items():
            await self._outcome.compare_claims(number, claims, evaluate, is_last=True)


def _asks_for(name: str, cell: Cell) -> bool:
    """Whether a cell asks the agent for an answer that a variable gets."""
    options = r"(?:-{1,2}\w[\w-]*(?:[ \t=]+[^\s-]\S*)?[ \t]+)*"
    asks = rf"[ \t]*%%?agent[ \t]+(?:map[ \t]+)?{options}(?:-o|--output)[ \t=]+{name}\b"
    return re.search(rf"^(?:{name}[ \t]*=[ \t]*%%?agent\b|{asks})", cell.source, re.MULTILINE) is not None


def _making(name: str, code: Sequence[tuple[int, Cell]]) -> int | None:
    """Return the first of some cells whose code binds a variable; ``None`` if none does, as far as Python reads them.

    >>> _making("x", [(3, Cell("code", "%time")), (4, Cell("code", "print(x)")), (5, Cell("code", "import y as x"))])
    5
    """
    return next((number for number, cell in code if name in _bound_in(cell.source)), None)


def _bound_in(source: str) -> frozenset[str]:
    try:
        table = symtable.symtable(source, "<cell>", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    return frozenset(each.get_name() for each in table.get_symbols() if each.is_assigned() or each.is_imported())


@contextlib.asynccontextmanager
async def _fresh_kernel(directory: Path) -> AsyncGenerator[Any]:
    """Start a kernel of this interpreter; yield functions that run code, and that evaluate an expression of ours.

    The first returns an error and outputs, the second the value as Python writes it, or ``None``.
    """
    managers: Any = import_module("jupyter_client.manager")
    specs: Any = import_module("jupyter_client.kernelspec")
    # Without directories only the kernel of this interpreter is known.
    manager = managers.AsyncKernelManager(
        kernel_name=specs.NATIVE_KERNEL_NAME, kernel_spec_manager=specs.KernelSpecManager(kernel_dirs=[])
    )
    mark = sweep.new_mark()
    client: Any = None
    try:
        try:
            environment = sweep.marked_environment(mark, os.environ)
            set_variable(ASK_NO_MODEL, "1", environment)
            # What it logs is none of the report; what its cells print comes as messages.
            await manager.start_kernel(cwd=str(directory), env=environment, stderr=asyncio.subprocess.DEVNULL)
            client = manager.client()
            client.start_channels()
            await client.wait_for_ready(timeout=_READY_SECONDS)
        except (OSError, RuntimeError) as error:
            raise ToolError(f"A fresh kernel did not start: {error}") from error

        async def while_alive(work: Coroutine[Any, Any, Any]) -> Any:
            running = asyncio.ensure_future(work)
            try:
                while not (await asyncio.wait([running], timeout=_ALIVE_EVERY))[0]:
                    if not await manager.is_alive():
                        return None
                return await running
            finally:
                running.cancel()

        async def run(code: str) -> tuple[str | None, list[JsonObject]]:
            return await while_alive(_executed(client, code)) or (_DIED, [])

        async def evaluate(expression: str) -> str | None:
            return await while_alive(_evaluated(client, expression))

        yield run, evaluate
    finally:
        if client is not None:
            client.stop_channels()
        with contextlib.suppress(Exception):  # what is left of it is killed below
            await manager.shutdown_kernel(now=True)
        await asyncio.to_thread(sweep.kill_marked, [mark])


async def _executed(client: Any, code: str) -> tuple[str | None, list[JsonObject]]:
    outputs: list[JsonObject] = []

    def take(message: Mapping[str, Any]) -> None:
        kind = message["header"]["msg_type"]
        if kind in ("stream", "display_data", "execute_result", "error"):
            outputs.append({**message["content"], "output_type": kind})
        elif kind == "update_display_data":
            content, its = message["content"], _display_id(message["content"])
            for number, output in enumerate(outputs):
                if its is not None and _display_id(output) == its:
                    outputs[number] = {**output, "data": content.get("data")}
        elif kind == "clear_output":
            outputs.clear()

    try:
        # Else what follows at once upon a cell that failed is aborted.
        reply = await client.execute_interactive(
            code, allow_stdin=False, timeout=_CELL_SECONDS, output_hook=take, stop_on_error=False
        )
    except TimeoutError:
        return f"it did not end within {_CELL_SECONDS} s", outputs
    content = reply["content"]
    if content["status"] == "ok":
        return None, outputs
    return f"{content.get('ename', content['status'])}: {content.get('evalue', '')}".rstrip(": "), outputs


def _display_id(output: Mapping[str, Any]) -> object:
    transient: Mapping[str, Any] = output.get("transient") or {}
    return transient.get("display_id")


async def _evaluated(client: Any, expression: str) -> str | None:
    """Return the value of an expression of ours as Python writes it; ``None`` where it fails."""
    try:
        reply = await client.execute_interactive(
            "", silent=True, user_expressions={"found": expression}, allow_stdin=False, timeout=_CELL_SECONDS
        )
    except TimeoutError:
        return None
    content: JsonObject = reply["content"]
    return content.get("user_expressions", {}).get("found", {}).get("data", {}).get("text/plain")


def difference(shown: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> str:
    """Compare outputs of a cell, except addresses, times, last digits of fractions and contents of figures.

    Args:
        shown: The outputs in the notebook.

    Returns:
        The difference, as lines; empty without one.
    """
    before, after = _compared(shown), _compared(now)
    if before == after:
        return ""
    return _differing(before, after)


def _other_value(before: str, after: str) -> str:
    r"""Compare views of a value: columns by their names, as a line each, the rest as ``difference`` does.

    >>> here = "DataFrame\n- city: str\n- n: int64\nNo nulls."
    >>> print(_other_value(here, "DataFrame\n- city: str, 7 null\n- day: str"))
    city: str → str, 7 null
    n: int64 → not there
    day: not there → str
    """
    (old, old_rest), (new, new_rest) = (_columns(_compared(_printed(view))) for view in (before, after))
    absent = "not there"
    columns = [
        one_line(f"{name}: {old.get(name, absent)} → {new.get(name, absent)}", _MAX_LINE_CHARACTERS)
        for name in dict.fromkeys((*old, *new))
        if old.get(name) != new.get(name)
    ]
    if (more := len(columns) - _MAX_DIFFERENCE_LINES) > 0:
        columns[_MAX_DIFFERENCE_LINES:] = [f"… {counted(more, 'more column')}"]
    return "\n".join(filter(None, [*columns, _differing(old_rest, new_rest)]))


def _columns(view: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Return the columns that a view of a table lists, and its other lines, but for what these say of nulls."""
    found = {line: _COLUMN.fullmatch(line) for line in view}
    columns = {match[1]: match[2] for match in found.values() if match is not None}
    return columns, [line for line in view if found[line] is None and not (columns and line.startswith("No nulls"))]


def _differing(before: Sequence[str], after: Sequence[str]) -> str:
    """Write the lines that differ, a few of each side at a place, and of long ones the part that differs.

    >>> print(_differing(["0.4"], ["-0.4", "2", "3", "4", "5"]))
    - 0.4
    + -0.4
    + 2
    + 3
    + … 2 more lines
    """
    lines: list[str] = []
    for kind, *ends in difflib.SequenceMatcher(None, before, after).get_opcodes():
        if kind == "equal":
            continue
        old, new = before[ends[0] : ends[1]], after[ends[2] : ends[3]]
        for sign, side, other in (("-", old, new), ("+", new, old)):
            pairs = zip(side[:_MAX_SIDE_LINES], itertools.chain(other, itertools.repeat("")), strict=False)
            lines += [f"{sign} {_where_differing(*pair)}" for pair in pairs]  # with a blank: -0.4 would be a number
            if len(side) > _MAX_SIDE_LINES:
                lines.append(f"{sign} … {counted(len(side) - _MAX_SIDE_LINES, 'more line')}")
    more = len(lines) - _MAX_DIFFERENCE_LINES
    return "\n".join([*lines[:_MAX_DIFFERENCE_LINES], *([f"… {more} more lines"] if more > 0 else [])])


def _where_differing(line: str, other: str) -> str:
    """Return a line, or of a long one the part from a little before the first character that differs."""
    if len(line) <= _MAX_LINE_CHARACTERS:
        return line
    same = sum(1 for _ in itertools.takewhile(lambda both: both[0] == both[1], zip(line, other, strict=False)))
    begin = max(0, same - _CHARACTERS_BEFORE)
    end = begin + _MAX_LINE_CHARACTERS
    return f"{'…' if begin else ''}{line[begin:end]}{'…' if end < len(line) else ''}"


async def _views(run: _Run, names: Collection[str]) -> dict[str, str]:
    """Return views of variables in the fresh kernel, of those that there are; none where it does not give them."""
    _, outputs = await run(_VIEWS.format([*names]))
    try:
        printed = "".join(joined_text(output.get("text")) for output in outputs)
        found: object = json.loads(printed.strip().rpartition("\n")[2])
    except ValueError:
        return {}
    given = cast("dict[str, object]", found) if isinstance(found, dict) else {}
    return {name: view for name in names if isinstance(view := given.get(name), str)}


def _printed(text: str) -> list[JsonObject]:
    return [{"output_type": "stream", "text": text}]


def _compared(outputs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the comparable lines of outputs: those of their texts, and one for each figure; not how far work is."""
    printed: list[str] = []
    shown: list[str] = []
    for output in outputs:
        data: Mapping[str, Any] = output.get("data") or {}
        if output.get("output_type") == "stream":
            if output.get("name", "stdout") == "stdout":  # warnings name places and versions
                printed.append(joined_text(output.get("text")))
        elif any(kind.startswith(_FIGURES) for kind in data):
            shown.append("[figure]")
        elif not _is_passing(data):
            shown.append(joined_text(data.get("text/plain")) or f"[{', '.join(sorted(data))}]")
    text = middle("\n".join([printed_text("".join(printed)).rstrip("\n"), *shown]), _MAX_TEXT_CHARACTERS, "\n…\n")
    for varying, instead in _VARYING:
        text = varying.sub(instead, text)
    text = _FRACTION.sub(lambda found: f"{float(found[0]):.6g}", text)
    return [line.rstrip() for line in text.strip("\n").split("\n")]


def _is_passing(data: Mapping[str, Any]) -> bool:
    """Return whether a display shows nothing, or a bar of progress: rate and cost beside it are those of one run."""
    return not any(data.values()) or joined_text(data.get("text/html")).startswith("<progress")

"""Harnesses: what stands between a task and a model, from a whole agent to one that only writes known code.

What this module promises: every harness gets the same task on the same data in the same kind of kernel; what it ran
there is recorded in order, and what its requests used is counted in the same way.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from indus_nb.base.errors import IndusError
from indus_nb.base.events import SessionEvent, ToolExecutionStart
from indus_nb.core.session.stats import SessionStats
from indus_nb.evaluate.benchmark_task import BenchmarkTask, notebook
from indus_nb.evaluate.sandboxed_kernel import CellResult, KernelFailedError, SandboxedKernel
from indus_nb.start import SessionOptions
from indus_nb.tools.tool import Arguments, FunctionTool, ToolContext, ToolError, text_output

_MAX_RESULT_CHARACTERS = 20_000
_CELL_SECONDS = 600.0
_BARE_PROMPT = "You solve tasks about data with Python."
_ENDINGS = {
    "answer": "Leave the result in the variable `answer` of the kernel, computed from the data by your code.",
    "figure": "Leave the figure, made with matplotlib, in the variable `figure` of the kernel.",
    "notebook": "Save the notebook under the same name; it has to leave the result in the variable `answer`.",
}
_AGAIN = "The same code is run once more on other data of the same form, where it has to be right too."
ALONE = "Nobody answers questions; where something is open, decide and say so."


@dataclass(frozen=True, slots=True, kw_only=True)
class Surrounding:
    """What a harness is given for one trial.

    Attributes:
        options: Model, limits, and where the session file goes.
        hidden: What neither code nor tools may read.
        expected: The expected value, which only a cheater looks at.
        confined: Whether what runs code is confined.
    """

    task: BenchmarkTask
    kernel: SandboxedKernel
    options: SessionOptions
    hidden: Sequence[Path]
    expected: Any
    confined: bool = True


@dataclass(slots=True, kw_only=True)
class Solved:
    """What a harness has done in one trial.

    Attributes:
        code: What it ran in the kernel, in order.
        requests: How many answers the model gave.
        questions: How often it ended a prompt with a question, which nobody answers.
        session: The session file, if there is one.
    """

    code: list[str] = field(default_factory=list[str])
    stats: SessionStats = field(default_factory=SessionStats)
    questions: int = 0
    session: Path | None = None


Harness = Callable[[Surrounding], Awaitable[Solved]]


def prompts_of(task: BenchmarkTask) -> list[str]:
    """Return what is said for a task: its prompts, the first with what becomes of the result."""
    first = "\n\n".join([task.prompts[0], " ".join([_ENDINGS[task.result], *again(task), ALONE])])
    return [first, *task.prompts[1:]]


def again(task: BenchmarkTask) -> list[str]:
    """Return the sentence that says that the code is run again, if it is."""
    return [_AGAIN] if task.has_twin else []


async def ours(surrounding: Surrounding) -> Solved:
    """Solve a task with the agent of this package, attached to the kernel as to that of a notebook."""
    from indus_nb.kernel.attached import working_in

    kernel, sandbox = surrounding.kernel, "workspace" if surrounding.confined else "off"
    options = replace(surrounding.options, cwd=kernel.directory, sandbox=sandbox, hidden=surrounding.hidden)
    return await _conversation(surrounding, working_in(str(kernel.connection_file), options))


async def bare(surrounding: Surrounding) -> Solved:
    """Solve a task with a loop and one tool that runs Python: what the model does without a harness."""

    def setup(api: Any) -> None:
        api.register_tool(_python(surrounding.kernel))

    return await _conversation(
        surrounding,
        replace(
            surrounding.options,
            cwd=surrounding.kernel.directory,
            system_prompt=_BARE_PROMPT,
            tools=("python",),
            more_tools=("python",),
            extensions=(setup,),
        ),
    )


class _PythonCode(Arguments):
    """The one argument of the bare loop's tool."""

    code: str


def _python(kernel: SandboxedKernel) -> FunctionTool[_PythonCode]:
    async def run(arguments: _PythonCode, _context: ToolContext) -> Any:
        try:
            result = (await kernel.run([arguments.code], _CELL_SECONDS))[0]
        except KernelFailedError as error:
            raise ToolError(str(error)) from error
        text = result.text[:_MAX_RESULT_CHARACTERS]
        if result.error is not None:
            raise ToolError(text)
        return text_output(text)

    return FunctionTool(
        name="python", description="Run Python code in a Jupyter kernel.", arguments=_PythonCode, run=run
    )


async def _conversation(surrounding: Surrounding, options: SessionOptions) -> Solved:
    from indus_nb.start import open_session

    session = open_session(options, definable=False)
    solved = Solved(session=session.store.path)

    def follow(event: SessionEvent) -> None:
        if isinstance(event, ToolExecutionStart) and event.tool_name == "python":
            solved.code.append(str(event.args.get("code", "")))

    session.subscribe(follow)
    try:
        for prompt in prompts_of(surrounding.task):
            await session.prompt(prompt)
            answer = session.last_answer
            if answer is None or answer.stop_reason == "error":  # which is no fault of the harness or the model
                session.answer_or_raise()
            elif answer.stop_reason == "aborted":  # by a limit: what is there by now is graded
                break
            else:
                solved.questions += answer.text.rstrip().endswith("?")
    finally:
        solved.stats = session.stats()
        await session.end()
    return solved


async def run_cells(surrounding: Surrounding, pieces: Sequence[str]) -> list[CellResult]:
    """Run code in the trial's kernel, behind pieces that fail too."""
    return await surrounding.kernel.run(pieces, _CELL_SECONDS)


async def _run_known(surrounding: Surrounding, pieces: Sequence[str]) -> Solved:
    for result in await run_cells(surrounding, pieces):
        if result.error is not None:
            raise IndusError(f"The known code failed: {result.text}")
    return Solved(code=list(pieces))


async def oracle(surrounding: Surrounding) -> Solved:
    """Run the known solution: what a suite and a machine are checked with. Asks no model."""
    return await _run_known(surrounding, surrounding.task.solution)


async def idle(_surrounding: Surrounding) -> Solved:
    """Do nothing, which must never count. Asks no model."""
    return Solved()


async def cheater(surrounding: Surrounding) -> Solved:
    """Give the expected value without computing it, which must never count. Asks no model."""
    return await _run_known(surrounding, [cheat(surrounding.task, surrounding.expected)])


def cheat(task: BenchmarkTask, expected: Any) -> str:
    """Return code that gives an expected value without computing it."""
    forged = task.grader.forgery(expected)
    if task.result != "notebook":
        return forged
    return f"import glob\nopen(glob.glob('*.ipynb')[0], 'w').write({notebook([forged])!r})"

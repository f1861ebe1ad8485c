"""A kernel whose environment does not have the package, or another one of that name: code, a list, and a sentence."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attaching import Attached, Gate, attached_to
from kernels import Kernel, private_environment
from waiting import until

from indus_nb.base.messages import ImageContent
from indus_nb.version import __version__

WITHOUT = """
import importlib.util, os, sys
sys.path[:] = [place for place in sys.path if not os.path.isdir(os.path.join(place, "indus_nb"))]
sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in repr(finder)]
assert importlib.util.find_spec("indus_nb") is None
"""
"""What makes this environment one without the package, at the start of its Python."""
SENTENCE = (
    "indus_nb is not installed in the environment of this kernel, so only code can be run there and the variables be "
    "listed by name and type. For all tools of the notebook, with previews and undo: "
    f"`%pip install` the clone of indus_nb {__version__} in that notebook, and start its kernel again."
)


def environment(root: Path, at_start: str) -> dict[str, str]:
    """An environment whose kernels run some code before anything else."""
    (root / "start").mkdir()
    (root / "start" / "sitecustomize.py").write_text(at_start)
    world = private_environment(root, KERNELS_TOKEN="tk-0123456789abcdef")
    places = [str(root / "start"), *filter(None, [world.get("PYTHONPATH")])]
    return {**world, "PYTHONPATH": ":".join(places)}


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    world = environment(tmp_path_factory.mktemp("jupyter"), WITHOUT)
    with Kernel(tmp_path_factory.mktemp("work"), world) as kernel:
        yield kernel


@pytest.fixture
async def attached(kernel: Kernel) -> Any:
    attached = await attached_to(kernel)
    yield attached
    await attached.kernel.close()


async def test_variables_are_listed_with_the_sentence_that_says_what_to_do(kernel: Kernel, attached: Attached) -> None:
    kernel.run("class Odd:\n    __repr__ = __len__ = lambda self: 1 / 0\nodd = Odd()\nnumbers = [1]\n_own = 1")
    listed = await attached.text("variables")
    assert listed == f"Odd: type\nodd: Odd\nnumbers: list\n\n[{SENTENCE}]"
    assert await attached.failure("notebook") == f"The notebook cannot be read: {SENTENCE}"


async def test_code_runs_as_a_cell_and_leaves_what_it_defines_only(kernel: Kernel, attached: Attached) -> None:
    look = "print(Out, _, sorted(name for name in vars() if not name.startswith('_')))\nprint(In[-2:])"
    kernel.run("value = 'the last'\nvalue")
    kernel.run(look)
    before = kernel.run(look).streams
    assert await attached.text("python", code="print('one')\n2 + 3") == f"one\n5\n\n\n[{SENTENCE}]"
    assert await attached.text("python", code="2 + 3;") == "(no output)"
    assert await attached.text("python", code="print(4); None") == "4\n"
    assert await attached.text("python", code="import asyncio as _a\nawait _a.sleep(0, 'awaited')") == "'awaited'\n"
    assert await attached.text("python", code="!echo of a program") == "of a program\n"
    assert await attached.text("python", code="def _f(): pass\nif True: print('é'); _v = 1; _v + 1") == "é\n"
    assert kernel.run(look).streams == before
    assert kernel.run("print(_v)").streams == "1\n"


async def test_figures_frames_and_updates_come_as_they_are_in_the_end(attached: Attached) -> None:
    code = "import matplotlib.pyplot as plt\nfigure, axes = plt.subplots()\naxes.plot([1, 2])\nplt.show()"
    output = await attached.call("python", code=code)
    assert [block.mime_type for block in output.content if isinstance(block, ImageContent)] == ["image/png"]
    code = (
        "from IPython.display import clear_output, display\n"
        "print('first'); clear_output(wait=True); print('second')\n"
        "shown = display({'text/plain': 'old'}, raw=True, display_id='named')\n"
        "shown.update({'text/plain': 'new'}, raw=True)"
    )
    assert await attached.text("python", code=code) == "second\n\n\nnew"


async def test_errors_input_and_secrets_are_told_as_they_are_of_any_kernel(attached: Attached) -> None:
    await attached.call("variables")
    told = await attached.failure("python", code="def fails():\n    return 1 / 0\nfails()")
    assert "ZeroDivisionError: division by zero" in told
    assert "\x1b" not in told
    assert "SyntaxError" in await attached.failure("python", code="this is no Python")
    assert "Nobody can answer input()" in await attached.failure("python", code="input('Your name? ')")
    shown = await attached.text("python", code="import os; print(os.environ['KERNELS_TOKEN'])")
    assert shown == "[secret KERNELS_TOKEN]\n"


async def test_code_is_always_asked_about_for_nothing_is_known_of_it(kernel: Kernel, attached: Attached) -> None:
    refused = Gate("The user did not allow this call.")
    assert await attached.failure("python", refused, code="made = 1") == "The user did not allow this call."
    assert [effect.words for effect in refused.asked[0][0]] == [
        "runs code in another kernel, which cannot be tried before"
    ]
    assert kernel.run("print('made' in globals())").streams == "False\n"
    assert await attached.text("python", Gate(), code="made = 1") == f"[{SENTENCE}]"
    assert kernel.run("print(made)").streams == "1\n"


async def test_code_is_interrupted_by_its_time_by_an_abort_and_by_the_user(kernel: Kernel, attached: Attached) -> None:
    await attached.call("python", code="import time, asyncio")
    told = await attached.failure("python", code="print('begun')\ntime.sleep(1000)", timeout=0.5)
    assert told == "begun\n\n\nThe code was interrupted after 0.5 seconds."
    told = await attached.failure("python", code="await asyncio.sleep(1000)", timeout=0.5)
    assert told.endswith("The code was interrupted after 0.5 seconds.")
    for end in ("abort", "user"):
        running = asyncio.ensure_future(attached.failure("python", code=f"print('{end}')\ntime.sleep(1000)"))
        await until(lambda end=end: f"{end}\n" in attached.reports)
        if end == "abort":
            running.cancel()
            assert await running == "abort\n\n\nThe run was aborted: the code was interrupted."
        else:
            kernel.interrupt()
            assert (await running).endswith("The code was interrupted by the user.")
    assert kernel.run("print('works')").streams == "works\n"


async def test_code_and_the_list_wait_for_the_users_cell(kernel: Kernel, attached: Attached) -> None:
    cell = kernel.begin("import time\nprint('begun')\ntime.sleep(2)\ndone = 'yes'")
    cell.wait_for(lambda cell: "begun" in cell.streams)
    listed = asyncio.ensure_future(attached.text("variables"))
    await until(lambda: attached.reports)
    assert attached.reports[0] == "(waits for the cell that runs)"
    assert await attached.text("python", code="done") == f"'yes'\n\n\n[{SENTENCE}]"
    assert "done: str" in await listed
    assert cell.finish().error is None


async def test_a_kernel_that_is_killed_ends_the_call_with_what_was_printed(tmp_path: Path) -> None:
    (tmp_path / "jupyter").mkdir()
    with Kernel(tmp_path, environment(tmp_path / "jupyter", WITHOUT)) as kernel:
        attached = await attached_to(kernel)
        running = asyncio.ensure_future(
            attached.failure("python", code="import time\nprint('begun')\ntime.sleep(1000)")
        )
        await until(lambda: "begun\n" in attached.reports)
        kernel.kill()
        told = await running
        assert told.startswith("begun\n")
        assert "is gone: it was shut down" in told
        await attached.kernel.close()


@pytest.mark.parametrize(
    ("at_start", "file", "why"),
    [
        ("import indus_nb.version as v\nv.__version__ = '0.0.1'", "", "indus_nb 0.0.1 is installed in the environment"),
        (WITHOUT, "indus_nb.py", "the working directory of this kernel has a module indus_nb, which may be anything"),
        ("import sys\nsys.modules['indus_nb.front.notebook'] = None", "", "indus_nb cannot be used in the environment"),
    ],
)
async def test_a_package_that_is_another_one_or_broken_is_not_used(
    tmp_path: Path, at_start: str, file: str, why: str
) -> None:
    (tmp_path / "jupyter").mkdir()
    work = tmp_path / "work"
    work.mkdir()
    if file:
        (work / file).write_text("raise SystemExit('this must not run')")
    with Kernel(work, environment(tmp_path / "jupyter", at_start)) as kernel:
        attached = await attached_to(kernel)
        assert why in await attached.text("variables")
        assert (await attached.text("python", code="1 + 1")).startswith("2\n")
        await attached.kernel.close()

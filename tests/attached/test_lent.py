"""A kernel whose environment has the package: programs that attach to it have the notebook's own tools."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attaching import Attached, Gate, attached_to
from kernels import Kernel, private_environment
from waiting import until

from indus_nb.kernel.attached.attached_kernel import _output
from indus_nb.kernel.toolset.remote_gate import GateAnswers
from indus_nb.tools.tool import ToolError

LOOK = """
import sys
print(sorted(name for name in get_ipython().user_ns if not name.startswith("_")), Out)
print(sorted(name for name in get_ipython().user_ns_hidden if not name.startswith("_i")))
print([get_ipython().user_ns.get(name) for name in ("_", "__", "___")], In[-2:])
print(sys.displayhook is get_ipython().displayhook, type(sys.stdout), len(In) - get_ipython().execution_count)
print("agent" in get_ipython().magics_manager.magics["line"], get_ipython().input_transformers_cleanup)
print(get_ipython().ast_transformers, get_ipython().history_manager.input_hist_raw[-2:])
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    world = private_environment(tmp_path_factory.mktemp("jupyter"), KERNELS_TOKEN="tk-0123456789abcdef")
    settings = {"approve": "never", "looksSeconds": 5}
    Path(world["INDUS_NB_AGENT_DIR"], "settings.json").write_text(json.dumps(settings))
    return world


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory, world: dict[str, str]) -> Iterator[Kernel]:
    with Kernel(tmp_path_factory.mktemp("work"), world) as kernel:
        yield kernel


@pytest.fixture
async def attached(kernel: Kernel) -> Any:
    attached = await attached_to(kernel)
    yield attached
    await attached.kernel.close()


async def test_attaching_and_looking_change_nothing_that_the_user_sees(kernel: Kernel, attached: Attached) -> None:
    kernel.run("kept = [1]\nkept")
    kernel.run(LOOK)
    before = kernel.run(LOOK).streams
    assert "kept: list" in await attached.text("variables")
    assert await attached.text("python", code="sum(kept)") == "1\n"
    assert kernel.run(LOOK).streams == before
    assert kernel.run("%who").streams == "kept\t sys\t \n"
    shown = kernel.run("print('printed')\n'shown'")
    assert (shown.streams, shown.results) == ("printed\n", [{"text/plain": "'shown'"}])


async def test_what_only_looks_is_not_asked_about_and_a_change_is_named_with_its_preview(
    kernel: Kernel, attached: Attached
) -> None:
    kernel.run("numbers = [1, 2, 3]\nclass Held:\n    total = 0\nheld = Held()")
    gate = Gate()
    assert await attached.text("python", gate, code="sum(numbers)") == "6\n"
    assert gate.asked == []

    refused = Gate("The user did not allow this call.")
    told = await attached.failure("python", refused, code="numbers.append(4)\nprint(len(numbers))")
    assert told == "The user did not allow this call."
    ((effects, outcome),) = refused.asked
    assert [(effect.kind, effect.what) for effect in effects] == [("changes_variable", "numbers")]
    assert outcome.startswith("Preview \N{EM DASH} not run yet: ")
    assert "prints 4" in outcome
    assert kernel.run("print(numbers)").streams == "[1, 2, 3]\n"

    allowed = Gate()
    done = await attached.call("python", allowed, code="held.total = sum(numbers)")
    assert len(allowed.asked) == 1
    assert "held" in done.details["changed"]
    assert kernel.run("print(held.total)").streams == "6\n"


async def test_new_values_that_rules_cover_are_taken_over_from_the_copy(kernel: Kernel, attached: Attached) -> None:
    gate = Gate(covers=True)
    done = await attached.call("python", gate, code="squares = [n * n for n in range(3)]")
    assert done.details["ran"] == "copy"
    assert gate.asked == []
    assert kernel.run("print(squares)").streams == "[0, 1, 4]\n"
    assert "squares (made by you): list" in await attached.text("variables")


async def test_a_question_about_code_that_takes_long_is_withdrawn_when_its_trial_ends(
    kernel: Kernel, attached: Attached
) -> None:
    kernel.run("import time")
    gate = Gate()
    assert await attached.text("python", gate, code="time.sleep(7)\n'over'") == "'over'\n"
    assert [effects for effects, _ in gate.asked] == [[]]
    assert gate.withdrawn == 1


async def test_code_with_a_secret_of_the_kernels_is_asked_about_even_if_it_only_looks(attached: Attached) -> None:
    shown = await attached.text("python", code="import os; print(os.environ['KERNELS_TOKEN'])")
    assert shown == "[secret KERNELS_TOKEN]\n"
    refused = Gate("No.")
    assert await attached.failure("python", refused, code="len('[secret KERNELS_TOKEN]')") == "No."
    assert [effect.words for effect in refused.asked[0][0]] == ["uses secrets that the kernel knows"]
    assert await attached.text("python", Gate(), code="len('[secret KERNELS_TOKEN]')") == "19\n"


async def test_changes_are_taken_back_by_the_program_and_later_in_the_notebook(
    kernel: Kernel, attached: Attached
) -> None:
    kernel.run("items = [1]")
    await attached.call("python", code="items.append(2)\nopen('made.txt', 'w').write('made')")
    await attached.call("python", code="items.append(3)")
    assert (await attached.kernel._ask({"do": "undo", "argument": ""}))["value"] == "items"
    assert kernel.run("print(items)").streams == "[1, 2]\n"
    assert (await attached.kernel._ask({"do": "redo", "argument": ""}))["value"] == "items"
    with pytest.raises(ToolError, match="`/undo` takes a number or `prompt`"):
        await attached.kernel._ask({"do": "undo", "argument": "everything"})
    kernel.run("items.append('mine')")
    with pytest.raises(ToolError, match=r"items was changed since, by you\. `/undo over` overwrites it"):
        await attached.kernel._ask({"do": "undo", "argument": ""})
    assert "made.txt" in (await attached.kernel._ask({"do": "undo", "argument": "prompt over"}))["value"]
    assert kernel.run("import os\nprint(items, os.path.exists('made.txt'))").streams == "[1] False\n"

    await attached.call("python", code="items.append(4)")
    loaded = kernel.run("%load_ext indus_nb\n%agent --provider offline undo")
    assert loaded.status == "ok", loaded.error
    assert kernel.run("print(items)").streams == "[1]\n"
    kernel.run("%unload_ext indus_nb")
    assert await attached.text("python", code="items") == "[1]\n"  # attached anew, and nothing is lost


async def test_no_effect_of_many_is_kept_from_settings_that_deny_it(kernel: Kernel, attached: Attached) -> None:
    kernel.run("kept = [1]")
    gate = Gate("No.")
    code = "for n in range(500): globals()[f'made_{n}'] = n\nkept = 0"
    assert await attached.failure("python", gate, code=code) == "No."
    assert ("changes_variable", "kept") in [(effect.kind, effect.what) for effect in gate.asked[-1][0]]


async def test_what_cannot_be_sent_as_it_is_is_sent_without_its_surrogates(attached: Attached) -> None:
    gate = Gate("No.")
    assert await attached.failure("python", gate, code="globals()['a' + chr(0xD800)] = 1") == "No."
    assert await attached.failure("python", Gate(), code="raise ValueError(chr(0xD800))")
    assert "invalid" in await attached.failure("python", Gate(), code="'\ud800' +")


async def test_a_program_that_attaches_again_at_once_goes_on(attached: Attached) -> None:
    await attached.call("variables")
    await attached.kernel.close()
    assert await attached.text("python", code="import time\ntime.sleep(2.5)\n'over'") == "'over'\n"


async def test_code_waits_for_the_users_cell_while_its_question_can_be_answered(
    kernel: Kernel, attached: Attached
) -> None:
    await attached.call("variables")
    cell = kernel.begin("import time\nbusy = 1\nprint('begun')\nwhile busy < 30: time.sleep(0.1); busy += 1")
    cell.wait_for(lambda cell: "begun" in cell.streams)
    gate = Gate()
    running = asyncio.ensure_future(attached.text("python", gate, code="busy"))
    await until(lambda: gate.asked)
    assert "a cell of yours runs" in str(gate.asked)
    await until(lambda: "(waits for the cell that runs)" in attached.reports)
    assert cell.finish().error is None
    assert await running == "30\n"


async def test_a_cell_that_runs_stays_busy_on_its_page_when_a_program_asks_for_something(
    kernel: Kernel, attached: Attached
) -> None:
    await attached.call("variables")
    cell = kernel.begin(
        "import os, time\nprint('begun')\nwhile not os.path.exists('asked'): time.sleep(0.01)\nprint('over')"
    )
    cell.wait_for(lambda cell: "begun" in cell.streams)
    await attached.kernel._outlook("1")
    (kernel.folder / "asked").touch()
    assert cell.finish().states[-4:] == ["busy", "idle", "busy", "idle"]


async def test_the_users_interrupt_ends_the_agents_code(kernel: Kernel, attached: Attached) -> None:
    running = asyncio.ensure_future(attached.failure("python", code="import time\nprint('begun')\ntime.sleep(1000)"))
    await until(lambda: "begun\n" in attached.reports)
    kernel.interrupt()
    assert await running == "begun\n\n\nThe code was interrupted by the user."
    assert kernel.run("print('works')").streams == "works\n"


async def test_two_programs_have_their_turns_and_see_the_same_variables(kernel: Kernel, attached: Attached) -> None:
    other = await attached_to(kernel)
    codes = [
        each.text("python", code=f"import time; time.sleep(0.2); shared_{n} = {n}")
        for n, each in enumerate((attached, other))
    ]
    await asyncio.gather(*codes)
    assert await other.text("python", code="shared_0, shared_1") == "(0, 1)\n"
    await other.kernel.close()
    assert await attached.text("python", code="'still'") == "'still'\n"


async def restart(kernel: Kernel) -> None:
    """Restart a kernel in a thread, and close the event loop that the client makes for that thread."""

    def restarted() -> None:
        kernel.restart()
        asyncio.get_event_loop().close()

    # not asyncio.to_thread: that would lend the client the event loop of this thread's context
    await asyncio.get_running_loop().run_in_executor(None, restarted)


async def test_a_kernel_that_is_restarted_is_said_to_be_gone_and_then_used(
    tmp_path: Path, world: dict[str, str]
) -> None:
    with Kernel(tmp_path, world) as kernel:
        attached = await attached_to(kernel)
        running = asyncio.ensure_future(
            attached.failure("python", code="import time\nprint('begun')\ntime.sleep(1000)")
        )
        await until(lambda: "begun\n" in attached.reports)
        await restart(kernel)
        told = await running
        assert told.startswith("begun\n")
        assert "is gone: it was shut down, restarted or killed, and its variables are lost" in told
        assert await attached.text("python", code="here = 1\nhere") == "1\n"

        other = await attached_to(kernel)
        await restart(kernel)  # between two calls
        assert await other.text("python", code="'here' in globals()") == "False\n"
        await other.kernel.close()
        assert "is gone" in await attached.failure("python", code="here")
        assert await attached.text("python", code="'here' in globals()") == "False\n"
        await attached.kernel.close()


# A kernel that is hostile


def test_the_size_of_what_a_kernel_sends_is_bounded() -> None:
    block = {"type": "text", "text": "x" * 3_000_000 + "\ud800"}
    output = _output({"content": [block, {"type": "odd"}, "odd", *[block] * 200], "details": {"a": "y" * 2_000_000}})
    assert len(output.content) <= 100
    assert all(len(part.text) < 1_000_100 for part in output.content)
    assert output.details is None
    assert _output("nothing of the kind").content == []


async def test_effects_that_a_kernel_invents_are_cut_and_count_as_unknown() -> None:
    sent: list[dict[str, Any]] = []
    gate = Gate()
    answers = GateAnswers(gate, sent.append)
    effects = [
        ["odd", "a", "b"],
        ["writes_file", "p" * 5000, "w" * 5000],
        7,
        *[["deletes", "x", "\x1b[2Jdeletes x"]] * 3000,
    ]
    answers.received({"do": "question", "number": 1, "verb": "ask", "effects": effects, "outcome": "o" * 1_000_000})
    await until(lambda: sent)
    ((asked, outcome),) = gate.asked
    assert [effect.kind for effect in asked[:3]] == ["unknown"] * 3
    assert len(asked) == 2001
    assert asked[-1].words == "does 1003 more things"
    assert all(len(effect.words) <= 301 for effect in asked)
    assert asked[3].words == "deletes x"
    assert len(outcome) <= 100_001
    answers.received({"do": "question", "number": "odd"})
    for number in range(100):
        answers.received({"do": "question", "number": number, "verb": "ask", "waits": True})
    assert len(answers._tasks) <= 16
    answers.close()


async def test_a_kernel_that_asks_about_what_needs_no_question_is_refused() -> None:
    sent: list[dict[str, Any]] = []
    GateAnswers(None, sent.append).received({"do": "question", "number": 1, "verb": "covers", "effects": []})
    await until(lambda: sent)
    assert sent[0]["refusal"].startswith("Nothing was run")


@pytest.mark.parametrize("version", ["7.3.0", "7.0.1", "6.31.0"])
async def test_every_ipykernel_lends_its_tools_while_a_cell_runs(tmp_path: Path, version: str) -> None:
    world = private_environment(tmp_path / "jupyter", ipykernel=version)
    (tmp_path / "work").mkdir()
    with Kernel(tmp_path / "work", world) as kernel:
        attached = await attached_to(kernel)
        assert await attached.text("python", code="import ipykernel\nipykernel.__version__") == f"'{version}'\n"
        cell = kernel.begin("import os, time\nprint('begun')\nwhile not os.path.exists('asked'): time.sleep(0.01)")
        cell.wait_for(lambda cell: "begun" in cell.streams)
        assert (await attached.kernel._outlook("1"))["do"] == "end"
        (kernel.folder / "asked").touch()
        assert cell.finish().states[-4:] == ["busy", "idle", "busy", "idle"]
        await attached.kernel.close()

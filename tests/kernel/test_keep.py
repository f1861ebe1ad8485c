"""Answers that a notebook keeps: a second run of it asks nothing, and a changed one asks what depends on the change."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import papermill
import pytest
from kernels import Kernel, private_environment
from messages_api import MessagesApi, Recorded, Reply, ToolUse
from nbclient import NotebookClient
from nbformat import writes
from nbformat.v4 import new_code_cell, new_notebook

CELLS = (
    "%load_ext indus_nb",
    "%agent keep answers.json",
    "heat = [20, 30]",
    "%agent how warm?",
    "import csv\ncups = [int(row['cups']) for row in csv.DictReader(open('cups.csv'))]",
    "%agent how many cups?",
)


@pytest.fixture
def environment(tmp_path: Path, api: MessagesApi, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, str]:
    given = private_environment(tmp_path, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cups.csv").write_text("cups\n1\n2\n")
    return given


def reply(request: Recorded) -> Reply:
    """Have the model look with code, and repeat what that printed."""
    blocks = request.body["messages"][-1]["content"]
    results = [block for block in blocks if block["type"] == "tool_result"]
    if results:
        return Reply(f"It is {results[-1]['content'][0]['text'].strip()}.")
    code = "print(sum(cups))" if "cups?" in str(blocks) else "print(max(heat))"
    return Reply(ToolUse("python", {"code": code}))


def run_all(cells: Sequence[str]) -> list[Any]:
    """Run a notebook in a fresh kernel, as papermill does; return its outputs."""
    notebook = new_notebook(cells=[new_code_cell(cell, id=f"cell-{number}") for number, cell in enumerate(cells)])
    NotebookClient(notebook, timeout=300).execute()
    return [json.loads(json.dumps(cell.outputs)) for cell in notebook.cells]


def test_a_notebook_that_runs_again_asks_nothing_and_has_the_same_outputs(
    tmp_path: Path, environment: Mapping[str, str], api: MessagesApi
) -> None:
    api.default = reply  # type: ignore[assignment]
    asked = len(api.requests)
    first = run_all(CELLS)
    assert ("It is 30." in str(first[3]), "It is 3." in str(first[5])) == (True, True)
    assert len(api.requests) == asked + 4
    assert run_all(CELLS)[2:] == first[2:]
    assert len(api.requests) == asked + 4


def test_a_frame_that_takes_long_to_look_at_is_told_whole_so_that_a_second_run_tells_the_same(
    environment: Mapping[str, str], api: MessagesApi
) -> None:
    api.default = Reply("Large.")
    columns = "{f'column_{n}': [str(m % (n + 7)) for m in range(300_000)] for n in range(8)}"
    frame = f"import pandas as pd\nsales = pd.DataFrame({columns})"
    cells = ["%load_ext indus_nb", "%agent keep answers.json", frame, "%agent how large are `sales`?"]
    asked = len(api.requests)
    run_all(cells)
    told = str(api.requests[-1].body["messages"])
    assert [n for n in range(8) if f"column_{n}" not in told.replace(frame, "")] == []
    assert "more column" not in told
    run_all(cells)
    assert len(api.requests) == asked + 1


def saved(path: Path, cells: Sequence[str], keep: object) -> Any:
    """Save a notebook whose metadata name a file for answers, and none of whose cells does."""
    notebook = new_notebook(cells=[new_code_cell(cell, id=f"cell-{number}") for number, cell in enumerate(cells)])
    notebook.metadata["indus_nb"] = {"keep": keep}
    path.write_text(writes(notebook))
    return notebook


def test_a_notebook_may_name_the_file_in_its_metadata_which_papermill_and_nbclient_honour(
    tmp_path: Path, environment: Mapping[str, str], api: MessagesApi
) -> None:
    api.default = reply  # type: ignore[assignment]
    cells = [cell for cell in CELLS if "keep" not in cell]
    notebook = saved(tmp_path / "study.ipynb", cells, "answers.json")
    saved(tmp_path / "other.ipynb", ["heat = [1]"], "others.json")
    asked = len(api.requests)
    NotebookClient(notebook, timeout=300).execute()
    assert len(api.requests) == asked + 4
    papermill.execute_notebook("study.ipynb", "run.ipynb", kernel_name="python3", progress_bar=False)
    assert len(api.requests) == asked + 4
    assert not (tmp_path / "others.json").exists()


def reply_with_value(request: Recorded) -> Reply:
    """Have the model make a variable of its own, and answer with a live value."""
    blocks = request.body["messages"][-1]["content"]
    results = [block for block in blocks if block["type"] == "tool_result"]
    if results:
        return Reply(f"It is {results[-1]['content'][0]['text'].strip()} of `{{python}} max(heat)`.")
    values = "cups" if "cups?" in str(blocks) else "heat"
    return Reply(ToolUse("python", {"code": f"most_{values} = max({values})\nprint(most_{values})"}))


def test_a_second_run_of_all_cells_in_a_kernel_that_goes_on_asks_nothing_and_a_changed_one_what_depends_on_it(
    tmp_path: Path, environment: Mapping[str, str], api: MessagesApi
) -> None:
    api.default = reply_with_value  # type: ignore[assignment]
    frame = "import pandas as pd\nsales = pd.DataFrame({'cups': cups})\ndef rate(): return 2"
    cells = [*CELLS, frame, "%agent how many cups? {rate()} and $sales"]
    with Kernel(tmp_path, environment) as kernel:

        def asked_by_all() -> list[str]:
            """Run all cells; return the texts of the requests."""
            before = len(api.requests)
            for number, cell in enumerate(cells):
                reply = kernel.run(cell, cell_id=f"cell-{number}")
                assert reply.status == "ok", reply.error
            return [str(request.body["messages"]) for request in api.requests[before:]]

        assert len(asked_by_all()) == 6
        assert asked_by_all() == []
        assert asked_by_all() == []
        cells[4] = cells[4].replace("in csv", "in [*csv").replace("csv'))]", "csv'))][:1]]")
        assert ["how many cups?" in asked for asked in asked_by_all()] == [True] * 4  # and nothing for the first prompt
        asked_by_all()  # `sales` went along above as it was before
        assert asked_by_all() == []
        kernel.run("heat.append(50)", cell_id="another")
        before = len(api.requests)
        assert kernel.run(cells[3], cell_id="cell-3").status == "ok"
        assert "[20, 30, 50]" in str(api.requests[before].body["messages"][-1])
        assert asked_by_all() == []


def test_a_prompt_that_runs_again_hides_no_cell_from_those_that_follow_nor_anything_from_a_new_conversation(
    tmp_path: Path, environment: Mapping[str, str], api: MessagesApi
) -> None:
    api.default = Reply("Well.")
    with Kernel(tmp_path, environment) as kernel:

        def run(code: str, cell: str) -> str:
            """Run a cell; return the last request, if there is one."""
            before = len(api.requests)
            assert kernel.run(code, cell_id=cell).status == "ok"
            return str(api.requests[-1].body["messages"]) if api.requests[before:] else ""

        for number, cell in enumerate(CELLS[:3]):
            run(cell, f"cell-{number}")
        assert "heat = [20, 30]" in run("%agent how warm?", "cell-3")
        assert run("%agent and now?", "cell-4")
        run("later = [1]", "cell-5")
        assert not run("%agent how warm?", "cell-3"), "it was answered from what is kept"
        assert "later = [1]" in run("%agent what is later?", "cell-6")
        run("%agent --new", "cell-7")
        assert "heat = [20, 30]" in run("%agent and now?", "cell-4")


@pytest.mark.parametrize("keep", ["../answers.json", "/tmp/answers.json", "answers.txt", 1, None])
def test_a_file_for_answers_that_metadata_name_lies_beside_the_notebook(
    keep: object, tmp_path: Path, environment: Mapping[str, str], api: MessagesApi
) -> None:
    saved(tmp_path / "study.ipynb", ["1"], keep)
    with Kernel(tmp_path, {**environment, "JPY_SESSION_NAME": str(tmp_path / "study.ipynb")}) as kernel:
        kernel.run("%load_ext indus_nb")
        assert "No answers are kept." in str(kernel.run("%agent keep").shown)


def test_what_the_notebook_names_can_be_left_off_in_a_kernel(
    tmp_path: Path, environment: Mapping[str, str], api: MessagesApi
) -> None:
    saved(tmp_path / "study.ipynb", ["1"], "answers.json")
    with Kernel(tmp_path, {**environment, "JPY_SESSION_NAME": str(tmp_path / "study.ipynb")}) as kernel:
        kernel.run("%load_ext indus_nb")
        assert "answers.json holds no answers yet" in str(kernel.run("%agent keep").shown)
        assert "asked each time" in str(kernel.run("%agent keep off").shown)
        api.add("Yes.")
        assert "Yes." in str(kernel.run("%agent so?").shown)
    assert not (tmp_path / "answers.json").exists()


def test_after_a_change_only_prompts_that_depend_on_it_are_asked_again(
    tmp_path: Path, environment: Mapping[str, str], api: MessagesApi
) -> None:
    api.default = reply  # type: ignore[assignment]
    first = run_all(CELLS)
    (tmp_path / "cups.csv").write_text("cups\n1\n9\n")
    asked = len(api.requests)
    again = run_all(CELLS)
    assert again[3] == first[3]
    assert "It is 10." in str(again[5])
    assert ["how many cups?" in str(request.body["messages"]) for request in api.requests[asked:]] == [True, True]


def test_a_cell_says_beside_its_answer_what_was_kept_and_why_the_rest_was_asked(
    tmp_path: Path, environment: Mapping[str, str], api: MessagesApi
) -> None:
    api.default = reply  # type: ignore[assignment]
    for cups, said in (("1\n2", "2 requests asked"), ("1\n2", "2 answers kept from before"), ("1\n5", "[1, 2]")):
        with Kernel(tmp_path, environment) as kernel:
            kernel.run("%load_ext indus_nb")
            begun = ["Answers are kept in answers.json; `%agent keep` lists them."]  # however many it has
            assert kernel.run("%agent keep answers.json").shown == begun
            (tmp_path / "cups.csv").write_text(f"cups\n{cups}\n")
            kernel.run(CELLS[4])
            shown = kernel.begin("%agent how many cups?", asks=True).finish().shown
            assert said in str(shown)
            assert ("tokens in, " in str(shown)) == (said != "2 answers kept from before")
    with Kernel(tmp_path, environment) as kernel:
        kernel.run("%load_ext indus_nb")
        assert "No answers are kept" in str(kernel.run("%agent keep").shown)
        kernel.run("%agent keep answers.json")
        assert "how many cups?" in str(kernel.run("%agent keep").shown)
        assert "dropped from" in str(kernel.run("%agent keep drop").shown)
        (tmp_path / "mine.json").write_text('{"a": 1}')
        assert "is no cassette" in str(kernel.run("%agent keep mine.json").error)
        assert "answers.json holds no answers yet" in str(kernel.run("%agent keep").shown)
        assert "asked each time" in str(kernel.run("%agent keep off").shown)
        assert "is no cassette" in str(kernel.run("%agent keep mine.json").error)
        assert "No answers are kept" in str(kernel.run("%agent keep").shown)
    assert (tmp_path / "mine.json").read_text() == '{"a": 1}'


def test_a_prompt_that_comes_earlier_or_later_in_its_conversation_says_why_it_was_asked_anew(
    tmp_path: Path, environment: Mapping[str, str], api: MessagesApi
) -> None:
    api.default = Reply("Yes.")
    for prompts, said in ((("first", "second"), ""), (("second",), "2 messages went before it, and now nothing")):
        with Kernel(tmp_path, environment) as kernel:
            kernel.run("%load_ext indus_nb")
            kernel.run("%agent keep answers.json")
            for prompt in prompts:
                shown = str(kernel.begin(f"%agent {prompt}", asks=True).finish().shown)
            assert said in shown


def test_a_model_without_a_key_is_said_to_have_kept_answers_alone_and_gives_these(
    tmp_path: Path, environment: Mapping[str, str], api: MessagesApi
) -> None:
    api.default = Reply("Yes.")
    asked = len(api.requests)
    asks = "%agent --model claude-haiku-4-5 is it so?"
    for key in ("test-key", ""):
        with Kernel(tmp_path, {**environment, "ANTHROPIC_API_KEY": key}) as kernel:
            kernel.run("%load_ext indus_nb")
            kernel.run("%agent keep answers.json")
            ready = str(kernel.run("%agent --model claude-haiku-4-5").shown)
            assert "Ready: Claude Haiku 4.5" in ready
            said = "There is no key for anthropic, so only answers that are kept can be had: `%agent key` asks for one."
            assert (said.replace("`", "") in ready.replace("`", "")) == (not key)
            assert "Yes." in str(kernel.run(asks).shown)
    assert len(api.requests) == asked + 1


HOLDS = """
import os, sys, threading
opening, kept = threading.Event(), threading.Event()

def hold(event, args):
    in_time = event == "open" and threading.current_thread() is not threading.main_thread() and not opening.is_set()
    if in_time and str(args[0]).endswith(AT):
        opening.set()
        MEANWHILE

sys.addaudithook(hold)
"""
"""Does something once in the middle of the opening of a panel, at a file that it reads."""
WAITS = "kept.wait(2)"
"""Until a cell has named the file for answers, unless that waits for the panel."""
NAMES = "os.environ['INDUS_NB_CASSETTE'] = os.path.abspath('answers.json')"


def test_answers_hold_however_far_the_opening_of_the_panel_is_when_a_cell_has_them_kept(
    tmp_path: Path, environment: Mapping[str, str], api: MessagesApi
) -> None:
    api.default = reply  # type: ignore[assignment]
    saved(tmp_path / "a.ipynb", ["1"], None)
    named = {**environment, "JPY_SESSION_NAME": str(tmp_path / "a.ipynb"), "INDUS_NB_CASSETTE_MODE": "keep"}
    asked = len(api.requests)
    said: list[list[str]] = []
    prompts = CELLS[3], CELLS[5], "%agent --model claude-haiku-4-5 --thinking high how many cups?"
    for at, meanwhile in (("models.json", WAITS), ("models.json", NAMES), (".jsonl", WAITS)):
        (tmp_path / "held.py").write_text(HOLDS.replace("AT", repr(at)).replace("MEANWHILE", meanwhile))
        with Kernel(tmp_path, named) as kernel:
            kernel.load_from_page()
            kernel.run("import held")
            begin_panel(kernel, "a.ipynb")
            for code in ("assert held.opening.wait(60)", CELLS[1], "held.kept.set()", CELLS[2], CELLS[4]):
                assert kernel.run(code).status == "ok"
            answered = [kernel.begin(prompt, asks=True).finish() for prompt in prompts]
            assert [each.status for each in answered] == ["ok"] * 3
            parts = answered[0].shown[-1].split(" · ")
            said.append([part for part in parts if not part.endswith(" s")])
        tools = [tool["name"] for tool in api.requests[-1].body["tools"]]
        assert ("bash" in tools, "job" in tools) == (True, False)
        assert len(api.requests) == asked + 6
    assert "2 answers kept from before" in said[1]
    assert said[1] == said[2]


def begin_panel(kernel: Kernel, path: str) -> None:
    """Open the side panel of a notebook, as a page does, and do not wait for it."""
    client: Any = kernel._client  # pyright: ignore[reportPrivateUsage]
    shows = {"kind": "shows", "path": path, "client": client.session.session}
    opens = {"target_name": "indus_nb.door", "data": shows}
    for kind, content in (("comm_open", opens), ("comm_msg", {"data": {"kind": "open_panel"}})):
        client.shell_channel.send(client.session.msg(kind, {"comm_id": "door", **content}))

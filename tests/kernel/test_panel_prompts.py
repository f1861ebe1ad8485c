"""Prompts in a panel of `%agent panel`: values of variables, cells, files and commands."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import Any

import pytest
from kernels import Kernel, private_environment
from messages_api import MessagesApi, Reply, ToolUse
from panel_pages import Page, Wire
from pictures import DOT

SALES = "import pandas as pd\nsales = pd.DataFrame({'region': ['N', 'S'], 'units': [3, 4]})\nrate = 0.25"

OPEN = """\
%agent --approve writes --thinking off
from IPython.display import display
from indus_nb import ChatPanel
from indus_nb.front.notebook import conversations_of
display(ChatPanel(conversations_of(get_ipython()).session))"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory, api: MessagesApi) -> Iterator[Kernel]:
    root = tmp_path_factory.mktemp("prompts")
    work = root / "work"
    work.mkdir()
    environment = private_environment(root, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    with Kernel(work, environment) as kernel:
        for code in ("%load_ext indus_nb", SALES, "class Odd:\n    def __format__(self, _): return 'ran'\nodd = Odd()"):
            assert kernel.run(code).status == "ok"
        yield kernel


@pytest.fixture(scope="module")
def opened(kernel: Kernel) -> Iterator[tuple[Wire, Page]]:
    wire = Wire(kernel)
    cell = kernel.run(OPEN)
    assert cell.status == "ok", cell.error
    (bundle,) = [*cell.displays.values()][-1]
    yield wire, Page(wire, bundle["application/vnd.jupyter.widget-view+json"]["model_id"])
    wire.close()


@pytest.fixture
def page(opened: tuple[Wire, Page], api: MessagesApi) -> Page:
    page = opened[1]
    api.requests.clear()
    page.toasts.clear()
    page.tell("new_session")
    page.wait_for(lambda: not page.state.get("busy"))
    page.settle()
    return page


def text_blocks(api: MessagesApi) -> list[dict[str, Any]]:
    """The texts of the user's last message, as the model was sent them."""
    return [block for block in api.requests[-1].body["messages"][-1]["content"] if block["type"] == "text"]


def sent(api: MessagesApi) -> str:
    """The user's last message, as the model was sent it."""
    content = api.requests[-1].body["messages"][-1]["content"]
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


def test_expressions_and_names_stand_for_values_as_in_cells(page: Page, api: MessagesApi) -> None:
    api.add("So it is.")
    page.prompt("mean {sales.units.mean():.2f} of {odd:x} $sales, {{rate}} and `{rate}`, {nothing}")
    page.wait_until_idle("So it is.")
    text = sent(api)
    assert "mean 3.50 of ran " in text
    assert "region" in text
    assert "{rate} and `{rate}`, {nothing}" in text
    assert page.toasts == ["{nothing}: sent as it stands, there is no such variable."]


def test_a_value_of_several_lines_goes_along_beside_a_prompt_that_reads_as_typed(page: Page, api: MessagesApi) -> None:
    api.add("So it is.")
    page.prompt("what is odd in $sales at {rate}, and in $sales?")
    page.wait_until_idle("So it is.")
    typed, value = (block["text"] for block in text_blocks(api)[-2:])
    assert typed.startswith("what is odd in $sales at ")
    assert "{rate}" not in typed
    assert "region" not in typed
    assert value.startswith("$sales:\n")
    assert "region" in value
    assert "what is odd in $sales at 0.25, and in $sales?\nContext · " in page.text
    assert "Context · $sales, about " in page.text
    assert "Document" not in page.text


def test_each_answer_says_what_it_took_and_not_what_those_before_it_did(page: Page, api: MessagesApi) -> None:
    for number, answer in enumerate(("First.", "Second.", "Third."), 1):
        api.add(answer)
        page.prompt("and now?")
        page.wait_until_idle(answer)
        page.settle()
        assert page.text.count("tokens in, ") == number


def test_a_command_that_is_not_there_is_said_and_nothing_is_sent(page: Page, api: MessagesApi) -> None:
    api.add("Hello.")
    page.prompt("hello")
    page.wait_until_idle("Hello.")
    page.prompt("/modle sonnet")
    page.wait_for(lambda: page.toasts)
    assert page.toasts[0].startswith("There is no command /modle. Did you mean /model? Nothing was sent")
    page.wait_for(lambda: page.state.get("composer", {}).get("text") == "/modle sonnet")
    assert len(api.requests) == 1
    api.add("It is.")
    page.prompt("/usr is full, is it?")
    page.wait_until_idle("It is.")


@pytest.mark.parametrize(
    "what", ["{sales.nope}", "{sales.pop('units')}", "{__import__('os').system('touch ran')+rate}"]
)
def test_what_cannot_be_looked_up_is_said_and_nothing_is_sent(
    kernel: Kernel, page: Page, api: MessagesApi, what: str
) -> None:
    page.prompt(f"and {what} is what?")
    page.wait_for(lambda: page.toasts)
    assert page.toasts[0].startswith(f"Nothing was sent: {what} has no value (")
    page.wait_for(lambda: page.state.get("composer", {}).get("text") == f"and {what} is what?")
    page.settle()
    assert not page.state["busy"]
    assert api.requests == []
    assert not (kernel.folder / "ran").exists()


def test_nothing_in_lines_that_were_pasted_stands_for_a_value(page: Page, api: MessagesApi) -> None:
    api.add("A log.")
    page.tell("prompt", text="explain\nerror in {rate} at $rate", literal=True)
    page.wait_until_idle("A log.")
    assert "error in {rate} at $rate" in sent(api)
    assert page.toasts == ["{rate}, $rate: sent as it stands, for lines of the message were pasted."]


def test_while_a_cell_runs_a_value_is_not_looked_up_and_other_prompts_are_sent(
    kernel: Kernel, page: Page, api: MessagesApi
) -> None:
    waits = "while not pathlib.Path('go-on').exists(): time.sleep(0.02)"
    hears = kernel.run("import ipykernel; print(ipykernel.version_info[0] >= 7)").streams == "True\n"
    cell = kernel.begin(f"import pathlib, time\nprint('begun', flush=True)\n{waits}")
    try:
        cell.wait_for(lambda cell: "begun" in cell.streams)
        if hears:
            page.prompt("what is {rate}?")
            page.wait_for(lambda: page.toasts)
            assert "A cell of yours was running" in page.toasts[0]
            assert api.requests == []
        api.add("Hello to you.")
        page.prompt("hello")
        if hears:
            page.wait_until_idle("Hello to you.")
    finally:
        (kernel.folder / "go-on").touch()
        cell.finish()
    page.wait_until_idle("Hello to you.")  # ipykernel 6 takes no message while a cell runs, and loses none


def test_a_cell_goes_along_with_its_output(kernel: Kernel, page: Page, api: MessagesApi) -> None:
    assert kernel.run("print('seven', 3 + 4)\nsales.units.sum()").status == "ok"
    number = int(kernel.run("print(len(In) - 2)").streams)
    api.add("It is seven.")
    page.prompt(f"explain @cell {number}")
    page.wait_until_idle("It is seven.")
    text = sent(api)
    assert f"explain @cell {number}" in text
    (along,) = (block["text"] for block in text_blocks(api) if block["text"].startswith("cell In ["))
    assert along.startswith(f"cell In [{number}]:\n")
    assert "print('seven', 3 + 4)" in along
    assert "seven 7" in along
    api.requests.clear()
    page.prompt("explain @cell 4000")
    page.wait_for(lambda: page.toasts)
    assert page.toasts[0].startswith("Nothing was sent: @cell 4000 is not known.")
    assert api.requests == []


def offered(page: Page, text: str) -> list[str]:
    page.tell("complete", text=text)
    page.wait_for(lambda: page.state.get("completions", {}).get("text") == text)
    return [item["label"] for item in page.state["completions"]["items"]]


def test_completions_of_what_was_typed_before_never_take_the_place_of_those_of_what_is_typed_now(
    kernel: Kernel, page: Page
) -> None:
    many = kernel.folder / "many"
    many.mkdir()
    for number in range(2_000):
        (many / f"{number}.csv").touch()
    page.messages.clear()
    page.tell("complete", text="look at @many")
    assert offered(page, "/new") == ["/new"]
    assert offered(page, "look at @many/7.csv") == ["many/7.csv"]  # the files were looked through in the meantime
    states = (op[1] for message in page.messages for op in message.get("ops", []) if op[0] == "set")
    given = [state["completions"]["text"] for state in states if "completions" in state]
    assert given == ["/new", "look at @many/7.csv"]


def test_files_variables_and_commands_are_offered(kernel: Kernel, page: Page) -> None:
    folder = kernel.folder
    (folder / "data").mkdir(exist_ok=True)
    for name in ("clean.py", "data/clean.csv", "ignored.log", ".env", "id_rsa", ".hidden"):
        (folder / name).write_text("x")
    (folder / ".gitignore").write_text("*.log\n")
    assert kernel.run("total = sales.units.sum()").status == "ok"
    assert offered(page, "look at @cle") == ["clean.py", "data/clean.csv"]
    everything = offered(page, "look at @")
    newest, *_ = page.state["completions"]["items"]
    assert re.fullmatch(r"@cell \d+", newest["text"])
    assert newest["detail"] == "total = sales.units.sum()"
    assert offered(page, "look at @cel")[0] == newest["text"]
    assert "clean.py" in everything
    assert not {"ignored.log", ".env", "id_rsa", ".hidden", ".gitignore"} & set(everything)
    for text in ("what is #sa", "what is $sa", "(#sa"):
        assert offered(page, text) == ["sales"]
    assert [item["text"] for item in page.state["completions"]["items"]] == ["$sales"]
    (folder / "my data.csv").write_text("x")
    for typed in ("my", '"my', '"my da', '"'):
        assert "my data.csv" in offered(page, f"look at @{typed}")
    assert offered(page, 'look at @"my d') == ["my data.csv"]
    assert [item["text"] for item in page.state["completions"]["items"]] == ['@"my data.csv"']
    assert offered(page, 'look at @"my data.csv"') == []
    assert offered(page, 'look at @"my #sa') == [], "a variable is none within quotation marks"
    assert kernel.run("sales_of_may = total").status == "ok"
    assert offered(page, "what is $sales") == ["sales", "sales_of_may"]
    assert kernel.run("del sales_of_may").status == "ok"
    assert offered(page, "the mean({sa") == ["sales"]
    assert [item["text"] for item in page.state["completions"]["items"]] == ["{sales}"]
    assert offered(page, "a {{sa") == []
    commands = offered(page, "/")
    assert {
        f"/{name}"
        for name in ["new", "model", "compact", "stats", "export", "help", "tree", "sessions", "undo", "redo"]
    } <= {*commands}
    assert offered(page, "/st") == ["/stats", "/state"]


def test_commands_are_carried_out_and_nothing_is_asked_of_the_model(page: Page, api: MessagesApi) -> None:
    page.prompt("/stats")
    page.wait_for(lambda: "tokens out" in page.text)
    page.prompt("/help")
    page.wait_for(lambda: "@cell 5" in page.text and "/compact" in page.text)
    page.prompt("/model haiku")
    page.wait_for(lambda: "haiku" in page.state["current_model"]["id"])
    page.prompt("/name The sales")
    page.wait_for(lambda: page.state["session"]["name"] == "The sales")
    page.prompt("/model no-such-model")
    page.wait_for(lambda: page.toasts)
    assert "no-such-model" in page.toasts[0]
    page.prompt("/new")
    page.wait_for(lambda: page.state["session"]["name"] is None)
    assert api.requests == []


def test_what_the_agent_s_code_changed_is_taken_back_from_the_panel(
    kernel: Kernel, page: Page, api: MessagesApi
) -> None:
    assert kernel.run("limit = 1").status == "ok"
    api.add(Reply(ToolUse("python", {"code": "limit = 2"})), "It is two.")
    page.prompt("make it two")
    page.wait_for(lambda: page.dialogs)
    (dialog,) = page.dialogs
    page.tell("answer", id=dialog, value=page.dialogs[dialog].dialog["options"][0])
    page.wait_until_idle("It is two.")
    assert kernel.run("print(limit)").streams.strip() == "2"
    page.prompt("/undo")
    page.wait_for(lambda: "`/redo` turns that around" in page.text or "/redo" in page.text)
    assert kernel.run("print(limit)").streams.strip() == "1"
    assert page.state["session"]["begins"] == "make it two"
    page.prompt("/redo")
    page.wait_for(lambda: "/undo turns that around" in page.text)
    page.prompt("/undo prompt")
    page.wait_for(lambda: "/redo prompt turns that around" in page.text)
    page.prompt("/redo prompt")
    page.wait_for(lambda: "/undo prompt turns that around" in page.text)
    assert kernel.run("print(limit)").streams.strip() == "2"


def drop(page: Page, name: str, data: bytes) -> dict[str, Any]:
    page.tell("file", name=name, data=base64.b64encode(data).decode())
    page.wait_for(lambda: page.dialogs)
    (dialog,) = page.dialogs.values()
    return dialog.dialog


def test_a_dropped_file_is_saved_after_a_question_and_replaces_nothing(kernel: Kernel, page: Page) -> None:
    (kernel.folder / "rides.csv").write_text("mine")
    dialog = drop(page, "../rides.csv", b"a,b\n1,2\n")
    assert "Save rides.csv" in dialog["title"]
    page.tell("answer", id=dialog["id"], value=True)
    page.wait_for(lambda: page.state.get("inserted", {}).get("text") == "@rides-2.csv")
    assert (kernel.folder / "rides-2.csv").read_bytes() == b"a,b\n1,2\n"
    assert (kernel.folder / "rides.csv").read_text() == "mine"
    page.tell("ready")  # as a page of a later moment says it, in which the text may have been removed
    page.wait_for(lambda: not page.state["inserted"]["text"])
    dialog = drop(page, "no.csv", b"x")
    page.tell("answer", id=dialog["id"], value=False)
    page.wait_for(lambda: not page.dialogs)
    page.settle()
    assert not (kernel.folder / "no.csv").exists()


def test_an_answer_is_handed_over_as_it_was_written(page: Page, api: MessagesApi) -> None:
    api.add("It is **bold**:\n\n| a | b |\n|---|--:|\n| 1 | 2 |")
    page.prompt("a table")
    page.wait_until_idle("bold")
    key = next(key for key, html in page.blocks.items() if "<strong>bold" in html)
    page.tell("copy", block=key)
    page.wait_for(lambda: page.state.get("copied", {}).get("block") == key)
    assert page.state["copied"]["text"] == "It is **bold**:\n\n| a | b |\n|---|--:|\n| 1 | 2 |"


def test_the_head_knows_the_context_the_approval_mode_and_the_prices(page: Page, api: MessagesApi) -> None:
    assert page.state["approve"] == "writes"
    assert page.state["examples"][0] == "What is odd in $sales?"
    assert any(model["price"].startswith("$") for model in page.state["models"])
    api.add("Hello.")
    page.prompt("hi")
    page.wait_until_idle("Hello.")
    page.wait_for(lambda: page.state["context"]["tokens"] > 0)
    assert page.state["context"]["window"] >= 200_000
    page.tell("new_session")
    page.wait_for(lambda: page.state["cost"] == "")


def test_time_and_small_pictures_stand_in_a_message_of_mine(page: Page, api: MessagesApi) -> None:
    api.add("A dot.")
    page.prompt("what is this?", images=[{"kind": "image", "data": DOT, "mimeType": "image/png"}])
    page.wait_until_idle("A dot.")
    said = next(html for html in page.blocks.values() if "what is this?" in html)
    assert "<img" in said
    assert "[1 image]" not in said
    assert 'title="' in said

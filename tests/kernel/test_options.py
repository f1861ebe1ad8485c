"""What options and sub-commands of ``%agent`` do, in a real kernel."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from kernels import Cell, Kernel, private_environment
from messages_api import Gate, HttpError, MessagesApi, Reply, Text, ToolUse
from PIL import Image
from waiting import wait_until


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory, api: MessagesApi) -> Iterator[Kernel]:
    root = tmp_path_factory.mktemp("options")
    environment = private_environment(root, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    (root / "work").mkdir()
    with Kernel(root / "work", environment) as kernel:
        assert kernel.run("%load_ext indus_nb").status == "ok"
        yield kernel


@pytest.fixture
def claude(kernel: Kernel, api: MessagesApi) -> Kernel:
    assert kernel.run("%agent --name main --new --model anthropic/claude-sonnet-4-5 --thinking off").status == "ok"
    api.requests.clear()
    return kernel


def failure(cell: Cell) -> str:
    assert cell.status == "error"
    assert cell.error is not None
    return cell.error["traceback"][0]


def test_the_answer_is_put_into_a_variable(claude: Kernel, api: MessagesApi) -> None:
    api.add("forty-two")
    assert claude.run("%agent -o answer what is it").status == "ok"
    assert claude.run("print(answer)").streams == "forty-two\n"


def test_values_of_variables_stand_in_the_prompt_and_frames_are_summarised(claude: Kernel, api: MessagesApi) -> None:
    claude.run("import pandas as pd\nsales = pd.DataFrame({'city': ['Rome'] * 1000, 'sum': range(1000)})\nname = 'Ada'")
    api.add("ok")
    assert claude.run("%agent $name asks about {sales} and {len(sales):,} rows").status == "ok"
    said = api.requests[-1].texts[-1]
    assert said.startswith("Ada asks about ")
    assert "city" in said
    assert "and 1,000 rows" in said
    assert len(said) < 3000


def test_an_expression_that_fails_is_sent_as_it_was_typed_and_told(claude: Kernel, api: MessagesApi) -> None:
    claude.run("numbers = []")
    api.add("Noted.")
    assert any("IndexError" in shown for shown in claude.run("%agent look at {numbers[0]}").shown)
    assert "look at {numbers[0]}" in json.dumps(api.requests[-1].body)


def test_a_name_that_is_no_variable_is_left_and_hinted_at(claude: Kernel, api: MessagesApi) -> None:
    api.add("ok")
    cell = claude.run("%agent look at {nobody}")
    assert "{nobody} was left as it stands" in cell.shown[0]
    assert api.requests[-1].texts[-1] == "look at {nobody}"


def test_images_go_along_from_files_and_variables(claude: Kernel, api: MessagesApi) -> None:
    Image.new("RGB", (3, 2), "red").save(claude.folder / "red dot.png")
    claude.run("from PIL import Image\nblue = Image.new('RGB', (4, 2), 'blue')")
    api.add("two dots")
    cell = claude.run("%agent --image 'red dot.png' --image blue what is this")
    assert cell.status == "ok", cell.error
    images = [block for block in api.requests[-1].body["messages"][-1]["content"] if block["type"] == "image"]
    sizes = [Image.open(io.BytesIO(base64.b64decode(image["source"]["data"]))).size for image in images]
    assert sizes == [(3, 2), (4, 2)]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("--image nothing.png x", "there is no such variable, and no such file"),
        ("--image notes.txt x", "the file holds no image"),
        ("--image numbers x", "A list cannot be shown as an image"),
        ("-o class x", "class"),
        ("--max-cost nothing x", "--max-cost"),
        ("cell", "has run no code in your kernel"),
    ],
)
def test_a_mistake_is_one_sentence_and_asks_nothing(claude: Kernel, api: MessagesApi, line: str, sentence: str) -> None:
    Path(claude.folder, "notes.txt").write_text("text")
    claude.run("numbers = [1]")
    assert sentence in failure(claude.run(f"%agent {line}"))
    assert api.requests == []


def test_a_run_that_costs_too_much_is_stopped_before_the_next_request(claude: Kernel, api: MessagesApi) -> None:
    api.add(Reply("I look.", ToolUse("bash", {"command": "touch too-late"}), usage={"input_tokens": 1_000_000}))
    cell = claude.run("%agent --max-cost 0.5 go on")
    assert cell.status == "error"
    assert "The budget of $0.5 is spent: $3.0003." in failure(cell)
    assert not any("user" in text for text in cell.shown)  # nobody did it
    assert len(api.requests) == 1
    assert not (claude.folder / "too-late").exists()
    api.add(Reply("Cheap."), Reply(ToolUse("variables", {})))
    assert claude.run("%agent --new --max-cost 0.5 again").status == "ok"
    assert len(api.requests) == 2
    assert "The budget of $0.0000001 has no room" in failure(claude.run("%agent --max-cost 0.0000001 once more"))
    looked = claude.run("%agent --max-turns 1 --timeout 60 look")
    assert "Stopped after 1 turn" in failure(looked)
    assert "goes along" not in str(looked.shown)
    assert "once more" not in str(api.requests[-1].body["messages"])
    assert len(api.requests) == 3


def test_a_run_in_the_background_draws_in_its_own_cell_and_is_steered_from_another(
    claude: Kernel, api: MessagesApi
) -> None:
    held = Gate()
    api.add(Reply(Text("One, ", held, "two.")), Reply("Three."))
    background = claude.begin("%agent --no-wait -o answer count")
    background.goes_on()
    assert "still works for another cell" in failure(claude.run("%agent hello?"))
    assert claude.run("%agent steer and three").status == "ok"
    assert claude.run("print(6 * 7)").streams == "42\n"
    queue = claude.run("%agent queue")
    assert "and three" in "".join(queue.shown)
    held.open()
    background.wait_for(lambda cell: any("Three." in text for text in cell.shown))
    background.wait_for(lambda cell: cell.shown[-1] == "claude-sonnet-4-5")
    assert api.requests[-1].texts[-1] == "and three"
    # It is set when all is drawn, between two cells.
    wait_until(lambda: claude.run("print(answer)").streams == "Three.\n")


def test_code_of_a_run_in_the_background_runs_between_cells(claude: Kernel, api: MessagesApi) -> None:
    claude.run("numbers = [1, 2]")
    api.add(Reply(ToolUse("python", {"code": "numbers.append(3)\nprint('to the card')"})), Reply("Done."))
    background = claude.begin("%agent --no-wait add three")
    background.goes_on()
    background.wait_for(lambda cell: bool(cell.shown) and cell.shown[-1] == "claude-sonnet-4-5")
    assert any("to the card" in text for text in background.shown)
    assert background.streams == ""
    assert claude.run("print(numbers)").streams == "[1, 2, 3]\n"


def test_what_is_refused_in_the_background_is_told_in_its_cell(tmp_path: Path) -> None:
    with Kernel(tmp_path, private_environment(tmp_path)) as kernel:
        kernel.run("%load_ext indus_nb")
        cell = kernel.begin("%agent --no-wait hello").goes_on()
        cell.wait_for(lambda cell: any("ANTHROPIC_API_KEY" in text for text in cell.shown))


def test_abort_ends_a_run_in_the_background(claude: Kernel, api: MessagesApi) -> None:
    api.add(Reply(Text("Half ", Gate())), "whole")
    background = claude.begin("%agent --no-wait talk").goes_on()
    background.wait_for(lambda cell: "Half " in cell.shown)
    assert claude.run("%agent abort").status == "ok"
    background.wait_for(lambda cell: cell.shown[-1].endswith("stopped"))
    assert "whole" in claude.run("%agent again").shown


def test_several_conversations_live_side_by_side(claude: Kernel, api: MessagesApi) -> None:
    api.add("a", "b", "c", "d")
    claude.run("%agent my colour is blue")
    claude.run("%agent --name other my colour is red")
    claude.run("%agent and yours?")  # to the one that was talked to last
    claude.run("%agent --name main and yours?")
    said = [
        [block["text"] for message in request.body["messages"] for block in message["content"]]
        for request in api.requests
    ]
    said = [[text for text in texts if len(text) < 30] for texts in said]  # without the cells that the user ran
    assert said == [
        ["my colour is blue"],
        ["my colour is red"],
        ["my colour is red", "b", "and yours?"],
        ["my colour is blue", "a", "and yours?"],
    ]
    sessions = "".join(claude.run("%agent sessions").shown)
    assert "other" in sessions


def test_what_the_agent_ran_becomes_a_cell(claude: Kernel, api: MessagesApi) -> None:
    good, bad = {"code": "total = 6 * 7\ntotal"}, {"code": "1 / 0"}
    api.add(Reply(ToolUse("python", good)), Reply(ToolUse("python", bad)), Reply("Done."))
    claude.run("%agent compute")
    message_id = claude._client.execute("%agent cell")
    while True:
        reply = claude._client.get_shell_msg(timeout=240)
        if reply["parent_header"].get("msg_id") == message_id:
            break
    (payload,) = reply["content"]["payload"]
    assert payload["source"] == "set_next_input"
    assert payload["text"] == good["code"]
    assert payload["replace"] is False


def test_sessions_of_python_are_prompted_from_cells(kernel: Kernel) -> None:
    kernel.run(
        "from indus_nb import SessionOptions, open_session\n"
        "session = open_session(SessionOptions(provider='offline', no_session=True))"
    )
    assert kernel.run("print(session.run('compute 6 * 7'))").streams.split()[-2] == "42"
    cell = kernel.run("await session.prompt('compute 6 * 8')\nprint(session.last_text)")
    assert cell.streams.split()[-2] == "48"
    cell = kernel.run(
        "async for event in session.events('compute 6 * 9'):\n    last = event.type\nprint(last, session.last_text)"
    )
    assert cell.streams.startswith("agent_settled")
    assert cell.streams.split()[-2] == "54"


def test_after_going_to_another_branch_it_is_said_that_the_variables_are_not_of_that_branch(
    claude: Kernel, api: MessagesApi
) -> None:
    api.add("a", "b")
    claude.run("%agent first")
    claude.run("%agent second")
    listed = "".join(claude.run("%agent fork").shown)
    entry = next(line.split()[0] for line in listed.splitlines() if "second" in line)
    shown = claude.run(f"%agent fork {entry}").shown
    assert "second" in "".join(shown)
    assert "variables are" in shown[-1]


def test_a_model_without_a_key_is_not_chosen(claude: Kernel, api: MessagesApi) -> None:
    assert "OPENAI_API_KEY" in failure(claude.run("%agent --model openai/gpt-5 hello"))
    api.add("Still Claude.")
    assert "Still Claude." in claude.run("%agent hello").shown


def test_an_answer_that_the_session_file_does_not_take_is_told_in_its_cell(claude: Kernel, api: MessagesApi) -> None:
    def lose_the_file(_: object) -> Reply:
        for path in claude.folder.parent.glob("**/sessions/**/*.jsonl"):
            path.unlink()
        return Reply("The answer.")

    api.add(lose_the_file)
    cell = claude.run("%agent first")
    assert "The answer." in str(cell.shown)
    assert "Not saved: " in str(cell.shown)
    assert "kept in memory" in str(claude.run("%agent doctor").shown)
    api.add("And on.")
    assert claude.run("%agent --new second").status == "ok"
    (rescued,) = (p for p in claude.folder.parent.glob("**/sessions/**/*.jsonl") if "The answer." in p.read_text())
    assert "And on." not in rescued.read_text()


def test_where_no_session_can_be_saved_cells_are_answered_and_one_says_so(claude: Kernel, api: MessagesApi) -> None:
    (claude.folder / "file").touch()
    place = claude.folder / "file" / "sessions"
    claude.run(f"import os; os.environ['INDUS_NB_SESSION_DIR'] = {str(place)!r}")
    api.add("First answer.", "Second answer.")
    first, second = claude.run("%agent --new first"), claude.run("%agent second")
    assert (first.status, second.status) == ("ok", "ok")
    assert "First answer." in str(first.shown)
    assert "Second answer." in str(second.shown)
    assert str(first.shown).count("This session is kept in memory only") == 1
    assert "kept in memory" not in str(second.shown)


def test_the_answer_can_be_assigned_and_is_shown_once(claude: Kernel, api: MessagesApi) -> None:
    api.add(Reply("It is 42."), Reply("Still."), Reply("Both."))
    assigned = claude.run("answer = %agent what is it?")
    assert assigned.status == "ok"
    assert assigned.shown.count("It is 42.") == 1
    assert claude.run("print(repr(answer))").streams == "'It is 42.'\n"
    for alone in ("%agent and now?", "%%agent\nand then?"):
        cell = claude.run(alone)
        assert not cell.results
        assert sum("Still." in text or "Both." in text for text in cell.shown) == 1
    assert claude.run("print('Still.' in str(Out.values()))").streams == "False\n"
    assert claude.run("nothing = %agent stats\nprint(nothing)").streams == "None\n"


def test_a_question_mark_shows_the_help(claude: Kernel) -> None:
    client = claude._client
    message_id = client.inspect("%agent hello", 4)
    while (reply := client.get_shell_msg(timeout=240))["parent_header"].get("msg_id") != message_id:
        pass
    assert "--max-cost USD" in reply["content"]["data"]["text/plain"]
    assert "%agent panel" in reply["content"]["data"]["text/plain"]


def test_a_command_with_a_slash_is_one_and_is_not_sent(claude: Kernel, api: MessagesApi) -> None:
    cell = claude.run("%agent /stats")
    assert any("tool calls" in text for text in cell.shown)
    assert "Did you mean `%agent panel`?" in failure(claude.run("%agent panle"))
    assert api.requests == []
    api.add("Hello.")
    claude.run("%agent hello")
    assert "There is no command /undoo. Did you mean /undo?" in failure(claude.run("%agent /undoo"))
    assert len(api.requests) == 1


def test_a_word_that_nearly_is_a_command_answers_a_question_of_the_models(claude: Kernel, api: MessagesApi) -> None:
    api.add("Fine.", "How many **clusters?**", "Three, then.")
    claude.run("%agent cluster them")
    assert "Did you mean `%agent stats`?" in failure(claude.run("%agent stat"))
    claude.run("%agent go on")
    assert any("Three, then." in text for text in claude.run("%agent stat").shown)
    assert len(api.requests) == 3


INVOICE = """
from dataclasses import dataclass
@dataclass
class Invoice:
    number: str
    total: float
"""


def test_a_typed_answer_is_put_into_a_variable_and_assigned(claude: Kernel, api: MessagesApi) -> None:
    claude.run(INVOICE)
    good = [{"number": "A-7", "total": 12.5}]
    api.add(Reply(ToolUse("answer", {"answer": [{"number": "A-7"}]})), Reply(ToolUse("answer", {"answer": good})))
    cell = claude.run("%agent -o found --result list[Invoice] which invoices?")
    assert (cell.status, cell.results) == ("ok", [])
    assert claude.run("print(found)").streams == "[Invoice(number='A-7', total=12.5)]\n"
    assert "0.total: Field required" in api.requests[-1].texts[0]
    api.add(Reply(ToolUse("answer", {"answer": 42})))
    assert claude.run('count = %agent --result "int | None" how many?').status == "ok"
    assert claude.run("print(count + 1)").streams == "43\n"
    columns = [{"name": "city", "dtype": "category"}]
    api.add(Reply(ToolUse("answer", {"answer": {"columns": columns, "records": [{"city": "Rome"}]}})))
    assert claude.run("%%agent -o cities --result frame\nwhere?\n").status == "ok"
    assert claude.run("print(cities.shape, cities.city.dtype)").streams == "(1, 1) category\n"


def test_without_a_valid_answer_the_cell_fails_and_the_variable_is_as_it_was(claude: Kernel, api: MessagesApi) -> None:
    claude.run("found = 'as it was'")
    api.add(*(Reply(ToolUse("answer", {"answer": "many"})) for _ in range(3)))
    said = failure(claude.run("%agent -o found --result int how many?"))
    assert said.startswith("InvalidAnswerError: The model gave no valid answer (int) in 3 attempts.")
    assert claude.run("print(found)").streams == "as it was\n"
    api.add(HttpError(400, "invalid_request_error", "no such thing"))
    assert failure(claude.run("%agent -o found --result int how many?")).startswith("RunFailedError")
    assert claude.run("print(found)").streams == "as it was\n"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--result Invoic how many?", "--result Invoic: there is no type Invoic here."),
        ("--result print('x') how many?", "it would run code"),
        ("--no-wait --result int how many?", "--result with --no-wait needs a variable"),
        ("--result int stats", "`%agent stats` is none"),
    ],
)
def test_a_type_that_is_none_is_one_sentence_and_sends_nothing(
    claude: Kernel, api: MessagesApi, line: str, words: str
) -> None:
    said = claude.run(f"%agent {line}")
    assert words in failure(said)
    assert (said.streams, api.requests) == ("", [])


def test_a_typed_answer_of_the_background_arrives_in_its_variable_or_fails_in_its_cell(
    claude: Kernel, api: MessagesApi
) -> None:
    claude.run("import time\nfound = None")
    api.add(Reply(ToolUse("answer", {"answer": 7})))
    claude.begin("%agent --no-wait -o found --result int how many?").goes_on()
    waited = claude.run("while found is None:\n    time.sleep(0.05)\nprint(found)")
    assert waited.streams == "7\n"
    api.add(*(Reply(ToolUse("answer", {"answer": "many"})) for _ in range(3)))
    cell = claude.begin("%agent --no-wait -o found --result int how many?").goes_on()
    cell.wait_for(lambda cell: any("gave no valid answer" in text for text in cell.shown), timeout=120)


def test_the_value_stays_in_sight_in_a_line_of_its_own(claude: Kernel, api: MessagesApi) -> None:
    calls = [ToolUse("variables", {}), ToolUse("variables", {})]
    api.add(Reply(*calls), Reply(ToolUse("answer", {"answer": [1, 2]})))
    shown = claude.run("%agent --result list[int] which numbers?").shown
    heads = [text.splitlines()[0].partition(" · ")[0].split() for text in shown if text]
    assert heads.index(["2", "steps"]) + 1 == heads.index(["✓", "answer", "[1,2]"])


def test_a_budget_that_the_answer_itself_exhausts_loses_no_valid_one_and_pays_for_no_correction(
    claude: Kernel, api: MessagesApi
) -> None:
    paid = {"input_tokens": 1_000_000}
    api.add(Reply(ToolUse("answer", {"answer": 7}), usage=paid))
    assert claude.run("%agent -o found --max-cost 0.5 --result int how many?").status == "ok"
    assert claude.run("print(found)").streams == "7\n"
    for answer in (Reply(ToolUse("answer", {"answer": "many"}), usage=paid), Reply("Many.", usage=paid)):
        api.requests.clear()
        api.add(answer)
        assert "The budget of $0.5 " in failure(claude.run("%agent --new --max-cost 0.5 --result int how many?"))
        assert len(api.requests) == 1

"""``%agent`` in real kernels: what arrives while the cell runs, what stays, and how it ends."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from kernels import Cell, Kernel, private_environment
from living import lives
from messages_api import Cut, Gate, HttpError, MessagesApi, Reply, Text, Thinking, ToolUse
from tokens import parts_of
from waiting import wait_until

from indus_nb.models.catalog import find_model


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory, api: MessagesApi) -> Iterator[Kernel]:
    """One kernel for this file; ``claude`` and ``offline`` start conversations of their own in it."""
    root = tmp_path_factory.mktemp("kernel")
    folder = root / "work"
    folder.mkdir()
    (folder / "notes.txt").write_text("remember the milk\n")
    environment = private_environment(root, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    with Kernel(folder, environment) as kernel:
        assert kernel.run("%load_ext indus_nb").status == "ok"
        yield kernel


@pytest.fixture
def claude(kernel: Kernel, api: MessagesApi) -> Kernel:
    assert kernel.run("%agent --new --model anthropic/claude-sonnet-4-5 --thinking off --tools bash").status == "ok"
    api.requests.clear()
    return kernel


@pytest.fixture
def offline(kernel: Kernel) -> Kernel:
    assert kernel.run("%agent --new --provider offline --thinking off --tools read,bash,edit,write").status == "ok"
    return kernel


def fails_shortly(cell: Cell) -> str:
    """The one line that a failed cell shows instead of a traceback."""
    assert cell.status == "error"
    assert cell.error is not None
    assert len(cell.error["traceback"]) == 1
    assert "\n" not in cell.error["traceback"][0]
    return cell.error["traceback"][0]


def test_an_answer_appears_in_the_cell_while_it_is_still_being_written(claude: Kernel, api: MessagesApi) -> None:
    first, second = Gate(), Gate()
    api.add(Reply(Text("One. ", first, "Two. ", second, "Three.")))
    cell = claude.begin("%agent count")
    cell.wait_for(lambda cell: cell.shown == ["… waiting for Claude Sonnet 4.5"])
    cell.wait_for(lambda cell: cell.shown == ["One. "])
    first.open()
    cell.wait_for(lambda cell: cell.shown == ["One. Two. "])
    second.open()
    cell.finish()
    assert cell.shown[0] == "One. Two. Three."
    assert cell.shown[1] == "claude-sonnet-4-5"
    assert cell.status == "ok"
    assert cell.streams == ""


def test_the_closing_line_of_an_answer_that_broke_off_says_what_the_limit_says(
    claude: Kernel, api: MessagesApi
) -> None:
    api.add(Reply(Text("x" * 1000, Cut())))
    cell = claude.begin("%agent --max-cost 0.2 count", asks=True).finish()
    spent = re.search(r"(\$[\d.]+) are spent, up to (\$[\d.]+) more", fails_shortly(cell))
    assert spent is not None
    assert f"out · at least {spent[1]} · " in cell.shown[-1]
    assert "100 tokens in, 250 out" in cell.shown[-1]
    assert "begun again" not in "".join(cell.shown)
    stats = claude.run("%agent stats").shown[-1]
    assert re.search(rf"cost +at least {re.escape(spent[1])}\n", stats)
    known = f"1 answer; what it cost beyond that is not known (limits count up to {spent[2]} for it)"
    assert re.search(rf"broken off +{re.escape(known)}\n", stats)


def test_a_tool_call_is_shown_with_its_arguments_and_output(offline: Kernel) -> None:
    cell = offline.run("%agent list the files here")
    call = next(text for text in cell.shown if "✓ bash  ls -la" in text)
    assert "notes.txt" in call
    assert "notes.txt" in cell.shown[-2]


def test_every_display_can_be_read_without_scripts_widgets_and_kernel(offline: Kernel) -> None:
    cell = offline.run("%agent read notes.txt")
    for bundles in cell.displays.values():
        assert set(bundles[-1]) == {"text/html", "text/markdown", "text/plain"}
        assert "<script" not in bundles[-1]["text/html"]


def test_a_user_whose_page_draws_nothing_reads_in_the_cell_what_a_run_took(claude: Kernel, api: MessagesApi) -> None:
    api.add("Four.", "Five.")
    watched = claude.begin("%agent count", asks=True).finish()
    assert re.fullmatch(r"claude-sonnet-4-5 · 100 tokens in, 20 out · \$0\.0006 · \d+\.\d s", watched.shown[-1])
    assert (
        claude.run("%agent go on").shown[-1] == "claude-sonnet-4-5"
    )  # where nobody is, it would differ from run to run


def test_a_long_run_stays_within_the_outputs_that_jupyterlab_shows(claude: Kernel, api: MessagesApi) -> None:
    def calls(turn: int) -> list[ToolUse]:
        return [ToolUse("ls", {"path": f"gone-{turn}-{number}"}) for number in range(4)]

    claude.run("%agent --new --tools ls")
    api.add(*(Reply(f"Turn {turn}.", *calls(turn)) for turn in range(25)), "The end.")
    cell = claude.run("%agent look around")
    assert len(cell.displays) <= 40
    everything = "\n".join(cell.shown)
    expected = [f"Turn {turn}.|" + "|".join(f"ls  gone-{turn}-{n}" for n in range(4)) for turn in range(25)]
    seen = re.findall(r"^(Turn \d+\.|✗ (?:ls  gone-\d+-\d))", everything, re.MULTILINE)
    assert [text.removeprefix("✗ ") for text in seen] == "|".join(expected).split("|")
    last, usage = [text for text in cell.shown if text][-2:]  # what was folded leaves its places empty
    assert last.endswith("The end.")
    assert usage == "claude-sonnet-4-5"


def test_thinking_is_folded_away(claude: Kernel, api: MessagesApi) -> None:
    api.add(Reply(Thinking("First I count."), "Four."))
    cell = claude.run("%agent --thinking high count")
    assert "First I count." in cell.shown[0]
    assert next(iter(cell.displays.values()))[-1]["text/html"].count("<details>") == 1
    assert cell.shown[1] == "Four."


def test_the_conversation_goes_on_from_cell_to_cell(claude: Kernel, api: MessagesApi) -> None:
    api.add("Noted.", "It was blue.")
    claude.run("%agent my colour is blue")
    claude.run("%agent which colour was it")
    said = [message["content"] for message in api.requests[1].body["messages"]]
    assert [content[0]["text"] for content in said] == ["my colour is blue", "Noted.", "which colour was it"]


def test_a_new_conversation_knows_nothing_of_the_old_one(claude: Kernel, api: MessagesApi) -> None:
    api.add("Noted.", "I do not know.")
    claude.run("%agent my colour is blue")
    claude.run("%agent --new which colour was it")
    assert len(api.requests[1].body["messages"]) == 1
    assert api.requests[1].body["model"] == "claude-sonnet-4-5"


def test_chosen_tools_stay_chosen_in_the_next_conversation(claude: Kernel, api: MessagesApi) -> None:
    api.add("a", "b")
    claude.run("%agent --new --tools read,ls hello")
    claude.run("%agent --new hello")
    assert [[tool["name"] for tool in request.body["tools"]] for request in api.requests] == [
        ["read", "ls", "answer"]
    ] * 2


def test_another_model_takes_over_the_conversation(claude: Kernel, api: MessagesApi) -> None:
    api.add("Noted.", "Blue.")
    claude.run("%agent my colour is blue")
    cell = claude.run("%agent --model haiku-4-5 which colour was it")
    assert len(api.requests[1].body["messages"]) == 3
    assert api.requests[1].body["model"] == "claude-haiku-4-5"
    assert cell.shown[-1].startswith("claude-haiku-4-5")


def test_the_prompt_is_taken_as_it_stands_but_for_values_of_variables(claude: Kernel, api: MessagesApi) -> None:
    claude.run("name = 'expanded'")
    lines = ["""say "$nobody" {nobody} isn't `{name}` (odd""", "what is 2 + 2?", "--- dashes --new", "!ls %who ??"]
    api.add(*("ok" for _ in lines))
    for line in lines:
        assert claude.run(f"%agent {line}").status == "ok"
    api.add("ok", "ok", "ok", "ok")
    claude.run("if name:\n    %agent indented?")
    claude.run("%%agent -i\n  two $name\n\nlines {name}?\n")
    told = claude.run("%%agent about {name.upper()}\n  two $name\n\nlines {name}?\n")
    assert "{name.upper()}, $name, {name}: sent as it stands." in told.shown[0]
    refused = claude.run("%agent {open(name)} and {name[99]} of {name}")
    assert "{open(name)} was left as it stands: FileNotFoundError" in refused.shown[0]
    assert "{name[99]} was left as it stands: IndexError" in refused.shown[1]
    assert [request.texts[-1] for request in api.requests] == [
        *lines,
        "indented?",
        "  two expanded\n\nlines expanded?",
        "about {name.upper()}\n  two $name\n\nlines {name}?",
        "{open(name)} and {name[99]} of expanded",
    ]


def test_options_alone_set_the_conversation_up_and_say_so(offline: Kernel) -> None:
    cell = offline.run("%agent --new --no-session --tools read,ls")
    assert cell.shown == ["Ready: Offline demonstration (no language model) · thinking off · not saved"]


def test_help_is_shown_for_help_and_for_nothing(kernel: Kernel) -> None:
    for code in ("%agent", "%agent help"):
        cell = kernel.run(code)
        assert "--provider NAME" in cell.shown[0]
        assert cell.status == "ok"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("--modell x hello", "There is no option --modell. Did you mean --model? `%agent help` shows all"),
        ("--model", "--model needs a value"),
        ("--new=1 x", "--new takes no value"),
        ("--new --continue x", "--new and --continue exclude each other"),
        ("--thinking deeply x", "--thinking deeply: choose off, "),
        ("--provider nobody x", "Unknown provider: nobody. Known providers: anthropic, openai, "),
        ("--model no-such-model x", "Model not found: no-such-model"),
        ("--session 0000dead x", "0000dead"),
        ("--tools read x", "add --new"),
        ("--new --tools fly x", "Unknown tool: fly"),
    ],
)
def test_a_mistake_in_the_options_is_one_sentence_and_fails_the_cell(offline: Kernel, line: str, sentence: str) -> None:
    assert sentence in fails_shortly(offline.run(f"%agent {line}"))


def test_without_a_model_the_cell_says_what_to_do(tmp_path: Path) -> None:
    with Kernel(tmp_path, private_environment(tmp_path)) as kernel:
        kernel.run("%load_ext indus_nb")
        assert "ANTHROPIC_API_KEY" in fails_shortly(kernel.run("%agent hello"))
        assert "--provider offline" in kernel.run("%agent --thinking low").shown[0]


def test_a_key_that_is_set_in_a_cell_after_the_error_counts_at_once(tmp_path: Path, api: MessagesApi) -> None:
    with Kernel(tmp_path, private_environment(tmp_path, ANTHROPIC_BASE_URL=api.url)) as kernel:
        kernel.run("%load_ext indus_nb")
        assert "One set in a cell counts at once" in "".join(kernel.run("%agent hello").error["traceback"])
        kernel.run("import os; os.environ['ANTHROPIC_API_KEY'] = 'test-key'")
        assert "* " in kernel.run("%agent model").shown[0].splitlines()[2]
        api.add("Here.", "Here again.")
        first, second = kernel.run("%agent hello"), kernel.run("%agent hello")
        chosen = [text for text in first.shown if "for no model was chosen" in text]
        assert re.search(r"Claude .* answers \(\$\d.* / \$\d.* for a million tokens in / out\)", chosen[0])
        assert first.shown.index(chosen[0]) < first.shown.index("Here.")
        assert "Here again." in second.shown
        assert not [text for text in second.shown if "for no model was chosen" in text]
        told = re.search(r"costs about \$([\d.]+) or more: ([\d,]+) tokens of instructions and tools", chosen[0])
        assert told is not None
        body = api.requests[-2].body
        tokens, model = sum(parts_of(body).values()), find_model(body["model"])
        assert model is not None
        assert int(told[2].replace(",", "")) == pytest.approx(tokens, rel=0.2)
        cost = model.cost.usage(input=0, output=500, cache_write=tokens).cost.total
        assert float(told[1]) == pytest.approx(cost, rel=0.2)


def test_a_provider_without_a_key_is_asked_for_one_and_does_not_stay_chosen(tmp_path: Path, api: MessagesApi) -> None:
    environment = private_environment(tmp_path, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    with Kernel(tmp_path, environment) as kernel:
        kernel.run("%load_ext indus_nb")
        failed = kernel.run("%agent --provider openai hi")
        assert "No API key for openai: set OPENAI_API_KEY" in failed.error["evalue"]
        assert "use `--provider anthropic`, which has one" in failed.error["evalue"]
        assert "getpass.getpass()" in "".join(failed.error["traceback"])
        api.add(Reply("Here."))
        assert kernel.run("%agent hi").status == "ok"
        failed = kernel.run("%agent --new --provider openai hi")
        assert "No API key for openai" in failed.error["evalue"]
        api.add(Reply("Still here."))
        assert kernel.run("%agent hi").status == "ok"
        assert len(api.requests[-1].body["messages"]) == 3


def test_a_prompt_that_does_not_wait_is_queued_behind_the_run_that_goes_on(claude: Kernel, api: MessagesApi) -> None:
    gate = Gate()
    api.add(Reply(Text("One", gate, ".")), Reply("Two."))
    first = claude.begin("%agent --no-wait first").finish()
    first.idle = False
    first.wait_for(lambda cell: any("One" in text for text in cell.shown))
    second = claude.run("%agent --no-wait second")
    assert "Queued" in "".join(second.shown)
    refused = claude.run("%agent --no-wait -o answer third")
    assert "The agent still works for another cell" in refused.error["evalue"]
    gate.open()
    first.wait_for(lambda cell: any("Two." in text for text in cell.shown))
    assert api.requests[-1].body["messages"][-1]["content"][-1]["text"] == "second"


def test_a_models_failure_fails_the_cell_after_what_was_said(claude: Kernel, api: MessagesApi) -> None:
    api.add(HttpError(400, "invalid_request_error", "the prompt is too odd"))
    cell = claude.run("%agent hello")
    assert fails_shortly(cell) == "RunFailedError: 400 invalid_request_error: the prompt is too odd"
    drawn = [text.split(" · ")[0] for text in cell.shown]
    assert [text for text in drawn if text != "Context"] == ["claude-sonnet-4-5"]  # it is said once
    api.add("better now", "fine")  # the line is there once, for the next prompt
    again = claude.run("%agent again").shown
    assert again[:2] == [
        'Your prompt before, which nothing answered, goes along: "hello". `%agent --new` begins without.',
        "better now",
    ]
    assert [message["role"] for message in api.requests[-1].body["messages"]] == ["user"]
    assert claude.run("%agent and more").shown[0] == "fine"


def test_a_failure_in_the_background_is_shown_in_its_cell(claude: Kernel, api: MessagesApi) -> None:
    api.add(HttpError(400, "invalid_request_error", "the prompt is too odd"))
    cell = claude.begin("%agent --no-wait hello").goes_on()
    cell.wait_for(lambda cell: "✗ Error\n  400 invalid_request_error: the prompt is too odd" in cell.shown)
    assert cell.error is None


def test_a_refused_prompt_is_one_message_that_names_no_home_directory(claude: Kernel, api: MessagesApi) -> None:
    claude.run("import os\nkey, home = os.environ.pop('ANTHROPIC_API_KEY'), os.environ['HOME']")
    claude.run("os.environ['HOME'] = os.path.dirname(os.environ['INDUS_NB_AGENT_DIR'])")
    cell = claude.run("%agent hello")
    claude.run("os.environ.update(ANTHROPIC_API_KEY=key, HOME=home)")
    assert "put it into ~/agent/auth.json" in fails_shortly(cell)
    assert fails_shortly(cell) == cell.error["evalue"]
    assert not any(cell.shown)


def test_cells_below_a_failed_one_do_not_run(claude: Kernel, api: MessagesApi) -> None:
    api.add(HttpError(400, "invalid_request_error", "no"))
    cell = claude.run("%agent hello\nprint('went on')")
    assert "went on" not in cell.streams


def seconds_until_interrupted(kernel: Kernel, cell: Cell) -> float:
    began = time.monotonic()
    kernel.interrupt()
    cell.finish()
    return time.monotonic() - began


def test_an_interrupt_stops_a_running_tool_and_leaves_no_process_behind(offline: Kernel) -> None:
    cell = offline.begin("%agent run sleep 60\nprint('went on')")
    cell.wait_for(lambda cell: any("● bash" in text for text in cell.shown))
    sleeping: list[psutil.Process] = []
    wait_until(lambda: sleeping.extend(each for each in offline.children() if each.name() == "sleep") or sleeping)
    assert seconds_until_interrupted(offline, cell) < 5
    assert not any(map(lives, sleeping))
    assert any("✗ bash" in text for text in cell.shown)
    assert fails_shortly(cell).startswith("Interrupted: the agent was stopped.")
    assert "stopped" not in cell.shown[-1]  # it is said once
    assert "went on" not in cell.streams


def test_after_an_interrupt_the_kernel_and_the_conversation_go_on(offline: Kernel) -> None:
    cell = offline.begin("%agent run sleep 60")
    cell.wait_for(lambda cell: any("● bash" in text for text in cell.shown))
    seconds_until_interrupted(offline, cell)
    assert offline.run("print(6 * 7)").streams == "42\n"
    assert "✓ bash  ls" in "".join(offline.run("%agent list the files here").shown)
    plain = offline.begin("import time\nprint('asleep', flush=True)\ntime.sleep(60)")
    plain.wait_for(lambda cell: "asleep" in cell.streams)
    assert seconds_until_interrupted(offline, plain) < 5
    assert plain.error is not None
    assert plain.error["ename"] == "KeyboardInterrupt"


def test_an_interrupt_keeps_what_the_model_has_said_so_far(claude: Kernel, api: MessagesApi) -> None:
    api.add(Reply(Text("Half an ", Gate())), "whole")
    cell = claude.begin("%agent hello")
    cell.wait_for(lambda cell: "Half an " in cell.shown)
    assert seconds_until_interrupted(claude, cell) < 5
    assert "Half an " in cell.shown
    assert api.requests[0].disconnected.wait()
    assert claude.run("%agent go on").shown[0] == "whole"


def test_a_kernel_that_is_shut_down_leaves_no_process_of_its_tools_behind(tmp_path: Path) -> None:
    with Kernel(tmp_path, private_environment(tmp_path)) as kernel:
        kernel.run("%load_ext indus_nb")
        cell = kernel.begin("%agent --provider offline run sleep 60")
        cell.wait_for(lambda cell: any("● bash" in text for text in cell.shown))
        deadline = time.monotonic() + 240
        while not (children := kernel.children()):  # the call is shown before its process has begun
            assert time.monotonic() < deadline
            time.sleep(0.05)
        kernel.shut_down()
        _, alive = psutil.wait_procs(children, timeout=120)
        assert not alive


def test_loading_imports_neither_sdk_nor_widgets(tmp_path: Path) -> None:
    with Kernel(tmp_path, private_environment(tmp_path)) as kernel:
        kernel.run(
            "import sys, threading\nthreading.Thread.start = lambda self: None  # what is imported later\n"
            "%load_ext indus_nb"
        )
        assert kernel.run("print('anthropic' in sys.modules, 'ipywidgets' in sys.modules)").streams == "False False\n"


def test_unloading_takes_the_magic_away_and_lets_go_of_the_session(tmp_path: Path) -> None:
    with Kernel(tmp_path, private_environment(tmp_path)) as kernel:
        kernel.run("%load_ext indus_nb")
        kernel.run("%agent --provider offline list the files here")
        kernel.run("%unload_ext indus_nb")
        assert "not found" in kernel.run("%agent hello").streams
        kernel.run("%load_ext indus_nb")
        cell = kernel.run("%agent --continue which files")
        assert cell.status == "ok"


def test_what_cannot_be_done_is_said_in_a_sentence_without_the_name_of_a_class(kernel: Kernel) -> None:
    assert fails_shortly(kernel.run("%agent --nonesuch")).startswith("There is no option --nonesuch.")


def test_the_conversation_is_continued_in_another_kernel(tmp_path: Path) -> None:
    environment = private_environment(tmp_path)
    with Kernel(tmp_path, environment) as kernel:
        kernel.run("%load_ext indus_nb")
        kernel.run("%agent --provider offline list the files here")
        cell = kernel.run("%agent --continue")  # the conversation that is open here already
        assert cell.status == "ok"
        assert "nonesuch" in fails_shortly(kernel.run("%agent --continue --model nonesuch"))
        assert kernel.run("%agent --provider offline").shown[0] == cell.shown[0]
        with Kernel(tmp_path, environment) as other:
            other.run("%load_ext indus_nb")
            assert "open for writing" in fails_shortly(other.run("%agent --continue"))
            kernel.shut_down()
            cell = other.run("%agent --continue")
            assert cell.status == "ok", cell.error
            rows = (line.split(maxsplit=1) for line in other.run("%agent stats").shown[0].splitlines())
            path = Path(next(value for name, value in rows if name == "file"))
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    assert any(entry["type"] == "message" for entry in entries)


def test_the_path_of_the_home_directory_stands_in_no_output(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "analysis").mkdir(parents=True)
    environment = private_environment(tmp_path, INDUS_NB_AGENT_DIR=str(home / "agent"))
    with Kernel(home / "analysis", environment) as kernel:
        kernel.run("%load_ext indus_nb")
        ready = kernel.run("%agent --provider offline")
        assert ready.shown[0].endswith(" · saved")
        kernel.run("%agent --provider offline list the files here")
        shown = [kernel.run(f"%agent {command}") for command in ("stats", "doctor", "export page.html")]
        failed = kernel.run("%agent --session nowhere/at/all.jsonl")
    assert "~/agent/sessions/*-analysis--/" in shown[0].shown[0]
    assert "~/analysis/page.html" in shown[2].shown[0]
    assert failed.error is not None
    for cell in (ready, *shown):
        assert str(home) not in str(cell.displays)
        assert str(home)[1:].replace("/", "-") not in str(cell.displays)
    assert str(home) not in str(failed.error)


def test_after_a_restart_the_first_prompt_goes_on_with_the_notebooks_conversation(tmp_path: Path) -> None:
    environment = private_environment(tmp_path, JPY_SESSION_NAME=str(tmp_path / "a.ipynb"))
    (tmp_path / "a.ipynb").write_text('{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}')
    goes_on = "This notebook's conversation of today"
    for said in ("first", "second"):
        with Kernel(tmp_path, environment) as kernel:
            kernel.run("%load_ext indus_nb")
            begun = kernel.begin(f"%agent --provider offline {said}", asks=True).finish()
            assert (goes_on in str(begun.shown)) == (said == "second")
    with Kernel(tmp_path, environment) as kernel:
        kernel.run("%load_ext indus_nb")
        (listed,) = kernel.begin("%agent fork", asks=True).finish().shown
        assert re.search(r"\d messages  a  +first$", kernel.run("%agent sessions").shown[-1], re.MULTILINE)
        assert "first" in listed
        assert "second" in listed
        assert goes_on in kernel.begin("%agent --provider offline and now?", asks=True).finish().shown[-1]
        assert goes_on not in str(kernel.begin("%agent --new --provider offline third", asks=True).finish().shown)
        assert "first" not in kernel.run("%agent fork").shown[0]


def test_after_a_restart_the_model_is_told_once_that_nothing_from_before_is_there(
    tmp_path: Path, api: MessagesApi
) -> None:
    environment = private_environment(
        tmp_path, JPY_SESSION_NAME=str(tmp_path / "a.ipynb"), ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key"
    )
    (tmp_path / "a.ipynb").write_text('{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}')
    api.default = Reply("Yes.")
    for code in ("sales = [1, 2]", "pass"):
        with Kernel(tmp_path, environment) as kernel:
            kernel.run(f"%load_ext indus_nb\n{code}")
            shown = kernel.begin("%agent how many are there?", asks=True).finish().shown
            kernel.begin("%agent and now?", asks=True).finish()
    assert shown[0].startswith("Context · a new kernel")
    told = json.dumps(api.requests[-1].body["messages"])
    assert told.count("The kernel is a new one since") == 1
    assert told.index("sales: list") < told.index("The kernel is a new one since") < told.rindex("how many are there?")


def test_a_notebook_goes_on_with_its_own_conversation_and_offers_that(tmp_path: Path) -> None:
    names = ("a.ipynb", "b.ipynb")
    environments = [private_environment(tmp_path, JPY_SESSION_NAME=str(tmp_path / name)) for name in names]
    for name in names:
        (tmp_path / name).write_text('{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}')
    for environment, said in zip(environments, ("first", "second"), strict=True):
        with Kernel(tmp_path, environment) as kernel:
            kernel.run("%load_ext indus_nb")
            begun = kernel.run(f"%agent --provider offline {said}")
            assert "This notebook has a conversation" not in str(begun.shown)
    with Kernel(tmp_path, environments[0]) as kernel:
        kernel.run("%load_ext indus_nb")
        assert len(kernel.run("%agent --provider offline").shown) == 1
        answered = kernel.begin("%agent hello", asks=True).finish()  # after which another conversation is the last one
        offered = answered.shown[-1].partition(" · This notebook has a conversation of today, ")[2]
        named = re.search(r" 2 messages: (%agent --session \S{13}) goes on with it.$", offered)
        assert named is not None
        kernel.run(named[1])
        assert "first" in kernel.run("%agent fork").shown[0]
        with Kernel(tmp_path, environments[0]) as other:
            other.run("%load_ext indus_nb")
            refused = fails_shortly(other.run(named[1]))
            assert re.search(
                r"the session is open for writing in a\.ipynb \(process \d+ on .*\)\. Close it there", refused
            )
            assert (
                "If that is another notebook's kernel, shut it down there; `%agent --new` starts another one."
                in refused
            )

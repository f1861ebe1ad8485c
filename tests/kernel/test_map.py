"""``agent.map`` in a cell: its bar, and what an interruption leaves."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest
from kernels import Kernel, private_environment
from messages_api import Gate, HttpError, MessagesApi, Recorded, Reply, Text, ToolUse
from notebook_files import png
from waiting import wait_until


def test_the_cell_shows_how_far_it_is_and_an_interruption_keeps_what_is_done(tmp_path: Path, api: MessagesApi) -> None:
    gate = Gate()

    def answer(request: Recorded) -> Reply:
        content = request.body["messages"][0]["content"]
        row = content if isinstance(content, str) else content[0]["text"]
        return Reply(row) if int(row) < 3 else Reply(Text("late ", gate, row))

    api.default = answer  # type: ignore[assignment]
    environment = private_environment(tmp_path, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    with Kernel(tmp_path, environment) as kernel:
        kernel.run("from indus_nb import agent")
        cell = kernel.begin("done = agent.map('{item}', range(40), parallel=2, model='claude-haiku-4-5')")
        cell.wait_for(lambda cell: any(text.startswith("3 of 40 rows, $") for text in cell.shown))
        kernel.interrupt()
        cell.wait_for(lambda cell: cell.shown[-1].endswith("rows that were asked come to their end"))
        gate.open()
        assert cell.finish().status == "error"
        (shown,) = cell.shown
        assert shown.startswith("5 of 40 rows, $")
        assert shown.endswith("stopped")
        (bundles,) = cell.displays.values()
        assert '<progress max="40" value="5"' in bundles[-1]["text/html"]
        assert "agent.interrupted has the answers so far, agent.interrupted.retry() asks" in cell.error["evalue"]
        kept = kernel.run("done = agent.interrupted\nprint([*done][:6], done.failed == [*range(5, 40)])").streams
        assert kept == "['0', '1', '2', 'late 3', 'late 4', None] True\n"


def test_an_interrupt_ends_it_in_a_cell_that_awaits_too_and_in_one_that_should_not(
    tmp_path: Path, api: MessagesApi
) -> None:
    gate = Gate()
    api.default = lambda _: Reply(Text("late", gate))  # type: ignore[assignment]
    environment = private_environment(tmp_path, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    asked = "agent.map('{item}', range(40), parallel=2, model='claude-haiku-4-5')"
    with Kernel(tmp_path, environment) as kernel:
        kernel.run("import asyncio\nfrom indus_nb import agent")
        for code in (f"await asyncio.sleep(0)\ndone = {asked}", f"done = await {asked}"):
            before = len(api.requests)
            cell = kernel.begin(code)
            wait_until(lambda before=before: len(api.requests) == before + 2)
            kernel.interrupt()
            cell.wait_for(lambda cell: "rows that were asked come to their end" in "".join(cell.shown))
            kernel.interrupt()
            assert cell.finish().status == "error"
            assert "agent.interrupted has the answers so far" in cell.error["evalue"]
            assert kernel.run("print(len(agent.interrupted.failed))").streams == "40\n"
        gate.open()
        assert kernel.run(f"done = await {asked}\nprint(done[39])").streams == "late\n"


def test_map_of_the_magic_asks_the_conversations_model_and_puts_the_answers_into_a_variable(
    tmp_path: Path, api: MessagesApi
) -> None:
    api.default, before = Reply("seven"), len(api.requests)
    environment = private_environment(tmp_path, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    with Kernel(tmp_path, environment) as kernel:
        kernel.run("%load_ext indus_nb\nrows = [{'text': '3 bolts'}, {'text': '{text}'}]")
        kernel.run("%agent --model claude-haiku-4-5 --no-session")
        cell = kernel.run('%agent map -o kinds --parallel 1 "What is {text}?" over rows')
        assert cell.status == "ok"
        progress, summary = cell.shown
        assert progress.startswith("2 of 2 rows, $0.00")
        assert summary.startswith("2 rows, 2 answered, $0.00")
        assert summary.endswith(": kinds has the answers, kinds.frame the data with them.")
        assert kernel.run("print(list(kinds))").streams == "['seven', 'seven']\n"
        below = kernel.run("%%agent map -o first over rows[:1]\nSay of\n{text}")
        assert below.status == "ok"
        kernel.run("from indus_nb import agent\nagent.map('{item}', ['3 bolts'], progress=False)")
        kernel.run("agent.map('{item}', ['3 bolts'], model='claude-sonnet-4-5', progress=False)")
        *asked, of_code, of_another = [request.body for request in api.requests[before:]]
        assert [body["model"] for body in [*asked, of_code]] == ["claude-haiku-4-5"] * 4
        assert of_another["model"].startswith("claude-sonnet-4-5")
        assert progress.endswith(", Claude Haiku 4.5")
        prompts = [body["messages"][0]["content"][0]["text"] for body in asked]
        assert prompts == ["What is 3 bolts?", "What is {text}?", "Say of\n3 bolts"]


def test_map_of_the_magic_reads_the_columns_of_files(tmp_path: Path, api: MessagesApi) -> None:
    api.default, before = Reply("red"), len(api.requests)
    (tmp_path / "a.png").write_bytes(base64.b64decode(png()))
    environment = private_environment(tmp_path, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    with Kernel(tmp_path, environment) as kernel:
        kernel.run("%load_ext indus_nb\nrows = [{'name': 'a.png', 'photo': 'a.png', 'back': 'a.png'}]")
        line = '%agent map -o k --files photo,back --model claude-haiku-4-5 "{name} {photo} {back}" over rows'
        assert kernel.run(line).status == "ok"
    (request,) = api.requests[before:]
    text, *images = request.body["messages"][0]["content"]
    assert text["text"] == "a.png [image 1] [image 2]"
    assert [image["source"]["data"] for image in images] == [png()] * 2


def test_map_of_the_magic_names_what_is_wrong_and_asks_nothing(tmp_path: Path, api: MessagesApi) -> None:
    environment = private_environment(tmp_path, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    before = len(api.requests)
    with Kernel(tmp_path, environment) as kernel:
        kernel.run("%load_ext indus_nb\nrows = [{'text': 'a'}]")
        for line, said in (
            ('%agent map -o k "{text}" over missing', "over missing: NameError: name 'missing' is not defined"),
            ('%agent map -o k "{txt}" over rows', "txt"),
            ('%agent map -o k --result Order "{text}" over rows', "--result Order: there is no type Order here"),
        ):
            cell = kernel.run(line)
            assert cell.status == "error"
            assert said in cell.error["evalue"]
        assert kernel.run("%agent map").shown[0].startswith("%agent map [options] -o NAME")
        assert "k" not in kernel.run("print(sorted(name for name in globals() if len(name) == 1))").streams
        assert len(api.requests) == before


def test_the_functions_of_a_cell_run_in_the_engine_that_it_names(tmp_path: Path, api: MessagesApi) -> None:
    def answer(request: Recorded) -> Reply:
        said = request.body["messages"][-1]["content"][0]
        if said["type"] == "tool_result":
            return Reply(f"It is {said['content'][0]['text']}.")
        return Reply(ToolUse("process_of", {"number": int(said["text"])}))

    api.default = answer  # type: ignore[assignment]
    environment = private_environment(tmp_path, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    with Kernel(tmp_path, environment) as kernel:
        kernel.run(
            "%load_ext indus_nb\nfrom indus_nb import agent\nimport os\n"
            "from concurrent.futures import ProcessPoolExecutor\nfrom multiprocessing import get_context\n"
            "pool = ProcessPoolExecutor(1, mp_context=get_context('spawn'))\n"
            "def process_of(number: int) -> str:\n    'Find it.'\n    return f'{os.getpid()}'\nagent.tool(process_of)"
        )
        line = '%agent map -o k --tools process_of --engine pool --model claude-haiku-4-5 "{item}" over range(3)'
        cell = kernel.run(line, timeout=60)
        assert cell.status == "ok"
        told = kernel.run("print({*k} == {f'It is {pool.submit(os.getpid).result()}.'}, pool.shutdown())").streams
        assert told == "True None\n"
        wrong = kernel.run(line.replace("--engine pool", "--engine pol"))
        assert wrong.error["evalue"].startswith("--engine pol: NameError: name 'pol' is not defined")


@pytest.mark.parametrize(("answer", "answered"), [("y", 9), ("n", 3)])
def test_after_a_sample_the_user_says_whether_the_other_rows_are_asked(
    tmp_path: Path, api: MessagesApi, answer: str, answered: int
) -> None:
    api.default = Reply("seven")
    environment = private_environment(tmp_path, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    with Kernel(tmp_path, environment) as kernel:
        kernel.run("%load_ext indus_nb\nrows = list(range(9))")
        kernel.run("%agent --model claude-haiku-4-5 --no-session")
        cell = kernel.begin('%agent map -o kinds --sample 3 "What is {item}?" over rows', asks=True)
        assert "Go on with the other 6 rows for about $0.0" in cell.answer(answer)
        assert cell.finish().status == "ok"
        assert any("<table>" in bundle.get("text/html", "") for each in cell.displays.values() for bundle in each)
        assert kernel.run("print(len(kinds) - len(kinds.failed))").streams == f"{answered}\n"


def test_the_cell_says_why_rows_failed(tmp_path: Path, api: MessagesApi) -> None:
    good: set[str] = set()  # the rows of the sample

    def answer(request: Recorded) -> Reply | HttpError:
        row = request.texts[-1]
        if len(good) < 2 or row in good:
            good.add(row)
            return Reply("seven")
        return HttpError(400, "invalid_request_error", "costs $1")

    api.default = answer  # type: ignore[assignment]
    environment = private_environment(tmp_path, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    with Kernel(tmp_path, environment) as kernel:
        kernel.run("%load_ext indus_nb")
        kernel.run("%agent --model claude-haiku-4-5 --no-session")
        cell = kernel.begin('%agent map -o kinds --sample 2 "{item}" over range(8)', asks=True)
        cell.answer("y")
        assert cell.finish().status == "ok"
        assert re.search(
            r"8 rows, 2 answered, 2 of them before, 6 failed, .*6 rows .*costs \$1", cell.shown[-1], re.DOTALL
        )


def test_where_nobody_can_answer_a_sample_asks_nothing(tmp_path: Path, api: MessagesApi) -> None:
    api.default = Reply("seven")
    environment = private_environment(tmp_path, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    with Kernel(tmp_path, environment) as kernel:
        kernel.run("%load_ext indus_nb")
        kernel.run("%agent --model claude-haiku-4-5 --no-session")
        cell = kernel.run('%agent map -o kinds --sample 3 "What is {item}?" over range(9)')
        assert (cell.status, cell.shown[-1].startswith("9 rows, 3 answered, 6 not asked")) == ("ok", True)


def test_an_interrupt_at_the_question_after_a_sample_fails_the_cell_and_keeps_the_answers(
    tmp_path: Path, api: MessagesApi
) -> None:
    api.default = Reply("seven")
    environment = private_environment(tmp_path, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    with Kernel(tmp_path, environment) as kernel:
        kernel.run("%load_ext indus_nb")
        kernel.run("%agent --model claude-haiku-4-5 --no-session")
        cell = kernel.begin('%agent map -o kinds --sample 3 "What is {item}?" over range(9)', asks=True)
        cell.answer(None)
        kernel.interrupt()
        assert cell.finish().status == "error"
        assert "kinds has the answers so far, kinds.retry() asks for the others" in cell.error["evalue"]
        assert kernel.run("print(len(kinds) - len(kinds.failed))").streams == "3\n"
        assert "<code>kinds.retry()</code> asks for" in kernel.run("kinds").results[-1]["text/html"]
        assert (
            "<code>retry()</code> of this result asks for"
            in kernel.run("kinds.retry(max_cost=1e-9)").results[-1]["text/html"]
        )


def test_a_map_that_is_stopped_in_a_task_of_the_users_fails_its_cell_and_not_the_kernel(
    tmp_path: Path, api: MessagesApi
) -> None:
    api.default = Reply("seven")
    environment = private_environment(tmp_path, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    with Kernel(tmp_path, environment) as kernel:
        kernel.run(
            "import asyncio\nfrom indus_nb import agent\nfrom indus_nb.fanout.reporting import Reporter\n"
            "class Stopping(Reporter):\n    def begin(self, stop): self.stop = stop\n"
            "    def show(self, progress):\n        if progress.done: self.stop()\n"
            "from indus_nb.base import front_end\nfront_end.reporter = lambda shows: Stopping()\n"
            "async def asked(): return agent.map('{item}', range(9), parallel=1, rpm=30, model='claude-haiku-4-5')\n"
        )
        cell = kernel.run("await asyncio.gather(asked(), asked())")
        assert cell.status == "error"
        assert "agent.interrupted has the answers so far" in cell.error["evalue"]
        assert kernel.run("print(len(agent.interrupted) - len(agent.interrupted.failed))").streams == "1\n"


def test_what_is_wrong_with_a_call_is_shown_at_the_line_of_the_user(tmp_path: Path) -> None:
    with Kernel(tmp_path, private_environment(tmp_path)) as kernel:
        kernel.run("from indus_nb import agent\ndef asked():\n    return agent.map('{a}', [{'b': 1}])")
        shown = "\n".join(kernel.run("asked()").error["traceback"])
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert "----> 3     return agent.map('{a}', [{'b': 1}])" in plain
    assert plain.endswith("UsageError: The prompt names {a}, which the data does not have. Its columns are: b.")
    assert ".py" not in plain

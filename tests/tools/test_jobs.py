"""Tool calls that go on as jobs: real processes, and sessions with a scripted model."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from gates import RecordingGate
from living import lives
from messages_api import Gate, MessagesApi, Reply, Text, ToolUse
from waiting import until

from indus_nb.base.events import SessionEvent, ToolOutput
from indus_nb.base.messages import CustomMessage, UserMessage, text_of
from indus_nb.core.session.session import AgentSession
from indus_nb.safety.effects import Effect
from indus_nb.start import SessionOptions, open_session
from indus_nb.tools import ToolContext, ToolError, builtin_tools
from indus_nb.tools.jobs import Jobs
from indus_nb.tools.tool import text_output

WAITS = "echo begun; until [ -e go ]; do sleep 0.05; done; echo over"
SHORT = 0.3


@pytest.fixture(autouse=True)
def temporary_files(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


class Desk:
    """The tools of a directory, with the jobs that they start."""

    def __init__(self, cwd: Path, after: float = SHORT) -> None:
        self.cwd = cwd
        self.jobs = Jobs(after)
        self.tools = builtin_tools(cwd, jobs=self.jobs)

    async def call(
        self, tool: str, /, *, report: Callable[[ToolOutput], None] = lambda _: None, **arguments: Any
    ) -> ToolOutput:
        chosen = self.tools[tool]
        return await chosen.execute(chosen.check(arguments), ToolContext("1", report))

    async def text(self, tool: str, /, **arguments: Any) -> str:
        return (await self.call(tool, **arguments)).content[0].text

    async def failure(self, tool: str, /, **arguments: Any) -> str:
        with pytest.raises(ToolError) as caught:
            await self.call(tool, **arguments)
        return str(caught.value)

    def go(self) -> None:
        (self.cwd / "go").touch()


@pytest.fixture
async def desk(tmp_path: Path):
    desk = Desk(tmp_path)
    yield desk
    await desk.jobs.close()


async def test_a_command_that_ends_in_time_is_no_job(desk: Desk) -> None:
    desk.jobs.after = 1000
    assert await desk.text("bash", command="echo done") == "done\n"
    assert await desk.text("job", action="list") == "There are no jobs."
    assert "exited with code 3" in await desk.failure("bash", command="exit 3")


async def test_a_command_that_takes_long_goes_on_as_a_job_that_says_what_it_prints(desk: Desk) -> None:
    output = await desk.call("bash", command=WAITS)
    assert "goes on as job-1. Its last lines:\nbegun" in output.content[0].text
    assert output.details["job"].items() >= {"id": "job-1", "tool": "bash", "state": "running"}.items()
    assert (await desk.text("job", action="list")).startswith("job-1 (bash: echo begun; until [ -e go ]")
    assert (await desk.text("job", action="look")).endswith("begun")
    desk.go()
    said = await desk.text("job", action="wait", id="job-1")
    assert " ended after " in said
    assert said.endswith("begun\nover\n")


async def test_a_wait_ends_after_its_seconds_and_the_job_goes_on(desk: Desk) -> None:
    await desk.call("bash", command=WAITS)
    assert " has run for " in await desk.text("job", action="wait", seconds=0.2)
    assert [job.state for job in desk.jobs.all] == ["running"]


async def test_a_wait_that_is_cancelled_ends_at_once_and_the_job_goes_on(desk: Desk) -> None:
    await desk.call("bash", command=WAITS)
    reports: list[ToolOutput] = []
    waiting = asyncio.create_task(desk.call("job", action="wait", seconds=3600, report=reports.append))
    await until(lambda: reports)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert [job.state for job in desk.jobs.all] == ["running"]


async def test_a_stopped_job_leaves_no_process_and_keeps_what_it_printed(desk: Desk) -> None:
    await desk.call("bash", command="echo $$ > pid; sleep 1000 & echo begun; sleep 1000")
    await until(lambda: "begun" in desk.jobs.all[0].text)
    group = [psutil.Process(int((desk.cwd / "pid").read_text()))]
    group += group[0].children(recursive=True)
    said = await desk.text("job", action="stop")
    assert " was stopped after " in said
    assert "begun" in said
    await until(lambda: all(not lives(process.pid) for process in group))
    assert " was stopped after " in await desk.text("job", action="stop", id="1")


async def test_a_job_from_the_beginning_is_waited_for_only_a_moment_and_what_fails_at_once_is_said_at_once(
    tmp_path: Path,
) -> None:
    desk = Desk(tmp_path, after=1000)
    assert "goes on as job-1" in await desk.text("bash", command=WAITS, background=True)
    assert "exited with code 4" in await desk.failure("bash", command="exit 4", background=True)
    await desk.jobs.close()


async def test_a_call_with_a_timeout_of_its_own_still_ends_by_it(desk: Desk) -> None:
    said = await desk.failure("bash", command="echo begun; sleep 1000", timeout=2 * SHORT)
    assert said == "begun\n\n\nCommand timed out after 0.6 seconds"
    assert desk.jobs.all == []
    await desk.call("bash", command="echo begun; sleep 1000", background=True, timeout=1.5)
    assert " failed after " in (said := await desk.text("job", action="wait"))
    assert said.endswith("Command timed out after 1.5 seconds")


async def test_a_call_that_is_cancelled_in_time_ends_its_command(desk: Desk) -> None:
    reports: list[ToolOutput] = []
    desk.jobs.after = 1000
    call = asyncio.create_task(desk.call("bash", command="echo begun; sleep 1000", report=reports.append))
    await until(lambda: any(report.content for report in reports))
    call.cancel()
    with pytest.raises(ToolError, match="begun\n\n\nCommand aborted"):
        await call
    assert desk.jobs.all == []


async def test_a_job_that_fails_says_how(desk: Desk) -> None:
    await desk.call("bash", command=f"{WAITS}; exit 7")
    desk.go()
    said = await desk.text("job", action="wait")
    assert " failed after " in said
    assert said.endswith("Command exited with code 7")


async def test_of_a_progress_bar_the_newest_state_is_shown(desk: Desk) -> None:
    bar = r"for i in 1 2 3; do printf '\r%d of 9' $i; done; until [ -e go ]; do sleep 0.05; done"
    await desk.call("bash", command=bar)
    await until(lambda: "3 of 9" in desk.jobs.all[0].text)
    assert (await desk.text("job", action="look")).endswith("Its last lines:\n3 of 9")


async def test_only_the_last_lines_of_much_output_are_shown_and_all_of_it_is_in_a_file(desk: Desk) -> None:
    await desk.call("bash", command="seq 1 30000; until [ -e go ]; do sleep 0.05; done")
    await until(lambda: desk.jobs.all[0].text.rstrip().endswith("30000"))
    look = await desk.text("job", action="look")
    assert look.endswith("…\n" + "\n".join(str(number) for number in range(29_981, 30_001)))
    desk.go()
    said = await desk.text("job", action="wait")
    kept = Path(said.rpartition("Full output: ")[2].rstrip("]"))
    assert kept.read_text().startswith("1\n2\n3\n")


async def test_a_job_that_prints_on_and_on_holds_no_more_than_the_end(desk: Desk) -> None:
    await desk.call(
        "bash", command="yes 'a line of some length' | head -n 400000; until [ -e go ]; do sleep 0.05; done"
    )
    (job,) = desk.jobs.all
    await until(lambda: job.output.details["truncation"] and job.output.details["truncation"]["totalLines"] == 400_000)
    assert len(job.text) < 100_000


async def test_a_job_is_found_by_its_handle_or_number_and_one_that_is_not_there_is_named(desk: Desk) -> None:
    assert "There are no jobs. Nothing was done." in await desk.failure("job", action="look")
    await desk.call("bash", command=WAITS)
    await desk.call("bash", command=WAITS)
    assert (await desk.text("job", action="look", id="2")).startswith("job-2 ")
    assert await desk.failure("job", action="look", id="job-3") == (
        "There is no job job-3. There are job-1, job-2. Nothing was done."
    )
    assert "Name the job by its id." in await desk.failure("job", action="look")


async def test_many_jobs_that_ended_are_forgotten(desk: Desk) -> None:
    desk.jobs.after = 0.01
    for _ in range(55):
        await desk.call("bash", command=WAITS)
        desk.go()
        await desk.call("job", action="wait")
        (desk.cwd / "go").unlink()
    assert len(desk.jobs.all) == 50
    assert desk.jobs.all[-1].id == "job-55"


async def test_closing_ends_all_jobs(desk: Desk) -> None:
    await desk.call("bash", command="echo $$ > pid; echo begun; sleep 1000")
    await until(lambda: desk.jobs.all[0].text)
    await desk.jobs.close()
    await until(lambda: not lives(int((desk.cwd / "pid").read_text())))
    assert [job.state for job in desk.jobs.all] == ["stopped"]


class OpenGate(RecordingGate):
    """Leaves its questions open until they are answered with yes."""

    def __init__(self) -> None:
        super().__init__(answer="run")
        self.yes = asyncio.Event()

    async def ask(self, *given: Any, **more: Any) -> Any:
        answer = await super().ask(*given, **more)
        await self.yes.wait()
        return answer


def begin_asking(
    desk: Desk, gate: OpenGate, first: asyncio.Event | None = None, trial: asyncio.Future[None] | None = None
) -> asyncio.Task[ToolOutput]:
    """Begin a call that was tried, asks whether it may run, and runs until the desk goes."""

    async def work(context: ToolContext) -> ToolOutput:
        assert context.gate is not None
        context.report(text_output("12", {"ran": "copy"}))
        if first is not None:
            await first.wait()
        effects = [] if trial is not None else [Effect("changes_variable", "n", "assigns n")]
        await context.gate.ask(effects, outcome="prints 12", trial=trial)
        context.report(text_output("begun"))
        await until((desk.cwd / "go").exists)
        return text_output("over")

    context = ToolContext("1", lambda _: None, gate=gate)
    return asyncio.create_task(desk.jobs.run(work, context, tool="python", what="print(12)"))


async def test_a_call_whose_question_is_open_waits_and_goes_on_as_a_job_only_when_it_runs_long(desk: Desk) -> None:
    gate = OpenGate()
    call = begin_asking(desk, gate)
    await until(lambda: gate.asked)
    await desk.call("bash", command=WAITS)  # is a job once the time of both is over
    assert [job.tool for job in desk.jobs.all] == ["bash"]
    assert not call.done()
    gate.yes.set()
    assert (await call).content[0].text.startswith("It still runs, and goes on as job-2. Its last lines:\nbegun")
    desk.go()
    assert (await desk.text("job", action="wait", id="2")).endswith("over")


async def test_a_call_that_may_take_all_time_is_asked_about_and_waited_for(desk: Desk) -> None:
    gate = OpenGate()
    desk.go()
    context = ToolContext("1", lambda _: None, gate=gate)

    async def work(context: ToolContext) -> ToolOutput:
        assert context.gate is not None
        await context.gate.ask([])
        return text_output("over")

    gate.yes.set()
    output = await desk.jobs.run(work, context, tool="python", what="print(12)", waits=True)
    assert output.content[0].text == "over"


async def test_a_call_whose_question_is_open_ends_with_its_run(desk: Desk) -> None:
    gate = OpenGate()
    call = begin_asking(desk, gate)
    await until(lambda: gate.asked)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert desk.jobs.all == []


async def test_of_a_job_that_asks_whether_it_may_run_the_model_reads_that_nothing_has_run(desk: Desk) -> None:
    gate, tried = OpenGate(), asyncio.Event()
    await begin_asking(desk, gate, tried)
    assert " has run for " in await desk.text("job", action="look")
    tried.set()
    await until(lambda: gate.asked)
    said = await desk.text("job", action="look")
    assert said.startswith(
        "job-1 (python: print(12)) waits for the user's answer: nothing has run yet, but for a try in a copy."
    )
    gate.yes.set()
    await until(lambda: "begun" in desk.jobs.all[0].text)
    assert " has run for " in await desk.text("job", action="look")
    desk.go()
    assert " ended after " in await desk.text("job", action="wait")


@pytest.mark.parametrize("goes_on", [False, True])
async def test_the_time_of_a_job_stands_still_while_the_user_is_asked_unless_its_code_runs_meanwhile(
    desk: Desk, goes_on: bool
) -> None:
    gate, tried = OpenGate(), asyncio.Event()
    await begin_asking(desk, gate, tried, asyncio.get_running_loop().create_future() if goes_on else None)
    tried.set()
    await until(lambda: gate.asked)
    (job,) = desk.jobs.all
    before = job.seconds
    end = time.monotonic() + 0.05
    await until(lambda: time.monotonic() > end)
    assert (job.seconds > before) is goes_on
    assert (" has run for " in job.describe()) is goes_on
    said_yes = time.monotonic()
    gate.yes.set()
    await until(lambda: "begun" in job.text)
    seconds = job.seconds
    assert time.monotonic() - seconds >= said_yes  # what ran until then was a try
    desk.go()
    await desk.text("job", action="wait")


async def test_to_look_after_jobs_needs_no_question(desk: Desk) -> None:
    described = desk.tools["job"].describe_call({"action": "stop", "id": "job-1"})
    assert not described.has_effects
    assert described.summary == "stop job-1"


# In a session


@pytest.fixture
def open_one(
    messages_api: MessagesApi, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Callable[..., AgentSession]]:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", messages_api.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test")
    monkeypatch.setenv("INDUS_NB_AGENT_DIR", str(tmp_path / "agent"))
    opened: list[AgentSession] = []

    def open_one(settings: object = None, **options: Any) -> AgentSession:
        (tmp_path / "agent").mkdir(exist_ok=True)
        (tmp_path / "agent" / "settings.json").write_text(json.dumps(settings or {}))
        usual = {"usual_jobs_after": SHORT, "cwd": tmp_path, "no_session": True}
        wanted = {**usual, "model": "claude-haiku-4-5", "thinking": "off", **options}
        opened.append(open_session(SessionOptions(**wanted)))
        return opened[-1]

    yield open_one
    for session in opened:
        session.close()


def told(session: AgentSession) -> list[str]:
    return [text_of(message.content) for message in session.messages if isinstance(message, CustomMessage)]


def offered(api: MessagesApi) -> list[str]:
    return [tool["name"] for tool in api.requests[-1].body["tools"]]


async def test_without_jobs_the_model_is_offered_what_it_always_was(
    open_one: Callable[..., AgentSession], messages_api: MessagesApi
) -> None:
    messages_api.add("Hello.")
    await open_one(usual_jobs_after=None).prompt("hi")
    assert offered(messages_api) == ["read", "bash", "edit", "write"]
    assert [*messages_api.requests[0].body["tools"][1]["input_schema"]["properties"]] == ["command", "timeout"]


@pytest.mark.parametrize(
    ("settings", "options", "after"),
    [
        ({}, {}, SHORT),
        ({"jobs": {"afterSeconds": 7}}, {}, 7),
        ({"jobs": {"afterSeconds": 7}}, {"usual_jobs_after": None}, 7),
        ({"jobs": {"afterSeconds": 0}}, {}, None),
        ({"jobs": {"afterSeconds": 7}}, {"jobs_after": 0}, None),
        ({"jobs": {"afterSeconds": 7}}, {"jobs_after": 5}, 5),
    ],
)
def test_after_how_long_a_call_becomes_a_job_is_said_by_options_then_settings_then_the_interface(
    open_one: Callable[..., AgentSession], settings: object, options: dict[str, Any], after: float | None
) -> None:
    jobs = open_one(settings, **options).settings.jobs
    assert (jobs.after if jobs else None) == after


def test_a_recorded_conversation_has_no_jobs(
    open_one: Callable[..., AgentSession], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("INDUS_NB_CASSETTE", str(tmp_path / "cassette.json"))
    assert open_one().settings.jobs is None


async def test_a_tool_that_starts_jobs_brings_the_one_that_looks_after_them(
    open_one: Callable[..., AgentSession], messages_api: MessagesApi
) -> None:
    messages_api.add("Hello.", "Hello.")
    session = open_one(tools=["bash"])
    await session.prompt("hi")
    assert offered(messages_api) == ["bash", "job"]
    session.set_active_tools(["read"])
    await session.prompt("hi")
    assert offered(messages_api) == ["read"]


async def test_when_a_job_ends_while_the_session_is_idle_the_model_is_told_by_a_turn(
    open_one: Callable[..., AgentSession], messages_api: MessagesApi, tmp_path: Path
) -> None:
    session = open_one()
    events: list[SessionEvent] = []
    session.subscribe(events.append)
    messages_api.add(Reply(ToolUse("bash", {"command": WAITS})), Reply("It runs."), Reply("It has ended."))
    await session.prompt("go")
    assert session.last_text == "It runs."
    assert not session.is_running
    (tmp_path / "go").touch()
    await until(lambda: len(messages_api.requests) == 3)
    await session.wait_until_idle()
    assert session.last_text == "It has ended."
    (text,) = messages_api.requests[-1].texts
    assert text.startswith("job-1 (bash: echo begun; until [ -e go ]")
    assert text.endswith("begun\nover\n")
    assert [event.type for event in events].count("agent_settled") == 2


async def test_a_job_that_ends_during_a_run_is_told_when_that_would_end_and_the_run_goes_on(
    open_one: Callable[..., AgentSession], messages_api: MessagesApi, tmp_path: Path
) -> None:
    session = open_one()
    gate = Gate()
    messages_api.add(
        Reply(ToolUse("bash", {"command": WAITS})), Reply(Text("I wait", gate, " a little.")), Reply("Seen.")
    )
    prompting = asyncio.create_task(session.prompt("go"))
    await asyncio.to_thread(gate.reached.wait, 240)
    (tmp_path / "go").touch()
    jobs = session.settings.jobs
    assert jobs is not None
    await until(lambda: not jobs.running)
    gate.open()
    await prompting
    assert session.last_text == "Seen."
    assert len(told(session)) == 1


async def test_the_model_is_not_told_again_of_what_its_tool_has_told(
    open_one: Callable[..., AgentSession], messages_api: MessagesApi, tmp_path: Path
) -> None:
    session = open_one()
    messages_api.add(
        Reply(ToolUse("bash", {"command": "sleep 1; echo over"})),
        Reply(ToolUse("job", {"action": "wait"})),
        Reply("Over."),
    )
    await session.prompt("go")
    assert messages_api.requests[-1].texts[0].endswith("over\n")
    assert told(session) == []


async def test_with_the_setting_off_the_model_is_told_with_the_next_prompt(
    open_one: Callable[..., AgentSession], messages_api: MessagesApi, tmp_path: Path
) -> None:
    session = open_one({"jobs": {"startTurn": False}})
    messages_api.add(Reply(ToolUse("bash", {"command": WAITS})), Reply("It runs."), Reply("I see."))
    await session.prompt("go")
    (tmp_path / "go").touch()
    jobs = session.settings.jobs
    assert jobs is not None
    await until(lambda: jobs.all[0].told)
    assert len(messages_api.requests) == 2
    await session.prompt("and now?")
    assert [type(message) for message in session.messages[-3:-1]] == [UserMessage, CustomMessage]
    assert told(session)[0].endswith("begun\nover\n")


async def test_an_abort_ends_the_run_and_not_its_jobs(
    open_one: Callable[..., AgentSession], messages_api: MessagesApi
) -> None:
    session = open_one()
    messages_api.add(Reply(ToolUse("bash", {"command": WAITS})), Reply(ToolUse("job", {"action": "wait"})))
    prompting = asyncio.create_task(session.prompt("go"))
    await until(lambda: len(messages_api.requests) == 2)
    await session.abort()
    await prompting
    jobs = session.settings.jobs
    assert jobs is not None
    assert [job.state for job in jobs.all] == ["running"]
    await jobs.close()


async def test_another_session_in_its_place_ends_the_jobs(
    open_one: Callable[..., AgentSession], messages_api: MessagesApi, tmp_path: Path
) -> None:
    session = open_one()
    messages_api.add(Reply(ToolUse("bash", {"command": "echo $$ > pid; sleep 1000"})), Reply("It runs."))
    await session.prompt("go")
    await session.new_session()
    await until(lambda: not lives(int((tmp_path / "pid").read_text())))
    assert session.messages == []
    assert len(messages_api.requests) == 2


async def test_a_conversation_that_goes_on_elsewhere_is_told_of_the_jobs_whose_end_was_never_reported(
    open_one: Callable[..., AgentSession], messages_api: MessagesApi, tmp_path: Path
) -> None:
    first = open_one(no_session=False)
    messages_api.add(
        Reply(ToolUse("bash", {"command": "sleep 1; echo over"})),
        Reply(ToolUse("job", {"action": "wait"})),
        Reply(ToolUse("bash", {"command": WAITS})),
        Reply("It runs."),
    )
    await first.prompt("go")
    first.close()
    messages_api.add("I see.", "Yes.")
    second = open_one(no_session=False, continue_last=True)
    await second.prompt("and?")
    await second.prompt("sure?")
    assert [text.partition(":")[0] for text in told(second)] == ["job-2 (bash) is over"]


async def test_no_key_is_in_what_is_said_of_a_job(
    open_one: Callable[..., AgentSession], messages_api: MessagesApi, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    key = "s3cr3t-value-of-some-length"
    monkeypatch.setenv("BUILD_API_KEY", key)
    session = open_one()
    command = f"echo {key}; until [ -e go ]; do sleep 0.05; done; echo {key}"
    messages_api.add(Reply(ToolUse("bash", {"command": command})), Reply("It runs."), Reply("Over."))
    await session.prompt("go")
    (tmp_path / "go").touch()
    await until(lambda: len(messages_api.requests) == 3)
    await session.wait_until_idle()
    seen = [json.dumps(request.body["messages"][2:]) for request in messages_api.requests]
    assert not any(key in text for text in seen)
    jobs = session.settings.jobs
    assert jobs is not None
    assert key not in jobs.all[0].what

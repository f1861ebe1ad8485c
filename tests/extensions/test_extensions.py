"""Extensions in a session: every event at its place, every answer as it combines, and defects that harm nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from messages_api import Gate, HttpError, Reply, Text, ToolUse

from indus_nb.base.errors import UsageError
from indus_nb.base.messages import AssistantMessage, CustomMessage, TextContent, ToolResultMessage, UserMessage, text_of
from indus_nb.core.session.session import AgentSession
from indus_nb.extend.api import Context, ExtensionApi, StaleExtensionError
from indus_nb.start import SessionOptions, open_session

Setup = Callable[[ExtensionApi], Any]
LONG = "word " * 400


def watched(session: AgentSession) -> list[Any]:
    events: list[Any] = []
    session.subscribe(events.append)
    return events


def errors_of(events: list[Any]) -> list[tuple[str, str]]:
    return [(event.event, event.error) for event in events if event.type == "extension_error"]


def texts(session: AgentSession) -> list[str]:
    return [text_of(m.content) for m in session.messages if isinstance(m, UserMessage | CustomMessage)]


RUN = """
input before_agent_start agent_start message_start message_end turn_start context before_provider_request
after_provider_response message_update tool_execution_start tool_call tool_begin tool_execution_update tool_result
tool_execution_end turn_end agent_end agent_settled
"""


async def test_the_events_of_a_prompt_come_in_their_order_with_their_fields(opened, messages_api) -> None:
    messages_api.add(Reply(ToolUse("bash", {"command": "echo hi"})), Reply("Done."))
    seen: list[Any] = []

    def setup(api: ExtensionApi) -> None:
        for name in RUN.split():
            api.on(name, lambda event, ctx: seen.append(event))

    session = await opened(setup)
    await session.prompt("go")
    order = [event.type for event in seen]
    once = [name for index, name in enumerate(order) if name != "message_update" and name != order[index - 1]]
    assert once[:9] == [
        "input", "before_agent_start", "agent_start", "turn_start", "message_start", "message_end", "context",
        "before_provider_request", "after_provider_response",
    ]  # fmt: skip
    tool = [name for name in order if name.startswith("tool_") and name != "tool_execution_update"]
    assert tool == ["tool_execution_start", "tool_call", "tool_begin", "tool_result", "tool_execution_end"]
    assert order[-2:] == ["agent_end", "agent_settled"]

    def first(name: str) -> Any:
        return next(event for event in seen if event.type == name)

    assert (first("input").text, first("input").source) == ("go", "interactive")
    assert first("before_agent_start").prompt == "go"
    assert "Current working directory" in first("before_agent_start").system_prompt
    assert first("before_provider_request").payload["model"] == "claude-haiku-4-5"
    assert first("after_provider_response").status == 200
    assert [event.turn_index for event in seen if event.type == "turn_start"] == [0, 1]
    ends = [event for event in seen if event.type == "turn_end"]
    assert [(event.turn_index, len(event.tool_results)) for event in ends] == [(0, 1), (1, 0)]
    assert (first("tool_call").tool_name, first("tool_call").input) == ("bash", {"command": "echo hi"})
    assert (first("tool_result").content[0].text, first("tool_result").is_error) == ("hi\n", False)
    assert isinstance(first("context").messages[0], UserMessage)


async def test_a_handler_gets_the_very_event_of_the_session_and_turns_are_counted_in_each_run(
    opened, messages_api
) -> None:
    messages_api.add(Reply("One."), Reply("Two."))
    seen: list[Any] = []
    names = ("turn_start", "turn_end", "agent_end")

    def setup(api: ExtensionApi) -> None:
        for name in names:
            api.on(name, lambda event, ctx: seen.append(event))

    session = await opened(setup)
    events = watched(session)
    for text in ("first", "second"):
        await session.prompt(text)
    published = [event for event in events if event.type in names]
    assert [*map(id, seen)] == [*map(id, published)]
    starts = [event for event in published if event.type == "turn_start"]
    assert [event.turn_index for event in starts] == [0, 0]
    assert 0 < starts[0].timestamp <= starts[1].timestamp
    assert [event.to_wire() for event in starts] == [{"type": "turn_start"}] * 2


async def test_inputs_are_transformed_one_after_the_other_until_one_is_handled(opened, messages_api) -> None:
    messages_api.add(Reply("Answer."))

    def louder(api: ExtensionApi) -> None:
        api.on("input", lambda event, ctx: {"action": "transform", "text": event.text.upper()})

    def handler(api: ExtensionApi) -> None:
        @api.on("input")
        async def handle(event: Any, ctx: Context) -> Any:
            return {"action": "handled"} if event.text == "PING" else {"action": "transform", "text": event.text + "!"}

    session = await opened(louder, handler)
    await session.prompt("ping")
    assert session.messages == []
    await session.prompt("hello")
    assert texts(session) == ["HELLO!"]


async def test_a_run_may_begin_with_messages_and_another_system_prompt(opened, messages_api) -> None:
    messages_api.add(Reply("One."), Reply("Two."))

    def first(api: ExtensionApi) -> None:
        api.on("before_agent_start", lambda event, ctx: {"systemPrompt": f"{event.system_prompt}\nBe brief."})

    def second(api: ExtensionApi) -> None:
        @api.on("before_agent_start")
        def start(event: Any, ctx: Context) -> Any:
            assert ctx.get_system_prompt().endswith("Be brief.")
            return {
                "message": {"customType": "note", "content": "a note"},
                "system_prompt": event.system_prompt + " Now.",
            }

    session = await opened(first, second)
    await session.prompt("go")
    body = messages_api.requests[0].body
    assert body["system"][0]["text"].endswith("Be brief. Now.")
    assert "a note" in str(body["messages"])
    assert texts(session) == ["go", "a note"]
    assert not session.system_prompt.endswith("Now.")


async def test_what_the_model_is_told_can_be_changed_for_one_request(opened, messages_api) -> None:
    messages_api.add(Reply("Yes."))

    def setup(api: ExtensionApi) -> None:
        @api.on("context")
        def hide(event: Any, ctx: Context) -> Any:
            event.messages[0].content = [TextContent(text="hidden")]
            return {"messages": event.messages}

        @api.on("before_provider_request")
        def tag(event: Any, ctx: Context) -> Any:
            return {**event.payload, "metadata": {"user_id": "u1"}}

    session = await opened(setup)
    await session.prompt("secret")
    body = messages_api.requests[0].body
    assert "secret" not in str(body["messages"])
    assert body["metadata"] == {"user_id": "u1"}
    assert texts(session) == ["secret"]


async def test_a_tool_call_can_be_blocked_or_changed_and_its_result_patched(opened, messages_api) -> None:
    calls = [ToolUse("bash", {"command": command}, id=command) for command in ("echo one", "rm -rf /", "echo three")]
    messages_api.add(Reply(*calls), Reply("Done."))

    def setup(api: ExtensionApi) -> None:
        @api.on("tool_call")
        def gate(event: Any, ctx: Context) -> Any:
            if event.input["command"].startswith("rm"):
                return {"block": True, "reason": "Too dangerous."}
            event.input["command"] = event.input["command"].replace("one", "changed")
            return None

        api.on("tool_result", lambda event, ctx: {"content": [*event.content, {"type": "text", "text": "seen"}]})
        api.on("tool_result", lambda event, ctx: {"is_error": True} if "three" in str(event.content) else None)

    session = await opened(setup)
    await session.prompt("go")
    results = [m for m in session.messages if isinstance(m, ToolResultMessage)]
    assert [text_of(result.content) for result in results] == [
        "changed\n\nseen",
        "Too dangerous.\nseen",
        "three\n\nseen",
    ]
    assert [result.is_error for result in results] == [False, True, True]


@pytest.mark.parametrize("in_place", [True, False])
async def test_the_arguments_that_the_last_handler_sees_are_those_of_the_call(opened, messages_api, in_place) -> None:
    messages_api.add(Reply(ToolUse("bash", {"command": "echo one"})), Reply("Done."))
    seen: list[Any] = []

    def setup(api: ExtensionApi) -> None:
        @api.on("tool_call")
        def replace(event: Any, ctx: Context) -> Any:
            if not in_place:
                return {"input": {"command": "echo two"}}
            event.input = {"command": "echo two"}
            return None

        api.on("tool_call", lambda event, ctx: seen.append(event.input))

    session = await opened(setup)
    await session.prompt("go")
    (result,) = (m for m in session.messages if isinstance(m, ToolResultMessage))
    assert (seen, text_of(result.content)) == ([{"command": "echo two"}], "two\n")


@pytest.mark.parametrize("answer", ["yes", {"blok": True}, {"block": "perhaps"}, RuntimeError("broken")])
async def test_a_gate_that_fails_or_answers_nonsense_lets_nothing_through(opened, messages_api, answer) -> None:
    messages_api.add(Reply(ToolUse("bash", {"command": "touch made"})), Reply("Done."))

    def setup(api: ExtensionApi) -> None:
        @api.on("tool_call")
        def gate(event: Any, ctx: Context) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return answer

    session = await opened(setup)
    events = watched(session)
    await session.prompt("go")
    assert not (session.store.cwd / "made").exists()
    assert [name for name, _ in errors_of(events)] == ["tool_call"]
    (result,) = (m for m in session.messages if isinstance(m, ToolResultMessage))
    assert result.is_error


async def test_a_final_message_can_be_replaced_by_one_of_its_role_only(opened, messages_api) -> None:
    messages_api.add(Reply("My key is 1234."))

    def setup(api: ExtensionApi) -> None:
        @api.on("message_end")
        def censor(event: Any, ctx: Context) -> Any:
            if isinstance(event.message, AssistantMessage):
                return {"message": event.message.replace(content=[TextContent(text="My key is ****.")])}
            return {"message": {"role": "assistant", "content": [], "api": "", "provider": "", "model": ""}}

    session = await opened(setup)
    events = watched(session)
    await session.prompt("go")
    assert session.last_text == "My key is ****."
    assert "1234" not in session.store.path.read_text()
    assert [name for name, _ in errors_of(events)] == ["message_end"]
    assert texts(session) == ["go"]


async def test_a_defect_is_reported_once_and_the_next_handler_is_asked(opened, messages_api) -> None:
    messages_api.add(Reply("Fine."))

    def broken(api: ExtensionApi) -> None:
        api.on("input", lambda event, ctx: 1 / 0)
        api.on("agent_start", lambda event, ctx: {"unexpected": True})

    def sound(api: ExtensionApi) -> None:
        api.on("input", lambda event, ctx: {"action": "transform", "text": "sound"})

    def unloadable(api: ExtensionApi) -> None:
        raise OSError("no such file")

    session = open_session(SessionOptions(provider="offline", no_session=True, extensions=[unloadable, broken, sound]))
    events = watched(session)
    await session.prompt("go")
    assert texts(session) == ["sound"]
    assert errors_of(events) == [
        ("load", "OSError: no such file"),
        ("input", "ZeroDivisionError: division by zero"),
        ("agent_start", "{'unexpected': True} is no answer: agent_start has none"),
    ]
    await session.end()


async def test_a_handler_that_takes_too_long_is_given_up_unless_it_waits_for_the_user(home, messages_api) -> None:
    messages_api.add(Reply("Fine."))
    (home / "agent").mkdir()
    (home / "agent" / "settings.json").write_text('{"extensionHandlers": {"timeoutMs": 200}}')
    answers: list[Any] = []

    def setup(api: ExtensionApi) -> None:
        @api.on("input")
        async def patient(event: Any, ctx: Context) -> None:
            answers.append(await ctx.ui.confirm("Sure?", "Think about it."))

        @api.on("agent_start")
        async def slow(event: Any, ctx: Context) -> None:
            await asyncio.sleep(1000)

    session = open_session(SessionOptions(cwd=home / "work", no_session=True, provider="offline", extensions=[setup]))
    events = watched(session)

    def host(frame: Any) -> None:
        if frame.method == "confirm":
            asyncio.get_running_loop().call_later(0.6, session.ui.answer, frame.id, True)

    session.ui.attach(host)
    await session.prompt("go")
    assert answers == [True]
    assert [name for name, _ in errors_of(events)] == ["agent_start"]
    assert "took longer than 0.2 s" in errors_of(events)[0][1]
    await session.end()


async def test_an_abort_ends_handlers_and_dialogs(opened, messages_api) -> None:
    messages_api.add(Reply(ToolUse("bash", {"command": "touch made"})))
    asked = asyncio.Event()

    def setup(api: ExtensionApi) -> None:
        @api.on("tool_call")
        async def gate(event: Any, ctx: Context) -> Any:
            allowed = await ctx.ui.confirm("Run?", "It makes a file.")
            return None if allowed else {"block": True}

    session = await opened(setup)
    frames: list[Any] = []

    def host(frame: Any) -> None:
        frames.append(frame)
        asked.set()

    session.ui.attach(host)
    running = asyncio.create_task(session.prompt("go"))
    await asyncio.wait_for(asked.wait(), 120)
    await session.abort()
    await running
    assert not (session.store.cwd / "made").exists()
    assert session.ui.open_dialogs == []
    assert session.last_answer.stop_reason in ("aborted", "toolUse")


async def test_a_new_session_begins_with_extensions_anew_and_the_old_objects_are_stale(opened, messages_api) -> None:
    apis: list[ExtensionApi] = []
    contexts: list[Context] = []
    told: list[Any] = []

    def setup(api: ExtensionApi) -> None:
        apis.append(api)
        api.on("session_start", lambda event, ctx: contexts.append(ctx))
        api.on("session_start", lambda event, ctx: told.append(event))
        api.on("session_before_switch", lambda event, ctx: told.append(event))
        api.on("session_shutdown", lambda event, ctx: told.append(event))

    session = await opened(setup)
    first = session.store.path
    messages_api.add(Reply("One."))
    await session.prompt("go")
    assert await session.new_session()
    assert [event.type for event in told] == [
        "session_start", "session_before_switch", "session_shutdown", "session_start",
    ]  # fmt: skip
    assert (told[0].reason, told[3].reason, told[3].previous_session_file) == ("startup", "new", first)
    assert len(apis) == 2
    with pytest.raises(StaleExtensionError):
        apis[0].append_entry("note", 1)
    with pytest.raises(StaleExtensionError):
        apis[0].on("agent_end", print)
    with pytest.raises(StaleExtensionError):
        contexts[0].is_idle()
    assert await session.switch_session(first)
    assert (told[-1].reason, told[-2].reason, told[-2].target_session_file) == ("resume", "resume", first)


@pytest.mark.parametrize("act", ["new", "switch", "fork", "clone"])
async def test_an_extension_can_keep_a_session_from_being_left(opened, messages_api, home, act) -> None:
    def setup(api: ExtensionApi) -> None:
        api.on("session_before_switch", lambda event, ctx: {"cancel": True})
        api.on("session_before_fork", lambda event, ctx: {"cancel": True})

    session = await opened(setup)
    messages_api.add(Reply("One."))
    await session.prompt("go")
    before = session.store.path
    user = next(entry for entry in session.store.entries if entry.type == "message")
    other = home / "other.jsonl"
    other.write_text(before.read_text().replace(session.store.session_id, "other"))
    done = {
        "new": session.new_session,
        "switch": lambda: session.switch_session(other),
        "fork": lambda: session.fork(user.id),
        "clone": session.clone,
    }[act]
    assert not await done()
    assert session.store.path == before


async def test_a_compaction_can_be_written_by_an_extension_or_cancelled(opened, messages_api, home) -> None:
    (home / "agent").mkdir()
    (home / "agent" / "settings.json").write_text('{"compaction": {"keepRecentTokens": 100, "reserveTokens": 2000}}')
    told: list[Any] = []
    cancel = [True]

    def setup(api: ExtensionApi) -> None:
        @api.on("session_before_compact")
        def summarise(event: Any, ctx: Context) -> Any:
            if cancel[0]:
                return {"cancel": True}
            kept = event.preparation.first_kept_entry_id
            return {"compaction": {"summary": "MINE", "firstKeptEntryId": kept, "tokensBefore": 7}}

        api.on("session_compact", lambda event, ctx: told.append(event))

    session = await opened(setup)
    for text in ("first", "second"):
        messages_api.add(Reply(LONG))
        await session.prompt(text)
    with pytest.raises(Exception, match="cancelled"):
        await session.compact()
    cancel[0] = False
    result = await session.compact()
    assert (result.summary, told[0].from_extension) == ("MINE", True)
    assert session.messages[0].summary == "MINE"
    assert len(messages_api.requests) == 2


async def test_going_to_another_branch_can_be_cancelled_or_summarised_by_an_extension(opened, messages_api) -> None:
    answer: dict[str, Any] = {"cancel": True}
    told: list[Any] = []

    def setup(api: ExtensionApi) -> None:
        api.on("session_before_tree", lambda event, ctx: dict(answer))
        api.on("session_tree", lambda event, ctx: told.append(event))

    session = await opened(setup)
    for text in ("first", "second"):
        messages_api.add(Reply("Yes."))
        await session.prompt(text)
    target = next(e for e in session.store.entries if isinstance(e.message, AssistantMessage))
    left = session.store.leaf_id
    assert (await session.navigate(target.id)).cancelled
    assert session.store.leaf_id == left
    answer = {"summary": {"summary": "What was left"}, "label": "here"}
    done = await session.navigate(target.id, summarize=True)
    assert done.summary_entry.data["summary"] == "What was left"
    assert session.store.labels[done.summary_entry.id][0] == "here"
    assert (told[0].old_leaf_id, told[0].from_extension) == (left, True)
    assert len(messages_api.requests) == 2


async def test_the_users_commands_can_be_answered_by_an_extension(opened) -> None:
    def setup(api: ExtensionApi) -> None:
        api.on("user_bash", lambda event, ctx: {"result": {"output": f"not {event.command}", "exitCode": 3}})

    session = await opened(setup)
    result = await session.bash("ls")
    assert (result.output, result.exit_code) == ("not ls", 3)
    assert session.messages[-1].output == "not ls"


async def test_changes_of_model_and_thinking_are_told(opened) -> None:
    told: list[Any] = []

    def setup(api: ExtensionApi) -> None:
        api.on("model_select", lambda event, ctx: told.append((event.previous_model.id, event.model.id)))
        api.on("thinking_level_select", lambda event, ctx: told.append((event.previous_level, event.level)))

    session = await opened(setup)
    await session.set_model(session.registry.find("claude-sonnet-4-5"))
    await session.set_thinking_level("high")
    assert told == [("claude-haiku-4-5", "claude-sonnet-4-5"), ("off", "high")]


async def test_a_function_becomes_a_tool_of_the_running_session(opened, messages_api) -> None:
    api_of: list[ExtensionApi] = []

    def setup(api: ExtensionApi) -> None:
        api_of.append(api)

        @api.tool
        def double(number: int, ctx: Context) -> dict[str, int]:
            """Double a number.

            Args:
                number: what to double
            """
            return {"doubled": 2 * number, "tokens": len(ctx.session.entries) * 0}

    session = await opened(setup)
    messages_api.add(Reply(ToolUse("double", {"number": 21})), Reply(ToolUse("double", {"number": "x"})), Reply("42."))
    await session.prompt("go")
    offered = next(tool for tool in messages_api.requests[0].body["tools"] if tool["name"] == "double")
    assert offered["description"] == "Double a number."
    assert offered["input_schema"]["properties"] == {"number": {"description": "what to double", "type": "integer"}}
    good, bad = (m for m in session.messages if isinstance(m, ToolResultMessage))
    assert '"doubled": 42' in text_of(good.content)
    assert (bad.is_error, "number" in text_of(bad.content)) == (True, True)
    api_of[0].set_active_tools(["read", "nonesuch"])
    assert list(session.active_tools) == ["read"]


async def test_a_function_that_fails_is_told_with_the_type_of_its_error(opened, messages_api) -> None:
    def setup(api: ExtensionApi) -> None:
        @api.tool
        def rows(table: str) -> int:
            return {"people": 12}[table]

    session = await opened(setup)
    messages_api.add(Reply(ToolUse("rows", {"table": "cats"})), Reply("There is none."))
    await session.prompt("go")
    (result,) = (m for m in session.messages if isinstance(m, ToolResultMessage))
    assert (result.is_error, text_of(result.content)) == (True, "KeyError: 'cats'")


async def test_commands_run_at_once_and_clashing_names_are_numbered(opened, messages_api) -> None:
    ran: list[str] = []

    def setup(api: ExtensionApi) -> None:
        @api.command("hello")
        async def hello(arguments: str, ctx: Any) -> None:
            """Say hello."""
            ran.append(arguments)

        @api.command()
        async def start_over(arguments: str, ctx: Any) -> None:
            await ctx.new_session()
            with pytest.raises(StaleExtensionError):
                ctx.is_idle()

    session = await opened(setup, setup)
    assert [command["name"] for command in session.list_commands()] == [
        "hello:1", "start-over:1", "hello:2", "start-over:2",
    ]  # fmt: skip
    await session.prompt("/hello:2 big  world")
    assert (ran, session.messages) == (["big  world"], [])
    with pytest.raises(UsageError, match="cannot be queued"):
        await session.steer("/hello:1 x")
    before = session.store.session_id
    await session.prompt("/start-over:1")
    assert session.store.session_id != before


async def test_messages_of_extensions_reach_the_model_as_they_ask(opened, messages_api) -> None:
    api_of: list[ExtensionApi] = []
    session = await opened(api_of.append)
    api = api_of[0]
    api.send_message("note", "for later", deliver_as="nextTurn")
    api.send_message("note", "now")
    await asyncio.wait_for(_until(lambda: texts(session) == ["now"]), 120)
    messages_api.add(Reply("One."), Reply("Two."))
    api.append_entry("state", {"count": 1})
    await session.prompt("go")
    assert texts(session) == ["now", "go", "for later"]
    api.send_message("note", "and go", trigger_turn=True)
    await asyncio.wait_for(_until(lambda: len(messages_api.requests) == 2), 120)
    await session.wait_until_idle()
    assert texts(session)[-1] == "and go"
    kinds = [entry.type for entry in session.store.entries]
    assert kinds.count("custom_message") == 3
    assert kinds.count("custom") == 1


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


async def test_a_user_message_during_a_run_must_say_how_it_joins(opened, messages_api) -> None:
    api_of: list[ExtensionApi] = []
    session = await opened(api_of.append)
    events = watched(session)
    gate = Gate()
    messages_api.add(Reply(Text("One. ", gate)), Reply("Two."))
    running = asyncio.create_task(session.prompt("go"))
    await asyncio.to_thread(gate.reached.wait, 240)
    api_of[0].send_user_message("/no command", deliver_as="followUp")
    api_of[0].send_user_message("refused")
    await asyncio.wait_for(_until(lambda: bool(errors_of(events)) and session.pending_count == 1), 120)
    gate.open()
    await running
    assert [name for name, _ in errors_of(events)] == ["send_user_message"]
    assert texts(session) == ["go", "/no command"]


async def test_files_and_folders_are_extensions_and_a_reload_reads_them_again(opened, home) -> None:
    folder = home / "work" / ".indusagi" / "extensions"
    (folder / "package").mkdir(parents=True)
    (folder / "listed").mkdir()
    (folder / "one.py").write_text("def setup(api):\n    api.register_command('one', lambda a, c: None)\n")
    (folder / "package" / "__init__.py").write_text(
        "from .part import NAME\nasync def setup(api):\n    api.register_command(NAME, lambda a, c: None)\n"
    )
    (folder / "package" / "part.py").write_text("NAME = 'two'\n")
    (folder / "listed" / "pyproject.toml").write_text('[tool.indus_nb]\nextensions = ["three.py"]\n')
    (folder / "listed" / "three.py").write_text(
        "def setup(api):\n    api.register_command('three', lambda a, c: None)\n"
    )
    (folder / "broken.py").write_text("def setup(api:\n")
    (folder / "_private.py").write_text("raise SystemExit\n")
    session = open_session(SessionOptions(cwd=home / "work", provider="offline", no_session=True, trust=True))
    events = watched(session)
    await session.start()
    assert {command["name"] for command in session.list_commands()} == {"one", "two", "three"}
    ((name, _),) = errors_of(events)
    assert name == "load"
    (folder / "one.py").write_text("def setup(api):\n    api.register_command('uno', lambda a, c: None)\n")
    await session.hooks.reload()
    assert {command["name"] for command in session.list_commands()} == {"uno", "two", "three"}
    await session.end()


async def test_acting_while_being_set_up_is_refused(opened) -> None:
    def acting(api: ExtensionApi) -> None:
        api.append_entry("x", 1)

    session = open_session(SessionOptions(provider="offline", no_session=True, extensions=[acting]))
    events = watched(session)
    await session.start()
    ((_, refused),) = errors_of(events)
    assert "still being set up" in refused
    await session.end()


async def test_extensions_share_a_bus_and_run_programs(opened) -> None:
    heard: list[Any] = []
    api_of: list[ExtensionApi] = []

    def one(api: ExtensionApi) -> None:
        api_of.append(api)
        api.on("session_start", lambda event, ctx: api.events.emit("hello", 5))

    def two(api: ExtensionApi) -> None:
        api.events.on("hello", heard.append)

    await opened(two, one)
    assert heard == [5]
    done = await api_of[0].exec("python3", ["-c", "import sys; print(1); print(2, file=sys.stderr); sys.exit(3)"])
    assert (done.stdout, done.stderr, done.code, done.killed) == ("1\n", "2\n", 3, False)
    late = await api_of[0].exec("sleep", ["1000"], timeout=0.1)
    assert (late.code, late.killed) == (None, True)
    assert (await api_of[0].exec("no-such-program")).code is None


async def test_a_tool_that_says_it_is_enough_ends_the_run(opened, messages_api) -> None:
    from indus_nb.base.events import ToolOutput

    def setup(api: ExtensionApi) -> None:
        @api.tool
        def finish() -> ToolOutput:
            """End it."""
            return ToolOutput(content=[TextContent(text="over")], terminate=True)

    session = await opened(setup)
    messages_api.add(Reply(ToolUse("finish", {})), HttpError(500, "api_error", "must not be asked"))
    await session.prompt("go")
    assert len(messages_api.requests) == 1
    assert isinstance(session.messages[-1], ToolResultMessage)


async def test_extensions_name_more_places_of_skills_and_templates(opened, home, messages_api) -> None:
    (home / "more").mkdir()
    (home / "more" / "greet.md").write_text("Greet $1.")

    def setup(api: ExtensionApi) -> None:
        api.on("resources_discover", lambda event, ctx: {"promptPaths": [str(home / "more")]})

    session = await opened(setup)
    assert [command["name"] for command in session.list_commands()] == ["greet"]
    messages_api.add(Reply("Hello."))
    await session.prompt("/greet Ada")
    assert texts(session) == ["Greet Ada."]


async def test_of_several_objections_the_first_ends_the_asking(opened) -> None:
    asked: list[str] = []

    def objecting(name: str, *, cancel: bool) -> Setup:
        def setup(api: ExtensionApi) -> None:
            api.on("session_before_switch", lambda event, ctx: asked.append(name) or {"cancel": cancel})

        return setup

    session = await opened(objecting("a", cancel=False), objecting("b", cancel=True), objecting("c", cancel=True))
    assert not await session.new_session()
    assert asked == ["a", "b"]


async def test_of_several_results_of_a_users_command_the_first_counts(opened) -> None:
    def answering(output: str) -> Setup:
        return lambda api: api.on("user_bash", lambda event, ctx: {"result": {"output": output}})

    session = await opened(answering("one"), answering("two"))
    assert (await session.bash("ls")).output == "one"


async def test_an_extension_reaches_models_in_a_way_of_its_own(opened, messages_api) -> None:
    def setup(api: ExtensionApi) -> None:
        config = {"baseUrl": messages_api.url, "apiKey": "k", "api": "anthropic-messages", "models": [{"id": "mine"}]}
        api.register_provider("my-cloud", config)

    session = await opened(setup)
    messages_api.add(Reply("From my cloud."))
    await session.set_model(session.registry.find("my-cloud/mine"))
    await session.prompt("hi")
    assert (session.last_text, messages_api.requests[0].body["model"]) == ("From my cloud.", "mine")


async def test_the_name_of_a_session_and_labels_are_told_and_set(opened, messages_api) -> None:
    told: list[Any] = []
    api_of: list[ExtensionApi] = []

    def setup(api: ExtensionApi) -> None:
        api_of.append(api)
        api.on("session_info_changed", lambda event, ctx: told.append(event.name))

    session = await opened(setup)
    messages_api.add(Reply("Yes."))
    await session.prompt("hi")
    api_of[0].set_session_name("My session")
    await asyncio.wait_for(_until(lambda: told == ["My session"]), 120)
    assert api_of[0].get_session_name() == "My session"
    api_of[0].set_label(session.store.leaf_id, "here")
    assert [label for label, _ in session.store.labels.values()] == ["here"]


async def test_a_prompt_that_comes_while_the_session_is_replaced_belongs_to_the_new_one(opened, messages_api) -> None:
    begun = asyncio.Event()

    def setup(api: ExtensionApi) -> None:
        @api.on("session_shutdown")
        async def shut_down(event: Any, ctx: Context) -> None:
            begun.set()
            await asyncio.sleep(0.1)

    session = await opened(setup)
    messages_api.add(Reply("One."), Reply("Two."))
    await session.prompt("first")
    before = session.store.path
    replacing = asyncio.create_task(session.new_session())
    await asyncio.wait_for(begun.wait(), 120)
    await session.prompt("second")
    assert await replacing
    assert texts(session) == ["second"]
    assert "second" not in before.read_text()


async def test_a_prompt_that_comes_while_another_branch_is_gone_to_goes_on_from_there(opened, messages_api) -> None:
    begun = asyncio.Event()

    def setup(api: ExtensionApi) -> None:
        @api.on("session_before_tree")
        async def think(event: Any, ctx: Context) -> None:
            begun.set()
            await asyncio.sleep(0.1)

    session = await opened(setup)
    messages_api.add(Reply("One."), Reply("Two."), Reply("Three."))
    await session.prompt("first")
    await session.prompt("second")
    target = next(e for e in session.store.entries if isinstance(e.message, AssistantMessage))
    going = asyncio.create_task(session.navigate(target.id))
    await asyncio.wait_for(begun.wait(), 120)
    await session.prompt("third")
    await going
    assert texts(session) == ["first", "third"]


async def test_an_abort_is_felt_by_a_tool_that_asked_the_user_before(opened, messages_api) -> None:
    working = asyncio.Event()

    def setup(api: ExtensionApi) -> None:
        @api.tool
        async def slow(ctx: Context) -> str:
            """Work for long."""
            await ctx.ui.confirm("Sure?", "It takes long.", signal=ctx.signal)
            working.set()
            await asyncio.sleep(1000)
            return "done"

    session = await opened(setup)

    def host(frame: Any) -> None:
        if frame.method == "confirm":
            asyncio.get_running_loop().call_soon(session.ui.answer, frame.id, True)

    session.ui.attach(host)
    messages_api.add(Reply(ToolUse("slow", {})))
    running = asyncio.create_task(session.prompt("go"))
    await asyncio.wait_for(working.wait(), 120)
    await asyncio.wait_for(session.abort(), 120)
    await running


async def test_after_an_abort_handlers_still_see_the_run_end(opened, messages_api) -> None:
    told: list[str] = []

    def setup(api: ExtensionApi) -> None:
        for name in ("tool_result", "turn_end", "agent_end", "agent_settled"):

            @api.on(name)
            async def note(event: Any, ctx: Context) -> None:
                await asyncio.sleep(0)
                told.append(event.type)

    session = await opened(setup)
    messages_api.add(Reply(ToolUse("bash", {"command": "echo begun; sleep 1000"})))
    begun = asyncio.Event()
    session.subscribe(lambda event: begun.set() if event.type == "tool_execution_update" else None)
    running = asyncio.create_task(session.prompt("go"))
    await asyncio.wait_for(begun.wait(), 120)
    await session.abort()
    await running
    assert told == ["tool_result", "turn_end", "turn_end", "agent_end", "agent_settled"]


async def test_neither_an_exit_nor_a_cancellation_of_an_extensions_own_ends_a_run(opened, messages_api) -> None:
    async def cancelled() -> None:
        task = asyncio.create_task(asyncio.sleep(1000))
        task.cancel()
        await task

    def setup(api: ExtensionApi) -> None:
        @api.on("session_start")
        async def start(event: Any, ctx: Context) -> None:
            await cancelled()

        @api.on("turn_start")
        def leave(event: Any, ctx: Context) -> None:
            raise SystemExit(3)

        @api.tool
        async def odd() -> str:
            """Odd."""
            await cancelled()
            return "never"

        @api.tool
        async def leaving() -> str:
            """Leave."""
            raise SystemExit(3)

        @api.command()
        async def oddly(arguments: str, ctx: Any) -> None:
            await cancelled()

    session = await opened(setup)
    events = watched(session)
    messages_api.add(Reply(ToolUse("odd", {}), ToolUse("leaving", {})), Reply("Done."))
    await session.prompt("go")
    assert session.last_text == "Done."
    assert [m.is_error for m in session.messages if isinstance(m, ToolResultMessage)] == [True, True]
    await session.prompt("/oddly")
    assert [name for name, _ in errors_of(events)] == ["turn_start", "turn_start", "command"]


async def test_extensions_come_with_installed_packages(opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "packages"
    info = package / "greeter-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: greeter\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[indus_nb.extensions]\ngreeter = greeter_extension:setup\n")
    (package / "greeter_extension.py").write_text(
        "def setup(api):\n    api.register_command('greet', lambda arguments, ctx: None)\n"
    )
    monkeypatch.syspath_prepend(package)
    session = await opened()
    assert [command["name"] for command in session.list_commands()] == ["greet"]
    without = await opened(use_extensions=False)
    assert without.list_commands() == []

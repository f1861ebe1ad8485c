"""Extensions that were written for other programs of this family, and careless ones: each keeps working."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from messages_api import Reply
from waiting import until

from indus_nb.base.errors import CompactionError, UsageError
from indus_nb.base.messages import TextContent
from indus_nb.core.session.dialogs import SetWidget, SetWorkingMessage
from indus_nb.core.session.session import AgentSession
from indus_nb.extend.api import CommandContext, Context, ExtensionApi, ExtensionTool

LONG = "word " * 400


@pytest.fixture
def home(home: Path) -> Path:
    """A home in which conversations are compacted early."""
    (home / "agent").mkdir()
    settings = '{"compaction": {"keepRecentTokens": 100, "reserveTokens": 2000}}'
    (home / "agent" / "settings.json").write_text(settings)
    return home


def problems_of(session: AgentSession) -> list[tuple[str, str]]:
    events: list[tuple[str, str]] = []
    session.subscribe(lambda e: events.append((e.event, e.error)) if e.type == "extension_error" else None)
    return events


# Compaction


async def test_a_compaction_that_an_extension_asks_for_tells_it_the_result_or_the_reason(opened, messages_api) -> None:
    told: list[Any] = []

    def setup(api: ExtensionApi) -> None:
        @api.command("shorten")
        def shorten(arguments: str, ctx: CommandContext) -> None:
            async def failed(error: Exception) -> None:
                told.append(error)

            ctx.compact(arguments or None, on_complete=told.append, on_error=failed)

    session = await opened(setup)
    errors = problems_of(session)
    await session.prompt("/shorten")
    await until(lambda: told)
    assert isinstance(told[0], CompactionError)
    for text in ("first", "second"):
        messages_api.add(Reply(LONG))
        await session.prompt(text)
    messages_api.add(Reply("What was said."), Reply("What was said."))
    await session.prompt("/shorten the words")
    await until(lambda: len(told) == 2)
    assert "What was said." in told[1].summary
    assert "the words" in str([request.body for request in messages_api.requests[2:]])
    assert errors == []


async def test_a_compaction_that_fails_unasked_is_reported_as_the_extensions(opened) -> None:
    session = await opened(lambda api: api.register_command("shorten", lambda arguments, ctx: ctx.compact()))
    errors = problems_of(session)
    await session.prompt("/shorten")
    await until(lambda: errors)
    assert errors[0][0] == "compact"


# Events


@pytest.mark.parametrize("act", ["fork", "clone"])
async def test_a_guard_of_branches_is_asked_before_a_fork_and_can_stop_it(opened, messages_api, act) -> None:
    asked: list[Any] = []

    def guard(api: ExtensionApi) -> None:
        @api.on("session_before_branch")
        async def ask(event: Any, ctx: Context) -> dict[str, Any] | None:
            asked.append(event.entry_id)
            return {"cancel": True} if len(asked) == 1 else {"skipConversationRestore": True}

        api.on("session_branch", lambda event, ctx: asked.append(event.previous_session_file))

    session = await opened(guard)
    messages_api.add(Reply("One."))
    await session.prompt("go")
    before = session.store.path
    user = next(entry for entry in session.store.entries if entry.type == "message")

    def do() -> Any:
        return session.fork(user.id) if act == "fork" else session.clone()

    assert not await do()
    assert session.store.path == before
    assert await do() is not None
    assert session.store.path != before
    assert asked[0] == asked[1] == (user.id if act == "fork" else asked[0])
    assert asked[2] == before


async def test_a_switch_is_told_by_its_other_name_too(opened, messages_api) -> None:
    told: list[Any] = []
    session = await opened(lambda api: api.on("session_switch", lambda event, ctx: told.append(event)))
    assert told == []
    messages_api.add(Reply("One."))
    await session.prompt("go")
    first = session.store.path
    await session.new_session()
    await session.switch_session(first)
    assert [event.reason for event in told] == ["new", "resume"]
    assert told[0].previous_session_file == first


async def test_an_extension_that_names_an_unknown_event_is_loaded_and_told_of_it(opened) -> None:
    ran: list[str] = []

    def setup(api: ExtensionApi) -> None:
        api.on("goal_updated", lambda event, ctx: ran.append("never"))
        api.on("tool_cal", lambda event, ctx: ran.append("never"))
        api.register_command("works", lambda arguments, ctx: ran.append("works"))

    session = await opened(setup)
    await session.prompt("/works")
    assert ran == ["works"]
    first, second = session.all_problems
    assert "no event named 'goal_updated'" in first
    assert "Did you mean 'tool_call'?" in second


# What only terminals have


def ask_everything(ui: Any) -> dict[str, Any]:
    return {
        "get_editor_text": ui.get_editor_text(),
        "get_tools_expanded": ui.get_tools_expanded(),
        "get_all_themes": ui.get_all_themes(),
        "get_theme": ui.get_theme("dark"),
        "theme": ui.theme,
        "set_theme": ui.set_theme("dark"),
        "set_footer": ui.set_footer(lambda *_: None),
        "set_header": ui.set_header(None),
        "set_editor_component": ui.set_editor_component(lambda *_: None),
        "set_tools_expanded": ui.set_tools_expanded(True),
        "set_working_visible": ui.set_working_visible(False),
        "set_working_indicator": ui.set_working_indicator({"frames": ["|"]}),
        "set_hidden_thinking_label": ui.set_hidden_thinking_label("…"),
        "add_autocomplete_provider": ui.add_autocomplete_provider(lambda current: current),
    }


async def test_methods_that_only_terminals_can_fill_answer_harmlessly(opened) -> None:
    answers: dict[str, Any] = {}

    def setup(api: ExtensionApi) -> None:
        @api.on("session_start")
        async def start(event: Any, ctx: Context) -> None:
            answers.update(ask_everything(ctx.ui))
            answers["custom"] = await ctx.ui.custom(lambda *_: None, overlay=True)
            ctx.ui.on_terminal_input(lambda data: None)()
            ctx.ui.set_working_message("Working …")
            ctx.ui.set_working_message()

    session = await opened(setup)
    assert session.all_problems == []
    assert answers.pop("set_theme") == {"success": False, "error": "Theme switching not supported in this interface"}
    said = {"get_editor_text": "", "get_tools_expanded": False, "get_all_themes": []}
    assert {name: answer for name, answer in answers.items() if answer is not None} == said


async def test_a_widget_that_is_a_component_is_ignored_and_lines_are_shown(opened) -> None:
    session = await opened()
    frames: list[Any] = []
    session.ui.attach(frames.append)
    session.ui.set_widget("list", ["a"], {"placement": "belowEditor"})
    session.ui.set_widget("list", lambda tui, theme: None)
    assert [type(frame) for frame in frames] == [SetWidget]
    assert (frames[0].widget_lines, frames[0].widget_placement) == (["a"], "belowEditor")


async def test_what_is_said_to_go_on_stands_until_the_run_ends(opened, messages_api) -> None:
    messages_api.add(Reply("One."))
    session = await opened(
        lambda api: api.on("agent_start", lambda event, ctx: ctx.ui.set_working_message("Reading the stars …"))
    )
    frames: list[Any] = []
    session.ui.attach(frames.append)
    await session.prompt("go")
    assert [frame.text for frame in frames if isinstance(frame, SetWorkingMessage)] == ["Reading the stars …", None]


# Carelessness


@pytest.mark.parametrize("content", ["", " \n", [], [{"type": "text", "text": " "}]])
@pytest.mark.parametrize("trigger_turn", [True, False])
async def test_a_blank_message_is_refused_and_no_request_is_made(opened, messages_api, content, trigger_turn) -> None:
    blocks = content if isinstance(content, str) else [TextContent.from_wire(block) for block in content]
    apis: list[ExtensionApi] = []
    session = await opened(apis.append)
    with pytest.raises(UsageError, match=r"'note' is blank and was not sent"):
        apis[0].send_message("note", blocks, trigger_turn=trigger_turn)
    await session.wait_until_idle()
    assert session.messages == []
    assert messages_api.requests == []


async def test_nothing_of_an_extension_goes_on_once_its_session_has_ended(opened) -> None:
    before = asyncio.all_tasks()
    begun, ended = asyncio.Event(), asyncio.Event()

    def setup(api: ExtensionApi) -> None:
        @api.on("input")
        async def wait(event: Any, ctx: Context) -> None:
            try:
                begun.set()
                await asyncio.sleep(1000)
            finally:
                await asyncio.sleep(0.1)
                ended.set()

    session = await opened(setup)
    prompt = asyncio.create_task(session.prompt("go"))
    await asyncio.wait_for(begun.wait(), 120)
    prompt.cancel()
    await asyncio.wait([prompt])
    await session.end()
    assert ended.is_set()
    assert [task for task in asyncio.all_tasks() - before if not task.done()] == []


# Tab


async def test_what_a_command_offers_for_its_arguments_is_asked_and_a_defect_offers_nothing(opened) -> None:
    def setup(api: ExtensionApi) -> None:
        async def levels(typed: str) -> list[Any]:
            return ["patch", {"value": "minor", "label": "Minor", "description": "a feature"}] if not typed else []

        def broken(typed: str) -> list[str]:
            raise RuntimeError("no list today")

        api.register_command("release", lambda arguments, ctx: None, complete=levels)
        api.register_command("broken", lambda arguments, ctx: None, complete=broken)
        api.register_command("plain", lambda arguments, ctx: None)

    session = await opened(setup)
    errors = problems_of(session)
    offers = await session.hooks.complete_command("release", "")
    assert offers == [{"value": "patch"}, {"value": "minor", "label": "Minor", "description": "a feature"}]
    for name in ("broken", "plain", "unknown"):
        assert await session.hooks.complete_command(name, "") == []
    assert errors == [("complete", "RuntimeError: no list today")]


# What was given up


async def test_a_tool_with_renderers_of_another_program_is_offered_with_a_warning(opened) -> None:
    def setup(api: ExtensionApi) -> None:
        tool = ExtensionTool("look", "Look.", {"type": "object"}, lambda *_: "seen", render_call=print, label="Look")
        api.register_tool(tool)

    with pytest.warns(UserWarning, match="The tool look is given render_call, which nothing here calls"):
        session = await opened(setup)
    assert "look" in session.all_tools
    assert session.all_problems == []


def test_the_names_that_extensions_import_stay_where_they_were() -> None:
    from indus_nb.extend import api

    assert set(api.__all__) >= {"Context", "CommandContext", "ExtensionApi", "ExtensionTool", "Events", "Guarded"}
    assert [name for name in api.__all__ if not hasattr(api, name)] == []

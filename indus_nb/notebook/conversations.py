"""The conversations of one kernel: which there are, which one a cell talks to, and the cells that wait for them."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from indus_nb.errors import IndusError, SessionBusyError, SessionLockedError, UsageError
from indus_nb.extensions.definitions import agent
from indus_nb.messages import (
    AssistantMessage,
    ImageContent,
    ThinkingLevel,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from indus_nb.notebook.cell_ids import CellIds
from indus_nb.notebook.cell_run import CellRun
from indus_nb.notebook.document import NotebookTools
from indus_nb.notebook.document.pictures import image_of
from indus_nb.notebook.kernel.agent_thread import AgentThread, Inbox
from indus_nb.notebook.kernel.describe import for_prompt
from indus_nb.notebook.kernel.interrupts import Interrupted
from indus_nb.notebook.kernel.main_thread import work_here
from indus_nb.notebook.kernel.tools import UserKernel
from indus_nb.notebook.kernel.watch import Watch
from indus_nb.notebook.magic import HELP, Command, Request, interpolate, parse
from indus_nb.notebook.page.comm_gate import CommGate
from indus_nb.notebook.view import blocks
from indus_nb.notebook.view.output import Screen, asks_for_input, can_update, screen_of
from indus_nb.providers.catalog import split_level
from indus_nb.session.session import AgentSession, ApproveMode
from indus_nb.start import SessionOptions, open_session
from indus_nb.tools import describe_call
from indus_nb.wire import JsonObject

if TYPE_CHECKING:
    from indus_nb.notebook.page.panel import ChatPanel
    from indus_nb.notebook.page.protocol import PanelRequest
    from indus_nb.notebook.page.widget import AgentWidget

T = TypeVar("T")
FIRST = "main"
"""The name of a conversation that is given no other one."""
_ABORT_SECONDS = 5.0
_TAB_SECONDS = 2.0


class Conversations:
    """The conversations of one shell, which its magics talk to.

    A cell talks to the one of the last cell unless it names another.
    """

    def __init__(self, shell: Any, watch: Watch, cells: CellIds) -> None:
        """Begin without a conversation.

        Args:
            shell: The IPython shell.
            watch: Watches its cells.
            cells: Knows the ids of those that ran.
        """
        self.thread = AgentThread()
        self._shell = shell
        self._kernel = UserKernel(shell, watch)
        self._front: Any = getattr(shell, "kernel", None)
        self._gate: CommGate | None = None
        self._sessions: dict[str, AgentSession] = {}
        self._current = FIRST
        self._panels: dict[AgentSession, ChatPanel] = {}
        self._shown: list[AgentWidget] = []
        self._notebook = NotebookTools(shell, self.ask_page, self.insert_below, cells)
        self._screen: Screen = screen_of(shell)

    @property
    def session(self) -> AgentSession | None:
        """The session that a cell talks to unless it names another.

        It is ``None`` before the first.
        """
        return self._sessions.get(self._current)

    def serve(self, line: str, cell: str | None = None) -> None:
        """Carry out a line or cell magic, and draw the result.

        Args:
            line: What follows the magic's name.
            cell: The lines below it; ``None`` for a line magic.

        Raises:
            IndusError: It failed.
            Interrupted: The user ended it.
        """
        if work_here() is not None:
            raise UsageError("The agent's own code cannot talk to the agent: say it in the answer instead.")
        self._screen = screen_of(self._shell)
        request = parse(line, cell)
        if request.empty or (request.command is not None and request.command.name == "help"):
            self._screen.show(blocks.listing(HELP), final=True)
            return
        text, images = self._filled_in(request)
        session = self._chosen_session(request)
        if request.command is not None:
            self._command(request.command, session)
        elif text.strip() or images:
            self._ask(session, request, text, images)
        else:
            self._screen.show(blocks.notice(_description(session)), final=True)

    def complete_command(self, name: str, typed: str) -> list[str]:
        """Complete the arguments of an extension's command.

        Args:
            name: The command's name, without its slash.
            typed: The arguments up to the cursor.

        Returns:
            What may stand in their place; nothing before there is a session.

        Raises:
            TimeoutError: The extension takes too long.
        """
        session = self.session
        if session is None:
            return []
        offers = self.thread.ask(partial(session.hooks.complete_command, name, typed), _TAB_SECONDS)
        return [str(offer["value"]) for offer in offers]

    def close(self) -> None:
        """Close the sessions' files and end the thread; nothing can be asked any more."""
        for name in tuple(self._sessions):
            self._close_session(name)
        if self._gate is not None:
            self._gate.close()
        self.thread.close()

    async def ask_page(self, what: str, payload: Mapping[str, Any]) -> JsonObject | None:
        """Send a request to the pages that show our widgets, the newest widget first.

        Args:
            what: The kind of request.
            payload: Its fields.

        Returns:
            The first answer; ``None`` when no page gives one.
        """
        for live in reversed(self._shown):
            answer = await live.request(what, **payload)
            if answer is not None:
                return answer
        return None

    def insert_below(self, code: str) -> bool:
        """Put a new cell with ``code`` below the one that waits.

        Returns whether one does.
        """
        inbox = self._kernel.inbox
        if inbox is None:
            return False
        inbox.put(partial(self._shell.set_next_input, code, replace=False))
        return True

    # A prompt

    def _filled_in(self, request: Request) -> tuple[str, list[ImageContent]]:
        """The prompt with values of the user's variables in it, and the images that go with it."""
        namespace: dict[str, Any] = self._shell.user_ns
        filled = interpolate(request.text, namespace, for_prompt)
        for name in filled.missing:
            hint = f"{{{name}}} was left as it stands: there is no such variable."
            self._screen.show(blocks.notice(hint), final=True)
        return filled.text, [image_of(wanted, self._shell) for wanted in request.images]

    def _ask(self, session: AgentSession, request: Request, text: str, images: list[ImageContent]) -> None:
        inbox = Inbox() if request.wait else None
        run = CellRun(
            session,
            self.thread,
            self._screen,
            inbox=inbox if self._can_ask else None,
            asks=self._can_ask and (request.wait or self._front is not None),
            max_cost=request.max_cost,
            insert=self._notebook.insert,
        )
        live = run.widget = self._live(run.receive)

        async def work() -> None:
            if live is not None:
                self._shown.append(live)
            try:
                await run.work(text, images)
            finally:
                if live is not None:
                    self._shown.remove(live)
                    if self._gate is not None and not live.reloaded:
                        self._gate.forget(live.comm_id)
            if request.output is not None:
                self._shell.user_ns[request.output] = session.last_text

        if inbox is None:
            self.thread.begin(partial(_in_background, work, self._screen))
            return
        try:
            with self._kernel.serving(inbox):
                self._drive(work, inbox)
        except SessionBusyError as error:
            raise SessionBusyError(
                "The agent still works for another cell. `%agent steer TEXT` tells it more, `%agent abort` stops it."
            ) from error
        if run.stopped:
            raise Interrupted("Stopped: the agent was told to end. What was said and done so far is kept.")
        if run.asked:
            session.answer_or_raise()

    @property
    def _can_ask(self) -> bool:
        """Whether a user is there to answer."""
        if self._front is None:
            return sys.stdin is not None and sys.stdin.isatty()
        return asks_for_input(self._front)

    def _live(self, receive: Callable[[PanelRequest], None]) -> AgentWidget | None:
        """A widget for this cell, where a page may be there to show it."""
        gate = self.comm_gate() if self._has_page else None
        if gate is None:
            return None
        from indus_nb.notebook.page.widget import AgentWidget

        live = AgentWidget("cell", receive, self.thread.call)
        gate.watch(live.comm_id)
        return live

    @property
    def _has_page(self) -> bool:
        """Whether a page may be there that shows widgets: consoles have none."""
        return self._front is not None and self._can_ask and can_update(self._front)

    def comm_gate(self) -> CommGate | None:
        """What delivers the messages of widgets while a cell is busy.

        Returns ``None`` where that cannot be.
        """
        if self._gate is None and self._front is not None:
            self._gate = CommGate(self._front, self.thread.call)
        return self._gate if self._gate is not None and self._gate.mode != "none" else None

    def _drive(self, work: Callable[[], Coroutine[Any, Any, T]], inbox: Inbox) -> T:
        gate = self._gate
        if gate is None:
            return self.thread.drive(work, inbox)
        with gate.busy():
            return self.thread.drive(work, inbox, gate.pump if gate.mode == "pump" else None)

    # Sub-commands

    def _command(self, command: Command, session: AgentSession) -> None:
        from indus_nb.notebook.magic.subcommands import serve

        if command.name == "panel":
            self._show_panel(session)
            return
        if command.name == "cell":
            self._insert_code(session)
            return
        shown = self._drive(lambda: serve(command, session), Inbox())
        draw = {"listing": blocks.listing, "answer": blocks.answer, "notice": blocks.notice}[shown.kind]
        self._screen.show(draw(shown.text), final=True)
        if command.name in ("fork", "tree") and command.argument:
            self._screen.show(blocks.notice(f"⚠ {blocks.OTHER_BRANCH}"), final=True)

    def _show_panel(self, session: AgentSession) -> None:
        if self._front is not None and not self._can_ask:
            self._screen.show(blocks.notice("The chat panel was left out: nobody is there to use it."), final=True)
            return
        if not self._has_page:
            raise UsageError("A chat panel needs a notebook. Here `%agent PROMPT` is how to talk to the agent.")
        self._screen.show(self._panel(session).widget.bundle, final=True)

    def _panel(self, session: AgentSession) -> ChatPanel:
        """The panel of a session; shown again it is another view of the same."""
        panel = self._panels.get(session)
        if panel is None:
            from indus_nb.notebook.page.panel import ChatPanel

            panel = self._panels[session] = ChatPanel(session, thread=self.thread, gate=self.comm_gate())
            self._shown.append(panel.widget)
        return panel

    def _insert_code(self, session: AgentSession) -> None:
        """Put what the agent ran in the user's kernel since the last prompt into a cell below."""
        code = _code_that_ran(session)
        if not code:
            raise UsageError("Since your last prompt the agent has run no code in your kernel that ended well.")
        self._shell.set_next_input("\n\n".join(code), replace=False)

    # Which session

    def _chosen_session(self, request: Request) -> AgentSession:
        name = request.name or self._current
        session = self._sessions.get(name)
        elsewhere = request.session is not None or request.continue_last or request.no_session
        if session is None or elsewhere or request.new:
            session = self._open(name, request)
            self._current = name
            return session
        if request.tools is not None:
            raise UsageError("The tools are chosen when a conversation starts: add --new to start one with --tools.")
        self._current = name
        if request.model is not None or request.provider is not None:
            self._change_model(session, request)
        if request.thinking is not None:
            self._change_thinking(session, request.thinking)
        if request.approve is not None:
            session.settings.approve = cast("ApproveMode", request.approve)
        return session

    def _open(self, name: str, request: Request) -> AgentSession:
        """Open another conversation: with the tools chosen before, a new one also with that model and thinking."""
        previous = self._sessions.get(name)
        like = previous or self.session
        if previous is not None and previous.is_running:
            raise SessionBusyError(
                "The agent still works in this conversation. `%agent abort` stops it; --name NAME starts another one."
            )
        options = SessionOptions(
            provider=request.provider,
            model=request.model,
            thinking=request.thinking,
            session=request.session,
            continue_last=request.continue_last,
            no_session=request.no_session,
            tools=None if request.tools is None else request.tools.replace(",", " ").split(),
            approve=cast("ApproveMode | None", request.approve),
            usual_approve="writes",
            extensions=[self._kernel, self._notebook],
            more_tools=(*self._kernel.tools, *self._notebook.tools, *agent.tool_names),
        )
        if like is not None:
            options = replace(options, tools=like.chosen_tools if options.tools is None else options.tools)
            options = replace(options, approve=options.approve or like.settings.approve)
            if request.session is None and not request.continue_last:
                if request.provider is None and request.model is None and like.model is not None:
                    options = replace(options, provider=like.model.provider, model=like.model.id)
                options = replace(options, thinking=request.thinking or like.thinking_level)
        session = self._opened(name, options)
        session.models.preload()
        self._sessions[name] = session
        if name != FIRST and session.store.name is None:
            self._run(lambda: session.set_name(name))
        for problem in session.problems:
            self._screen.show(blocks.notice(problem), final=True)
        return session

    def _opened(self, name: str, options: SessionOptions) -> AgentSession:
        """Open the requested session in the place of the one of that name."""
        try:
            session = open_session(options)
        except SessionLockedError as error:
            ours = [other for other, open_one in self._sessions.items() if open_one.store.path == error.path]
            if not ours:
                raise
            if ours != [name]:
                raise UsageError(f"That conversation is open here: talk to it with --name {ours[0]}.") from error
            return self._open_anew(name, options)
        self._close_session(name)
        return session

    def _open_anew(self, name: str, options: SessionOptions) -> AgentSession:
        """The conversation that is open here already, opened with other options; as it was, should they be rejected."""
        previous = self._sessions[name]
        model = previous.model
        as_before = replace(
            options,
            session=str(previous.store.path),
            continue_last=False,
            provider=model.provider if model is not None else None,
            model=model.id if model is not None else None,
            thinking=previous.thinking_level,
            tools=previous.chosen_tools,
            approve=previous.settings.approve,
        )
        self._close_session(name)
        try:
            return open_session(options)
        except BaseException:
            self._sessions[name] = open_session(as_before)
            raise

    def _close_session(self, name: str) -> None:
        session = self._sessions.pop(name, None)
        if session is not None:
            panel = self._panels.pop(session, None)
            if panel is not None:
                panel.close()
                self._shown.remove(panel.widget)
            # On the agent's loop, where what extensions started lives.
            with contextlib.suppress(Interrupted):
                self._run(partial(_end, session))

    def _change_model(self, session: AgentSession, request: Request) -> None:
        if request.model is None:
            if request.provider is None or (session.model and session.model.provider == request.provider):
                return
            model, level = session.registry.default(request.provider), None
        else:
            wanted, level = split_level(request.model)
            model = session.registry.find(wanted, request.provider)
        if model != session.model:
            session.registry.key_for(model)  # one that cannot be asked is not chosen
            self._run(lambda: session.set_model(model))
        if level is not None:
            self._change_thinking(session, level)

    def _change_thinking(self, session: AgentSession, level: str) -> None:
        self._run(lambda: session.set_thinking_level(cast("ThinkingLevel", level)))

    def _run(self, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        self.thread.drive(work, Inbox())


async def _end(session: AgentSession) -> None:
    """Abort what a session does and end it, so that the conversation until then is kept."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_ABORT_SECONDS):
            await session.abort()
    await session.end()


async def _in_background(work: Callable[[], Coroutine[Any, Any, None]], screen: Screen) -> None:
    """Run work that nothing waits for, and show what it raises in its cell."""
    try:
        await work()
    except IndusError as error:
        screen.show(blocks.error(str(error)), final=True)
    except Exception as error:
        screen.show(blocks.error(f"{type(error).__name__}: {error}"), final=True)
        raise


def _code_that_ran(session: AgentSession) -> list[str]:
    """The code that the agent ran in the kernel behind the user's last message, and that ended well."""
    good: set[str] = set()
    code: list[str] = []
    for message in reversed(session.messages):
        match message:
            case UserMessage():
                break
            case ToolResultMessage(is_error=False):
                good.add(message.tool_call_id)
            case AssistantMessage():
                calls = [block for block in message.content if isinstance(block, ToolCall)]
                ran = [describe_call(call.name, call.arguments, session.all_tools) for call in calls if call.id in good]
                code[:0] = [described.code.strip("\n") for described in ran if described.code is not None]
            case _:
                pass
    return code


def _description(session: AgentSession) -> str:
    if session.model is None:
        return "No model is chosen: set ANTHROPIC_API_KEY, or use --provider offline (no key, no network)."
    saved = f"saved in {session.store.path}" if session.store.path else "not saved"
    thinking = f" · thinking {session.thinking_level}" if session.model.reasoning else ""
    return f"Ready: {session.model.name}{thinking} · {saved}"

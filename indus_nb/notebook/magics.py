"""``%agent`` and ``%%agent``: what a user types into a cell, and the conversation that it goes to."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from typing import Any, cast

from indus_nb.doctor import diagnosis
from indus_nb.errors import SessionBusyError, SessionLockedError, UsageError
from indus_nb.messages import ThinkingLevel
from indus_nb.notebook import blocks
from indus_nb.notebook.dialogs import DialogHost
from indus_nb.notebook.kernel import UserKernel
from indus_nb.notebook.thread import AgentThread, Inbox, Interrupted
from indus_nb.notebook.view import RunView, Screen
from indus_nb.providers import Provider
from indus_nb.providers.catalog import split_level
from indus_nb.session import AgentSession, ApproveMode
from indus_nb.start import THINKING_LEVELS, SessionOptions, open_session

HELP = """\
%agent [options] PROMPT     ask the agent; the prompt is taken as it stands
%%agent [options]           the same, with the prompt in the lines below
%agent [options]            set the session up
%agent help                 this text
%agent --doctor             what is set up, and what is wrong with it

--provider NAME     anthropic, openai, google …, or offline (needs neither key nor network)
--model NAME        an id or a part of a name, such as sonnet
--thinking LEVEL    off, minimal, low, medium, high or xhigh
--new               start a new conversation with the model and tools of the one before
--continue          go on with the last conversation in this folder
--session ID        go on with that conversation: a path, or the beginning of an id
--no-session        start a conversation that is not saved
--tools NAMES       its tools from the start, such as read,grep,ls; "" for none
--approve WHEN      ask before: writes (as usual), always, or never

The conversation goes on from cell to cell. Interrupt the cell to stop the agent. `--` ends the options."""

_OPTION = re.compile(r"\s*--(?P<name>[A-Za-z][\w-]*)?(?=[\s=]|$)")
_AGENT_LINE = re.compile(r"^(?P<indent>[ \t]*)%agent[ \t]+(?P<text>[^\n]*[^\n\\])(?P<end>\n?)$")
_VALUE = re.compile(r"(?:=|\s+)(?:\"(?P<double>[^\"]*)\"|'(?P<single>[^']*)'|(?P<bare>(?!--)\S+))(?=\s|$)")
_FLAGS = {"new": "new", "continue": "continue_last", "no-session": "no_session", "doctor": "doctor"}
_VALUES = {name: name for name in ("provider", "model", "thinking", "session", "tools", "approve")}


@dataclass(frozen=True, slots=True)
class Request:
    """What a line or cell asks for: a prompt, which may be empty, and options."""

    text: str = ""
    provider: str | None = None
    model: str | None = None
    thinking: str | None = None
    new: bool = False
    continue_last: bool = False
    session: str | None = None
    no_session: bool = False
    tools: str | None = None
    approve: str | None = None
    doctor: bool = False

    @property
    def empty(self) -> bool:
        """Whether it asks for nothing at all."""
        return self == Request()


def literal_lines(lines: list[str]) -> list[str]:
    r"""The lines of a cell, those that begin with ``%agent`` made into calls that Python and IPython cannot misread.

    Otherwise a question mark at the end would ask for help on the last word, and a bracket or quote that is not closed
    would swallow the lines below.

    >>> literal_lines(["%agent isn't it (odd?\n"])
    ['get_ipython().run_line_magic(\'agent\', "isn\'t it (odd?")\n']

    A cell with triple quotes is left to IPython: the line may stand within a string.
    """
    text = "".join(lines)
    if "%agent" not in text or '"""' in text or "'''" in text or text.lstrip().startswith("%%"):
        return lines
    return [_AGENT_LINE.sub(_as_call, line) for line in lines]


def _as_call(match: re.Match[str]) -> str:
    return f"{match['indent']}get_ipython().run_line_magic('agent', {match['text'].strip()!r}){match['end']}"


def parse(line: str, cell: str | None = None) -> Request:
    """The request in the line behind ``%agent``, or in that line and the lines below ``%%agent``.

    >>> request = parse('--model "opus 4.6" --new  say "$HOME"  --twice')
    >>> request.model, request.new, request.text
    ('opus 4.6', True, 'say "$HOME"  --twice')

    Raises ``UsageError`` for options that are unknown, lack their value, or exclude each other.
    """
    given: dict[str, str | bool] = {}
    rest = line
    while option := _OPTION.match(rest):
        rest = rest[option.end() :]
        name = option["name"]
        if name is None:
            break
        if name in _FLAGS:
            if rest.startswith("="):
                raise UsageError(f"--{name} takes no value. `%agent help` shows the options.")
            given[_FLAGS[name]] = True
        elif name in _VALUES:
            value = _VALUE.match(rest)
            if value is None:
                raise UsageError(f"--{name} needs a value: --{name} VALUE. `%agent help` shows the options.")
            given[_VALUES[name]] = value["double"] or value["single"] or value["bare"] or ""
            rest = rest[value.end() :]
        else:
            raise UsageError(_unknown(name))
    text = rest.strip() if cell is None else f"{rest.strip()}\n{cell}".strip("\n")
    request = replace(Request(text=text), **given)  # type: ignore[arg-type]
    _check(request)
    return request


def _unknown(name: str) -> str:
    near = get_close_matches(name, [*_FLAGS, *_VALUES], n=1)
    hint = f" Did you mean --{near[0]}?" if near else ""
    known = ", ".join(f"--{option}" for option in (*_VALUES, *_FLAGS))
    return f"There is no option --{name}.{hint} Options: {known}. A prompt that begins with dashes goes behind `-- `."


def _check(request: Request) -> None:
    chosen = [
        name
        for name, is_chosen in (
            ("--new", request.new),
            ("--continue", request.continue_last),
            ("--session", request.session is not None),
            ("--no-session", request.no_session),
        )
        if is_chosen
    ]
    if len(chosen) > 1 and chosen != ["--new", "--no-session"]:
        raise UsageError(f"{' and '.join(chosen)} exclude each other: choose one conversation.")
    if request.approve not in (None, "never", "writes", "always"):
        raise UsageError(f"--approve {request.approve}: choose never, writes or always.")
    if request.thinking is not None and request.thinking not in THINKING_LEVELS:
        raise UsageError(f"Unknown thinking level: {request.thinking}. Choose one of {', '.join(THINKING_LEVELS)}.")


class Conversation:
    """The one conversation of a kernel, which the magics talk to."""

    def __init__(self, new_screen: Callable[[], Screen], kernel: UserKernel) -> None:
        self._new_screen = new_screen
        self._kernel = kernel
        self._screen = new_screen()
        self._thread = AgentThread()
        self._session: AgentSession | None = None

    def serve(self, line: str, cell: str | None = None) -> None:
        """Do what a line or cell asks for, and draw it; raises ``IndusError`` or ``Interrupted`` when that failed."""
        self._screen = self._new_screen()
        request = parse(line, cell)
        if request.empty or (cell is None and request == Request(text="help")):
            self._screen.show(blocks.listing(HELP), final=True)
            return
        session = self._chosen_session(request)
        if request.doctor:
            self._run(session.start)
            self._screen.show(blocks.listing("\n".join(diagnosis(session))), final=True)
        elif request.text.strip():
            self._ask(session, request.text)
        else:
            self._screen.show(blocks.notice(_description(session)), final=True)

    def close(self) -> None:
        """Let go of the session's file and of the thread; nothing can be asked any more."""
        self._kernel.close()
        self._close_session()
        self._thread.close()

    def _close_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            # On the agent's loop, where what extensions started lives.
            with contextlib.suppress(Interrupted):
                self._thread.drive(session.end, Inbox(), lambda: None)

    def _ask(self, session: AgentSession, text: str) -> None:
        inbox: Inbox = Inbox()
        name = session.model.name if session.model else "a model"
        view = RunView(self._screen, name, renderer=partial(_renderer, session))
        host = DialogHost(self._screen, inbox, self._thread, session.ui)
        subscriptions: list[Callable[[], None]] = []

        def watch() -> None:
            # Not before the prompt is accepted: the events until then belong to another cell.
            subscriptions.append(session.subscribe(lambda event: inbox.put(partial(view.feed, event))))

        try:
            with host.attached(), self._kernel.serving(inbox):
                self._thread.drive(lambda: session.prompt(text, on_accepted=watch), inbox, view.refresh)
        except SessionBusyError as error:
            raise SessionBusyError("The agent still works for another cell. Wait for it, or interrupt it.") from error
        finally:
            for unsubscribe in subscriptions:
                unsubscribe()
            view.close()
        if view.asked:
            session.answer_or_raise()

    def _chosen_session(self, request: Request) -> AgentSession:
        session = self._session
        elsewhere = request.session is not None or request.continue_last or request.no_session
        if session is None or elsewhere or request.new:
            return self._open(request)
        if request.tools is not None:
            raise UsageError("The tools are chosen when a conversation starts: add --new to start one with --tools.")
        if request.model is not None or request.provider is not None:
            self._change_model(session, request)
        if request.thinking is not None:
            self._change_thinking(session, request.thinking)
        if request.approve is not None:
            session.settings.approve = cast("ApproveMode", request.approve)
        return session

    def _open(self, request: Request) -> AgentSession:
        """Open another conversation: with the tools chosen before, a new one also with that model and thinking."""
        previous = self._session
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
            extensions=[self._kernel],
            more_tools=self._kernel.tools,
        )
        if previous is not None:
            options = replace(options, tools=previous.chosen_tools if options.tools is None else options.tools)
            options = replace(options, approve=options.approve or previous.settings.approve)
            if request.session is None and not request.continue_last:
                if request.provider is None and request.model is None and previous.model is not None:
                    options = replace(options, provider=previous.model.provider, model=previous.model.id)
                options = replace(options, thinking=request.thinking or previous.thinking_level)
        try:
            session = open_session(options)
        except SessionLockedError as error:
            if previous is None or error.path != previous.store.path:
                raise
            session = self._open_anew(previous, options)
        if session.model is not None:
            _preload(session.registry.provider_of(session.model))
        self._close_session()
        self._session = session
        for problem in session.problems:
            self._screen.show(blocks.notice(problem), final=True)
        return session

    def _open_anew(self, previous: AgentSession, options: SessionOptions) -> AgentSession:
        """The conversation that is open here already, opened with other wishes; as it was, should they be refused."""
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
        self._close_session()
        try:
            return open_session(options)
        except BaseException:
            self._session = open_session(as_before)
            raise

    def _change_model(self, session: AgentSession, request: Request) -> None:
        if request.model is None:
            if request.provider is None or (session.model and session.model.provider == request.provider):
                return
            model, level = session.registry.default(request.provider), None
        else:
            wanted, level = split_level(request.model)
            model = session.registry.find(wanted, request.provider)
        if model != session.model:
            _preload(session.registry.provider_of(model))
            self._run(lambda: session.set_model(model))
        if level is not None:
            self._change_thinking(session, level)

    def _change_thinking(self, session: AgentSession, level: str) -> None:
        self._run(lambda: session.set_thinking_level(cast("ThinkingLevel", level)))

    def _run(self, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        self._thread.drive(work, Inbox(), lambda: None)


def _renderer(session: AgentSession, custom_type: str) -> Callable[..., Any] | None:
    return session.hooks.renderer(custom_type)  # as they are by then: extensions come with the session's start


def _preload(provider: Provider) -> None:
    threading.Thread(target=provider.preload, name="indus_nb preload", daemon=True).start()


def _description(session: AgentSession) -> str:
    if session.model is None:
        return "No model is chosen: set ANTHROPIC_API_KEY, or use --provider offline (no key, no network)."
    saved = f"saved in {session.store.path}" if session.store.path else "not saved"
    thinking = f" · thinking {session.thinking_level}" if session.model.reasoning else ""
    return f"Ready: {session.model.name}{thinking} · {saved}"

"""Values of the expressions in answers: looked up when an answer is whole, shown in it, and sent to its model.

What this module promises: an expression runs in a confined copy of the kernel and nowhere else, so it changes nothing;
its value is one line of text. The session's file keeps the values for the next kernel, which shows them as of then. The
model gets the values with the next prompt, which costs no request. Expressions that have no value are sent back to it
once in a run, so that it can write the answer anew.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from indus_nb.base import textcut
from indus_nb.base.errors import UsageError
from indus_nb.base.messages import AssistantMessage, CustomMessage, Message, TextContent
from indus_nb.base.wire import JsonObject
from indus_nb.core.loop.abort import RunAborted
from indus_nb.core.loop.watchers import RunWatcher
from indus_nb.core.storage.entries import Entry
from indus_nb.extend.api import Context, ExtensionApi
from indus_nb.extend.events import BeforeAgentStart, MessageFinal
from indus_nb.kernel.claims.kept import Claim, KeptClaims
from indus_nb.kernel.claims.outdated import Do, Outdated
from indus_nb.kernel.claims.stored import MAX_VALUE_CHARACTERS, Values, digest, stored_values, untold_values
from indus_nb.kernel.undo import Reading
from indus_nb.kernel.values.interpolation import Computed
from indus_nb.render.live import MARK, REWRITES, VALUES_TYPE, LiveLookup, LiveValue, expressions_in
from indus_nb.render.markup import markdown_text, markdown_tokens, plain
from indus_nb.safety.redaction import hide, is_secret_name, labelled_secrets

_BAD_ENDS = ("error", "aborted")
_MAX_EXPRESSIONS = 50
"""More of an answer stay code."""
_MAX_NOTED = 30
_MAX_ANSWERS = 200
"""Answers whose values are kept, the newest."""
_NAME = re.compile(r"[\w.-]{1,200}")
_REFUSED = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom, ast.Starred)

Look = Callable[[Mapping[str, str]], Awaitable[Mapping[str, Computed]]]
"""Computes expressions, given their sources as Python writes them; returns a value or a problem for each."""


class LiveAnswers:
    """Values of the answers of one kernel's sessions; used on the agent's thread but for `lookup`.

    Attributes:
        claims: The values with what they were computed from.
        outdated: Those of them that do not hold now.
    """

    def __init__(self, look: Look, do: Do, asked_in: Callable[[], str | None], execution: Callable[[], int]) -> None:
        """Start without answers.

        Args:
            asked_in: Returns the id of the cell that asks, or ``None``.
            execution: Returns the number of the execution that goes on, which is another one when a cell runs again.
        """
        self._execution = execution
        self.claims: KeptClaims = KeptClaims()
        self.outdated: Outdated = Outdated(self.claims, do)
        self._look = look
        self._do = do
        self._asked_in = asked_in
        self._answers: OrderedDict[str, Mapping[str, LiveValue]] = OrderedDict()

    def lookup(self, text: str) -> LiveLookup | None:
        """Return the values of the newest answer with that text; ``None`` where it has none."""
        values = self._answers.get(text)
        return None if values is None else values.get

    def history(self, messages: Iterable[Message], newest_first: Iterable[Entry]) -> Callable[[str], LiveLookup | None]:
        """Return what returns the values of stored answers by their texts, one after another.

        Args:
            messages: The newest of a conversation, in the order in which values are asked for.
            newest_first: Its entries, backwards, which also hold values that were looked up in an earlier kernel.
        """
        stored = {text: deque(values) for text, values in stored_values(messages, newest_first).items()}

        def lookup(text: str) -> LiveLookup | None:
            if not stored.get(text):
                return self.lookup(text)
            values, here = stored[text].popleft(), self._answers.get(text, {})
            return None if values is None else (here if _are_same(values, here) else values).get

        return lookup

    def filled(self, text: str | None) -> str | None:
        """Return an answer with its values, as it was written otherwise."""
        values = None if text is None else self.lookup(text)
        return text if text is None or values is None else markdown_text(text, values)

    async def compute(self, text: str, session: str = "") -> Mapping[str, LiveValue]:
        """Look the values of an answer's expressions up, and keep them for those who draw it.

        Args:
            session: The id of the conversation.

        Returns:
            A value or a problem for each; empty where there is none.
        """
        if MARK not in text:
            return {}
        sources, values = _sources(expressions_in(markdown_tokens(text))[:_MAX_EXPRESSIONS])
        if sources:
            values |= await self._claimed(sources, session, text)
        if values:
            self._answers[text] = values
            self._answers.move_to_end(text)
            if len(self._answers) > _MAX_ANSWERS:
                self._answers.popitem(last=False)
        return values

    async def _claimed(self, sources: Mapping[str, str], session: str, text: str) -> dict[str, LiveValue]:
        """Compute expressions, and keep those that have a value as claims of the cell that asks."""
        cell, execution = self._asked_in(), self._execution()
        readings = await self._read(sources.values())  # first: what changes meanwhile differs
        found = await self._look(sources)
        values: dict[str, LiveValue] = {}
        claims: list[Claim] = []
        for expression, source in sources.items():
            value, reading = shown_value(found[expression]), readings.get(source)
            if reading is not None and not value.problem:
                value = value._replace(reads=tuple(sorted(reading.names)))
                made = Claim(expression, source, value, cell, reading, None, session, execution=execution, answer=text)
                claims.append(made)
            values[expression] = value
        self.claims.add(claims)
        self.outdated.look_soon()
        return values

    async def _read(self, sources: Iterable[str]) -> Mapping[str, Reading]:
        """Remember what expressions read; nothing while a cell of the user's runs."""
        with suppress(UsageError):
            return await self._do(lambda space: self.claims.read(space, sources))
        return {}

    async def values_now(self, expressions: Iterable[str]) -> dict[str, LiveValue]:
        """Return the values that expressions have now, and keep none."""
        sources, values = _sources(expressions)
        found: Mapping[str, Computed] = await self._look(sources) if sources else {}
        return values | {expression: shown_value(found[expression]) for expression in sources}

    def begin(self) -> None:
        """Forget the claims of the cell that asks, from when it ran before: its answers are replaced."""
        self.claims.forget(self._asked_in(), self._execution())
        self.outdated.look_soon()

    def withdraw(self, text: str, session: str) -> None:
        """Forget the claims of an answer that is written anew."""
        self.claims.withdraw(text, session)
        self.outdated.look_soon()

    async def check(self) -> None:
        """Compute the stale claims again.

        Raises:
            UsageError: A cell of the user's runs.
        """
        self.outdated.shows_again = True  # in the place of what pages say where this fails
        stale = await self._do(lambda _: self.claims.stale())
        sources = {claim.source: claim.source for claim in stale}
        if not sources:
            return
        readings = await self._do(lambda space: self.claims.read(space, sources))
        found = await self._look(sources)
        for claim in stale:
            if (reading := readings.get(claim.source)) is not None:
                claim.check(shown_value(found[claim.source]), reading)
        self.claims.make_room()
        await self.outdated.look()


class LiveRun(RunWatcher):
    """Watcher of one session's answers: an extension of it, and one of its watchers.

    Attributes:
        unaccounted: Finds the numbers of an answer that its model is asked about; none unless that is wanted.
    """

    def __init__(self, answers: LiveAnswers) -> None:
        """Watch for the answers of a kernel."""
        self.unaccounted: Callable[[str], Sequence[str]] = lambda _: ()
        self._answers = answers
        self._lacking: dict[str, LiveValue] = {}
        self._has_mended = False
        self._sent_back: Sequence[str] = ()
        """The texts of the answer that is written anew."""
        self._keep: Callable[[JsonObject], str] = lambda _: ""
        """Saves data in the session file, and returns the id of its entry."""

    def __call__(self, api: ExtensionApi) -> None:
        """Follow a session."""
        self._keep = partial(api.append_entry, VALUES_TYPE)
        api.on("before_agent_start", self._begin)
        api.on("message_end", self._end_message)
        api.on("tool_execution_end", lambda _event, _ctx: self._answers.outdated.look_soon())

    def _begin(self, _event: BeforeAgentStart, ctx: Context) -> Mapping[str, Any] | None:
        """Send what the last answers showed, before the prompt."""
        self._answers.begin()
        self._has_mended, self._sent_back, self._lacking = False, (), {}
        if not (unsent := untold_values(ctx.session.newest_first())):
            return None
        text = "In place of the expressions in your last answer the user saw:\n" + _listed(unsent)
        return {"message": {"customType": VALUES_TYPE, "content": text, "display": False}, "beforePrompt": True}

    async def _end_message(self, event: MessageFinal, ctx: Context) -> None:
        """Look values up, before the message counts as ended and is drawn for good."""
        message, signal = event.message, ctx.signal
        if not isinstance(message, AssistantMessage) or message.stop_reason in _BAD_ENDS or signal is None:
            return
        if message.stop_reason == "stop":  # it takes the place of the one that was sent back
            for text in self._sent_back:
                self._answers.withdraw(text, ctx.session.session_id)
            self._sent_back = ()
        with suppress(RunAborted), signal.interruptible():
            for block in message.content:
                if isinstance(block, TextContent):
                    values = await self._answers.compute(block.text, ctx.session.session_id)
                    if values:
                        shown = [value.to_json(expression) for expression, value in values.items()]
                        entry = self._keep({"answer": digest(block.text), "values": shown})
                        self._answers.claims.note_entry(block.text, ctx.session.session_id, entry)
                    self._lacking |= {name: value for name, value in values.items() if value.is_lacking}

    async def after_turn(self, answer: AssistantMessage) -> Sequence[CustomMessage]:
        """Send expressions without a value back, or numbers that are to be accounted for, once in a run."""
        lacking, self._lacking = self._lacking, {}
        if self._has_mended or answer.stop_reason != "stop":
            return ()
        details: Mapping[str, Any]
        if lacking:
            text = (
                "Expressions in your answer have no value, and the user sees that they have none:\n"
                f"{_listed(lacking)}\n\nWrite the whole answer once more, with these mended or as plain numbers, and "
                "nothing else: it takes the place of the first one, which the user does not see any more. Expressions "
                "only look: what changes something, writes or takes long has no value."
            )
            details = {REWRITES: f"{textcut.counted(len(lacking), 'value')} could not be computed"}
        elif numbers := self.unaccounted(answer.text):
            details = {REWRITES: f"{textcut.counted(len(numbers), 'number')} came from no result"}
            text = (
                "No result shows these numbers of your answer:\n- " + "\n- ".join(numbers[:_MAX_NOTED]) + "\n\n"
                "Show how you got them: compute each in a call. Then write the whole answer once more, with what came "
                "out; leave out what you cannot show, or say where it is from. It takes the place of the first one."
            )
        else:
            return ()
        self._has_mended = True
        self._sent_back = [block.text for block in answer.content if isinstance(block, TextContent)]
        text = f"<system-reminder>\n{text} This comes once.\n</system-reminder>"
        return [CustomMessage(custom_type=VALUES_TYPE, content=text, display=False, details=details)]


def _are_same(stored: Values, here: Values) -> bool:
    return stored.keys() == here.keys() and all(
        (value.text, value.problem) == (here[name].text, here[name].problem) for name, value in stored.items()
    )


def _sources(expressions: Iterable[str]) -> tuple[dict[str, str], dict[str, LiveValue]]:
    """Return the sources of expressions, and the problems of what is none."""
    sources: dict[str, str] = {}
    problems: dict[str, LiveValue] = {}
    for expression in expressions:
        try:
            sources[expression] = source_of(expression)
        except ValueError as error:
            problems[expression] = LiveValue(problem=str(error))
    return sources, problems


def source_of(expression: str) -> str:
    """Return an expression as Python writes it, which can stand between brackets.

    >>> source_of("x  +1 # more")
    'x + 1'

    Raises:
        ValueError: It is no expression, or one that binds a name or waits.
    """
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(expression.strip(), mode="eval")
            source = ast.unparse(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError("it is not one Python expression") from error
    if any(isinstance(node, _REFUSED) for node in ast.walk(tree)):
        raise ValueError("it binds a name or waits, which an expression in an answer may not")
    if (secret := _secret_in(tree)) or hide(source, labelled_secrets()) != source:
        raise ValueError(f"it reads {secret or 'what looks like a secret'}, and secrets are not shown")
    return source


def _secret_in(tree: ast.expr | ast.Expression) -> str:
    """Return the first variable, attribute or key in an expression whose name is that of a secret."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Constant(value=str(name)) if _NAME.fullmatch(name):
                if is_secret_name(name):
                    return name
            case _:
                pass
    return ""


def shown_value(found: Computed) -> LiveValue:
    """Return what was computed as it is shown: one line without control signs."""
    if found.problem:
        problem = textcut.one_line(plain(found.problem), MAX_VALUE_CHARACTERS)
        return LiveValue(problem=problem, is_late=found.is_late)
    if hide(found.text, labelled_secrets()) != found.text:
        return LiveValue(problem="its value holds a secret, and secrets are not shown")
    text = textcut.one_line(plain(found.text), MAX_VALUE_CHARACTERS)
    return LiveValue(text) if text else LiveValue(problem="its value is an empty text")


def _listed(values: Mapping[str, LiveValue]) -> str:
    lines = [
        f"- {textcut.one_line(expression, MAX_VALUE_CHARACTERS)}: "
        + (f"no value ({value.problem})" if value.problem else value.text)
        for expression, value in [*values.items()][-_MAX_NOTED:]
    ]
    if len(values) > _MAX_NOTED:
        lines.insert(0, f"({len(values) - _MAX_NOTED} earlier ones are left out.)")
    return "\n".join(lines)

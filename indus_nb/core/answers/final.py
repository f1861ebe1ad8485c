"""The tool that a model gives its answer by: offered besides the others, it ends the run when the answer is valid.

What this module promises: at most ``repairs`` times the model reads what is wrong, or that an answer is missing; then
the run ends all the same. Every attempt is kept. The last valid answer counts, so that one that the model corrects
after the results of other calls, or after a message of the user meanwhile, replaces the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from itertools import chain
from typing import Any, cast

from indus_nb.base import textcut
from indus_nb.base.errors import AnswerAttempt, InvalidAnswerError
from indus_nb.base.events import ToolOutput
from indus_nb.base.messages import AssistantMessage, CustomMessage, ToolCall, text_of
from indus_nb.base.wire import JsonObject, dump, from_json
from indus_nb.core.answers.kind import AnswerKind, InvalidValueError
from indus_nb.core.answers.schemas import WRAPPED, tool_schema
from indus_nb.core.loop.watchers import RunWatcher
from indus_nb.models import ToolSpec
from indus_nb.tools.description import MAX_SUMMARY_CHARACTERS, CallDescription
from indus_nb.tools.tool import ToolContext, ToolError, text_output

_REPAIRS = 2
_NAMES = ("answer", "final_answer", "give_answer")
_MAX_ATTEMPT_CHARACTERS = 10_000
_ABOUT = (
    "Give your answer to the user's request by calling this tool: what you write otherwise is not read. Use the other "
    "tools first where you need them; call this one alone, when you are done. Call it again only to correct an answer."
)
_ACCEPTED = "The answer is accepted."
_NONE = "The model ended without an answer."
_MISSING = object()


class FinalAnswer(RunWatcher):
    """Asks for one typed answer in one run, and keeps it.

    Args:
        kind: The type of the answer.
        repairs: How often the model may try again; by default twice.

    Raises:
        UsageError: No API would take the schema of the type.
    """

    def __init__(self, kind: AnswerKind, repairs: int | None = None) -> None:
        self.kind = kind
        self._repairs = _REPAIRS if repairs is None else max(0, repairs)
        self._schema, self._wrapped = tool_schema(kind.schema, kind.name)
        self._name = _NAMES[0]
        self._value: Any = _MISSING
        self._attempts: list[AnswerAttempt] = []
        self._problems: dict[str, tuple[str, ...]] = {}
        self._hide: Callable[[Any], Any] = lambda value: value
        self.on_missing: Callable[[], None] = lambda: None
        """Called when the model is asked for the answer once more."""

    # The run

    def tool(self, taken: Container[str], hide: Callable[[Any], Any]) -> AnswerTool:
        """Make the tool.

        Args:
            taken: The names of other tools.
            hide: Returns a value without secrets.

        Returns:
            The tool, by a name of its own.
        """
        numbered = (f"{_NAMES[0]}_{number}" for number in range(2, 1000))
        self._name = next(name for name in chain(_NAMES, numbered) if name not in taken)
        self._hide = hide
        return AnswerTool(self._name, self._schema, self._take)

    def after_call(self, call: ToolCall, output: ToolOutput, *, is_error: bool) -> bool:
        """Count a call that gave no valid answer.

        Args:
            call: The call.
            output: What it gave.
            is_error: Whether it failed.

        Returns:
            Whether it was the last that was allowed.
        """
        if call.name != self._name or not is_error:
            return False
        given = call.arguments if call.malformed is None else call.malformed
        problems = self._problems.pop(call.id, None) or (text_of(output.content),)
        self._note(given, problems)
        return self._value is _MISSING and self._exhausted

    async def after_turn(self, answer: AssistantMessage) -> Sequence[CustomMessage]:
        """Ask for the answer when the model ends without one."""
        if self._value is not _MISSING or self._exhausted or answer.stop_reason in ("error", "aborted"):
            return ()
        self._note(None, (_NONE,))
        if self._exhausted:
            return ()
        self.on_missing()
        text = (
            f"<system-reminder>\nYour answer is missing: it is read only from a call of the tool {self._name}. "
            f"Call {self._name} now with your answer.\n</system-reminder>"
        )
        return [CustomMessage(custom_type="answer_missing", content=text, display=False)]

    @property
    def _exhausted(self) -> bool:
        return len(self._attempts) > self._repairs

    def _note(self, given: Any, problems: Sequence[str]) -> None:
        if len(text := given if isinstance(given, str) else dump(given).decode()) > _MAX_ATTEMPT_CHARACTERS:
            given = textcut.middle(text, _MAX_ATTEMPT_CHARACTERS)
        hidden = tuple(self._hide(textcut.fit(problem, _MAX_ATTEMPT_CHARACTERS)) for problem in problems)
        self._attempts.append(AnswerAttempt(self._hide(given), hidden))

    def _take(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        try:
            self._value = self._read(arguments)
        except InvalidValueError as error:
            self._problems[context.call_id] = error.problems
            left = self._repairs - len(self._attempts)
            again = f"Correct that and call {self._name} again." if left > 0 else "No attempt is left."
            raise ToolError(f"The answer is not what was asked for:\n{error}\n{again}") from error
        return text_output(_ACCEPTED).replace(terminate=True)

    def _read(self, arguments: JsonObject) -> Any:
        if not self._wrapped:
            return self.kind.read(arguments)
        if WRAPPED not in arguments:
            raise InvalidValueError([f"{WRAPPED}: this argument holds the answer, and is missing"])
        given = arguments[WRAPPED]
        try:
            return self.kind.read(given)
        except InvalidValueError:
            parsed = _from_text(given)  # some models write an inner value as a text of JSON
            if parsed is _MISSING:
                raise
            return self.kind.read(parsed)

    def is_all_of(self, calls: Sequence[ToolCall]) -> bool:
        """Return whether these calls give the answer and do nothing else, so that no request need follow."""
        return bool(calls) and all(call.name == self._name for call in calls)

    # Its outcome

    @property
    def is_given(self) -> bool:
        """Return whether there is a valid answer."""
        return self._value is not _MISSING

    @property
    def attempts(self) -> tuple[AnswerAttempt, ...]:
        """Return the attempts that were not valid, in order, without secrets."""
        return tuple(self._attempts)

    def value(self) -> Any:
        """Return the answer.

        Raises:
            InvalidAnswerError: There is none that is valid.
        """
        if self._value is _MISSING:
            raise InvalidAnswerError(self.kind.name, self.attempts)
        return self._value


def _from_text(given: object) -> Any:
    if not isinstance(given, str):
        return _MISSING
    try:
        return from_json(given)
    except ValueError:
        return _MISSING


class AnswerTool:
    """The tool of one run; see ``Tool``. No secret is filled in in what it is given."""

    read_only = False
    snippet = "give your answer, when you are done"
    secret_arguments: tuple[str, ...] = ()

    def __init__(self, name: str, schema: JsonObject, take: Callable[[JsonObject, ToolContext], ToolOutput]) -> None:
        self.spec = ToolSpec(name, _ABOUT, schema, is_final=True, strict=True)
        self.guidelines = (f"Give your answer by calling {name}, which ends your work; a text alone is not read.",)
        self._take = take

    def check(self, arguments: JsonObject) -> JsonObject:
        """Return the arguments as they are: what is wrong with them counts as an attempt."""
        return arguments

    async def execute(self, arguments: Any, context: ToolContext) -> ToolOutput:
        """Take the answer.

        Args:
            arguments: What the model gave.
            context: The call.

        Returns:
            That it is accepted, which ends the run.

        Raises:
            ToolError: It is not valid.
        """
        return self._take(cast("JsonObject", arguments), context)

    def describe_call(self, arguments: JsonObject) -> CallDescription:
        """Describe a call: it changes nothing, so it needs no approval."""
        given = arguments[WRAPPED] if [*arguments] == [WRAPPED] else arguments
        whole = dump(given).decode() if arguments else ""
        summary = textcut.one_line(whole, MAX_SUMMARY_CHARACTERS)
        details = {} if summary == whole else arguments
        return CallDescription(self.spec.name, summary, details=details, has_effects=False, is_answer=True)

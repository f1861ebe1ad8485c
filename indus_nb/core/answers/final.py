"""The tool that a model gives its answer by: offered besides the others, it ends the run when the answer is valid.

There are two such tools. One has the type as its schema, and is there for one run. The other takes any value, and stays
the same for all of a conversation: the type is told in a message, so that nothing changes before that (what a provider
caches begins with the tools). ``Toolbox.end_with`` decides which.

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
from indus_nb.base.messages import ANSWER_TYPE, AssistantMessage, CustomMessage, Message, ToolCall, text_of
from indus_nb.base.wire import JsonObject, dump, from_json
from indus_nb.core.answers.kind import AnswerKind, InvalidValueError
from indus_nb.core.answers.schemas import WRAPPED, tool_schema
from indus_nb.core.loop.watchers import RunWatcher
from indus_nb.models import ToolSpec
from indus_nb.tools.description import MAX_SUMMARY_CHARACTERS, CallDescription
from indus_nb.tools.plain_schemas import inlined, plain_schema
from indus_nb.tools.tool import ToolContext, ToolError, text_output

_REPAIRS = 2
_NAMES = ("answer", "final_answer", "give_answer")
_MAX_ATTEMPT_CHARACTERS = 10_000
_ABOUT = (
    "Give your answer to the user's request by calling this tool: what you write otherwise is not read. Use the other "
    "tools first where you need them; call this one alone, when you are done. Call it again only to correct an answer."
)
_ABOUT_ANY = (
    "Gives the value that a message asks for with a JSON schema, in the place of a text. Call it only then, alone, "
    "when you are done."
)
# A text, for some APIs refuse an argument that may be of any type.
_ANY: JsonObject = {
    "type": "object",
    "properties": {WRAPPED: {"type": "string", "description": "The value, as JSON"}},
    "required": [WRAPPED],
}
_NOT_ASKED = "No message asks for a value now, so nothing was done. Answer with a text."
_ACCEPTED = "The answer is accepted."
_NONE = "The model ended without an answer."
_MISSING = object()


class FinalAnswer(RunWatcher):
    """Asks for one typed answer in one run, and keeps it.

    Args:
        kind: The type of the answer.
        repairs: How often the model may try again; by default twice.
        details: Makes the details of the call that gave it, by which views show it; by default it has none.
        arguments: What ``tool_schema`` makes of the kind, where many answers are of it.

    Raises:
        UsageError: No API would take the schema of the type.
    """

    def __init__(
        self,
        kind: AnswerKind,
        repairs: int | None = None,
        details: Callable[[Any], JsonObject] | None = None,
        arguments: tuple[JsonObject, bool] | None = None,
    ) -> None:
        self.kind = kind
        self._details = details
        self._repairs = _REPAIRS if repairs is None else max(0, repairs)
        self._schema, self._wrapped = arguments or tool_schema(kind.schema, kind.name)
        self.tool_name: str = _NAMES[0]
        """Name of the tool that takes it."""
        self._conversation: Sequence[Message] | None = None
        self._told_at = 0
        self._first: Message | None = None
        self._value: Any = _MISSING
        self._attempts: list[AnswerAttempt] = []
        self._problems: dict[str, tuple[str, ...]] = {}
        self._hide: Callable[[Any], Any] = lambda value: value
        self.on_missing: Callable[[], None] = lambda: None
        """Called when the model is asked once more for an answer whose tool it may be made to call."""

    # The run

    def tool(self, name: str, hide: Callable[[Any], Any]) -> AnswerTool:
        """Make a tool of the type, for one run.

        Args:
            name: Its name, which no other tool has.
            hide: Returns a value without secrets.

        Returns:
            The tool, which is final.
        """
        self.tool_name, self._hide = name, hide
        spec = ToolSpec(name, _ABOUT, self._schema, is_final=True, strict=True)
        advice = f"Give your answer by calling {name}, which ends your work; a text alone is not read."
        return AnswerTool(spec, self.take, (advice,))

    def tell(self, name: str, hide: Callable[[Any], Any], conversation: Sequence[Message]) -> None:
        """Ask by a message, for an answer that is given by the tool of the conversation.

        Args:
            name: The name of that tool.
            hide: Returns a value without secrets.
            conversation: What the model is shown, the same list for all of the run.
        """
        self.tool_name, self._hide, self._conversation = name, hide, conversation

    @property
    def is_told(self) -> bool:
        """Return whether a message asks for the answer, and the tool is that of the conversation."""
        return self._conversation is not None

    def told(self) -> Sequence[CustomMessage]:
        """Return the message that asks for the answer, behind the prompt; none where a tool has the type."""
        if not self.is_told:
            return ()
        schema = dump(plain_schema(inlined(self.kind.schema))).decode()
        text = (
            f"<system-reminder>\nThe user asks for a value this time. Give it by calling the tool {self.tool_name}: "
            "what you write otherwise is not read. Use the other tools first where you need them; call it alone, when "
            "you are done, and again only to correct an answer. The value has this JSON schema:\n"
            f"<answer-schema>{schema}</answer-schema>\n</system-reminder>"
        )
        message = CustomMessage(custom_type=ANSWER_TYPE, content=text, display=False)
        self._told_at = message.timestamp
        return [message]

    def before_answer(self) -> Sequence[CustomMessage]:
        """Tell the type once more when a summary has replaced the message that did. See ``RunWatcher``."""
        if not self._conversation or self._first is self._conversation[0]:
            return ()
        self._first = self._conversation[0]
        asking = (each for each in self._conversation if isinstance(each, CustomMessage))
        is_kept = any(each.custom_type == ANSWER_TYPE and each.timestamp == self._told_at for each in asking)
        return () if is_kept else self.told()

    def after_call(self, call: ToolCall, output: ToolOutput, *, is_error: bool) -> bool:
        """Count a call that gave no valid answer.

        Args:
            call: The call.
            output: What it gave.
            is_error: Whether it failed.

        Returns:
            Whether it was the last that was allowed.
        """
        if call.name != self.tool_name or not is_error:
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
        if not self.is_told:
            self.on_missing()
        text = (
            f"<system-reminder>\nYour answer is missing: it is read only from a call of the tool {self.tool_name}. "
            f"Call {self.tool_name} now with your answer.\n</system-reminder>"
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

    def take(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        """Take what the model gave.

        Args:
            arguments: Arguments of the tool.
            context: The call.

        Returns:
            That it is accepted, which ends the run.

        Raises:
            ToolError: It is not valid; the text is for the model.
        """
        try:
            self._value = self._read(arguments)
        except InvalidValueError as error:
            self._problems[context.call_id] = error.problems
            left = self._repairs - len(self._attempts)
            again = f"Correct that and call {self.tool_name} again." if left > 0 else "No attempt is left."
            raise ToolError(f"The answer is not what was asked for:\n{error}\n{again}") from error
        details = None if self._details is None else self._details(self._value)
        return text_output(_ACCEPTED, details).replace(terminate=True)

    def _read(self, arguments: JsonObject) -> Any:
        if not self._wrapped and not self.is_told:
            return self.kind.read(arguments)
        if WRAPPED not in arguments:
            raise InvalidValueError([f"{WRAPPED}: this argument holds the answer, and is missing"])
        given = arguments[WRAPPED]
        parsed = _from_text(given)  # asked for by a message, and some models write an inner value so unasked
        readings = [given] if parsed is _MISSING else [parsed, given] if self.is_told else [given, parsed]
        wrong: list[InvalidValueError] = []
        for value in readings:
            try:
                return self.kind.read(value)
            except InvalidValueError as error:
                wrong.append(error)
        problems = (wrong[0] if self.is_told else wrong[-1]).problems
        if self.is_told and parsed is _MISSING and isinstance(given, str):
            problems = (f"{WRAPPED}: this text is no JSON", *problems)
        raise InvalidValueError(problems)

    def is_all_of(self, calls: Sequence[ToolCall]) -> bool:
        """Return whether these calls give the answer and do nothing else, so that no request need follow."""
        return bool(calls) and all(call.name == self.tool_name for call in calls)

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
    """A tool for answers; see ``Tool``. No secret is filled in in what it is given.

    Args:
        take: Takes an answer.
    """

    read_only = False
    snippet = None
    secret_arguments: tuple[str, ...] = ()

    def __init__(
        self,
        spec: ToolSpec,
        take: Callable[[JsonObject, ToolContext], ToolOutput],
        guidelines: tuple[str, ...] = (),
    ) -> None:
        self.spec = spec
        self.guidelines = guidelines
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
            ToolError: It is not valid, or none is asked for.
        """
        return self._take(cast("JsonObject", arguments), context)

    def describe_call(self, arguments: JsonObject) -> CallDescription:
        """Describe a call: it changes nothing, so it needs no approval."""
        given = arguments
        if [*arguments] == [WRAPPED]:
            parsed = _from_text(arguments[WRAPPED])
            given = arguments[WRAPPED] if parsed is _MISSING else parsed
        whole = dump(given).decode() if arguments else ""
        summary = textcut.one_line(whole, MAX_SUMMARY_CHARACTERS)
        details = {} if summary == whole else arguments
        return CallDescription(self.spec.name, summary, details=details, has_effects=False, is_answer=True)


def any_answer_tool(name: str, asked: Callable[[], FinalAnswer | None]) -> AnswerTool:
    """Make the tool of a conversation, which takes a value of any type.

    Args:
        name: Its name, which no other tool has.
        asked: Returns the answer that is asked for at the moment.
    """

    def take(arguments: JsonObject, context: ToolContext) -> ToolOutput:
        answer = asked()
        if answer is None:
            raise ToolError(_NOT_ASKED)
        return answer.take(arguments, context)

    return AnswerTool(ToolSpec(name, _ABOUT_ANY, _ANY), take)


def free_name(taken: Container[str]) -> str:
    """Return a name for the tool that no other one has."""
    numbered = (f"{_NAMES[0]}_{number}" for number in range(2, 1000))
    return next(name for name in chain(_NAMES, numbered) if name not in taken)

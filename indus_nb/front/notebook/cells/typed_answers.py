"""Types of ``--result`` of ``%agent``, looked up among the user's variables before a prompt is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from indus_nb.base.errors import UsageError
from indus_nb.front.notebook.magic import Request

if TYPE_CHECKING:
    from indus_nb.core.answers import FinalAnswer
    from indus_nb.core.session.session import AgentSession

_PROMPTS = ("fix", "explain", "verify")
"""The sub-commands that send a prompt to the model."""


def typed_answer(request: Request, namespace: Mapping[str, Any]) -> FinalAnswer | None:
    """Resolve the type of answer that a request asks for.

    Returns:
        The typed answer to ask the model for; ``None`` for a text.

    Raises:
        UsageError: There is no such type, it cannot be that of an answer, or the request has no answer.
    """
    if request.result is None:
        return None
    if request.plan:
        raise UsageError("--plan goes without --result: the answer to a plan is what was done.")
    command = request.command
    if command is not None and not command.slashed and command.name not in _PROMPTS:
        raise UsageError(f"--result goes with a prompt, and `%agent {command.name}` is none.")
    if not request.wait and request.output is None:
        raise UsageError("--result with --no-wait needs a variable for the value: -o NAME.")
    from indus_nb.core.answers import FinalAnswer
    from indus_nb.core.answers.naming import kind_in

    return FinalAnswer(kind_in(request.result, namespace, "--result"))


def outcome(session: AgentSession, answer: FinalAnswer | None) -> Any:
    """Return the value that a cell gets as its answer.

    Returns:
        Its value; without one the text of the last answer.

    Raises:
        RunFailedError: The answer ended badly, or is not of the type that was asked for.
    """
    text = session.answer_or_raise().text
    return text if answer is None else answer.value()

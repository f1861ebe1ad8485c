"""Plan first: the model looks and answers with steps, the user changes them and says go, and only then they are done.

What this module promises: until the user says go, the gate refuses every call that would change something, whatever
the model wants; without a yes nothing of the plan is done. What is done is what the user read last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from indus_nb.base import textcut
from indus_nb.base.errors import SessionBusyError
from indus_nb.base.messages import Attachment, ImageContent, going_along
from indus_nb.base.visible import visible
from indus_nb.base.wire import JsonObject
from indus_nb.core.answers import FinalAnswer, answer_kind
from indus_nb.core.session.limits import RunLimits
from indus_nb.core.session.questions import Choice, Question
from indus_nb.core.session.queues import Disposition
from indus_nb.core.session.session import AgentSession
from indus_nb.tools import TODO

_MAX_STEPS = 40
_MAX_STEP_CHARACTERS = 400
_PLAN: JsonObject = {
    "type": "array",
    "description": (
        "The plan for what the user asks: steps in order, each a line that says what is done and what it assumes. Look "
        "first at what it depends on. Nothing is carried out before the user says go, and calls that change something "
        "are refused."
    ),
    "items": {"type": "string"},
    "minItems": 1,
    "maxItems": _MAX_STEPS,
}
_GO, _CHANGE, _NO = "Go", "Change the steps", "No"
_LEFT = "The plan was left: nothing of it was done."
_NONE = "No plan came, so nothing was done. Ask again, or without a plan."
_CARRY_OUT = (
    f"Carry out this plan, step by step. Keep the steps with the tool {TODO}. Where one cannot be done, or what it "
    "assumes does not hold, mark it with op fail and the reason before you go on."
)
_EDIT = "The plan, a step in each line"
_BUSY = "The agent still works. A plan begins when it has finished, or after %agent abort."


async def plan_first(
    session: AgentSession,
    text: str,
    images: Sequence[ImageContent] = (),
    *,
    attachments: Sequence[Attachment] = (),
    on_accepted: Callable[[Disposition], None] | None = None,
    limits: RunLimits | None = None,
) -> None:
    """Have the model plan what the user asks for, and carry the plan out once the user said go.

    Args:
        on_accepted: As for ``AgentSession.prompt``, of the first prompt.
        limits: Of the plan, and once more of its steps.

    Raises:
        SessionBusyError: A run is going on.
    """
    if session.is_running:
        raise SessionBusyError(_BUSY)
    answer = FinalAnswer(answer_kind(_PLAN), details=lambda steps: {"plannedSteps": _cleaned(steps)})
    session.settings.plans = True
    try:
        await session.prompt(
            text, images, attachments=attachments, on_accepted=on_accepted, answer=answer, limits=limits
        )
    finally:
        session.settings.plans = False
    if not answer.is_given:
        last = session.last_answer
        if answer.attempts and last is not None and last.stop_reason not in ("error", "aborted"):
            session.ui.notify(_NONE, "warning")
        return  # else it failed, or was stopped, which its view shows
    given = cast("list[str]", answer.value())
    planned = _cleaned(given)
    steps, objection = await _decided(session, planned)
    if objection:
        await plan_first(session, f"Change the plan: {objection}", limits=limits)
    elif steps:
        session.toolbox.add(TODO)
        # The model has what it gave itself.
        said = _GO if steps == given else f"{_GO}, with these steps:\n\n{textcut.numbered(steps)}"
        await session.prompt(said, attachments=[going_along("the plan", _CARRY_OUT)], limits=limits)
    else:
        session.ui.notify(_LEFT)


async def _decided(session: AgentSession, steps: list[str]) -> tuple[list[str], str]:
    """Ask about a plan; returns the steps to carry out, none without a yes, and what the user wants instead."""
    planned = steps
    while steps:
        choices = [Choice(_GO, "yes"), Choice(_CHANGE, "more"), Choice(_NO, "no")]
        # As it was planned it stands right above, in the place of the call.
        body = "" if steps == planned else visible(textcut.numbered(steps))
        question = Question("Carry out this plan?", choices, body=body, takes_reason=True)
        decided = await session.ui.choose(question)
        if decided.option == _GO:
            return steps, ""
        if decided.option != _CHANGE:
            return [], decided.reason
        edited = await session.ui.editor(_EDIT, "\n".join(steps))
        steps = steps if edited is None else _cleaned(edited.split("\n"))
    return [], ""


def _cleaned(lines: Sequence[str]) -> list[str]:
    short = (textcut.one_line(line, _MAX_STEP_CHARACTERS) for line in lines)
    return [line for line in short if line][:_MAX_STEPS]

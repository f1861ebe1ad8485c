"""Decides about the effects of tool calls: allowed by mode, setting or rule, denied by a setting, else asked about.

What this module promises: what the user is shown is all that will be done, with signs that could hide a part of it
made visible; the file that an allowed call opens is the one that the question named; a rule that the user allowed
covers effects of its kind and object only; a call that was only tried never runs unasked where it is not held to what
the trial showed; where no user can be asked, or anything fails here, the tool does not run. Which effects a call has
the tool declares (``indus_nb.tools.description``), or finds out by trying it and asks ``CallGate``.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NoReturn

from indus_nb.base import textcut
from indus_nb.base.visible import has_right_to_left, visible
from indus_nb.core.loop.abort import RunAborted
from indus_nb.core.session import questions
from indus_nb.core.session.questions import Choice, Decision, Question
from indus_nb.extend.api import Context, ExtensionApi
from indus_nb.extend.approval import rules
from indus_nb.extend.events import ToolCallAnswer, ToolCallEvent
from indus_nb.safety.effects import Effect
from indus_nb.safety.policy import decision, denied
from indus_nb.safety.vault import PutBackError
from indus_nb.tools import Approval, CallDescription, ToolError
from indus_nb.tools.files.reach import reason_to_ask
from indus_nb.tools.tool import NOT_RUN, REFUSED
from indus_nb.tools.truncate import kept_outputs

_YES = "Yes, once"
_SESSION = "Yes, and always in this session: "
_PROJECT = "Yes, and always in this folder: "
_NO = "No"
_SAVE = "No, but save all of it in a file for me to read"
_WAIT = "Wait for its end"
_HERE = "Yes, run it here"
_INSTEAD = {
    False: "With --approve never no call is asked about.",
    True: "The user may answer in the notebook that serves (`%agent serve`), or serve with `--approve never`.",
}
"""Advice for a call that cannot be asked about; the other one for calls of other programs."""
_MAX_QUESTION_CHARACTERS = 100_000
"""A longer one is shown without its middle, and cannot be allowed."""
_SHOWN_OF_LONG = 3000
_MAX_OUTCOME_CHARACTERS = 4000
_MAX_LINES_UNCOUNTED = 40
_NO_RULE = (
    "Your rule for {} covers new values that can be taken over from a trial, and not changes inside of the same object."
)
_EFFECTS_IN_HEADING = 3


def permission_gate(
    agent_dir: Path, open_to: Callable[[], Sequence[Path]] = lambda: ()
) -> Callable[[ExtensionApi], None]:
    """Make an extension that decides about calls as ``SessionSettings.approve`` and ``effects`` have it.

    It must be asked last, when no other handler changes the arguments any more. What was allowed for good is kept as
    readable rules, such as ``writes_file: /work/out/``: for the session in memory, for a directory in ``approved.json``
    of the agent directory, never within the project itself. Where no user can be asked the call is rejected.

    Args:
        agent_dir: The user's own directory, of which nothing is read unasked.
        open_to: Returns the files and directories outside the working directory that may be read all the same.
    """
    gate = _Gate(agent_dir, open_to)

    def setup(api: ExtensionApi) -> None:
        api.on("tool_call", gate.decide)

    return setup


class _Gate:
    """Decides about the calls of one session."""

    def __init__(self, agent_dir: Path, open_to: Callable[[], Sequence[Path]]) -> None:
        self._private = [Path(os.path.realpath(agent_dir))]
        self._open_to = open_to
        self._kept = rules.KeptRules(agent_dir)

    async def decide(self, event: ToolCallEvent, ctx: Context) -> ToolCallAnswer | None:
        """Block the call unless its mode, a rule or the user allows it, or its tool asks about what it does."""
        if ctx.settings.approve_now == "never":
            return None
        mentions = ctx.settings.vault.meant(event.input)
        asks_anyway = ctx.settings.approve_now == "always" or bool(mentions)
        try:
            # Looked at as it will run: an edit is found only where the file has the value itself.
            described = ctx.describe_call(event.tool_name, ctx.with_secrets(event.tool_name, event.input))
            if described.is_answer or not (asks_anyway or described.has_effects or described.reads):
                return None
            if described.tries and not asks_anyway:
                by_program = bool(event.caller)
                allowed = await self.rules_now(ctx, by_program=by_program)
                event.gate = _CallGate(self, described, ctx, by_program, allowed)
                return None
            approval = await self._approval(described, event, ctx)
        except (ToolError, PutBackError) as error:
            # The tool itself will report what is wrong with the arguments; with a secret nothing runs unasked.
            return ToolCallAnswer(block=True, reason=str(error)) if mentions else None
        try:
            await self._settle(approval, event, ctx, mentions, asks_anyway=asks_anyway)
        except ToolError as error:
            return ToolCallAnswer(block=True, reason=str(error), details=error.output.details)
        return None

    async def _settle(
        self, approval: Approval, event: ToolCallEvent, ctx: Context, mentions: Mapping[str, str], *, asks_anyway: bool
    ) -> None:
        """Return if a call whose effects are known before it runs may run; raises ``ToolError`` if not."""
        vault = ctx.settings.vault
        if refusal := denied(approval.effects, ctx.settings.approve_now, ctx.settings.effects):
            raise ToolError(refusal)
        by_program = bool(event.caller)
        if not asks_anyway and await self.allows(approval.effects, ctx, by_program=by_program):
            if event.target is not None:
                event.target = replace(event.target, hides_keys=True)
            return
        if mentions:
            warning = " ".join(filter(None, (approval.warning, vault.unseen(event.input)))) or None
            preview = vault.masked(approval.preview, event.input)
            approval = replace(approval, preview=preview, warning=warning, diff=None)
        # What a rule covers may not take a secret along unasked.
        await self.ask(approval, ctx, by_program=by_program, holds=not asks_anyway)
        vault.release(event.tool_call_id, mentions)

    async def _approval(self, described: CallDescription, event: ToolCallEvent, ctx: Context) -> Approval:
        """Return the approval to ask for; without effects for what is read unasked."""
        approval = await asyncio.to_thread(described.approval)
        event.target = approval.target
        if described.has_effects:
            return replace(approval, effects=approval.effects or (Effect("unknown", "", "may do anything"),))
        approval = replace(approval, effects=())
        reason = await asyncio.to_thread(self._why_ask, described, approval, ctx.cwd) if described.reads else None
        if reason is None:
            return approval
        path = "" if approval.target is None else str(approval.target.path)
        effect = Effect("reads_outside", path, f"reads {path or 'a file that is not known'}")
        return replace(approval, warning=" ".join(filter(None, (reason, approval.warning))), effects=(effect,))

    def _why_ask(self, described: CallDescription, approval: Approval, cwd: Path) -> str | None:
        """Return why a call without effects is asked about; off the event loop, for it looks at files."""
        if approval.target is None:
            return "It is not known which file it reads."
        return reason_to_ask(
            approval.target,
            cwd,
            searched=described.searches,
            private=self._private,
            open_to=[Path(os.path.realpath(path)) for path in self.open_to()],
        )

    def open_to(self) -> list[Path]:
        """Return the paths that may be read outside the working directory, whatever rules say."""
        return [*self._open_to(), *map(Path, kept_outputs)]

    async def rules_now(self, ctx: Context, *, by_program: bool) -> set[str]:
        """Return the rules of this session, and for the user's own agent those of the directory."""
        return {*ctx.settings.allowed, *(() if by_program else await self._kept.of(ctx.cwd, ctx.ui))}

    async def allows(self, effects: Sequence[Effect], ctx: Context, *, by_program: bool) -> bool:
        """Return whether mode, settings and rules allow all of these effects."""
        asked = await asyncio.to_thread(self._not_by_setting, effects, ctx, by_program=by_program)
        if not asked or denied(asked, ctx.settings.approve_now, ctx.settings.effects):
            return not asked
        allowed = await self.rules_now(ctx, by_program=by_program)
        return await asyncio.to_thread(rules.covered, asked, allowed, ctx.cwd, self._private)

    def _not_by_setting(self, effects: Iterable[Effect], ctx: Context, *, by_program: bool) -> list[Effect]:
        """Return the effects that mode and settings do not allow; off the event loop, for it looks at files."""
        mode, chosen = ctx.settings.approve_now, ctx.settings.effects

        def is_own(effect: Effect) -> bool:
            is_known = effect.kind == "writes_file" and effect.what and not by_program
            return bool(is_known) and ctx.settings.is_own_file(Path(os.path.realpath(effect.what)))

        return [
            effect
            for effect in effects
            if decision(effect.kind, mode, chosen, is_own=is_own(effect)) != "allow"
            or not rules.can_be_allowed(effect, ctx.cwd, self._private)
        ]

    async def ask(
        self,
        approval: Approval,
        ctx: Context,
        *,
        by_program: bool,
        holds: bool,
        trial: asyncio.Future[Any] | None = None,
    ) -> Literal["run", "wait"]:
        """Ask the user about a call, of which nothing is hidden; arguments and errors as those of ``CallGate.ask``."""
        if not ctx.has_ui:
            if trial is not None:
                return "wait"
            reason = f"This call needs the user's approval, and nobody can be asked. {_INSTEAD[by_program]}"
            raise ToolError(f"{reason} {self._kept.problem}".rstrip())
        approval = _without_keys(approval, ctx.settings.vault.hide_own)
        question, is_whole = _question(approval)
        if not is_whole:
            await _refuse_unread(approval, question, ctx)
        offered = await self._offered(approval.effects, ctx, by_program=by_program) if holds else ()
        again = {} if trial is not None else _again(offered, in_directory=not by_program)
        also = {Choice(f"Yes, and {visible(what)}", "more"): do for what, do in approval.also.items()}
        yes = Choice(_YES, "yes", "Yes") if trial is None else Choice(_HERE, "yes")
        waits = [] if trial is None else [Choice(_WAIT, "no")]
        choices = [yes, *again, *also, Choice(_NO, "no"), *waits]
        asked = replace(question, choices=choices, takes_reason=True, goes_on=trial is not None)
        decided = await _decided(asked, ctx, trial)
        if decided is None or decided.option == _WAIT:
            return "wait"
        if decided.option in (None, _NO):
            why = f" They said: {decided.reason}" if decided.reason else " Ask what to do instead."
            raise ToolError(f"The user did not allow this call.{why}", {REFUSED: True})
        for choice, do in also.items():
            if choice.option == decided.option:
                do()
        for choice, in_directory in again.items():
            if choice.option == decided.option:
                await self._keep([rule.text for rule in offered], ctx, in_directory=in_directory)
        return "run"

    async def _offered(self, effects: Iterable[Effect], ctx: Context, *, by_program: bool) -> Sequence[rules.Rule]:
        asked = await asyncio.to_thread(self._not_by_setting, effects, ctx, by_program=by_program)
        return await asyncio.to_thread(rules.offered, asked, ctx.cwd, self._private)

    async def _keep(self, texts: Sequence[str], ctx: Context, *, in_directory: bool) -> None:
        if in_directory:
            await self._kept.add(ctx.cwd, texts)
        else:
            ctx.settings.allowed.update(dict.fromkeys(texts))


@dataclass(frozen=True, slots=True)
class _CallGate:
    """Decides about the effects of one call; see ``CallGate``."""

    gate: _Gate
    described: CallDescription
    ctx: Context
    by_program: bool
    rules: Iterable[str]
    """Rules in force when the call began."""
    subagent: str = field(default_factory=questions.subagent.get)
    found: list[Effect] = field(default_factory=list[Effect])

    @property
    def readable(self) -> Sequence[Path]:
        return [*self.gate.open_to(), *rules.places_to_read(self.rules)]

    @property
    def looks_only(self) -> bool:
        return self.ctx.settings.approve_now == "looks"

    @property
    def can_ask(self) -> bool:
        return self.ctx.has_ui

    async def covers(self, effects: Sequence[Effect]) -> bool:
        self.found[:] = effects
        return await self.gate.allows(_unnamed(effects), self.ctx, by_program=self.by_program)

    async def ask(
        self,
        effects: Sequence[Effect],
        *,
        question: str = "",
        outcome: str = "",
        holds: bool = False,
        trial: asyncio.Future[Any] | None = None,
    ) -> Literal["run", "wait"]:
        self.found[:] = effects
        settings, effects = self.ctx.settings, _unnamed(effects)
        if self.looks_only and trial is not None:
            return "wait"
        # With a yes it would run where it is held to nothing.
        held = [replace(effect, kind="unknown") for effect in effects] if self.looks_only else effects
        if refusal := denied(held, settings.approve_now, settings.effects):
            raise ToolError(refusal)
        # A rule about reading only widens what a trial may read: nothing runs by it that is not confined.
        kinds = {each.kind for each in effects if decision(each.kind, settings.approve_now, settings.effects) == "ask"}
        holds = holds or kinds == {"reads_outside"}
        approval = await asyncio.to_thread(self.described.approval)
        outcome = settings.vault.hide(textcut.head(outcome, _MAX_OUTCOME_CHARACTERS))
        asked = _by_effects(replace(approval, question=question or approval.question, outcome=outcome), effects)
        if not holds and (why := await self._why_no_rule(effects)):
            asked = replace(asked, warning="\n".join(filter(None, (asked.warning, why))))
        with questions.bound(questions.subagent, self.subagent):  # also where its tool runs by now
            return await self.gate.ask(asked, self.ctx, by_program=self.by_program, holds=holds, trial=trial)

    async def _why_no_rule(self, effects: Sequence[Effect]) -> str:
        """Say why a rule that names a variable does not cover a change of it; empty where there is no such rule."""
        allowed = await self.gate.rules_now(self.ctx, by_program=self.by_program)
        changed = [effect for effect in effects if effect.kind == "changes_variable"]
        named = [effect.what for effect in changed if rules.covered([effect], allowed, self.ctx.cwd)]
        return _NO_RULE.format(_and([f"`{name}`" for name in named])) if named else ""


def _unnamed(effects: Sequence[Effect]) -> list[Effect]:
    """Return a trial's effects, which code can forge, so that none passes for a tool that was allowed by name."""
    return [replace(effect, what="") if effect.kind == "unknown" else effect for effect in effects]


def _by_effects(asked: Approval, effects: Sequence[Effect]) -> Approval:
    """Build the question, behind what the call does.

    What has no place there stands in a warning; names alone that are new are none, and stand before the outcome.
    """
    kinds = {effect.words: effect.kind for effect in effects}
    first, others = [*kinds][:_EFFECTS_IN_HEADING], [*kinds][_EFFECTS_IN_HEADING:]
    more = f"It also {_and(others)}." if others else ""
    warns = any(kinds[words] != "new_names" for words in others)
    return replace(
        asked,
        question=f"This {_and(first)}. {asked.question}" if first else asked.question,
        warning="\n".join(filter(None, (more if warns else "", asked.warning))) or None,
        outcome="\n".join(filter(None, ("" if warns else more, asked.outcome))) or None,
        effects=effects,
    )


def _and(words: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _again(offered: Sequence[rules.Rule], *, in_directory: bool) -> dict[Choice, bool]:
    """Return the answers that allow more than this call, and whether they count for later sessions in the directory."""
    if not offered:
        return {}
    words = ", ".join(rule.words for rule in offered)
    choices = {Choice(f"{_SESSION}{words}", "again", f"always in this session: {words}"): False}
    if in_directory and all(rule.for_directory for rule in offered):
        label = f"always in this directory: {words}"
        choices[Choice(f"{_PROJECT}{words}", "again", label)] = True
    return choices


async def _refuse_unread(approval: Approval, question: Question, ctx: Context) -> NoReturn:
    """Show the start of a call that is too long, offer to save it, and reject it."""
    no, save = Choice(_NO, "no"), Choice(_SAVE, "no")
    if (await ctx.ui.choose(replace(question, choices=[no, save]), signal=ctx.signal)).option == _SAVE:
        ctx.ui.notify(await asyncio.to_thread(_saved, approval))
    raise ToolError(
        "The user could not be shown all of this call, for it is too long, so it was not allowed: at most "
        f"{_MAX_QUESTION_CHARACTERS:,} characters can be asked about. Do it in several smaller calls."
    )


async def _decided(question: Question, ctx: Context, trial: asyncio.Future[Any] | None) -> Decision | None:
    """Ask; returns ``None`` once a trial that goes on meanwhile has ended first.

    Raises:
        ToolError: The run was stopped meanwhile.
    """
    asking = asyncio.ensure_future(ctx.ui.choose(question, signal=ctx.signal))
    try:
        await asyncio.wait([asking, *([] if trial is None else [trial])], return_when=asyncio.FIRST_COMPLETED)
        return asking.result() if asking.done() else None
    except (asyncio.CancelledError, RunAborted):
        if ctx.signal is None or not ctx.signal.requested:
            raise
        why = "The run was stopped while the user was asked: the call did not run."
        raise ToolError(why, {NOT_RUN: True}) from None
    finally:
        asking.cancel()
        await asyncio.wait([asking])


def _without_keys(approval: Approval, hide: Callable[[str], str]) -> Approval:
    shown = {name: getattr(approval, name) for name in ("question", "preview", "warning", "diff", "outcome")}
    return replace(approval, **{name: text and hide(text) for name, text in shown.items()})


def _question(approval: Approval) -> tuple[Question, bool]:
    """Build the question for the user, without the answers; returns it and whether all of it is shown."""
    preview = visible(approval.preview)
    lines = approval.preview.rstrip("\n").count("\n") + 1
    heading = " ".join(visible(approval.question).split("\n"))
    if lines > _MAX_LINES_UNCOUNTED:
        heading += f" ({lines:,} lines)"
    warnings = visible(approval.warning).split("\n") if approval.warning else []
    if has_right_to_left(approval.question + approval.preview):
        warnings.append(
            "It holds letters that are written from right to left: parts of a line may show in another order."
        )
    question = Question(
        heading,
        [],
        warnings,
        preview,
        visible(approval.outcome or ""),
        names=approval.names,
        language=approval.language,
        diff=visible(approval.diff or ""),
        irreversible=approval.irreversible or any(effect.is_irreversible for effect in approval.effects),
    )
    if len(question.text()) <= _MAX_QUESTION_CHARACTERS and len(question.diff) <= _MAX_QUESTION_CHARACTERS:
        return question, True
    note = f"\n\n… {len(preview) - 2 * _SHOWN_OF_LONG:,} characters are left out here …\n\n"
    notice = f"It is too long to be shown here ({len(preview):,} characters), so it cannot be allowed."
    head = "\n".join([heading, *warnings])[:_SHOWN_OF_LONG]
    body = f"{preview[:_SHOWN_OF_LONG]}{note}{preview[-_SHOWN_OF_LONG:]}"
    return Question(head.split("\n", 1)[0], [], [*head.split("\n")[1:], notice], body=body), False


def _saved(approval: Approval) -> str:
    """Save the whole of a question in a file of the user's; returns a sentence about it."""
    import tempfile

    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", errors="backslashreplace", prefix="indusagi-question-", suffix=".txt", delete=False
        ) as file:
            file.write(f"{visible(approval.question)}\n\n{visible(approval.preview)}\n")
    except OSError as error:
        return f"It could not be saved: {error.strerror}."
    return f"All of it is in {file.name}."

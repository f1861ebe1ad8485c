"""Asks the user before a tool does something that cannot be undone, or reads what is not of the project.

What this module promises: what the user is shown is all that will be done, with signs that could hide a part of it
made visible; the file that an allowed call opens is the one that the question named; a rule that the user allowed
covers nothing that such a question would not have shown; where no user can be asked, or anything fails here, the tool
does not run. What is asked about a call, and what a rule covers, the tool declares: see
``indus_nb.tools.description``.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeGuard

from indus_nb import textcut
from indus_nb.extensions.api import Context, ExtensionApi
from indus_nb.extensions.events import ToolCallAnswer, ToolCallEvent
from indus_nb.extensions.kept_rules import KeptRules
from indus_nb.session.questions import Choice, Decision, Question
from indus_nb.tools import Approval, CallDescription, ToolError
from indus_nb.tools.description import Target
from indus_nb.tools.reach import reason_to_ask
from indus_nb.tools.truncate import kept_outputs
from indus_nb.vault import PutBackError
from indus_nb.visible import has_right_to_left, is_plain, visible

_YES = "Yes, once"
_SESSION = "Yes, and always in this session: "
_PROJECT = "Yes, and always in this folder: "
_NO = "No"
_SAVE = "No, but save all of it in a file for me to read"
_INSTEAD = {
    False: "Start with --approve never.",
    True: "The user may answer in the notebook that serves (`%agent serve`), or serve with `--approve never`.",
}
"""What the user could do where nobody can be asked; the other one for calls of other programs."""
_MAX_QUESTION_CHARACTERS = 100_000
"""A longer one is shown without its middle, and cannot be allowed."""
_SHOWN_OF_LONG = 3000
_MAX_TRIED_CHARACTERS = 4000
_MAX_LINES_UNCOUNTED = 40
_MAX_RULE_CHARACTERS = 120
"""A longer one is not offered: a user would not read it before allowing it for good."""


def permission_gate(
    agent_dir: Path, open_to: Callable[[], Sequence[Path]] = lambda: ()
) -> Callable[[ExtensionApi], None]:
    """Make an extension that asks as ``SessionSettings.approve`` sets: before tools with effects, or before any.

    It must be asked last, when no other handler changes the arguments any more. What was allowed for good is kept as
    readable rules, such as ``bash: ls …``: for the session in memory, for a directory in ``approved.json`` of the agent
    directory, never within the project itself. Where no user can be asked the call is rejected.

    Args:
        agent_dir: The user's own directory, of which nothing is read unasked.
        open_to: Returns the files and directories outside the working directory that may be read all the same.

    Returns:
        The extension.
    """
    gate = _Gate(agent_dir, open_to)

    def setup(api: ExtensionApi) -> None:
        api.on("tool_call", gate.decide)
        api.on("before_agent_start", gate.begin_answer)

    return setup


class _Gate:
    """What was allowed in one session, and the question about what was not."""

    def __init__(self, agent_dir: Path, open_to: Callable[[], Sequence[Path]]) -> None:
        self._agent_dir = agent_dir
        self._open_to = open_to
        self._kept = KeptRules(agent_dir)
        self._allowed: set[str] = set()
        self._in_answer: set[str] = set()

    def begin_answer(self, _event: object, _ctx: Context) -> None:
        """Forget what was allowed for one answer."""
        self._in_answer.clear()

    async def decide(self, event: ToolCallEvent, ctx: Context) -> ToolCallAnswer | None:
        """Block the call unless its mode, a rule or the user allows it."""
        mode, vault = ctx.settings.approve, ctx.settings.vault
        if mode == "never":
            return None
        mentions = vault.meant(event.input)
        try:
            # Looked at as it will run: an edit is found only where the file has the value itself.
            described = ctx.describe_call(event.tool_name, ctx.with_secrets(event.tool_name, event.input))
            if described.is_answer or (mode == "writes" and not (described.has_effects or described.reads or mentions)):
                return None
            approval = await self._approval(described, event, ctx)
            if mode == "writes" and not mentions and approval is not None and await self._only_looks(approval, ctx.cwd):
                approval = None
        except (ToolError, PutBackError) as error:
            # The tool itself will report what is wrong with the arguments; with a secret nothing runs unasked.
            return ToolCallAnswer(block=True, reason=str(error)) if mentions else None
        if mentions and approval is not None:  # what a rule covers may not take a secret along unasked
            warning = " ".join(filter(None, (approval.warning, vault.unseen(event.input)))) or None
            preview = vault.masked(approval.preview, event.input)
            approval = replace(approval, preview=preview, warning=warning, rule=None, diff=None)
        if approval is None or await self._is_covered(approval, ctx):
            return _allow_unasked(event)
        approval = _without_keys(approval, vault.hide_own)
        if not ctx.has_ui:
            reason = f"This call needs the user's approval, and nobody can be asked. {_INSTEAD[bool(event.caller)]}"
            return ToolCallAnswer(block=True, reason=f"{reason} {self._kept.problem}".rstrip())
        if event.caller:  # which is not part of any answer of the model's
            approval = replace(approval, scopes=tuple(scope for scope in approval.scopes if scope != "answer"))
        refusal = await self._ask(approval, ctx)
        if refusal is None:
            vault.release(event.tool_call_id, mentions)
        return None if refusal is None else ToolCallAnswer(block=True, reason=refusal)

    async def _approval(self, described: CallDescription, event: ToolCallEvent, ctx: Context) -> Approval | None:
        """What is to be asked; ``None`` for what is read unasked."""
        approval = await asyncio.to_thread(described.approval)
        event.target = approval.target
        if not described.reads:
            return approval
        reason = await asyncio.to_thread(self._why_ask, described, approval, ctx.cwd)
        if reason is None:
            return None if ctx.settings.approve == "writes" else approval
        approval = replace(approval, warning=" ".join(filter(None, (reason, approval.warning))))
        return replace(approval, rule=None) if self._is_private(approval) else approval

    def _is_private(self, approval: Approval) -> bool:
        return approval.target is None or approval.target.path.is_relative_to(os.path.realpath(self._agent_dir))

    def _why_ask(self, described: CallDescription, approval: Approval, cwd: Path) -> str | None:
        """Why a call without effects is asked about; off the event loop, for it looks at files."""
        if approval.target is None:
            return "It is not known which file it reads."
        return self._why_ask_of(approval.target, cwd, searched=described.searches)

    def _why_ask_of(self, target: Target, cwd: Path, *, searched: bool = False) -> str | None:
        return reason_to_ask(
            target,
            cwd,
            searched=searched,
            private=[Path(os.path.realpath(self._agent_dir))],
            open_to=[Path(os.path.realpath(path)) for path in (*self._open_to(), *kept_outputs)],
        )

    async def _only_looks(self, approval: Approval, cwd: Path) -> bool:
        """Whether nothing is done but to look at what may be read unasked."""
        looked = approval.looks_at
        if looked is None:
            return False
        reasons = await asyncio.to_thread(lambda: [self._why_ask_of(target, cwd) for target in looked])
        return not any(reasons)

    async def _is_covered(self, approval: Approval, ctx: Context) -> bool:
        if approval.rule is None:
            return False
        kept = await self._kept.of(ctx.cwd, ctx.ui)
        allowed = {*self._allowed, *self._in_answer, *kept}
        return any(rule in allowed for rule in (approval.rule, *approval.other_rules))

    async def _ask(self, approval: Approval, ctx: Context) -> str | None:
        """Ask the user; return why the call must not run, ``None`` if it may."""
        question, is_whole = _question(approval)
        if not is_whole:
            no, save = Choice(_NO, "no"), Choice(_SAVE, "no")
            if (await ctx.ui.choose(replace(question, choices=[no, save]), signal=ctx.signal)).option == _SAVE:
                ctx.ui.notify(await asyncio.to_thread(_saved, approval))
            return (
                "The user could not be shown all of this call, for it is too long, so it was not allowed: at most "
                f"{_MAX_QUESTION_CHARACTERS:,} characters can be asked about. Do it in several smaller calls."
            )
        rules = _rules(approval)
        also = {Choice(f"Yes, and {visible(what)}", "again", visible(what)): do for what, do in approval.also.items()}
        choices = [Choice(_YES, "yes", "Yes"), *also, *rules, Choice(_NO, "no")]
        question = replace(question, choices=choices, takes_reason=True)
        decision = await _decision(question, approval.dry_run, ctx)
        if decision.option in (None, _NO):
            why = f" They said: {decision.reason}" if decision.reason else " Ask what to do instead."
            return f"The user did not allow this call.{why}"
        for choice, do in also.items():
            if choice.option == decision.option:
                do()
        chosen = next((scope for choice, scope in rules.items() if choice.option == decision.option), None)
        if approval.rule is not None and chosen == "answer":
            self._in_answer.add(approval.rule)
        elif approval.rule is not None and chosen == "session":
            self._allowed.add(approval.rule)
        elif approval.rule is not None and chosen == "directory":
            await self._kept.add(ctx.cwd, approval.rule)
        return None


def _rules(approval: Approval) -> dict[Choice, str]:
    """The answers that allow more than this call, and for how long they count."""
    rule = approval.rule
    if not _is_readable(rule):
        return {}
    if "directory" not in approval.scopes:
        session = "this conversation" if "answer" in approval.scopes else "calls of other programs"
        again = {"answer": "this answer", "session": session}
        labels = {scope: f"don't ask again for {approval.means} in {again[scope]}" for scope in approval.scopes}
        return {Choice(f"Yes, and {label}", "again", label): scope for scope, label in labels.items()}
    label = f"{rule} ({approval.covers})" if approval.covers else rule
    meant = visible(approval.means or label)
    return {
        Choice(f"{_SESSION}{label}", "again", f"always in this session: {meant}"): "session",
        Choice(f"{_PROJECT}{label}", "again", f"always in this directory: {meant}"): "directory",
    }


def _without_keys(approval: Approval, hide: Callable[[str], str]) -> Approval:
    shown = {name: getattr(approval, name) for name in ("question", "preview", "warning", "diff")}
    return replace(approval, **{name: text and hide(text) for name, text in shown.items()})


def _allow_unasked(event: ToolCallEvent) -> None:
    if event.target is not None:
        event.target = replace(event.target, hides_keys=True)


def _is_readable(rule: str | None) -> TypeGuard[str]:
    return rule is not None and len(rule) <= _MAX_RULE_CHARACTERS and is_plain(rule)


async def _decision(question: Question, dry_run: Callable[[], Awaitable[str]] | None, ctx: Context) -> Decision:
    """Ask at once, and find out meanwhile what the call would do."""
    if dry_run is None:
        return await ctx.ui.choose(question, signal=ctx.signal)

    async def find_out() -> Question:
        return replace(question, outcome=visible(await _tried(dry_run, ctx)))

    pending = replace(question, outcome_pending=True)
    return await ctx.ui.choose(pending, signal=ctx.signal, later=asyncio.ensure_future(find_out()))


async def _tried(dry_run: Callable[[], Awaitable[str]], ctx: Context) -> str:
    """What the call would do, as far as the tool can find out."""
    try:
        found = await dry_run()
    except Exception:  # noqa: BLE001 - tools come from extensions, and the question is asked in any case
        return ""
    return ctx.settings.vault.hide(textcut.head(found, _MAX_TRIED_CHARACTERS))


def _question(approval: Approval) -> tuple[Question, bool]:
    """What the user is asked, without the answers, and whether all of it is shown."""
    preview = visible(approval.preview)
    lines = approval.preview.rstrip("\n").count("\n") + 1
    heading = " ".join(visible(approval.question).split("\n"))
    if lines > _MAX_LINES_UNCOUNTED:
        heading += f" ({lines:,} lines)"
    warnings = visible(approval.warning).split("\n") if approval.warning else []
    if has_right_to_left(approval.preview):
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
    )
    if len(question.text()) <= _MAX_QUESTION_CHARACTERS and len(question.diff) <= _MAX_QUESTION_CHARACTERS:
        return question, True
    note = f"\n\n… {len(preview) - 2 * _SHOWN_OF_LONG:,} characters are left out here …\n\n"
    notice = f"It is too long to be shown here ({len(preview):,} characters), so it cannot be allowed."
    head = "\n".join([heading, *warnings])[:_SHOWN_OF_LONG]
    body = f"{preview[:_SHOWN_OF_LONG]}{note}{preview[-_SHOWN_OF_LONG:]}"
    return Question(head.split("\n", 1)[0], [], [*head.split("\n")[1:], notice], body=body), False


def _saved(approval: Approval) -> str:
    """Save the whole of a question in a file of the user's; return what to say of it."""
    import tempfile

    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", errors="backslashreplace", prefix="indusagi-question-", suffix=".txt", delete=False
        ) as file:
            file.write(f"{visible(approval.question)}\n\n{visible(approval.preview)}\n")
    except OSError as error:
        return f"It could not be saved: {error.strerror}."
    return f"All of it is in {file.name}."

"""The sub-commands of ``%agent`` that concern a session: calls of `actions`, and the display of their results.

Each runs on the agent's loop and returns its output.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from textwrap import indent
from typing import TYPE_CHECKING, Literal, cast

from indus_nb.base import textcut
from indus_nb.base.errors import ModelNotFoundError, SessionBusyError, UsageError
from indus_nb.base.messages import ThinkingLevel, text_of
from indus_nb.base.wire import JsonObject
from indus_nb.core.limits.words import broken_off_in_words, cost_in_words
from indus_nb.core.resources.settings import agent_directory
from indus_nb.core.session.session import AgentSession
from indus_nb.core.session.stats import usage_of
from indus_nb.core.storage import SessionInfo, SessionStore, user_text
from indus_nb.core.storage.entries import Entry, as_text
from indus_nb.core.storage.text import subagent_of
from indus_nb.extend.approval.rules import RULES_FILE, KeptRules
from indus_nb.front.notebook import actions
from indus_nb.front.notebook.magic.request import Command
from indus_nb.front.notebook.view import blocks
from indus_nb.front.notebook.view.blocks import MimeBundle
from indus_nb.kernel.claims.stored import text_with_values
from indus_nb.models import Model
from indus_nb.models.cassettes.environment import environment_cassette
from indus_nb.models.catalog import split_level
from indus_nb.render import markup
from indus_nb.render.tree import cut, tree_rows
from indus_nb.start import THINKING_LEVELS
from indus_nb.start.doctor import diagnosis

if TYPE_CHECKING:
    from indus_nb.core.resources.inputs import Decision

_MAX_ROWS = 60
_MAX_DEPTH = 12
_MAX_PATH_CHARACTERS = 4096


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """Output of a command: columns, Markdown of a model, or a quiet line."""

    text: str
    kind: Literal["listing", "answer", "notice"]
    rows: Sequence[Sequence[str]] = ()
    """Rows of a table below the text."""

    def bundle(self, worded: Callable[[str], str] = str) -> MimeBundle:
        """Draw the output as a MIME bundle.

        Args:
            worded: Adapts the text to the front end that shows it.
        """
        text = worded(self.text)
        if self.rows:
            return blocks.table(text, self.rows)
        return {"listing": blocks.listing, "answer": blocks.answer, "notice": blocks.notice}[self.kind](text)


async def _trust(session: AgentSession, decision: str) -> CommandOutput:
    project = session.trusting.project
    if project is None:
        return CommandOutput(f"{session.store.cwd} brings nothing that could be trusted or ignored.", "notice")
    if not decision:
        state = "It is trusted." if project.trusted else "It is ignored. `%agent trust directory` trusts it."
        return CommandOutput(f"{project.question()}\n\n{state}", "listing")
    if decision not in project.options().values():
        raise UsageError(f"That cannot be decided here: {', '.join(project.options().values())} can.")
    await session.trusting.decide(cast("Decision", decision))
    return CommandOutput(
        f"{project.directory} is {'ignored' if decision == 'no' else 'trusted'} from now on.", "notice"
    )


async def _approved(session: AgentSession, argument: str) -> CommandOutput:
    kept, allowed = KeptRules(agent_directory()), session.settings.allowed
    here = await kept.of(session.store.cwd, session.ui)
    listed = [*((rule, "directory") for rule in here), *((rule, "session") for rule in allowed)]
    number = argument.removeprefix("forget ")
    if not argument or not listed:
        rows = [(str(at), rule, f"in this {where}") for at, (rule, where) in enumerate(listed, 1)]
        how = "Always allowed here, by your answers. `%agent approved forget 1` has the first one asked about again."
        return CommandOutput(how if rows else "No answer of yours allows anything here for good.", "notice", rows)
    if number != "all" and not 0 < int(number) <= len(listed):
        raise UsageError(
            f"{textcut.counted(len(listed), 'rule')} kept here, and none has the number {number}. Nothing was changed."
        )
    chosen = listed if number == "all" else [listed[int(number) - 1]]
    of_directory = [rule for rule, where in chosen if where == "directory"]
    if of_directory and not await kept.remove(session.store.cwd, of_directory):
        raise UsageError(
            f"{agent_directory() / RULES_FILE} could not be written, and its rules still count. Make it writable."
        )
    for rule in [rule for rule, where in chosen if where == "session"]:
        del allowed[rule]
    return CommandOutput(f"Allowed no more by this: {', '.join(rule for rule, _ in chosen)}.", "notice")


async def _doctor(session: AgentSession, _: str) -> CommandOutput:
    title, *lines = [line async for line in diagnosis(session)]
    return CommandOutput(title, "listing", [_row(line) for line in lines])


def _row(line: str) -> tuple[str, str]:
    """Split a line of a diagnosis into a name and its text; continuation lines have no name."""
    name, _, value = line.partition(": ")
    return ("", line.removeprefix("- ")) if line.startswith("- ") else (name.removesuffix(":"), value)


_QUESTION = (
    "`%agent answer` asks its question in a cell; it is also in the panel, which a click on the agent in JupyterLab's "
    "status bar opens."
)


async def _jobs(session: AgentSession, stopped: str) -> CommandOutput:
    jobs = session.settings.jobs
    if jobs is None or not jobs.all:
        return CommandOutput("There are no jobs.", "notice")
    if stopped:
        job = jobs.find(stopped)
        if job is None:
            raise UsageError(f"There is no job {stopped}. `%agent jobs` lists them.")
        await jobs.stop(job, by_user=True)
        return CommandOutput(job.describe(to_user=True), "notice")
    listed = [f"{job.describe(to_user=True)}\n{indent(job.last_lines(), '    ')}".rstrip() for job in jobs.all]
    if any(job.running and (job.asks or job.waits) for job in jobs.all):
        listed.append(_QUESTION)
    return CommandOutput(session.settings.vault.hide("\n".join(listed)), "listing")


# Model and thinking


async def _model(session: AgentSession, wanted: str) -> CommandOutput:
    return await _set_model(session, wanted) if wanted else _models(session)


async def _thinking(session: AgentSession, wanted: str) -> CommandOutput:
    return await _set_level(session, wanted) if wanted else _levels(session)


def _models(session: AgentSession) -> CommandOutput:
    available = session.available_models()
    current = session.model
    unlisted = [current] if current is not None and current not in available else []
    rows = [
        (
            "*" if model == current else " ",
            f"{model.provider}/{model.id}",
            model.name,
            f"{model.context_window // 1000:,}k" + (" · thinks" if model.reasoning else ""),
            "no key" if model in unlisted else "",
        )
        for model in (*unlisted, *available)
    ]
    # The one in use must not be among those that are cut off.
    rows = [row for row in rows if row[0] == "*"] + [row for row in rows if row[0] != "*"]
    return _listing("Models that can be used. * is in use; `%agent model NAME` changes it.", rows)


async def _set_model(session: AgentSession, wanted: str) -> CommandOutput:
    name, level = split_level(wanted)
    try:
        model = session.registry.find(name)
    except ModelNotFoundError as error:
        raise UsageError(f"{error} `%agent model` lists those that can be used here.") from error
    await session.set_model(model)
    if level is not None:
        await session.set_thinking_level(level)
    thinking = f", thinking {session.thinking_level}" if model.reasoning else ""
    lacking = actions.without_key(session) or "."
    return CommandOutput(f"The model is {model.name} now ({model.provider}/{model.id}{thinking}){lacking}", "notice")


def _levels(session: AgentSession) -> CommandOutput:
    levels = THINKING_LEVELS if session.model is None else session.model.thinking_levels
    if len(levels) < 2:
        return CommandOutput(f"{_name(session.model)} does not think aloud. `%agent model` lists others.", "notice")
    listed = "  ".join(f"*{level}" if level == session.thinking_level else level for level in levels)
    return CommandOutput(f"{listed}\n\n* is in use; `%agent thinking LEVEL` changes it.", "listing")


async def _set_level(session: AgentSession, wanted: str) -> CommandOutput:
    level = await session.set_thinking_level(cast("ThinkingLevel", wanted))
    nearest = "" if level == wanted else f": {_name(session.model)} does not know {wanted}, and this is nearest"
    return CommandOutput(f"Thinking is {level} now{nearest}.", "notice")


def _name(model: Model | None) -> str:
    return "The model" if model is None else model.name


# The conversation


async def _compact(session: AgentSession, instructions: str) -> CommandOutput:
    _refuse_while_busy(session, "compact")
    result = await session.compact(instructions or None)
    return CommandOutput(
        f"*A summary stands in the place of the older part of {result.tokens_before:,} tokens:*\n\n{result.summary}",
        "answer",
    )


def _forkable(store: SessionStore) -> CommandOutput:
    rows = [(entry.id, cut(text)) for entry in store.entries if (text := user_text(entry))]
    if not rows:
        return CommandOutput("Nothing was said yet, so there is nothing to fork.", "notice")
    title = "Your messages. `%agent fork ENTRY` goes on before one of them, in a new conversation."
    return _listing(title, rows, newest_last=True)


async def _fork(session: AgentSession, entry_id: str) -> CommandOutput:
    if not entry_id:
        return _forkable(session.store)
    _refuse_while_busy(session, "fork")
    try:
        moved = await actions.fork(session, entry_id)
    except UsageError as error:
        raise UsageError(f"{error} `%agent fork` lists your messages.") from error
    if not moved.done:
        return CommandOutput(actions.OBJECTED, "notice")
    if moved.text is None:
        return CommandOutput(f"This is a new conversation now, which ends with {entry_id}.", "notice")
    return _moved("This is a new conversation now, which ends before that message.", moved.text)


async def _tree(session: AgentSession, entry_id: str) -> CommandOutput:
    return await _go_to(session, entry_id) if entry_id else _entries(session.store)


def _entries(store: SessionStore) -> CommandOutput:
    rows = tree_rows(store, _MAX_ROWS, text_with_values(store.entries))
    if not rows:
        return CommandOutput("Nothing was said yet.", "notice")
    listed: list[tuple[str, str, str]] = []
    for before, row in zip([None, *rows], rows, strict=False):
        label = f"[{cut(row['label'])}] " if row["label"] else ""
        indented = "\N{EM SPACE}" * min(row["depth"], _MAX_DEPTH)
        if before is not None and _begins_branch(before, row):
            indented = f"{indented[1:]}\N{BOX DRAWINGS LIGHT UP AND RIGHT}\N{THIN SPACE}"
        where = "→" if row["here"] else " "
        listed.append((where, row["id"] or "", f"{indented}{label}{row['role']}: {row['text']}"))
        listed += [(" ", "", f"{indented}{path}") for path in [_session_of(store, row["id"])] if path]
    title = "→ is where the conversation stands. `%agent tree ENTRY` goes on from another entry."
    if any(row["role"] == "sub-agent" for row in rows):
        title += " `%agent --session PATH` goes on with a sub-agent."
    return CommandOutput(title, "listing", listed)


def _begins_branch(before: JsonObject, row: JsonObject) -> bool:
    """Return whether a branch that was left begins at a row: one deeper than the row before it, or beside its end."""
    depth, above = row["depth"], before["depth"]
    return depth > above or (depth == above > 0 and before["leaf"])


def _session_of(store: SessionStore, entry_id: str | None) -> str:
    """Return the path of a sub-agent's session; empty for another entry."""
    path = "" if entry_id is None else as_text(subagent_of(store.entry(entry_id)).get("sessionFile"))
    return markup.plain(textcut.one_line(path, _MAX_PATH_CHARACTERS))


async def _go_to(session: AgentSession, entry_id: str) -> CommandOutput:
    _refuse_while_busy(session, "go elsewhere in the tree")
    try:
        moved = await actions.navigate(session, entry_id)
    except UsageError as error:
        raise UsageError(f"{error} `%agent tree` lists the entries.") from error
    if not moved.done:
        return CommandOutput(actions.OBJECTED, "notice")
    if moved.text is not None:
        return _moved("The conversation goes on before that message now.", moved.text)
    return CommandOutput(
        f"The conversation goes on behind {entry_id} now. What was said since stays in the tree.", "notice"
    )


def _moved(where: str, text: str) -> CommandOutput:
    shown = markup.cut(text, lines=40, characters=4_000)
    return CommandOutput(f"{where} It said:\n\n{shown}", "listing")


async def _sessions(session: AgentSession, word: str) -> CommandOutput:
    store = session.store
    if store.path is None:
        raise UsageError("This conversation is not saved, so it has no neighbours. Start one with `%agent --new`.")
    here = await actions.sessions_here(store)
    length, notebooks = _unique_length(here), await asyncio.to_thread(actions.notebook_names)
    folded, named = word.casefold(), any(str(info.path) in notebooks for info in here)
    rows = [
        (
            "*" if store.is_at(info.path) else " ",
            info.id[:length],
            datetime.fromtimestamp(info.modified / 1000).astimezone().strftime("%Y-%m-%d %H:%M"),
            textcut.counted(info.message_count, "message"),
            *([cut(notebooks.get(str(info.path), ""))] if named else []),
            cut(info.name or info.first_message),
        )
        for info in here
        if folded
        in f"{info.name or ''}\n{info.first_message}\n{info.id}\n{notebooks.get(str(info.path), '')}".casefold()
    ]
    if not rows:
        what = f" with {word!r} in name, id, notebook or first message" if word else ""
        return CommandOutput(f"There is no saved conversation{what} in {store.cwd} yet.", "notice")
    return _listing("Conversations of this directory. `%agent --session ID` goes on with one of them.", rows)


def _unique_length(found: Sequence[SessionInfo]) -> int:
    """Return the number of leading characters that distinguish the ids."""
    length = 8
    while length < 36 and len({info.id[:length] for info in found}) < len({info.id for info in found}):
        length += 1
    return length


def _broken_off(entries: Sequence[Entry]) -> int | None:
    """Count the answers that were broken off; ``None`` where entries have sums of them."""
    unsure = [entry for entry in entries if (usage := usage_of(entry)) is not None and usage.cost.unconfirmed]
    return len(unsure) if all(entry.type == "message" for entry in unsure) else None


async def _stats(session: AgentSession, _: str) -> CommandOutput:
    store = session.store
    stats = session.stats()
    tokens, unpriced = stats.tokens, bool(stats.cost_unknown)
    at_least, before = "at least " if stats.cost_unconfirmed and not unpriced else "", stats.cost_before
    replayed = None if stats.cost else environment_cassette.replayed
    free = "" if replayed is None else f" ({replayed.words})"
    rows = [
        ("messages", f"{stats.user_messages:,} of yours, {stats.assistant_messages:,} answers"),
        ("tool calls", f"{stats.tool_calls:,}"),
        ("tokens in", f"{tokens.input + tokens.cache_read + tokens.cache_write:,} ({tokens.cache_read:,} from cache)"),
        ("tokens out", f"{tokens.output:,}"),
        ("cost", f"{at_least}{cost_in_words(stats.cost + (before or 0), unpriced=unpriced, before=before)}{free}"),
    ]
    if stats.cost_unconfirmed:
        broken = _broken_off(store.entries)
        rows.append(("broken off", broken_off_in_words(broken, stats.cost_unconfirmed)))
    if (usage := session.context_usage()) is not None:
        filled = "unknown" if usage.tokens is None else f"{usage.tokens:,}"
        share = "" if usage.percent is None else f" ({usage.percent:.0f} %)"
        rows.append(("context", f"{filled} of {usage.context_window:,} tokens{share}"))
    if dear := session.clearing.notice():
        rows.append(("next message", dear))
    rows += [
        ("model", f"{session.model.provider}/{session.model.id}" if session.model is not None else "none"),
        ("conversation", f"{cut(store.name)} ({store.session_id})" if store.name else store.session_id),
        ("file", str(store.path or "not saved")),
    ]
    return CommandOutput("", "listing", rows)


async def _export(session: AgentSession, wanted: str) -> CommandOutput:
    written = await asyncio.to_thread(actions.export, session.store, wanted)
    note = "" if written.path == written.asked else f" {written.asked.name} was there already and is as it was."
    return CommandOutput(f"Written to {written.path}.{note}", "notice")


# A run


async def _abort(session: AgentSession, _: str) -> CommandOutput:
    went_on = session.is_running or session.is_compacting
    await session.abort()
    if not went_on:
        return CommandOutput("Nothing was going on.", "notice")
    waiting = session.pending_count
    waits = "1 message still waits" if waiting == 1 else f"{waiting} messages still wait"
    left = f" {waits}: `%agent queue clear` takes back what waits." if waiting else ""
    return CommandOutput(f"The agent was stopped. What it did so far stays.{left}", "notice")


async def _steer(session: AgentSession, text: str) -> CommandOutput:
    if not text:
        raise UsageError("Say what the agent should know: `%agent steer TEXT`.")
    if not session.is_running:
        raise UsageError("The agent is not at work. Ask it with `%agent TEXT`.")
    await session.steer(text)
    return CommandOutput("The agent will read it after the tool call at hand.", "notice")


async def _queue(session: AgentSession, clear: str) -> CommandOutput:
    return await _clear_queue(session) if clear else _queued(session)


def _queued(session: AgentSession) -> CommandOutput:
    rows = [("steering", cut(text)) for text in session.steering.texts]
    rows += [("afterwards", cut(text)) for text in session.follow_up_queue.texts]
    if not rows:
        return CommandOutput("Nothing waits to be said to the agent.", "notice")
    return _listing("What waits to be said. `%agent queue clear` takes it back.", rows)


async def _clear_queue(session: AgentSession) -> CommandOutput:
    removed = await actions.clear_queue(session)
    if not removed:
        return CommandOutput("Nothing waited.", "notice")
    texts = "\n\n".join(text_of(message.content) for message in removed)
    return CommandOutput("\n".join(("Taken back:", "", markup.cut(texts, lines=60))), "listing")


def _refuse_while_busy(session: AgentSession, what: str) -> None:
    if session.is_running or session.is_compacting:
        raise SessionBusyError(
            f"The agent is at work, and to {what} would stop it. Wait for its end, or `%agent abort` first."
        )


# Lists


def _listing(title: str, rows: Sequence[Sequence[str]], *, newest_last: bool = False) -> CommandOutput:
    """Build a titled list of at most ``_MAX_ROWS`` rows, and note how many were left out."""
    left_out = len(rows) - _MAX_ROWS
    if left_out > 0:
        rows = rows[-_MAX_ROWS:] if newest_last else rows[:_MAX_ROWS]
        title += f" … {left_out:,} more are not listed."
    return CommandOutput(title, "listing", rows)


_CARRY_OUT: Mapping[str, Callable[[AgentSession, str], Awaitable[CommandOutput]]] = {
    "model": _model,
    "thinking": _thinking,
    "compact": _compact,
    "fork": _fork,
    "tree": _tree,
    "sessions": _sessions,
    "stats": _stats,
    "export": _export,
    "abort": _abort,
    "steer": _steer,
    "queue": _queue,
    "jobs": _jobs,
    "trust": _trust,
    "approved": _approved,
    "doctor": _doctor,
}


async def serve(command: Command, session: AgentSession) -> CommandOutput:
    """Run a sub-command that concerns a session.

    Raises:
        IndusError: It failed; the session is as it was then.
    """
    carry_out = _CARRY_OUT.get(command.name)
    if carry_out is None:
        raise UsageError(f"%agent {command.name} does not concern a session. `%agent help` lists what there is.")
    if command.name != "abort":  # which may end what an extension does at the start
        await session.start()
    return await carry_out(session, command.argument)

"""Operations on a session that the panel and the sub-commands of ``%agent`` share.

Everything runs on the agent's loop. A front end adds only the input and the display of the result.
"""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import cast

from indus_nb.base.errors import SessionFileError, UsageError
from indus_nb.base.files import write_export
from indus_nb.base.messages import AssistantMessage, CustomMessage, Message, ThinkingLevel, UserMessage, text_of
from indus_nb.base.textcut import one_line
from indus_nb.core.resources.settings import agent_directory
from indus_nb.core.session.session import AgentSession
from indus_nb.core.storage import SessionInfo, SessionStore, list_sessions
from indus_nb.core.storage.format import format_line
from indus_nb.models import Model
from indus_nb.models.catalog import split_level
from indus_nb.render.session_page import export_html, page_name
from indus_nb.start.key_setup import first_price, needs_key

MAX_SESSIONS = 500
"""Most files of a directory that are read, newest first."""
_MAX_KNOWN_BYTES = 4 << 20
_MAX_TITLE_CHARACTERS = 80
_MAX_QUOTED_CHARACTERS = 300
OBJECTED = "An extension objected: the conversation stays where it is."


async def change_model(session: AgentSession, model: str | None, provider: str | None, thinking: str | None) -> None:
    """Change a session's model or thinking level.

    Args:
        model: What is asked for, with ``:LEVEL`` behind it if wanted; ``None`` for the provider's usual one.
        thinking: The level; ``None`` for that of ``model``.

    Raises:
        ModelNotFoundError: There is no such model.
        CredentialsError: There is no key for it. Nothing has changed then.
    """
    level: str | None = None
    chosen = session.model
    if model is not None:
        wanted, level = split_level(model)
        chosen = session.registry.find(wanted, provider)
    elif provider is not None and (chosen is None or chosen.provider != provider):
        chosen = session.registry.default(provider)
    if chosen is not None and chosen != session.model:
        session.registry.key_for(chosen)  # one that cannot be asked is not chosen
        await session.set_model(chosen)
    for each in (level, thinking):
        if each is not None:
            await session.set_thinking_level(cast("ThinkingLevel", each))


@dataclass(frozen=True, slots=True)
class Moved:
    """Result of `navigate`: whether the session moved, and the text that is offered for editing there.

    It does not move when an extension objects.
    """

    done: bool
    text: str | None = None


async def navigate(session: AgentSession, entry_id: str) -> Moved:
    """Move a session to another of its entries, and continue there.

    That is before it, when it is a message of the user.

    Returns:
        Whether it went there, and the text of that message.

    Raises:
        UsageError: There is no such entry.
        SessionBusyError: A run is going on.
    """
    session.store.entry(entry_id)
    navigation = await session.navigate(entry_id)
    return Moved(not navigation.cancelled, navigation.editor_text)


async def fork(session: AgentSession, entry_id: str) -> Moved:
    """Start a new session that continues from an entry.

    That is before it, when it is a message of the user.

    Args:
        session: The session, which is the new one afterwards.

    Returns:
        Whether it was done, and the text of that message.

    Raises:
        UsageError: There is no such entry.
    """
    entry = session.store.entry(entry_id)
    is_users = entry.type == "message" and isinstance(entry.message, UserMessage)
    text = await session.fork(entry_id, position="before" if is_users else "at")
    return Moved(text is not None, text if is_users else None)


async def clear_queue(session: AgentSession) -> list[UserMessage | CustomMessage]:
    """Empty the message queues; returns the messages, steering ones first."""
    queued = [*session.steering.waiting, *session.follow_up_queue.waiting]
    await session.clear_queue()
    return queued


async def sessions_here(store: SessionStore) -> list[SessionInfo]:
    """List the saved sessions of a session's directory, newest first.

    The list is empty for a session that is not saved.
    """
    if store.path is None:
        return []
    found = await asyncio.to_thread(list_sessions, store.path.parent, MAX_SESSIONS)
    return [info for info in found if info.cwd in ("", str(store.cwd), str(store.cwd.absolute()))]


def known_sessions_file() -> Path:
    """Return the path of the file that records the conversations of notebooks."""
    return agent_directory() / "notebooks.json"


def known_sessions() -> dict[str, list[str]]:
    """Return the session files of notebooks by their paths, and by their ids, the one used last at the end."""
    with suppress(OSError, ValueError):
        if known_sessions_file().stat().st_size <= _MAX_KNOWN_BYTES:
            value: object = json.loads(known_sessions_file().read_bytes())
            pairs = cast("dict[str, object]", value).items() if isinstance(value, dict) else ()
            listed = {path: [held] if isinstance(held, str) else held for path, held in pairs}
            return {
                path: [str(each) for each in cast("list[object]", held)]
                for path, held in listed.items()
                if held and isinstance(held, list)
            }
    return {}


def notebook_names() -> dict[str, str]:
    """Return the names of notebooks by the session files of the conversations that they have had."""
    by_path = ((Path(name), sessions) for name, sessions in known_sessions().items())
    return {held: path.stem for path, sessions in by_path if path.is_absolute() for held in sessions}


async def name_by_prompt(session: AgentSession, written: str, sent: str) -> None:
    """Name a conversation by its first prompt as it was written, before values were filled in.

    One that is not sent, for want of a key, names none.
    """
    if written not in ("", sent) and not session.messages and session.store.name is None and not needs_key(session):
        await session.set_name(one_line(written, _MAX_TITLE_CHARACTERS))


@dataclass(frozen=True, slots=True)
class Exported:
    """Result of `export`: the path that a session was written to."""

    path: Path
    asked: Path
    """The path that was asked for, if there was a file already, which stays as it is."""


def export(store: SessionStore, wanted: str = "") -> Exported:
    """Write a session into a new file.

    It is an HTML page, or a copy of the session file where the name ends otherwise.

    Args:
        wanted: The path, relative to the session's directory; by default a name of its own.

    Returns:
        Where it was written to.

    Raises:
        UsageError: The conversation is empty.
        SessionFileError: The file cannot be written.
    """
    asked = Path(wanted or page_name(store))
    with suppress(RuntimeError):  # there is no home directory
        asked = asked.expanduser()
    asked = store.cwd / asked
    path = _free(asked)
    if path.suffix == ".html":
        export_html(store, path)
    else:
        _copy(store, path)
    return Exported(path, asked)


def _free(path: Path) -> Path:
    """Return ``path``, with a number appended if it exists already."""
    if not os.path.lexists(path):
        return path
    numbered = (path.with_stem(f"{path.stem}-{number}") for number in count(2))
    return next(place for place in numbered if not os.path.lexists(place))


def _copy(store: SessionStore, path: Path) -> None:
    if not any(entry.type == "message" for entry in store.entries):
        raise UsageError("Nothing to export yet: start a conversation first.")
    try:
        if store.path is not None and store.path.exists():
            content = store.path.read_bytes()
        else:
            content = b"\n".join([format_line(store.header)[:-1], *(entry.to_json() for entry in store.entries), b""])
        path.parent.mkdir(parents=True, exist_ok=True)
        write_export(path, content, lambda _: False)
    except OSError as error:
        problem = f"the copy cannot be written ({error.strerror}). Choose another path"
        raise SessionFileError(path, problem) from error


def price(model: Model) -> str:
    """Return the price of a million tokens, in and out; empty where it is unknown or zero."""
    cost = model.cost
    return f"${cost.input:g} / ${cost.output:g}" if cost.input or cost.output else ""


def unchosen(session: AgentSession) -> str:
    """Return a line that names the model of a conversation without an answer or a chosen model; else empty."""
    model = session.model
    if model is None or not session.models.is_usual or session.last_answer is not None:
        return ""
    costs = f" ({paid} for a million tokens in / out)" if (paid := price(model)) else ""
    return f"{model.name} answers{costs}, for no model was chosen. {first_price(session, model)}"


def unanswered(session: AgentSession) -> str:
    """Return a line that names the prompts that go along with the next one, for nothing answered them; else empty.

    They stay in the conversation, so that one may ask to try again once what was wrong is mended. Those that a limit in
    money kept from being sent go along nowhere; see ``for_model``.
    """
    texts: list[str] = []
    is_sent = True
    for message in session.conversation.newest_first():
        if isinstance(message, AssistantMessage):
            is_sent = not message.was_not_asked
        if isinstance(message, UserMessage):
            texts += [one_line(text_of(message.content), _MAX_TITLE_CHARACTERS)] * is_sent
        elif not (isinstance(message, CustomMessage) or _is_no_answer(message)):
            break
    if not texts:
        return ""
    quoted = one_line(", ".join(f'"{text}"' for text in texts[::-1]), _MAX_QUOTED_CHARACTERS)
    what = "Your prompt before, which nothing answered, goes" if len(texts) == 1 else "Prompts that nothing answered go"
    return f"{what} along: {quoted}. `%agent --new` begins without."


def _is_no_answer(message: Message) -> bool:
    return isinstance(message, AssistantMessage) and message.stop_reason in ("error", "aborted") and not message.content


def describe(session: AgentSession) -> str:
    """Describe a session in one line: what it is ready with, and whether it is saved."""
    if session.model is None:
        return "No model is chosen: `%agent key` asks for a key; --provider offline needs none (no language model)."
    saved = "saved" if session.store.path else "not saved"
    thinking = f" · thinking {session.thinking_level}" if session.model.reasoning else ""
    return f"Ready: {session.model.name}{thinking} · {saved}{without_key(session)}"


def without_key(session: AgentSession) -> str:
    """Return the end of a sentence, and one more, where the model has no key; empty where it has one."""
    model, registry = session.model, session.registry
    if model is None or (registry.has_key(model) and not registry.missing_key(model)):
        return ""
    kept = ", so only answers that are kept can be had" if registry.has_key(model) else " yet"
    return f". There is no key for {model.provider}{kept}: `%agent key` asks for one."

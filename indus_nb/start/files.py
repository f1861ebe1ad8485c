"""Which session file a session is opened with."""

from __future__ import annotations

from pathlib import Path

from indus_nb.files import expand_user
from indus_nb.resources.settings import Settings, variable
from indus_nb.start.options import SessionOptions
from indus_nb.storage import SessionStore, find_session, most_recent_session, session_directory, session_with_id


def session_directory_of(options: SessionOptions, settings: Settings, cwd: Path, agent_dir: Path) -> Path:
    """Determine where session files are.

    Args:
        options: They come first, then the environment, then the settings.
        settings: The user's settings.
        cwd: The directory that the session works in.
        agent_dir: The user's directory of this program.

    Returns:
        The directory, which need not exist.
    """
    chosen = options.session_dir or variable("CODING_AGENT_SESSION_DIR") or settings.session_dir
    return expand_user(chosen).absolute() if chosen else session_directory(cwd, agent_dir)


def open_store(
    options: SessionOptions, directory: Path, cwd: Path, *, parent: str | None = None, lasting: bool = True
) -> SessionStore:
    """Open the session that options ask for.

    Args:
        options: They name one, or ask for a new one.
        directory: Where session files are.
        cwd: The directory that a new one works in.
        parent: The file of the session that a new one works for.
        lasting: Whether its messages survive a power cut; see ``SessionStore``.

    Returns:
        Its entries.

    Raises:
        IndusError: There is none of that name, or it cannot be used.
    """
    if options.session is not None:
        store = SessionStore.open(find_session(options.session, directory))
    elif options.fork is not None:
        store = SessionStore.read(find_session(options.fork, directory)).copy(cwd, directory)
    elif options.session_id is not None and (known := session_with_id(options.session_id, [directory])):
        store = SessionStore.open(known)
    elif options.session_id is not None:
        store = SessionStore.create(cwd, directory, session_id=options.session_id)
    elif options.continue_last and (recent := most_recent_session(directory)):
        store = SessionStore.open(recent)
    else:
        store = new_store(options, directory, cwd, parent)
    store.lasting = lasting
    return store


def new_store(options: SessionOptions, directory: Path, cwd: Path, parent: str | None) -> SessionStore:
    """Begin an empty session.

    Args:
        options: Whether it is saved.
        directory: Where its file will be.
        cwd: The directory that it works in.
        parent: The file of the session that it comes from.

    Returns:
        A store without entries.
    """
    if options.no_session:
        return SessionStore.in_memory(cwd)
    return SessionStore.create(cwd, directory, parent_session=parent)

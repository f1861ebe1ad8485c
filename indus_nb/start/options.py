"""The options of a session, and the checks of single ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from indus_nb.base.errors import UsageError
from indus_nb.base.wire import JsonObject
from indus_nb.core.session.session import ApproveMode
from indus_nb.core.session.state import SandboxMode
from indus_nb.models.protocol import CacheRetention
from indus_nb.tools import AGENTS, BUILTIN_TOOLS, DEFAULT_TOOLS, TODO

if TYPE_CHECKING:
    from indus_nb.core.resources.settings import LoadedSettings
    from indus_nb.tools.client import ClientTools


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """The options of a session; everything has a default.

    ``model`` is an id, ``provider/id`` or a part of a name, with ``:level`` behind it for the thinking level if wanted.
    ``models`` are the ones to cycle through, ``*`` standing for anything, with ``:level`` behind it too; a new session
    starts with the first. ``tools`` are names, ``()`` for none.
    Without ``builtin_tools`` only those of extensions and clients are offered, and those that ``exclude_tools`` names
    never are. ``place`` says in the built-in system prompt where the agent works; without it that is a
    project with files. ``system_prompt`` and ``append_system_prompt`` are texts or paths of text files. At most one of
    ``session`` (a path or the beginning of an id), ``session_id`` (exactly that one, begun if there is none), ``fork``
    (a copy of that path or id), ``continue_last`` and ``no_session`` counts.

    ``extensions`` are files, directories or functions ``setup(api)``, besides those found in the usual places unless
    ``use_extensions`` is off; ``flags`` are what they find for their options. ``mcp_servers`` are servers besides those
    of the settings, as there. ``skills`` and ``prompt_templates`` are
    more places of those. ``more_tools`` are names that ``tools`` may hold because an extension offers
    them. ``approve`` selects the tool calls that the user is asked about: ``never`` none, ``effects``
    those with effects on what is not the agent's own, ``writes`` those with any, ``always`` all; ``looks``
    refuses those with effects (see ``indus_nb.safety.policy``);
    ``usual_approve`` applies when neither this nor the settings set it.

    ``trust`` is the answer to the question whether the project in the working directory is trusted, so that its
    extensions, settings and instructions are used. Without it the user's decision of before counts, or else the user is
    asked; where no user can be asked the project is ignored, which ``problems`` says.

    ``max_cost`` is what the session may spend from its start on, in US dollars, all that its code and its agents ask
    included; ``max_turns`` how many answers the model may give to a prompt, and ``timeout`` the seconds that a prompt
    may take.

    ``jobs_after`` are the seconds after which a tool call that still runs goes on as a job, ``0`` never; without it and
    without the setting it is ``usual_jobs_after``, and without that every call is waited for. A cassette has no jobs.
    ``usual_cache_retention`` is how long the provider keeps the conversation for the next request unless the settings
    say so (``indus_nb.models.prompt_cache``): ``long`` where a person thinks between two prompts.
    ``typed_prompts`` offers the tool for typed answers from the first request on, so that the tools stay the same over
    all prompts, whether they ask for a type or not: for conversations that mix them.
    ``plans`` keeps a to-do list at hand, which is offered once a plan is carried out.
    ``client`` is what the program that shows the session does in place of the built-in tools.
    ``sandbox`` confines commands and MCP servers that are programs: ``workspace`` to the working directory,
    ``read-only`` to reading, ``off`` not at all; what they may do besides is in the settings. ``hidden`` are paths that
    they may not read besides those of the settings.
    """

    cwd: Path | str | None = None
    provider: str | None = None
    model: str | None = None
    thinking: str | None = None
    models: Sequence[str] | None = None
    api_key: str | None = field(default=None, repr=False)
    place: str = ""
    system_prompt: str | None = None
    append_system_prompt: Sequence[str] = ()
    tools: Sequence[str] | None = None
    builtin_tools: bool = True
    exclude_tools: Sequence[str] = ()
    session: str | None = None
    session_id: str | None = None
    fork: str | None = None
    continue_last: bool = False
    no_session: bool = False
    session_dir: Path | str | None = None
    extensions: Sequence[Path | str | Callable[[Any], Any]] = ()
    use_extensions: bool = True
    mcp_servers: Mapping[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    flags: Mapping[str, bool | str] = field(default_factory=dict[str, bool | str])
    skills: Sequence[str] = ()
    use_skills: bool = True
    prompt_templates: Sequence[str] = ()
    use_prompt_templates: bool = True
    use_context_files: bool = True
    more_tools: Sequence[str] = ()
    approve: ApproveMode | None = None
    usual_approve: ApproveMode = "never"
    trust: bool | None = None
    sandbox: SandboxMode | None = None
    hidden: Sequence[Path] = ()
    client: ClientTools | None = None
    typed_prompts: bool = False
    plans: bool = False
    max_cost: float | None = None
    max_turns: int | None = None
    timeout: float | None = None
    jobs_after: float | None = None
    usual_jobs_after: float | None = None
    usual_cache_retention: CacheRetention = "short"


def usual_tools(loaded: LoadedSettings, problems: list[str]) -> Sequence[str]:
    """Choose the tools that are offered where the caller chooses none.

    Args:
        loaded: The settings.
        problems: Gets what is wrong with those that name tools.

    Returns:
        Their names.
    """
    names, more = loaded.settings.default_tools, [AGENTS] if loaded.settings.subagents.enabled else []
    if names is None:
        return [*DEFAULT_TOOLS, *more]
    known = [*BUILTIN_TOOLS, TODO, AGENTS]
    if unknown := [name for name in names if name not in known]:
        names = [name for name in names if name in known]
        unknown_tools = f"Unknown tool: {', '.join(unknown)}. Known tools: {', '.join(known)}."
        problems.append(f"{loaded.place('defaultTools')} is rejected in part. {unknown_tools}")
    return [*names, *(name for name in more if name not in names)]


def check_limits(options: SessionOptions) -> None:
    """Check the limits; raises ``UsageError`` for one that is not above zero."""
    for name in ("max_cost", "max_turns", "timeout"):
        amount = getattr(options, name)
        if amount is not None and not 0 < amount < math.inf:
            raise UsageError(f"{name} is a number above zero, not {amount!r}.")


def check_tools(names: Sequence[str], known: Sequence[str]) -> None:
    """Check the names of tools.

    Args:
        names: The chosen names.
        known: The names to choose from.

    Raises:
        UsageError: One of the names is not known, or ``names`` is one text.
    """
    if isinstance(names, str):
        raise UsageError(f"The tools are a list of names, not one text: [{names!r}].")
    for name in names:
        if name not in known:
            raise UsageError(f"Unknown tool: {name}. Known tools: {', '.join(known)}.")


def text_or_file(text: str) -> str:
    """Return the text of the file of that path, or the text itself if there is none."""
    try:
        path = Path(text).expanduser()
        return path.read_text(encoding="utf-8") if path.is_file() else text
    except (OSError, UnicodeDecodeError, ValueError, RuntimeError):
        return text

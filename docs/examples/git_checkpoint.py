"""Keeps the files as they are before each turn that may change some, and offers to bring them back on a fork.

A checkpoint is a commit that no branch leads to: neither the user's branch nor the index is touched, and files that git
ignores are left out. ``git log refs/indus/<session id>`` lists those of a session. Outside of a git repository nothing
happens.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable

from indus_nb.base.events import TurnStart
from indus_nb.core.storage import Entry
from indus_nb.extend.api import Context, ExtensionApi, custom_entries
from indus_nb.extend.events import SessionBeforeFork, ToolCallEvent

ENTRY = "git-checkpoint"
AUTHOR = ("-c", "user.name=checkpoint", "-c", "user.email=checkpoint@localhost")


def setup(api: ExtensionApi) -> None:
    """Watch tools with effects, and forks."""
    files = Files(api)
    is_kept = False
    turn = asyncio.Lock()  # tools may be set to run side by side

    @api.on("turn_start")
    def begin(_event: TurnStart, _ctx: Context) -> None:
        nonlocal is_kept
        is_kept = False

    @api.on("tool_call")
    async def keep(event: ToolCallEvent, ctx: Context) -> None:
        nonlocal is_kept
        async with turn:
            if is_kept or ctx.is_read_only(event.tool_name):
                return
            is_kept = True
            if not await files.are_in_git():
                return
            try:
                commit = await files.keep(ctx.session.session_id, f"Before {event.tool_name}")
            except GitError as error:
                # Raised, it would keep the tool from running.
                ctx.ui.notify(f"There is no checkpoint of this turn. {error}", "warning")
            else:
                api.append_entry(ENTRY, commit)

    @api.on("session_before_fork")
    async def offer(event: SessionBeforeFork, ctx: Context) -> None:
        commit = first_after(event.entry_id, ctx.session.branch())
        if commit is None or not ctx.has_ui or not ctx.is_idle():  # a running tool would write into it
            return
        now = await files.keep(ctx.session.session_id, "Before files are brought back")
        changes = await files.git("diff", "--stat", "--stat-count=20", commit, now)
        if changes and await ctx.ui.confirm("Bring the files back to what they were here?", f"To undo:\n{changes}"):
            await files.bring_back(commit)
            ctx.ui.notify(f"The files are as they were. `git show {now[:12]}` has them as they had become.")


def first_after(entry_id: str, branch: list[Entry]) -> str | None:
    """The first checkpoint of the branch behind an entry: what the files were when that entry was the last one."""
    at = next((index for index, entry in enumerate(branch) if entry.id == entry_id), len(branch))
    saved = map(str, custom_entries(branch[at + 1 :], ENTRY))
    # A session file may come from anywhere, and what is no commit could be an option of git's.
    return next((commit for commit in saved if re.fullmatch("[0-9a-f]{40,64}", commit)), None)


class GitError(Exception):
    """A git command that failed; the text is what git said."""


class Files:
    """The files of the work tree, kept and brought back with an index of their own."""

    def __init__(self, api: ExtensionApi) -> None:
        self._api = api

    async def are_in_git(self) -> bool:
        """Whether there is a work tree to keep."""
        return (await self._api.exec("git", ["rev-parse", "--is-inside-work-tree"])).stdout.strip() == "true"

    async def keep(self, session_id: str, message: str) -> str:
        """Commit all files as they are; returns the commit. Raises ``GitError``."""
        ref = f"refs/indus/{session_id}"
        await self._git_with_own_index("add", "--all")
        tree = await self._git_with_own_index("write-tree")
        last = await self.git("for-each-ref", "--format=%(objectname)", ref)
        parents = ["-p", last] if last else []
        commit = await self.git(*AUTHOR, "commit-tree", tree, *parents, "-m", message)
        await self.git("update-ref", ref, commit)
        return commit

    async def bring_back(self, commit: str) -> None:
        """Make the files what they were; what ``keep`` has not seen stays. Raises ``GitError``."""
        await self._git_with_own_index("read-tree", "--reset", "-u", commit)

    async def git(self, *arguments: str) -> str:
        """What a git command prints."""
        return await self._run("git", arguments)

    async def _git_with_own_index(self, *arguments: str) -> str:
        # It stays, so that the next checkpoint looks only at what has changed.
        folder = await self.git("rev-parse", "--absolute-git-dir")
        return await self._run("env", [f"GIT_INDEX_FILE={folder}/indus-index", "git", *arguments])

    async def _run(self, program: str, arguments: Iterable[str]) -> str:
        done = await self._api.exec(program, [*arguments], timeout=20)
        if done.code != 0:
            raise GitError("It took too long." if done.killed else done.stderr.strip() or "git failed.")
        return done.stdout.strip()

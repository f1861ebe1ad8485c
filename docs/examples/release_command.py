"""``/release``: a command that asks in dialogs which version to release and with which notes, and tags it in git."""

from __future__ import annotations

import re

from indus_nb.base.errors import UsageError
from indus_nb.extend.api import CommandContext, ExtensionApi

OTHER = "another version"


def setup(api: ExtensionApi) -> None:
    """Offer the command."""

    async def git(*arguments: str) -> str | None:
        done = await api.exec("git", arguments, timeout=20)
        return done.stdout.strip() if done.code == 0 else None

    @api.command("release")
    async def release(arguments: str, ctx: CommandContext) -> None:
        """Tag a release; asks for its version and notes."""
        if not ctx.has_ui:
            raise UsageError("/release asks questions, and nobody is here to answer them. Use it where dialogs show.")
        latest = await git("describe", "--tags", "--abbrev=0", "--match", "v*")
        version = arguments.strip() or await ask_version(ctx, latest)
        if version is None:
            return
        if not re.fullmatch(r"\d+\.\d+\.\d+", version):
            raise UsageError(f"{version!r} is no version: write three numbers, such as 1.4.0.")
        commits = await git("log", "--format=- %s", f"{latest}..HEAD" if latest else "HEAD")
        notes = await ctx.ui.editor(f"Notes for version {version}", commits)
        if not notes or not await ctx.ui.confirm(f"Release version {version}?", notes):
            ctx.ui.notify("Nothing was released.")
            return
        tagged = await api.exec("git", ["tag", "--annotate", "--cleanup=whitespace", f"v{version}", "--message", notes])
        if tagged.code != 0:
            raise UsageError(f"git could not tag v{version}: {tagged.stderr.strip()}")
        ctx.ui.notify(f"Tagged v{version}. `git push origin v{version}` makes it known.")


async def ask_version(ctx: CommandContext, latest: str | None) -> str | None:
    """What the user chooses or writes; ``None`` when dismissed."""
    chosen = await ctx.ui.select(f"Release after {latest or 'nothing so far'}", [*next_versions(latest), OTHER])
    return await ctx.ui.input("Version", "1.4.0") if chosen == OTHER else chosen


def next_versions(latest: str | None) -> list[str]:
    """What may follow a version: a fix, a feature, a break.

    >>> next_versions("v1.3.9")
    ['1.3.10', '1.4.0', '2.0.0']
    """
    found = re.fullmatch(r"v(\d+)\.(\d+)\.(\d+)", latest or "v0.0.0")
    if found is None:
        return []
    major, minor, patch = map(int, found.groups())
    return [f"{major}.{minor}.{patch + 1}", f"{major}.{minor + 1}.0", f"{major + 1}.0.0"]

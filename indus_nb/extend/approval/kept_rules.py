"""Rules that the user has allowed for good, by directory: ``approved.json`` in the agent directory."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from indus_nb.base.files import is_link_of_others, make_private_directory, others_can_write, read_file, write_atomically
from indus_nb.base.wire import load_object
from indus_nb.core.session.dialogs import Ui

RULES_FILE = "approved.json"
_LOCK_SECONDS = 5.0


class KeptRules:
    """The rules of the file in ``agent_dir``; ``problem`` is what was wrong with it when it was read last, or empty."""

    def __init__(self, agent_dir: Path) -> None:
        self.problem = ""
        self._path = agent_dir / RULES_FILE
        self._reported: set[str] = set()

    async def of(self, directory: Path, ui: Ui) -> Sequence[str]:
        """Read the rules for a directory; a problem with the file is shown once.

        Args:
            ui: Where to show the problem.
        """
        rules, self.problem = await asyncio.to_thread(self._read)
        if self.problem:
            self._report(self.problem, ui)
        return rules.get(str(directory), ())

    async def add(self, directory: Path, rules: Sequence[str]) -> None:
        """Keep rules for ``directory``; where that is not possible they count for this once."""
        await asyncio.to_thread(self._add, str(directory), rules)

    def _report(self, problem: str, ui: Ui) -> None:
        if problem not in self._reported:
            self._reported.add(problem)
            ui.notify(problem, "warning")

    def _read(self) -> tuple[Mapping[str, Sequence[str]], str]:
        advice = "No rule in it counts, and none is added, until you mend or remove it."
        try:
            if (objection := _objection(self._path)) is not None:
                return {}, f"{objection} {advice}"
            rules = load_object(read_file(self._path))
        except FileNotFoundError:
            return {}, ""
        except OSError as error:
            return {}, f"{self._path}: cannot be read ({error.strerror}). {advice}"
        except ValueError as error:
            return {}, f"{self._path}: is no JSON ({error}). {advice}"
        for directory, kept in rules.items():
            if not isinstance(kept, list) or not all(isinstance(rule, str) for rule in cast("list[object]", kept)):
                return {}, f"{self._path}: `{directory}` must be a list of texts. {advice}"
        return rules, ""

    def _add(self, directory: str, new: Sequence[str]) -> None:
        from filelock import FileLock, Timeout  # reading, which every session may do, needs no lock

        try:
            make_private_directory(self._path.parent)
            with FileLock(f"{self._path}.lock", timeout=_LOCK_SECONDS, mode=0o600):
                before, problem = self._read()
                if problem:
                    return
                rules = {name: [*kept] for name, kept in before.items()}
                rules[directory] = [*dict.fromkeys([*rules.get(directory, []), *new])]
                text = json.dumps(rules, indent=2, ensure_ascii=False) + "\n"
                write_atomically(self._path, text.encode(), mode=0o600, exclusive=True)
                self._path.chmod(0o600)  # whatever it was before
        except (Timeout, OSError):
            return  # it will be asked again


def _objection(path: Path) -> str | None:
    """Return why a file is perhaps not what the user wrote; raises ``OSError`` where there is none."""
    if is_link_of_others(path):
        return f"{path}: it is a link that another user made."
    for place, found in ((path, path.stat()), (path.parent, path.parent.stat())):
        if found.st_uid not in (os.geteuid(), 0):
            return f"{place}: it belongs to another user."
        # A sticky directory keeps others from replacing what is not theirs.
        if not (stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX) and others_can_write(found):
            return f"{place}: others than you can write to it: `chmod go-w {place}`."
    return None

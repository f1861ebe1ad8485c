"""What the user has allowed for good, by directory: ``approved.json`` in the agent directory."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from indus_nb.files import make_private_directory, read_file, write_atomically
from indus_nb.session.dialogs import Ui
from indus_nb.wire import load_object

RULES_FILE = "approved.json"
_LOCK_SECONDS = 5.0


class KeptRules:
    """The rules of the file in ``agent_dir``; ``problem`` is what was wrong with it when it was read last, or empty."""

    def __init__(self, agent_dir: Path) -> None:
        self.problem = ""
        self._path = agent_dir / RULES_FILE
        self._reported: set[str] = set()

    async def of(self, directory: Path, ui: Ui) -> Sequence[str]:
        """Read what is allowed in a directory; a problem with the file is shown once.

        Args:
            directory: The session's working directory.
            ui: Where to show the problem.

        Returns:
            The rules, oldest first.
        """
        rules, self.problem = await asyncio.to_thread(self._read)
        if self.problem and self.problem not in self._reported:
            self._reported.add(self.problem)
            ui.notify(self.problem, "warning")
        return rules.get(str(directory), ())

    async def add(self, directory: Path, rule: str) -> None:
        """Keep a rule for ``directory``; where that is not possible it counts for this once.

        Args:
            directory: the session's working directory
            rule: what to allow there
        """
        await asyncio.to_thread(self._add, str(directory), rule)

    def _read(self) -> tuple[Mapping[str, Sequence[str]], str]:
        advice = "No rule in it counts, and none is added, until you mend or remove it."
        try:
            if self._path.stat().st_mode & stat.S_IWOTH:
                return {}, f"{self._path}: others than you can write to it: `chmod 600 {self._path}`. {advice}"
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

    def _add(self, directory: str, rule: str) -> None:
        from filelock import FileLock, Timeout  # reading, which every session may do, needs no lock

        try:
            make_private_directory(self._path.parent)
            with FileLock(f"{self._path}.lock", timeout=_LOCK_SECONDS, mode=0o600):
                before, problem = self._read()
                if problem:
                    return
                rules = {name: [*kept] for name, kept in before.items()}
                rules[directory] = [*dict.fromkeys([*rules.get(directory, []), rule])]
                text = json.dumps(rules, indent=2, ensure_ascii=False) + "\n"
                write_atomically(self._path, text.encode(), mode=0o600, exclusive=True)
                self._path.chmod(0o600)  # whatever it was before
        except (Timeout, OSError):
            return  # it will be asked again

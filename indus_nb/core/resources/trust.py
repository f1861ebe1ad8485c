"""Trust in projects: decided by the user for each directory, before any of what it brings is read.

What this module promises: a project is asked about only if it brings something, and finding that out takes calls of
``stat`` alone. Until the user trusts it nothing of it is imported, run, or shown to a model; without a user to ask,
it is not trusted. Decisions are kept outside of projects (``trust.json`` in the agent directory), by the real path of
the directory and by what could run then: when that changes, the user is asked again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from indus_nb.base.variables import DEFAULT_TRUST, variable
from indus_nb.core.resources.inputs import Decision, ProjectInput, may_be_trusted_whole, project_inputs

if TYPE_CHECKING:
    from indus_nb.core.resources.projects import Project
    from indus_nb.core.resources.trust_file import TrustFile


class Trust:
    """Decisions of the user about the projects of one session.

    Args:
        agent_dir: The user's own directory, where decisions are kept.
        given: The answer to every question, if it is known: ``--trust`` and ``--no-trust``.
    """

    def __init__(self, agent_dir: Path, given: bool | None = None) -> None:  # noqa: FBT001 - an option of the user's
        self._agent_dir = agent_dir
        self._given = given
        self._here: dict[str, bool] = {}
        """Decisions for this session alone, by directory."""
        self._projects: dict[str, Project | None] = {}
        self._vouched: dict[Path, bool] = {}
        """Answers about trust in directories that bring nothing."""
        self._kept: TrustFile | None = None

    def project(self, directory: Path, *, afresh: bool = False) -> Project | None:
        """Return what the project in a directory brings, and whether it is trusted.

        Args:
            afresh: Whether to look again at what was looked at before.

        Returns:
            The project; ``None`` if it brings nothing.
        """
        real = os.path.realpath(directory)
        known = self._projects.get(real)
        if known is None or afresh:
            inputs = project_inputs(real, self._agent_dir)
            known = self._projects[real] = self._examined(real, inputs) if inputs else None
        return known

    def allows(self, directory: Path) -> bool:
        """Return whether what the project in ``directory`` brings may be used; not if there was nothing to look at."""
        project = self.project(directory)
        return project is not None and project.trusted

    def vouches(self, directory: Path) -> bool:
        """Return whether the user trusts a directory, also if it brings nothing that is asked about."""
        project = self.project(directory)
        if project is not None:
            return project.trusted
        if directory not in self._vouched:
            real = os.path.realpath(directory)
            self._vouched[directory] = bool(self._given or self._is_below_trusted(real) or self._default())
        return self._vouched[directory]

    def undecided(self, directories: Iterable[Path]) -> Project | None:
        """Return the first project of these directories that the user is to be asked about."""
        return next((each for place in directories if (each := self.project(place)) and each.undecided), None)

    def decide(self, project: Project, decision: Decision) -> None:
        """Record a decision of the user, and keep it unless it is for this session.

        Args:
            project: As it was when the user was asked: what has come since is not decided about.
        """
        self._vouched.clear()
        real = str(project.directory)
        if decision in ("directory", "parent", "no"):
            self._file().keep(project, decision)
        if decision in ("session", "no", "ignore"):  # else it counts as long as nothing has changed
            self._here[real] = decision == "session"
        project.trusted, project.undecided = decision not in ("no", "ignore"), False
        self._projects[real] = project

    def note_sandbox(self, directory: Path) -> None:
        """Remember the project's texts before confined programs may change them, if they are trusted.

        Args:
            directory: Where the sandbox is about to work.
        """
        real = os.path.realpath(directory)
        decision = self._file().read().get(real)
        trusted = decision.trusted if decision is not None else self._is_below_trusted(real)
        if trusted and self._file().texts(real) is None:
            from indus_nb.core.resources.projects import digests_of_texts

            self._file().keep_texts(real, digests_of_texts(real, project_inputs(real, self._agent_dir)))

    def problems(self, directories: Iterable[Path]) -> list[str]:
        """Return sentences about projects ignored because the user was not asked, and about the file of decisions."""
        projects = filter(None, map(self.project, dict.fromkeys(directories)))
        ignored = [project.ignored_sentence() for project in projects if project.undecided]
        return [*ignored, *(project.problem for project in projects if project.problem), *self._file_problem()]

    def _file_problem(self) -> Sequence[str]:
        return (self._kept.problem,) if self._kept is not None and self._kept.problem else ()

    def _file(self) -> TrustFile:
        if self._kept is None:
            from indus_nb.core.resources.trust_file import TrustFile

            self._kept = TrustFile(self._agent_dir)
        return self._kept

    def _examined(self, real: str, inputs: Sequence[ProjectInput]) -> Project | None:
        from indus_nb.core.resources.projects import examine

        project = examine(Path(real), inputs)
        if project is not None:
            trusted = self._is_trusted(project)
            project.trusted, project.undecided = bool(trusted), trusted is None
        return project

    def _is_trusted(self, project: Project) -> bool | None:
        """Return whether the user trusts it; ``None`` if that is to be asked."""
        if self._given is not None:
            return self._given
        real = str(project.directory)
        if real in self._here:
            return self._here[real]
        trusted = self._is_decided(project, real)
        if trusted and (changed := self._changed_by_sandbox(project, real)):
            project.changed = changed
            return self._default()
        return trusted

    def _changed_by_sandbox(self, project: Project, real: str) -> list[str]:
        """Return the names of texts that have changed since a sandbox began to work there."""
        before = self._file().texts(real)
        if before is None:
            return []
        from indus_nb.core.resources.projects import digests_of_texts

        now = digests_of_texts(real, project.inputs)
        changed = [name for name in dict.fromkeys([*now, *before]) if now.get(name) != before.get(name)]
        return [f"{name}, since a sandbox worked here" for name in changed]

    def _is_decided(self, project: Project, real: str) -> bool | None:
        kept = self._file().read()
        decision = kept.get(real)
        if decision is not None:
            project.changed = project.changes(decision.parts)
            if not project.changed and not project.too_large:
                return decision.trusted
        if self._is_below_trusted(real):
            return True
        if decision is None and all(
            self._is_below_trusted(each.directory) or (each.directory in kept and kept[each.directory].trusted)
            for each in project.inputs
        ):
            return True  # text of directories above, each of which is trusted
        return self._default()

    def _is_below_trusted(self, directory: str) -> bool:
        kept = self._file().read()
        places = [Path(directory), *Path(directory).parents]
        return any(
            (decision := kept.get(str(place))) is not None and decision.below and may_be_trusted_whole(place)
            for place in places
        )

    def _default(self) -> bool | None:
        from indus_nb.core.resources.settings import own_settings

        chosen = variable(DEFAULT_TRUST) or own_settings(self._agent_dir).default_trust
        return {"always": True, "never": False}.get(chosen)

"""What is found in a user's files, what is left out and why, and what a command in a prompt stands for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from work import counting_work, cpu_stays_in_proportion

from indus_nb.base.errors import UsageError
from indus_nb.core.resources.loading import PromptTemplate, Resources, Skill, expand, load_resources
from indus_nb.core.resources.settings import load_settings

# The YAML, the patterns or the entries that the hostile files below hold would be a thousand times that, or endless.
LINES_FOR_HOSTILE_FILES = 20_000_000


class Disk:
    """A user's home, agent directory and project, empty at first."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.agent = self.home / ".indusagi" / "agent"
        self.repository = self.home / "code" / "repository"
        self.cwd = self.repository / "package"
        self.project = self.cwd / ".indusagi"
        for folder in (self.agent, self.project, self.repository / ".git"):
            folder.mkdir(parents=True)

    def load(self, **wishes: Any) -> Resources:
        return load_resources(self.cwd, self.agent, home=self.home, trusted=True, **wishes)

    def load_with(
        self, *, user: dict[str, list[str]] | None = None, project: dict[str, list[str]] | None = None
    ) -> Resources:
        """What is found with these settings of the user and of the project."""
        write(self.agent / "settings.json", json.dumps(user or {}))
        write(self.project / "settings.json", json.dumps(project or {}))
        loaded = load_settings(self.cwd, self.agent, trusted=True)
        assert not loaded.problems
        return self.load(skills=loaded.settings.skills, prompts=loaded.settings.prompts)


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk(tmp_path)
    monkeypatch.setenv("HOME", str(disk.home))
    return disk


def write(path: Path, content: str | bytes = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def write_skill(folder: Path, *, description: str = "Does it.", front: str = "", body: str = "Do it.") -> Path:
    return write(folder / "SKILL.md", f"---\ndescription: {description}\n{front}---\n\n{body}\n")


def names(found: list[Skill] | list[PromptTemplate]) -> list[str]:
    return [one.name for one in found]


def problems(resources: Resources) -> str:
    return "\n".join(map(str, resources.diagnostics))


# Skills


def test_skills_are_found_in_all_places_the_projects_before_the_users(disk: Disk) -> None:
    write_skill(disk.agent / "skills" / "own")
    write_skill(disk.home / ".agents" / "skills" / "shared")
    write_skill(disk.project / "skills" / "project")
    write_skill(disk.cwd / ".agents" / "skills" / "near")
    write_skill(disk.repository / ".agents" / "skills" / "far")
    write_skill(disk.home / "code" / ".agents" / "skills" / "outside-of-the-repository")
    write_skill(disk.cwd / "elsewhere" / "named")
    found = disk.load(extra_skill_paths=["elsewhere"])
    assert [(skill.name, skill.scope) for skill in found.skills] == [
        ("named", "temporary"),
        ("project", "project"),
        ("near", "project"),
        ("far", "project"),
        ("own", "user"),
        ("shared", "user"),
    ]
    assert not found.diagnostics


def test_without_a_repository_skills_of_all_folders_above_count(disk: Disk) -> None:
    (disk.repository / ".git").rmdir()
    write_skill(disk.home / "code" / ".agents" / "skills" / "above")
    write_skill(disk.home / ".agents" / "skills" / "shared")
    assert [(skill.name, skill.scope) for skill in disk.load().skills] == [("above", "project"), ("shared", "user")]


def test_only_named_skills_and_templates_are_left_when_the_others_are_switched_off(disk: Disk) -> None:
    write_skill(disk.project / "skills" / "found")
    write(disk.project / "prompts" / "found.md", "Hello")
    skill = write_skill(disk.cwd / "named")
    template = write(disk.cwd / "named.md", "Hello")
    found = disk.load(
        use_skills=False, use_templates=False, extra_skill_paths=[skill], extra_prompt_paths=[str(template)]
    )
    assert (names(found.skills), names(found.templates)) == (["named"], ["named"])


def test_a_folder_with_a_skill_is_not_searched_deeper_and_others_are(disk: Disk) -> None:
    top = disk.project / "skills"
    write_skill(top / "pdf")
    write_skill(top / "pdf" / "examples" / "inner")
    write_skill(top / "group" / "office" / "word")
    write_skill(top / ".hidden" / "secret")
    write_skill(top / "node_modules" / "package")
    assert names(disk.load().skills) == ["word", "pdf"]


def test_loose_markdown_counts_right_in_the_agents_own_folders_only(disk: Disk) -> None:
    loose = "---\ndescription: Loose.\n---\nText"
    for folder in (disk.agent, disk.project, disk.cwd / ".agents", disk.home / ".agents"):
        write(folder / "skills" / f"{folder.name.strip('.')}.md", loose)
    write(disk.project / "skills" / "deeper" / "deep.md", loose)
    assert names(disk.load().skills) == ["indusagi", "agent"]


def test_ignore_files_hide_skills_and_show_them_again(disk: Disk) -> None:
    top = disk.project / "skills"
    for name in ("kept", "draft-one", "draft-two", "old", "older"):
        write_skill(top / name)
    write_skill(top / "group" / "old")
    write(top / ".gitignore", "draft-*\r\n!draft-two/\r\n/old/\r\n")
    write(top / ".fdignore", "older\n")
    write(top / "group" / ".ignore", "# nothing\n\n")
    found = disk.load()
    assert [skill.path.parent.relative_to(top).as_posix() for skill in found.skills] == [
        "draft-two",
        "group/old",
        "kept",
    ]


def test_what_a_repository_ignores_as_a_whole_is_a_users_own_and_counts(disk: Disk) -> None:
    write(disk.cwd / ".gitignore", ".indusagi/\n")
    write_skill(disk.project / "skills" / "mine")
    assert names(disk.load().skills) == ["mine"]


def test_symlinks_are_followed_but_not_in_circles_and_no_file_counts_twice(disk: Disk) -> None:
    top = disk.project / "skills"
    write_skill(disk.home / "library" / "linked")
    write_skill(top / "plain")
    (top / "linked").symlink_to(disk.home / "library" / "linked")
    (top / "circle").symlink_to(top)
    (top / "itself").symlink_to("itself")
    (top / "nowhere").symlink_to("missing")
    (disk.cwd / ".agents").mkdir()
    (disk.cwd / ".agents" / "skills").symlink_to(top)
    found = disk.load()
    assert names(found.skills) == ["linked", "plain"]
    assert found.skills[0].path == top / "linked" / "SKILL.md"
    assert not found.diagnostics


def test_of_two_skills_with_one_name_the_first_counts_and_the_other_is_reported(disk: Disk) -> None:
    write_skill(disk.agent / "skills" / "pdf", description="The user's.")
    write_skill(disk.project / "skills" / "pdf", description="The project's.")
    found = disk.load()
    assert [skill.description for skill in found.skills] == ["The project's."]
    [diagnostic] = found.diagnostics
    assert diagnostic.path == disk.agent / "skills" / "pdf" / "SKILL.md"
    assert str(disk.project / "skills" / "pdf" / "SKILL.md") in diagnostic.problem


def test_a_skill_without_description_is_not_used_and_reported(disk: Disk) -> None:
    write(disk.project / "skills" / "bare" / "SKILL.md", "# Just text")
    write(disk.project / "skills" / "empty" / "SKILL.md", "---\ndescription:\nname: empty\n---\n")
    write(disk.project / "skills" / "null" / "SKILL.md", "---\ndescription: null\n---\n")
    found = disk.load()
    assert found.skills == []
    assert problems(found).count("Put a `description`") == 3


@pytest.mark.parametrize("name", ["Capital", "-edge", "edge-", "two--hyphens", "under_score", "a" * 65, "other"])
def test_a_bad_name_is_reported_and_the_skill_used_all_the_same(disk: Disk, name: str) -> None:
    write_skill(disk.project / "skills" / "folder", front=f"name: {name}\n")
    found = disk.load()
    assert names(found.skills) == [name]
    assert len(found.diagnostics) == 1


def test_a_long_description_is_reported_and_the_skill_used_all_the_same(disk: Disk) -> None:
    write_skill(disk.project / "skills" / "short", description="x" * 1024)
    write_skill(disk.project / "skills" / "long", description="x" * 1025)
    found = disk.load()
    assert names(found.skills) == ["long", "short"]
    assert "1025 characters" in problems(found)


def test_frontmatter_is_yaml_whatever_the_line_ends(disk: Disk) -> None:
    front = 'name: "pdf"\r\ndescription: >\r\n  Reads\r\n  files: all\r\ndisable-model-invocation: true\r\nx: [1]\r\n'
    write(disk.project / "skills" / "pdf" / "SKILL.md", f"\ufeff---\r\n{front}---\r\n")
    [skill] = disk.load().skills
    assert (skill.name, skill.description, skill.hidden) == ("pdf", "Reads files: all", True)


# Settings' lists


def test_lists_name_places_and_leave_out_and_force_what_is_found(disk: Disk) -> None:
    top = disk.agent / "skills"
    for name in ("one", "two", "three", "four"):
        write_skill(top / name)
    write_skill(disk.agent / "more" / "five")
    write_skill(disk.home / "tilde" / "six")
    write_skill(disk.home / ".agents" / "skills" / "seven")
    found = disk.load_with(
        user={
            "skills": ["more", "~/tilde/six/SKILL.md", "!skills/t*", "!seven", "+skills/three", "-skills/one"],
        }
    )
    assert names(found.skills) == ["five", "six", "three", "four"]
    assert not found.diagnostics


def test_each_scopes_list_is_its_own_and_relative_to_its_folder(disk: Disk) -> None:
    write_skill(disk.agent / "skills" / "user")
    write_skill(disk.project / "skills" / "project")
    write_skill(disk.cwd / "beside")
    found = disk.load_with(user={"skills": ["!skills/p*"]}, project={"skills": ["../beside", "!u*", "!skills/x"]})
    assert names(found.skills) == ["beside", "project", "user"]


def test_removing_beats_forcing_and_forcing_beats_an_ignore_file(disk: Disk) -> None:
    write_skill(disk.agent / "skills" / "both")
    write_skill(disk.agent / "skills" / "ignored")
    write(disk.agent / "skills" / ".gitignore", "ignored\n")
    found = disk.load_with(user={"skills": ["+skills/both", "-skills/both", "+skills/ignored"]})
    assert names(found.skills) == ["ignored"]


def test_a_project_can_do_without_a_skill_of_its_user(disk: Disk) -> None:
    write_skill(disk.home / ".agents" / "skills" / "loud")
    write_skill(disk.home / ".agents" / "skills" / "quiet")
    assert names(disk.load_with(project={"skills": ["!~/.agents/skills/l*"]}).skills) == ["quiet"]


def test_globs_in_a_folder_with_brackets_in_its_name_mean_that_folder(tmp_path: Path) -> None:
    disk = Disk(tmp_path / "[x]")
    for name in ("one", "two"):
        write_skill(disk.agent / "skills" / name)
    assert names(disk.load_with(user={"skills": ["!skills/t*"]}).skills) == ["one"]


def test_globs_find_files_and_folders(disk: Disk) -> None:
    for place in ("a/x", "a/y", "b/x", "deep/er/x/z"):
        write_skill(disk.cwd / "lib" / place, front=f"name: {place.replace('/', '-')}\n")
    write(disk.project / "extra" / "p-one.md", "One")
    write(disk.project / "extra" / "q-two.md", "Two")
    found = disk.load_with(
        project={"skills": ["../lib/*/x", "../lib/**/z/SKILL.md"], "prompts": ["extra/p-*.md", "extra/**"]}
    )
    assert names(found.skills) == ["a-x", "b-x", "deep-er-x-z"]
    assert names(found.templates) == ["p-one", "q-two"]


def test_a_place_that_does_not_exist_is_reported_if_somebody_named_it(disk: Disk) -> None:
    found = disk.load(
        skills=[str(disk.agent / "gone"), "", str(disk.agent / "glob-*")],
        prompts=["x\0y"],
        extra_skill_paths=["script.py"],
        extra_prompt_paths=[write(disk.cwd / "text.txt")],
    )
    assert [diagnostic.path.name for diagnostic in found.diagnostics] == ["text.txt", "x\0y", "script.py", "gone"]


# Prompt templates


def test_templates_are_the_markdown_right_in_their_folders(disk: Disk) -> None:
    write(disk.project / "prompts" / "review.md", "---\ndescription: Reviews.\nargument-hint: <file>\n---\nLook at $1")
    write(disk.project / "prompts" / "deeper" / "no.md", "No")
    write(disk.project / "prompts" / "no.txt", "No")
    write(disk.agent / "prompts" / "review.md", "Mine")
    write(disk.agent / "prompts" / "plain.md", f"\n\n  {'x' * 61}\nmore")
    found = disk.load()
    assert found.templates == [
        PromptTemplate("review", "Reviews.", disk.project / "prompts" / "review.md", "project", "Look at $1"),
        PromptTemplate("plain", "x" * 60 + "...", disk.agent / "prompts" / "plain.md", "user", "x" * 61 + "\nmore"),
    ]
    assert "Rename one of them" in problems(found)


@pytest.mark.parametrize(
    ("body", "needs"),
    [("Look around, for 5 $.", False), ("Look at $1", True), ("Do $@", True), ("${@:2}", True), ("In ${1:-en}", False)],
)
def test_a_template_needs_arguments_for_placeholders_without_a_default(disk: Disk, body: str, needs: bool) -> None:
    write(disk.project / "prompts" / "one.md", body)
    (template,) = disk.load().templates
    assert template.needs_arguments is needs


def test_a_rule_at_the_top_of_a_template_is_no_frontmatter(disk: Disk) -> None:
    write(disk.project / "prompts" / "rule.md", "-----\nbody: [\n---\n")
    write(disk.project / "prompts" / "open.md", "---\nnever: closed\n")
    assert [template.body for template in disk.load().templates] == ["---\nnever: closed", "-----\nbody: [\n---"]


# Context files and the texts for the system prompt


def test_context_files_come_from_the_agents_folder_and_then_from_the_top_down(disk: Disk) -> None:
    write(disk.cwd / "AGENTS.md", "near\r\n")
    write(disk.cwd / "CLAUDE.md", "not this one")
    write(disk.repository / "CLAUDE.md", "middle")
    write(disk.home / "AGENTS.md", "the repository's own is read")
    write(disk.home / "AGENTS.override.md", "far")
    write(disk.agent / "AGENTS.md", "global")
    found = disk.load().context_files
    assert [file.content for file in found] == ["global", "far", "middle", "near"]
    assert found[-1].path == disk.cwd / "AGENTS.md"
    assert disk.load(use_context_files=False).context_files == []


def test_one_context_file_in_two_places_counts_once_and_an_empty_one_not_at_all(disk: Disk) -> None:
    write(disk.agent / "AGENTS.md", "rules")
    (disk.cwd / "AGENTS.md").symlink_to(disk.agent / "AGENTS.md")
    write(disk.repository / "AGENTS.md", " \n")
    assert [file.content for file in disk.load().context_files] == ["rules"]


def test_the_projects_texts_for_the_system_prompt_stand_in_for_the_users(disk: Disk) -> None:
    write(disk.agent / "SYSTEM.md", "user's base\n")
    write(disk.agent / "APPEND_SYSTEM.md", "user's end")
    assert (disk.load().base, disk.load().appended) == ("user's base", "user's end")
    write(disk.project / "SYSTEM.md", "project's base")
    write(disk.project / "APPEND_SYSTEM.md", " ")
    assert (disk.load().base, disk.load().appended) == ("project's base", "user's end")


def test_nothing_laid_down_is_nothing_found(disk: Disk) -> None:
    assert disk.load() == Resources()


# What is wrong with files


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"---\ndescription: caf\xe9\n---\n", "not UTF-8 at byte 20"),
        ("---\ndescription: x\n---\n".encode("utf-16"), "not UTF-8"),
        (b"---\ndescription: x\0\n---\n", "zero bytes"),
        (b"---\ndescription: Use when: asked\n---\n", "no YAML in line 2"),
        (b"---\n- description\n---\n", "`key: value`"),
        (b"---\nx: &a [*a]\ndescription: x\n---\n", "no YAML"),
        (b'---\ndescription: "\\UFFFFFFFF"\n---\n', "no YAML"),
        (b"---\n%YAML " + b"9" * 5000 + b".1\n---\n", "no YAML"),
        (b"---\ndescription: x\ny: " + b"- " * 8000 + b"\n---\n", "no YAML"),
        (b"---\ndescription: x\ny: " + b"[" * 16000 + b"\n---\n", "no YAML"),
        (b"---\ndescription: x\ny: " + b"z" * 20000 + b"\n---\n", "longer than 16 KiB"),
    ],
)
def test_a_file_that_cannot_be_understood_is_reported_and_the_others_are_used(
    disk: Disk, content: bytes, problem: str
) -> None:
    write(disk.project / "skills" / "bad" / "SKILL.md", content)
    write(disk.project / "prompts" / "bad.md", content)
    write_skill(disk.project / "skills" / "good")
    write(disk.project / "prompts" / "good.md", "Good")
    found = disk.load()
    assert (names(found.skills), names(found.templates)) == (["good"], ["good"])
    assert [diagnostic.path.name for diagnostic in found.diagnostics] == ["bad.md", "SKILL.md"]
    assert problems(found).count(problem) == 2


def test_tags_and_numbers_of_yaml_are_text(disk: Disk) -> None:
    write_skill(disk.project / "skills" / "tag", description="!!python/object/apply:os.getcwd [x]", front="name: 123\n")
    write(disk.project / "skills" / "half" / "SKILL.md", '---\ndescription: "\\ud800 a"\n---\n')
    write(disk.project / "skills" / "one" / "SKILL.md", "---\ndescription: 1e400\n---\n")
    found = disk.load()
    assert [(skill.name, skill.description) for skill in found.skills] == [("half", "\ufffd a"), ("one", "1e400")]


def test_files_that_cannot_be_read_are_reported_and_the_next_best_are_used(disk: Disk) -> None:
    loop = disk.cwd / "AGENTS.md"
    loop.symlink_to(loop)
    (disk.project / "SYSTEM.md").mkdir()
    write(disk.cwd / "CLAUDE.md", "next best file")
    write(disk.agent / "SYSTEM.md", "next best text")
    found = disk.load()
    assert {diagnostic.path for diagnostic in found.diagnostics} == {loop, disk.project / "SYSTEM.md"}
    assert ([file.content for file in found.context_files], found.base) == (["next best file"], "next best text")


def test_what_is_no_ordinary_file_is_not_waited_for(disk: Disk) -> None:
    for path in (disk.project / "SYSTEM.md", disk.cwd / "AGENTS.md", disk.project / "skills" / "pipe" / "SKILL.md"):
        path.parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(path)
    (disk.agent / "SYSTEM.md").mkdir()
    write(disk.agent / "skills", "a file where a folder should be")
    found = disk.load(extra_prompt_paths=["/dev/zero"])
    assert (found.base, found.skills, found.context_files) == (None, [], [])
    assert problems(found).count("no ordinary file") == 2


def test_a_huge_file_is_neither_read_nor_used(disk: Disk) -> None:
    for path in (
        disk.project / "skills" / "huge" / "SKILL.md",
        disk.cwd / "AGENTS.md",
        disk.project / "prompts" / "x.md",
    ):
        write(path, "---\ndescription: Huge.\n---\n")
        os.truncate(path, 100 << 20)
    found = disk.load()
    assert (found.skills, found.context_files, found.templates) == ([], [], [])
    assert problems(found).count("larger than 1 MiB") == 3


def test_a_path_that_is_not_utf_8_is_reported_in_utf_8(disk: Disk) -> None:
    write_skill(disk.project / "skills" / os.fsdecode(b"caf\xe9"))
    found = disk.load()
    assert found.skills == []
    assert "not UTF-8" in problems(found).encode().decode()


# Bounds


def quickly(load: Callable[[], Resources]) -> Resources:
    with counting_work() as work:
        found = load()
    assert work.lines < LINES_FOR_HOSTILE_FILES
    return found


def test_a_crowded_folder_is_given_up_and_reported_once_and_the_other_places_are_searched(disk: Disk) -> None:
    write_skill(disk.agent / "skills" / "good")
    crowd = disk.project / "skills"
    crowd.mkdir()
    for number in range(20_000):
        os.close(os.open(crowd / f"{number}.txt", os.O_CREAT | os.O_WRONLY))
    found = quickly(disk.load)
    assert names(found.skills) == ["good"]
    assert [diagnostic.path for diagnostic in found.diagnostics] == [crowd]


def test_aliases_and_merge_keys_of_yaml_do_not_multiply(disk: Disk) -> None:
    for number, pattern in enumerate(("[{}]", "{{<<: [{}]}}")):
        lines = ["a0: &a0 {x: y}"]
        lines += [f"a{i + 1}: &a{i + 1} " + pattern.format(",".join([f"*a{i}"] * 9)) for i in range(90 // (1 + number))]
        write(disk.project / "skills" / f"s{number}" / "SKILL.md", "\n".join(["---", *lines, "description: x", "---"]))
    assert names(quickly(disk.load).skills) == ["s0", "s1"]


@pytest.mark.parametrize("pattern", ["*a" * 60 + "b", "**/a/" * 60 + "b", "*a*a*a/" * 20 + "b", "[!b]*" * 50 + "c"])
def test_no_pattern_however_bad_holds_up_a_start(disk: Disk, pattern: str) -> None:
    top = disk.project / "skills"
    deep = top.joinpath(*["a"] * 20, "a" * 250)
    write_skill(deep / ("a" * 250))
    write(top / ".gitignore", f"{pattern}\n" * 200)
    found = quickly(lambda: disk.load_with(project={"skills": [f"!{pattern}"] * 200 + [pattern]}))
    assert len(found.skills) == 1


def test_a_hundred_problems_are_enough(disk: Disk) -> None:
    for number in range(150):
        write(disk.project / "skills" / f"s{number}" / "SKILL.md", "nothing")
    found = disk.load()
    assert len(found.diagnostics) == 101
    assert "further files" in found.diagnostics[-1].problem


def test_folders_are_not_followed_down_without_end(disk: Disk) -> None:
    write_skill((disk.project / "skills").joinpath(*["d"] * 40, "lost"))
    found = disk.load()
    assert found.skills == []
    assert "Name it in the settings" in problems(found)


def test_plain_frontmatter_needs_no_yaml_and_nothing_else_is_loaded_either(disk: Disk) -> None:
    write_skill(disk.project / "skills" / "plain", front="name: plain\nlicense: MIT\n")
    write(disk.project / "skills" / ".gitignore", "x\n")
    script = (
        "import sys; from pathlib import Path; from indus_nb.core.resources.loading import load_resources\n"
        "found = load_resources(Path(sys.argv[1]), Path(sys.argv[2]), home=Path(sys.argv[3]), trusted=True)\n"
        "print(len(found.skills), sorted({'yaml'} & set(sys.modules)))"
    )
    arguments = [sys.executable, "-c", script, disk.cwd, disk.agent, disk.home]
    assert subprocess.run(arguments, capture_output=True, check=True, text=True).stdout == "1 []\n"


FRONT = st.lists(
    st.one_of(
        st.text(alphabet="ab:# -'\"[]{}&*!|>%@`\t?,~\u00e9\u2028\x85", max_size=12).map(
            lambda text: f"description: {text}"
        ),
        st.sampled_from(
            ["name: null", "name: yes # no", "description: b\n  c", "#", "", "x: 1", "name:", "- a", "..."]
        ),
    ),
    max_size=4,
).map("\n".join)


@given(FRONT)
@settings(max_examples=300, deadline=None)
def test_what_is_read_without_yaml_is_what_yaml_says(tmp_path_factory: pytest.TempPathFactory, front: str) -> None:
    disk = Disk(tmp_path_factory.mktemp("disk"))
    write(disk.project / "skills" / "s" / "SKILL.md", f"---\n{front}\n---\n")
    try:
        fields = yaml.load(front, Loader=yaml.BaseLoader)
    except yaml.YAMLError:
        fields = {}
    description = fields.get("description", "") if isinstance(fields, dict) else ""
    name = fields.get("name", "") if isinstance(fields, dict) else ""
    found = disk.load().skills
    if not isinstance(description, str) or description.strip() in ("", "~", "null"):
        assert found == []
    else:
        assert [skill.description for skill in found] == [description.strip()]
        usable = isinstance(name, str) and name not in ("", "null")
        assert [skill.name for skill in found] == [name if usable else "s"]


PATTERN = st.lists(
    st.sampled_from(
        ["a", "b", "*", "**", "?", "/", "!", "[ab]", "[!a]", "[^b]", "[a-b]", "\\*", "\\a", "\\ ", "#", " "]
    ),
    min_size=1,
    max_size=7,
)
# Three stars in a row mean nothing in particular.
PATTERN = PATTERN.map("".join).filter(lambda line: "***" not in line)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q", path], check=True)
    return path


@given(st.lists(PATTERN, min_size=1, max_size=3), st.lists(st.sampled_from("ab"), min_size=1, max_size=3))
@settings(max_examples=150, deadline=None)
def test_ignore_files_hide_what_git_would_hide(repository: Path, lines: list[str], folders: list[str]) -> None:
    skill = write_skill(repository.joinpath(*folders), front="name: x\n")
    write(repository / ".gitignore", "\n".join(lines))
    command = ["git", "-c", "core.excludesFile=/dev/null", "check-ignore", "-q", skill]
    hidden = subprocess.run(command, cwd=repository, check=False).returncode == 0
    found = load_resources(repository, repository, home=repository, extra_skill_paths=[repository])
    skill.unlink()
    assert (found.skills == []) == hidden


# What a command stands for


def template(body: str, name: str = "t") -> Resources:
    return Resources(templates=[PromptTemplate(name, "", Path("t.md"), "user", body)])


@pytest.mark.parametrize(
    ("body", "arguments", "prompt"),
    [
        ("$1-$2-$3", "a b", "a-b-"),
        ("$10$1", " ".join("abcdefghij"), "ja"),
        ("$0|$00|$99999999999999999999|$" + "1" * 5000, "a", "|||"),
        ("$@ | $ARGUMENTS", "a  b\tc", "a b c | a b c"),
        ("${@:2}|${@:2:1}|${@:0:2}|${@:9}|${@:1:0}", "a b c", "b c|b|a b||"),
        ("${1:-one} ${2:-two} ${3:-}", "a", "a two "),
        ("${@:-all} ${@:-}", "", "all "),
        ("${@:-all}", "a b", "a b"),
        ("$1 $2", """ "a b" 'c "d"' """, 'a b c "d"'),
        ("$1|$2|$3", 'a"b c"d \'\' "" \'open end', "ab cd|open end|"),
        ("$1 $@", "$@ $2", "$@ $@ $2"),
        ("${1:-$2} ${1", "", "$2 ${1"),
        ("$$1 $ $x ${x} ${@:x}", "a", "$a $ $x ${x} ${@:x}"),
        ("costs $5", "a", "costs "),
        ("$1", "two\nlines", "two\nlines"),
    ],
)
def test_a_templates_placeholders_are_filled_in_one_pass(body: str, arguments: str, prompt: str) -> None:
    assert expand(f"/t {arguments}", template(body)) == prompt


@pytest.mark.parametrize("text", ["t", " /t", "/", "/ t", "/tt", "/T", "/skill:t", "/skill:", "//t", "/t/x", "say /t"])
def test_what_is_no_known_command_stays_as_it_is(text: str) -> None:
    assert expand(text, template("expanded")) == text


def test_a_command_may_stand_alone_or_be_followed_by_any_space() -> None:
    assert [expand(f"/t{rest}", template("<$@>")) for rest in ("", " ", " a", "\ta", "\na b")] == [
        "<>",
        "<>",
        "<a>",
        "<a>",
        "<a b>",
    ]


def test_arguments_are_not_multiplied_beyond_measure() -> None:
    with pytest.raises(UsageError, match="more than 8 MiB"):
        expand("/t " + "a" * 100_000, template("$@" * 100_000))


@pytest.mark.parametrize("piece", ["${@:-", "${1:-", "${@:1", "${@:1:1", "$", "'", "'\"", '"a ', "$1 "])
def test_no_template_however_bad_holds_up_a_prompt(piece: str) -> None:
    assert cpu_stays_in_proportion(25_000, lambda times: expand("/t " + piece * times, template(piece * times)))


def test_a_skill_is_put_into_the_prompt_with_its_place_and_the_arguments(disk: Disk) -> None:
    path = write_skill(disk.project / "skills" / "pdf", body="Run scripts/x.py.\n\n---\nEnd")
    found = disk.load()
    assert expand("/skill:pdf", found) == (
        f'<skill name="pdf" location="{path}">\nRelative paths in this skill start at {path.parent}.\n\n'
        "Run scripts/x.py.\n\n---\nEnd\n</skill>"
    )
    assert expand("/skill:pdf  read a.pdf\nnow ", found).endswith("</skill>\n\nread a.pdf\nnow")
    assert expand("/skill:doc x", found) == "/skill:doc x"


def test_a_skill_is_read_when_it_is_asked_for(disk: Disk) -> None:
    path = write_skill(disk.project / "skills" / "pdf")
    found = disk.load()
    write_skill(path.parent, body="Changed.")
    assert "Changed." in expand("/skill:pdf", found)


def test_a_skill_that_has_gone_or_spoilt_is_an_error_rather_than_a_prompt(disk: Disk) -> None:
    path = write_skill(disk.project / "skills" / "pdf")
    found = disk.load()
    path.write_bytes(b"\xff")
    with pytest.raises(UsageError, match=r"SKILL\.md is not UTF-8"):
        expand("/skill:pdf x", found)
    path.unlink()
    with pytest.raises(UsageError, match=r"nothing was sent.*No such file"):
        expand("/skill:pdf x", found)


def test_names_and_places_of_skills_are_escaped(disk: Disk) -> None:
    write_skill(disk.project / "skills" / 'a"><b>', front="name: c&d\n")
    prompt = expand("/skill:c&d", disk.load())
    assert prompt.startswith('<skill name="c&amp;d" location="')
    assert "/a&quot;&gt;&lt;b&gt;/SKILL.md" in prompt.split("\n")[0]

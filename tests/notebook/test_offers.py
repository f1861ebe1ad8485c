"""What Tab would offer for a text, cursor at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from work import grows_with

from indus_nb.core.session.session import AgentSession
from indus_nb.front.notebook.magic.completion import Offers, Sources, complete
from indus_nb.front.notebook.magic.options import COMMANDS, OPTION_NAMES
from indus_nb.models.registry import ModelRegistry
from indus_nb.start import SessionOptions, open_session

Complete = Callable[[str], Offers | None]


class Frame:
    shape = (1, 2)
    columns = ()
    _hidden = 1

    @property
    def head(self) -> None:
        raise AssertionError("Tab must not compute anything")


VARIABLES: dict[str, Any] = {"df": Frame(), "data": 1, "date": 2, "figure": 3, "größe": 4, "_": 5, "_private": 6}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INDUS_NB_AGENT_DIR", str(tmp_path / "agent"))
    work = tmp_path / "work"
    (work / "plots").mkdir(parents=True)
    for name in ("plots/a.png", "plots/b.txt", "photo.JPG", "notes.txt", ".hidden.png"):
        (work / name).write_text("")
    prompts = tmp_path / "agent" / "prompts"
    prompts.mkdir(parents=True)
    for name in ("review", "refactor"):
        (prompts / f"{name}.md").write_text(f"---\ndescription: {name}\n---\nDo it.\n")
    return work


@pytest.fixture
def session(folder: Path) -> Iterator[AgentSession]:
    with open_session(SessionOptions(cwd=folder, provider="offline", model="offline")) as session:
        yield session


@pytest.fixture
def registry() -> ModelRegistry:
    return ModelRegistry(environment={"ANTHROPIC_API_KEY": "test"})


@pytest.fixture
def offered(session: AgentSession, registry: ModelRegistry, folder: Path) -> Complete:
    return lambda text: complete(text, Sources(VARIABLES, session, registry, folder))


def texts(offers: Offers | None) -> list[str]:
    return [] if offers is None else list(offers.texts)


@pytest.mark.parametrize(
    ("text", "fragment", "expected"),
    [
        ("%agent --prov", "--prov", ["--provider"]),
        ("%agent --new --no", "--no", ["--no-session", "--no-trust", "--no-cells", "--no-wait"]),
        ("x = 1\nif x:\n    %agent --tool", "--tool", ["--tools"]),
        ("%%agent --max-c", "--max-c", ["--max-cost"]),
        ("\n%%agent --max-c", "--max-c", ["--max-cost"]),
        ("%agent --provider off", "off", ["offline"]),
        ("%agent --provider=off", "off", ["offline"]),
        ('%agent --provider "off', "off", ["offline"]),
        ("%agent --approve ", "", ["never", "effects", "writes", "always", "looks"]),
        ("%agent --approve w", "w", ["writes"]),
        ("%agent --thinking mi", "mi", ["minimal"]),
        ("%agent --model claude-haiku-4-5-", "claude-haiku-4-5-", ["claude-haiku-4-5-20251001"]),
        ("%agent --model anthropic/claude-haiku-4-5-", "anthropic/claude-haiku-4-5-", None),
        ("%agent --provider offline --model ", "", ["offline"]),
        ("%agent --tools gr", "gr", ["grep"]),
        ("%agent --tools read,grep,f", "f", ["find"]),
        ("%agent -o da", "da", ["data", "date"]),
        ("%%agent --output=fi", "fi", ["figure"]),
        ("%agent --result fra", "fra", ["frame"]),
        ("%agent --image fi", "fi", ["figure"]),
        ("%agent --image pho", "pho", ["photo.JPG"]),
        ("%agent --image figure --image plo", "plo", ["plots/"]),
        ("%agent --image plots/", "", ["a.png"]),
        ("%agent comp", "comp", ["compact"]),
        ("%agent --continue tr", "tr", ["tree", "trust"]),
        ("%agent queue ", "", ["clear"]),
        ("%agent --thinking xh", "xh", ["xhigh"]),
        ("%agent thinking h", "h", ["high"]),
        ("%agent thinking ", "", ["off", "minimal", "low", "medium", "high"]),
        ("%agent model claude-haiku-4-5-", "claude-haiku-4-5-", ["claude-haiku-4-5-20251001"]),
        ("%agent /re", "/re", ["/refactor", "/review"]),
        ("%agent --new /rev", "/rev", ["/review"]),
        ("%agent -- /rev", "/rev", ["/review"]),
        ("%%agent --new\n/rev", "/rev", ["/review"]),
        ("%%agent\n\n  /rev", "/rev", ["/review"]),
        ("%agent what is $da", "$da", ["$data", "$date"]),
        ("%agent $grö", "$grö", ["$größe"]),
        ("%agent -- $da", "$da", ["$data", "$date"]),
        ("%agent plot $", "$", ["$data", "$date", "$df", "$figure", "$größe"]),
        ("%agent what is {da", "da", ["data", "date"]),
        ("%agent what is {", "", ["data", "date", "df", "figure", "größe"]),
        ("%agent {len(da", "da", ["data", "date"]),
        ("%agent {data} and {date + f", "f", ["figure"]),
        ("%agent {date + ", "", ["data", "date", "df", "figure", "größe"]),
        ("%agent {_pri", "_pri", ["_private"]),
        ("%agent {df.", "", ["columns", "head", "shape"]),
        ("%agent {df.sh", "sh", ["shape"]),
        ("%%agent\nfirst\nthen $da", "$da", ["$data", "$date"]),
        ("%%agent --new\nfirst {fi", "fi", ["figure"]),
    ],
)
def test_what_may_go_on_is_offered(offered: Complete, text: str, fragment: str, expected: list[str] | None) -> None:
    offers = offered(text)
    assert offers is not None
    assert offers.fragment == fragment
    assert text.endswith(offers.fragment)
    assert texts(offers) == (expected or ["anthropic/claude-haiku-4-5-20251001"])


def test_everything_is_offered_where_nothing_is_typed(offered: Complete) -> None:
    assert texts(offered("%agent ")) == list(COMMANDS)
    assert texts(offered("%agent --")) == [f"--{name}" for name in OPTION_NAMES]
    assert texts(offered("%agent -"))[0] == "-o"


def test_a_part_of_a_models_name_is_enough(offered: Complete) -> None:
    found = texts(offered("%agent --model sonnet"))
    assert "claude-sonnet-4-5" in found
    assert all("sonnet" in name for name in found)


def test_models_with_a_key_come_before_all_others(offered: Complete) -> None:
    assert not any(name.startswith("gpt") for name in texts(offered("%agent --model ")))
    assert all(name.startswith("gpt") for name in texts(offered("%agent --model gpt")))
    assert texts(offered("%agent --model gpt"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "da",
        "%agents --pro",
        "%agent",
        "%%agents --pro",
        "%%agent",
        "%%other\n$da",
        "print('%agent')\n$da",
        "s = '{da",
        "%agent say comp",
        "%agent -- comp",
        "%%agent comp",
        "%%agent\ncomp",
        "%%agent\n--prov",
        "%%agent\n%agent --prov",
        "%agent hello --prov",
        "%agent say /rev",
        "%%agent say\n/rev",
        "%%agent\nsay\n/rev",
        "%%agent\n/review da",
        "%agent /home/da",
        "%agent US$da",
        "%agent $$da",
        r"%agent \$da",
        "%agent {data} da",
        "%agent {df['da",
        "%agent {nothing.da",
        "%agent {data.real.da",
        "%agent {say da ",
        "%agent --max-cost 1",
        "%agent --unknown da",
    ],
)
def test_nothing_is_offered_elsewhere(offered: Complete, text: str) -> None:
    assert offered(text) is None


@pytest.mark.parametrize("text", ["%agent --name da", "%agent tree ", "%agent fork ", "%agent export "])
def test_where_nothing_of_python_fits_none_of_it_is_offered(
    session: AgentSession, registry: ModelRegistry, tmp_path: Path, text: str
) -> None:
    offers = complete(text, Sources(VARIABLES, session, registry, tmp_path / "none"))
    assert offers is not None
    assert offers.texts == []


@pytest.mark.parametrize("saved", [True, False])
async def test_sessions_are_offered_where_they_lie_also_before_there_is_one(
    folder: Path, registry: ModelRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, saved: bool
) -> None:
    monkeypatch.setenv("INDUS_NB_SESSION_DIR", str(tmp_path / "elsewhere"))
    with open_session(SessionOptions(cwd=folder, provider="offline", model="offline")) as session:
        await session.prompt("compute 1 + 1")
        sources = Sources(VARIABLES, session if saved else None, registry, folder)
        assert texts(complete("%agent --session ", sources)) == [session.store.session_id]


def test_names_of_conversations_are_offered(session: AgentSession, registry: ModelRegistry, folder: Path) -> None:
    sources = Sources(VARIABLES, session, registry, folder, names=("main", "sales"))
    assert texts(complete("%agent --name ", sources)) == ["main", "sales"]


async def test_entries_and_files_to_export_to_are_offered(
    offered: Complete, session: AgentSession, folder: Path
) -> None:
    await session.prompt("compute 1 + 1")
    (folder / "report.html").write_text("")
    mine, *others = [entry.id for entry in session.store.entries if entry.type == "message"]
    tree = offered("%agent tree ")
    assert tree is not None
    assert tree.texts == [*reversed(others), mine]
    assert tree.notes[mine] == "compute 1 + 1"
    assert texts(offered("%agent fork ")) == [mine]
    assert texts(offered("%agent export ")) == ["plots/", "report.html"]


async def test_what_a_saved_conversation_is_about_stands_beside_its_id(
    offered: Complete, session: AgentSession
) -> None:
    await session.prompt("compute 1 + 1")
    found = offered("%agent --session ")
    assert found is not None
    assert found.notes[session.store.session_id] == "compute 1 + 1"


def test_tools_of_a_notebook_are_offered_before_the_first_session(registry: ModelRegistry, folder: Path) -> None:
    offers = complete("%agent --tools ", Sources(VARIABLES, None, registry, folder))
    assert {"python", "variables", "notebook", "propose_cell"} <= set(texts(offers))


async def test_saved_conversations_are_offered_newest_first(offered: Complete, session: AgentSession) -> None:
    await session.prompt("compute 1 + 1")
    assert session.store.path is not None
    older = session.store.path.with_name("2020-01-01T00-00-00-000Z_0a1b2c3d-old.jsonl")
    older.write_text("")
    assert texts(offered("%agent --session ")) == [session.store.session_id, "0a1b2c3d-old"]
    assert texts(offered("%agent --session 0a")) == ["0a1b2c3d-old"]


@pytest.mark.parametrize(
    ("typed", "names"),
    [
        ("back ", ['"before it"', "clean", "Raw", "'5\" pipe'"]),
        ("diff bef", ['"before it"']),
        ("drop 'be", ["'before it'"]),
        ('save "before i', ['"before it"']),
        ("back r", ["Raw"]),
        ("back 5", ["'5\" pipe'"]),
        ("back '5", ["'5\" pipe'"]),
        ('back "5', []),
        ("back it", []),
        ("back none", []),
    ],
)
def test_names_of_states_are_offered_with_where_they_are(
    typed: str, names: list[str], session: AgentSession, registry: ModelRegistry, folder: Path
) -> None:
    states = {"before it": "2 steps from here", "clean": "here", "Raw": "1 step from here"}
    states |= {'5" pipe': "here", """it's "x\"""": "here"}
    sources = Sources(VARIABLES, session, registry, folder, states=lambda: states)
    offers = complete(f"%agent state {typed}", sources)
    assert offers is not None
    assert (offers.texts, offers.fragment) == (names, typed.partition(" ")[2])
    assert [offers.notes[name] for name in names] == [states[name.strip("'\"")] for name in names]


def test_there_are_offers_before_the_first_session(registry: ModelRegistry, folder: Path) -> None:
    def offered(text: str) -> list[str]:
        return texts(complete(text, Sources(VARIABLES, None, registry, folder)))

    assert offered("%agent --tools ba") == ["bash"]
    assert offered("%agent --thinking x") == ["xhigh"]
    assert offered("%agent --session ") == []
    assert offered("%agent /rev") == []
    assert offered("%agent $da") == ["$data", "$date"]


def test_the_work_of_completing_grows_no_faster_than_the_cell(offered: Complete) -> None:
    def complete(length: int) -> None:
        text = "%%agent\n" + "{ $ / -- {{ \n" * length + "{" * length + "$da"
        assert texts(offered(text)) == ["$data", "$date"]
        offered("%agent " + "--new " * length + "$da")

    assert grows_with(500, complete) < 2.2


def test_the_arguments_of_a_command_are_what_its_extension_offers(session: AgentSession, folder: Path) -> None:
    asked: list[tuple[str, str]] = []

    def arguments(name: str, typed: str) -> list[str]:
        asked.append((name, typed))
        return ["patch", "minor"] if name == "release" else []

    def offered(text: str) -> Offers | None:
        return complete(text, Sources(VARIABLES, session, session.registry, folder, arguments))

    for text in ("%agent /release ", "%%agent\n/release "):
        assert offered(text) == Offers("", ["patch", "minor"])
    assert offered("%agent /release mi") == Offers("mi", ["minor"])
    assert offered("%agent /release now pa") == Offers("pa", ["patch"])
    assert offered("%agent say /release ") is None
    assert asked == [("release", ""), ("release", ""), ("release", "mi"), ("release", "now pa")]


@pytest.mark.parametrize("text", ["%agent --result Fra", "%agent -o x --result list[Fra", "%%agent --result=int|Fra"])
def test_the_users_classes_may_be_the_type_of_an_answer(
    text: str, session: AgentSession, registry: ModelRegistry, folder: Path
) -> None:
    offers = complete(text, Sources({**VARIABLES, "Frame": Frame}, session, registry, folder))
    assert offers is not None
    assert (offers.fragment, list(offers.texts)) == ("Fra", ["Frame"])


@pytest.mark.parametrize(
    ("typed", "first"),
    [
        ("%agent map --par", ["--parallel"]),
        ("%agent map -o kinds --thinking lo", ["low"]),
        ('%agent map -o kinds "What is {x}?" over d', ["data", "date", "df"]),
        ("%%agent map -o kinds over da", ["data", "date"]),
    ],
)
def test_map_has_options_of_its_own_and_variables_for_its_data(offered: Complete, typed: str, first: list[str]) -> None:
    found = offered(typed)
    assert found is not None
    assert list(found.texts) == first

"""What a model is sent in ten situations, word for word, and how many tokens that is.

``INDUS_NB_WRITE_DOCS=1 python -m pytest tests/snapshots/test_requests.py`` writes the requests anew, and the page that
prints them: review both, for these words are what the agent is to its model.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from situations import TITLES, requests
from snapshot import SNAPSHOTS, assert_snapshot
from tokens import parts_of, texts_of, tokens_of

PAGE = Path(__file__).parents[2] / "docs" / "requests.md"
MARK = "\n## Ten requests\n"
HEAD = """
What a model is sent in ten situations, as it came over HTTP, with `tests/situations.py` for a user. Paths, dates,
versions and pictures are replaced. Tokens are counted by `tests/tokens.py`, which agrees within 3 % with the tokenizer
that Anthropic published last; pictures are not counted. `tests/snapshots/requests/` has the whole bodies.

| situation | system | tools | messages | together |
|---|---|---|---|---|
"""
BESIDE = """
Before the user's first word others send, by the same count: pi 0.73.1 1,340 tokens, pi 0.87.1 1,500, omp 18.2.3 18,240.
"""


@pytest.fixture(scope="module")
def bodies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    return requests(tmp_path_factory.mktemp("situations"))


@pytest.mark.parametrize("name", TITLES)
def test_a_model_is_sent_the_same_words_as_ever(bodies: dict[str, dict[str, Any]], name: str) -> None:
    assert_snapshot(f"requests/{name}.json", json.dumps(bodies[name], indent=2, ensure_ascii=False))


@pytest.mark.parametrize(("name", "system", "everything"), [("console", 200, 900), ("notebook", 500, 2060)])
def test_few_tokens_are_spent_before_the_users_first_word(name: str, system: int, everything: int) -> None:
    parts = parts_of(recorded(name))
    assert parts["system"] <= system
    assert parts["system"] + parts["tools"] <= everything


def test_system_prompt_and_tools_stay_the_same_over_a_conversation_so_that_they_stay_cached(
    bodies: dict[str, dict[str, Any]],
) -> None:
    before, after = bodies["notebook_cells"], bodies["notebook_python"]
    assert (before["system"], before["tools"]) == (after["system"], after["tools"])


@pytest.mark.parametrize("name", TITLES)
def test_schemas_of_tools_hold_no_ballast(name: str) -> None:
    for tool in recorded(name).get("tools", ()):
        found = re.findall(r'"(\$ref|\$defs|title)":|"type": "null"|"default": null', json.dumps(tool["input_schema"]))
        assert not found, tool["name"]


def test_the_page_prints_the_requests() -> None:
    kept = PAGE.read_text(encoding="utf-8").partition(MARK)[0]
    page = f"{kept}{MARK}{HEAD}{''.join(rows())}{BESIDE}{''.join(sections())}"
    if os.environ.get("INDUS_NB_WRITE_DOCS"):
        PAGE.write_text(page, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page, __doc__


def recorded(name: str) -> dict[str, Any]:
    return json.loads((SNAPSHOTS / "requests" / f"{name}.json").read_text(encoding="utf-8"))


def rows() -> Iterator[str]:
    for name, title in TITLES.items():
        parts = parts_of(recorded(name))
        figures = " | ".join(f"{count:,}" for count in (*parts.values(), sum(parts.values())))
        yield f"| [{title}](#{slug(title)}) | {figures} |\n"


def sections() -> Iterator[str]:
    printed: dict[str, str] = {}
    """The texts that the page has, with the situation under which they stand."""
    for name, title in TITLES.items():
        body = recorded(name)
        yield f"\n### {title}\n"
        for block in body.get("system", ()):
            yield f"\n**System**, {tokens_of(block['text'])} tokens\n\n" + once(block["text"], name, printed)
        known = [tool for tool in body.get("tools", ()) if printed.setdefault(json.dumps(of_tool(tool)), name) != name]
        if known:
            yield f"\n**Tools** as above: {', '.join(tool['name'] for tool in known)}\n"
        for tool in body.get("tools", ()):
            if tool not in known:
                text = json.dumps(of_tool(tool)["input_schema"])
                yield f"\n**Tool** `{tool['name']}`\n\n{shown(tool['description'])}\n{shown(text)}"
        for message in body["messages"]:
            for text in texts_of(message["content"]):
                yield f"\n**{message['role'].title()}**, {tokens_of(text)} tokens\n\n" + once(text, name, printed)


def of_tool(tool: dict[str, Any]) -> dict[str, Any]:
    return {key: tool[key] for key in ("name", "description", "input_schema")}


def once(text: str, name: str, printed: dict[str, str]) -> str:
    where = printed.setdefault(text, name)
    return shown(text) if where == name else f"As under [{TITLES[where]}](#{slug(TITLES[where])}).\n"


def slug(title: str) -> str:
    return re.sub(r"[^\w -]", "", title).lower().replace(" ", "-")


def shown(text: str) -> str:
    """Indent a text as code; a fence would end at those within it."""
    return "".join(f"    {line}".rstrip() + "\n" for line in text.rstrip().split("\n"))

"""Ten situations, and what a model is sent in each: whole bodies of requests, as they came over HTTP.

What differs from machine to machine and from day to day (paths, dates, versions, pictures) is replaced.
"""

from __future__ import annotations

import asyncio
import json
import platform
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kernels import Kernel, private_environment
from messages_api import AS_ANTHROPIC, MessagesApi, Recorded, Reply, ToolUse

from indus_nb import SessionOptions, agent, open_session
from indus_nb.core.session.session import AgentSession

MODEL = "claude-sonnet-4-5"
TITLES = {
    "console": "The first prompt on the console",
    "console_project": "The first prompt in a project with instructions and a skill",
    "console_tool": "After a call of a tool",
    "notebook": "The first prompt in a notebook",
    "notebook_cells": "The first prompt in a notebook, with cells and variables that go along",
    "notebook_python": "After `python`, with a table and a figure",
    "typed_answer": "A prompt for a typed answer, in a notebook",
    "sub_agent": "A sub-agent of a console session",
    "row": "A row of `agent.map`",
    "compaction": "A summary of a conversation",
}
CELLS = (
    "import pandas as pd\nsales = pd.DataFrame({'shop': [1, 2] * 3, 'price': [1.5, 2.0, None, 4.0, 2.5, 3.0]})",
    "print(len(sales), 'rows')\nsales.shop.value_counts()",
    "int('six')",
)
CODE = """import matplotlib.pyplot as plt
means = sales.groupby('shop', as_index=False).price.mean()
plt.bar(means.shop, means.price)
plt.show()
means"""


@dataclass
class Place:
    """A user's home with a project, on a server of ours."""

    root: Path
    api: MessagesApi

    @property
    def work(self) -> Path:
        return self.root / "work"

    def normal(self, request: Recorded) -> dict[str, Any]:
        """Return the body of a request, without what differs from machine to machine."""
        text = json.dumps(_without_pictures(request.body), ensure_ascii=False)
        for found, meant in (
            (json.dumps(str(self.root), ensure_ascii=False)[1:-1], "/home/ada"),
            (json.dumps(sys.prefix, ensure_ascii=False)[1:-1], "/home/ada/.venv"),
            (f"Python {platform.python_version()}", "Python 3.12.4"),
        ):
            text = text.replace(found, meant)
        text = re.sub(r"Current date: \d{4}-\d\d-\d\d", "Current date: 2026-03-04", text)
        text = re.sub(r"pandas \d[\w.+]+", "pandas 2.2.3", re.sub(r"matplotlib \d[\w.+]+", "matplotlib 3.9.2", text))
        return json.loads(text)

    def talk(self, *prompts: str) -> None:
        """Prompt a console session."""

        async def run(session: AgentSession) -> None:
            session.settings.compaction.keep_recent_tokens = 8  # the last prompt and its answer
            for prompt in prompts:
                await (session.compact() if prompt == "/compact" else session.prompt(prompt))

        chosen = SessionOptions(cwd=self.work, model=MODEL, no_session=True, trust=True)
        with open_session(chosen) as session:
            asyncio.run(run(session))


def _without_pictures(part: Any) -> Any:
    match part:
        case {"type": "base64"}:
            return {**part, "data": "(a picture)"}
        case dict():
            return {key: _without_pictures(value) for key, value in part.items()}
        case list():
            return [_without_pictures(each) for each in part]
        case _:
            return part


def requests(root: Path) -> dict[str, dict[str, Any]]:
    """Bring all of the situations about, below ``root``; return the bodies by the names of ``TITLES``."""
    with MessagesApi() as api:
        place = Place(root, api)
        environment = private_environment(root, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
        (Path(environment["INDUS_NB_AGENT_DIR"]) / "models.json").write_text(json.dumps({"providers": AS_ANTHROPIC}))
        place.work.mkdir()
        made: dict[str, dict[str, Any]] = {}
        with pytest.MonkeyPatch.context() as patch:
            for name in ("HOME", "INDUS_NB_AGENT_DIR", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"):
                patch.setenv(name, environment[name])
            patch.chdir(place.work)
            for name, bring_about in (
                ("console", lambda place: _answered(place, "What does this project do?")),
                ("console_tool", _console_tool),
                ("compaction", _compaction),
                ("sub_agent", _sub_agent),
                ("row", _row),
                ("console_project", _console_project),
            ):
                made[name] = place.normal(bring_about(place))
        (place.work / "AGENTS.md").unlink()
        made |= _in_a_notebook(place, {**environment, "JPY_SESSION_NAME": str(place.work / "sales.ipynb")})
        assert not api.refusals
        return {name: made[name] for name in TITLES}


def _answered(place: Place, prompt: str) -> Recorded:
    place.api.add("It counts birds.")
    place.talk(prompt)
    return place.api.requests[-1]


def _console_project(place: Place) -> Recorded:
    (place.work / "AGENTS.md").write_text("Write British English. Run `make check` before you are done.\n")
    skill = place.work / ".indusagi" / "skills" / "release" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: release\ndescription: How a release of this project is made\n---\nAsk Ada.\n")
    return _answered(place, "Make a release.")


def _console_tool(place: Place) -> Recorded:
    (place.work / "birds.txt").write_text("robin 3\nwren 5\n")
    place.api.add(Reply("I look.", ToolUse("read", {"path": "birds.txt"})), "Eight birds.")
    place.talk("How many birds are there?")
    return place.api.requests[-1]


def _compaction(place: Place) -> Recorded:
    call = Reply("I look.", ToolUse("read", {"path": "birds.txt"}))
    place.api.add(call, "Eight birds.", "Wrens, five of them.", "## Goal\nCount birds.")
    place.talk("How many birds are there?", "Which are the most?", "/compact")
    return place.api.requests[-1]


def _sub_agent(place: Place) -> Recorded:
    settings = place.root / "agent" / "settings.json"
    before = settings.read_text()
    settings.write_text('{"approve": "never", "subagents": {"enabled": true}}')
    task = {"title": "Find birds", "prompt": "Which files name birds? Answer with their paths."}
    place.api.add(Reply(ToolUse("agents", {"tasks": [task]})), "birds.txt", "Only birds.txt does.")
    place.talk("Where are birds?")
    settings.write_text(before)
    return place.api.requests[-2]


def _row(place: Place) -> Recorded:
    place.api.add("positive")
    agent.map("Is this review positive or negative? {text}", [{"text": "I love it."}], model=MODEL, progress=False)
    return place.api.requests[-1]


def _in_a_notebook(place: Place, environment: dict[str, str]) -> dict[str, dict[str, Any]]:
    api = place.api
    with Kernel(place.work, environment) as kernel:

        def asked(name: str, *lines: str) -> None:
            for line in lines:
                assert kernel.run(line).status == "ok", line
            made[name] = place.normal(api.requests[-1])

        made: dict[str, dict[str, Any]] = {}
        api.add("Hello.", "`int` reads digits.", Reply(ToolUse("python", {"code": CODE})), "Shop 2 is dearer.")
        asked("notebook", "%load_ext indus_nb", f"%agent --model anthropic/{MODEL} Hello, what can you do here?")
        for cell in CELLS:
            kernel.run(cell)
        asked("notebook_cells", "%agent --new Why did that fail?")
        asked("notebook_python", "%agent Compare the shops.")
        api.add(Reply(ToolUse("answer", {"answer": 2.6})))
        asked("typed_answer", "mean = %agent --new --result float what is the mean price?")
    return made

"""Recorded answers in a notebook whose conversation was opened before the user named the cassette."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from kernels import Cell, Kernel, private_environment
from messages_api import MessagesApi, Reply
from panel_pages import Page, Wire

ASK = "%agent --provider offline --thinking off compute 6 * 7"
ANEW = "INDUS_NB_CASSETTE was set, or changed, after this conversation was opened"


@pytest.fixture
def environment(tmp_path: Path, api: MessagesApi) -> Mapping[str, str]:
    """Of a notebook that is known by its path, so that its conversation goes on after a restart."""
    (tmp_path / "a.ipynb").write_text('{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}')
    return private_environment(
        tmp_path, JPY_SESSION_NAME=str(tmp_path / "a.ipynb"), ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key"
    )


def ask(kernel: Kernel, line: str = ASK) -> Cell:
    return kernel.begin(line, asks=True).finish()


OPENS = "%agent --provider offline"
"""What opens the conversation without asking anything, as the side panel does."""
NAMES = "%env INDUS_NB_CASSETTE=answers.json"


@pytest.mark.parametrize("cells", [(OPENS, NAMES), (NAMES, OPENS)], ids=["open before", "open after"])
def test_a_notebook_records_a_conversation_without_jobs_and_plays_it_after_a_restart(
    tmp_path: Path, environment: Mapping[str, str], cells: Sequence[str]
) -> None:
    for time in ("first", "second"):
        with Kernel(tmp_path, environment) as kernel:
            kernel.run("%load_ext indus_nb")
            for cell in cells:
                ask(kernel, cell)
            asked = ask(kernel)
            assert (asked.status, "42" in str(asked.shown)) == ("ok", True)
            is_replaced = time == "second" and cells[0] == OPENS  # the one before the restart would have gone on
            assert (ANEW in str(asked.shown)) == is_replaced
    recorded = json.loads((tmp_path / "answers.json").read_text())["exchanges"]
    assert len(recorded) == len(["the call", "the answer"])
    assert "bash" in recorded[0]["request"]["tools"]
    assert "job" not in recorded[0]["request"]["tools"]


@pytest.mark.parametrize(
    ("names", "loads"),
    [
        (NAMES, None),
        (NAMES, "%load_ext indus_nb\nprint('loaded')"),
        ("%env INDUS_NB_CASSETTE_MODE=keep", "%agent keep answers.json"),
    ],
    ids=["prompts alone", "a cell that loads it", "kept answers"],
)
def test_answers_are_played_whenever_a_page_or_the_configuration_has_loaded_the_extension(
    tmp_path: Path, environment: Mapping[str, str], names: str, loads: str | None
) -> None:
    cells = [
        names,
        "print('printed')\nrows = [1, 2]\nrows",
        "from IPython.display import Markdown, display\ndisplay(Markdown('*shown*'))\nrows.append(3)",
        "1 / 0",
        *(f"number = {number}\nnumber" for number in range(17)),
    ]
    prompts = [*([loads] if loads else []), ASK, "print('between')", f"{ASK} + 1"]
    recorded = None
    for loaded_before in (None if loads and loads.startswith("%load_ext") else len(cells), 0, 2, "all"):
        if loaded_before == "all":
            profile = Path(environment["IPYTHONDIR"], "profile_default")
            profile.mkdir(parents=True, exist_ok=True)
            (profile / "ipython_config.py").write_text('get_config().InteractiveShellApp.extensions = ["indus_nb"]')
        with Kernel(tmp_path, environment) as kernel:
            for at, cell in enumerate([*cells, *prompts]):
                if at == loaded_before:
                    kernel.load_from_page()
                done = ask(kernel, cell)
                assert done.status == ("error" if cell == "1 / 0" else "ok"), done.error
        content = (tmp_path / "answers.json").read_text()
        assert content == (recorded or content)
        recorded = content
    assert recorded is not None
    assert "between" in recorded
    assert all(each not in recorded for each in ("Printed:\\n```\\nprinted", "Shown:"))


def test_a_conversation_that_was_asked_something_is_replaced_with_a_line_and_kept(
    tmp_path: Path, environment: Mapping[str, str]
) -> None:
    with Kernel(tmp_path, environment) as kernel:
        kernel.run("%load_ext indus_nb")
        ask(kernel, "%agent --provider offline --thinking off what was before?")
        kernel.run("%env INDUS_NB_CASSETTE=answers.json")
        first = ask(kernel)
        assert ANEW in str(first.shown)
        assert ANEW not in str(ask(kernel).shown)
        kernel.run("%env INDUS_NB_CASSETTE=others.json")
        assert ANEW in str(ask(kernel).shown)
    for name, count in (("answers.json", 4), ("others.json", 2)):
        recorded = (tmp_path / name).read_text()
        assert "what was before?" not in recorded
        assert len(json.loads(recorded)["exchanges"]) == count  # two of each prompt: the call, and the answer


def test_a_panel_sends_nothing_in_a_conversation_that_is_older_than_the_cassette(
    tmp_path: Path, environment: Mapping[str, str], api: MessagesApi
) -> None:
    api.default = Reply("Yes.")
    with Kernel(tmp_path, environment) as kernel:
        kernel.run("%load_ext indus_nb")
        wire = Wire(kernel)
        shown = ask(kernel, "%agent panel")
        page = Page(wire, _widget(shown))
        kernel.run("%env INDUS_NB_CASSETTE=answers.json")
        page.prompt("hello?")
        page.wait_for(lambda: page.toasts)
        assert "Nothing was sent" in page.toasts[0]
        assert "`%agent --new`" in page.toasts[0]
        assert page.state["composer"]["text"] == "hello?"
        assert not api.requests
        ask(kernel, "%agent --new")
        page = Page(wire, _widget(ask(kernel, "%agent panel")))
        page.prompt("hello?")
        page.wait_until_idle("Yes.")
        wire.close()
    assert len(json.loads((tmp_path / "answers.json").read_text())["exchanges"]) == 1


@pytest.mark.parametrize(
    ("names", "said"),
    [(NAMES, "replayed from answers.json"), ("%agent keep answers.json", "1 answer kept from before")],
    ids=["replayed", "kept"],
)
def test_recorded_answers_cost_nothing_again_and_cell_panel_and_statistics_say_what_they_had_cost(
    tmp_path: Path, environment: Mapping[str, str], api: MessagesApi, names: str, said: str
) -> None:
    api.default = Reply("Yes.", usage={"input_tokens": 20_000})
    spent_after: list[float] = []
    before = len(api.requests)
    for time in ("recorded", "replayed"):
        with Kernel(tmp_path, environment) as kernel:
            kernel.run("%load_ext indus_nb")
            ask(kernel, names)
            answer = ask(kernel, "%agent --model claude-haiku-4-5 is it so?")
            stats = ask(kernel, "%agent stats")
            page = Page(Wire(kernel), _widget(ask(kernel, "%agent panel")))
            page.wait_until_idle("Yes.")
            assert "Yes." in str(answer.shown)
            assert (said in str(answer.shown)) == (time == "replayed")
            for shown in (str(answer.shown), page.text):
                assert ("tokens in, " in shown) == (time == "recorded")
            for shown in (str(answer.shown), page.text, str(stats.shown)):
                assert "$0.02" in shown
                assert ("$0.0000 now, $0.02" in shown) == (time == "replayed")
            spent = kernel.run("from indus_nb.core.limits import spent_today\nprint(spent_today())")
            spent_after.append(float(spent.streams))
    assert spent_after[0] > 0.02
    assert spent_after[1] == 0
    assert len(api.requests) == before + 1


def _widget(cell: Cell) -> str:
    (bundle,) = next(iter(cell.displays.values()))
    view: Any = bundle["application/vnd.jupyter.widget-view+json"]
    return view["model_id"]

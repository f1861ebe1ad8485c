"""Numbers of answers in a notebook: underlined where no result shows them, else with the card of the call that did."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kernels import Kernel, private_environment
from messages_api import MessagesApi, Reply, ToolUse

MARK = re.compile(r'title="not from a result">([^<]+)<')


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path


@pytest.fixture
def kernel(root: Path, api: MessagesApi) -> Iterator[Kernel]:
    environment = private_environment(root, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    with Kernel(root / "work", environment) as kernel:
        kernel.run("%load_ext indus_nb")
        kernel.run("sales = [120.5, 80.25, 300]")
        yield kernel


def marked(kernel: Kernel, prompt: str) -> list[str]:
    """Return the numbers that a cell's outputs mark."""
    cell = kernel.run(f"%agent {prompt}")
    assert cell.status == "ok", cell.error
    html = [bundle.get("text/html", "") for bundles in cell.displays.values() for bundle in bundles[-1:]]
    assert "\ufdd0" not in json.dumps(html + cell.shown, ensure_ascii=False)
    return [found for each in html for found in MARK.findall(each)]


def test_numbers_that_no_result_shows_are_marked_and_others_are_not(kernel: Kernel, api: MessagesApi) -> None:
    api.add(Reply(ToolUse("python", {"code": "print(sum(sales), len(sales))"})))
    api.add(
        "Sales sum up to **500.75**, from 3 values; 20% are from abroad, as you said, and 1,234 came in 2024."
        "\n\nThat is 500.8."
    )
    assert marked(kernel, "what is the sum? 20% are from abroad") == ["1,234"]
    api.add("So 500.75 it is, and 999 others.")
    assert marked(kernel, "and?") == ["999"]


def test_one_setting_marks_none(root: Path, kernel: Kernel, api: MessagesApi) -> None:
    settings = root / "agent/settings.json"
    held = json.loads(settings.read_text())
    settings.write_text(json.dumps({**held, "notebook": {"traceNumbers": False}}))
    api.add(Reply(ToolUse("python", {"code": "print(sum(sales))"})), "It is 4,321.")
    assert marked(kernel, "--new what is the sum?") == []


CALL = Reply(ToolUse("python", {"code": "print(sum(sales))"}))


def requests_of(kernel: Kernel, api: MessagesApi, prompt: str, *answers: Reply | str) -> int:
    """Return how many requests a cell makes."""
    before = len(api.requests)
    api.add(*answers)
    assert kernel.run(f"%agent {prompt}").status == "ok"
    return len(api.requests) - before


def test_a_checked_answer_is_sent_back_once_with_the_numbers_that_nothing_shows(
    kernel: Kernel, api: MessagesApi
) -> None:
    mean = Reply(ToolUse("python", {"code": "print(sum(sales) / 3)"}))
    assert requests_of(kernel, api, "so", CALL, "It is 4,321.") == 2
    api.add(CALL, "500.75 in all, 177.7 each and 4,321 lost.", mean, "500.75 in all, 166.92 each, 4,321 lost.")
    assert marked(kernel, "--check numbers what is the mean?")[-1] == "4,321"
    assert "shows these numbers of your answer:\n- 177.7\n- 4,321\n\n" in api.requests[-2].texts[-1]
    assert not [text for request in api.requests[-5:-2] for text in request.texts if "these numbers" in text]


def test_a_cell_is_checked_only_where_it_or_the_settings_say_so(root: Path, kernel: Kernel, api: MessagesApi) -> None:
    settings = root / "agent/settings.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "notebook": {"checkNumbers": True}}))
    assert requests_of(kernel, api, "--check none so", CALL, "It is 4,321.") == 2
    assert requests_of(kernel, api, "so", CALL, "It is 4,321.", "It is 500.75.") == 3
    assert requests_of(kernel, api, "so?", "All is well: 500.75.") == 1


def found(kernel: Kernel, prompt: str) -> dict[str, list[str]]:
    """Return the numbers that lead to cards of the same output, with the results that these cards show."""
    cell = kernel.run(f"%agent {prompt}")
    assert cell.status == "ok", cell.error
    html = "".join(bundles[-1].get("text/html", "") for bundles in cell.displays.values())
    cards = [re.sub("<[^>]*>", "", card.split("</details>")[0]) for card in html.split('<div class="indus-call"')[1:]]
    ours = [each.get("indus_nb", {}) for each in cell.metadata.values()]
    numbers: list[list[Any]] = [number for each in ours for number in each.get("found", [])]
    assert "found" not in html
    return {text: [cards[place].rsplit(" ", 1)[-1] for place in places] for text, *places in numbers}


def prints(code: str, *before: str) -> Reply:
    return Reply(*before, ToolUse("python", {"code": f"print('it is', {code})"}))


def test_a_number_leads_to_the_card_that_has_put_it_out(kernel: Kernel, api: MessagesApi) -> None:
    api.add(prints("sum(sales)"), "The sum is 500.8, of 3 values.")
    assert found(kernel, "what is the sum?") == {"500.8": ["500.75"]}
    api.add(prints("max(sales)"), prints("min(sales)", "One more look."), prints("sum(sales)"))
    api.add("| least |\n| --- |\n| 80.25 |")
    assert found(kernel, "and the least?") == {"80.25": ["80.25"]}
    api.add("Again: 500.75 and 80.25.")
    assert found(kernel, "all?") == {}


def test_a_difference_leads_to_both_cards_and_what_the_user_said_to_none(kernel: Kernel, api: MessagesApi) -> None:
    api.add(prints("sales[2]"), Reply(ToolUse("python", {"code": "1 / 0"})), prints("sales[1]"))
    api.add("Look:\n\n300 is 219.75 more than 80.25, so not 4,711 or 999.")
    assert found(kernel, "is it 4,711?") == {"300": ["300"], "219.75": ["300", "80.25"], "80.25": ["80.25"]}


def test_each_part_of_a_long_answer_names_its_own_numbers(kernel: Kernel, api: MessagesApi) -> None:
    api.add(prints("sales[2]"), prints("sales[1]"), f"First 300.\n\n{'so it is. ' * 300}\n\nAt last 80.25.")
    assert found(kernel, "so") == {"300": ["300"], "80.25": ["80.25"]}


def test_ids_of_calls_that_come_again_lead_nowhere(kernel: Kernel, api: MessagesApi) -> None:
    look = Reply(ToolUse("python", {"code": "print('it is', sales[0])"}, id="call_0"))
    api.add(look, "It is 120.5.")
    assert found(kernel, "so") == {"120.5": ["120.5"]}
    api.add(look, "It is 120.5.")
    assert found(kernel, "again") == {}


def test_where_numbers_are_not_traced_nothing_says_where_they_come_from(
    root: Path, kernel: Kernel, api: MessagesApi
) -> None:
    settings = root / "agent/settings.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "notebook": {"traceNumbers": False}}))
    api.add(prints("sum(sales)"), "The sum is 500.75.")
    assert found(kernel, "--new so") == {}

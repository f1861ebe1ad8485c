"""Claims: values in answers are kept with what they were computed from, and are stale exactly when that has changed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kernels import Kernel, private_environment
from messages_api import MessagesApi, Reply, ToolUse

from indus_nb.safety.sandbox.launcher import can_filter, landlock_version

pytestmark = pytest.mark.skipif(not (landlock_version() and can_filter()), reason="no Landlock here")

SET_UP = """
import pandas as pd
flights = pd.DataFrame({'delay': [1.0, 2.5]})
hotels = pd.DataFrame({'price': [80, 90]})
def late(): return int((flights.delay > 2).sum())
"""
ANSWER = "`{python} f'{flights.delay.mean():.2f}'` and `{python} hotels.price.max()`, `{python} late()` late."


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, api: MessagesApi) -> Iterator[Kernel]:
    root = tmp_path_factory.mktemp("claims")
    (root / "work").mkdir()
    environment = private_environment(root, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    with Kernel(root / "work", environment) as kernel:
        assert kernel.run("%load_ext indus_nb").status == "ok"
        yield kernel


@pytest.fixture
def kernel(shared: Kernel, api: MessagesApi) -> Kernel:
    """A kernel whose only claims are those of an answer just now, in a new conversation."""
    assert shared.run(SET_UP).status == "ok"
    assert shared.run("%agent --new --thinking off --approve never --model anthropic/claude-sonnet-4-5").status == "ok"
    assert shared.run("%agent claims drop").status == "ok"
    api.add(ANSWER)
    assert "1.75 and 90, 1 late." in shared.run("%agent so", cell_id="asks").shown
    return shared


def listed(kernel: Kernel, command: str = "") -> list[str]:
    """The lines of ``%agent claims`` below its title, and their states only."""
    cell = kernel.run(f"%agent claims {command}")
    assert cell.status == "ok", cell.error
    return [line.split("  ")[-1].strip() for line in cell.shown[-1].split("\n")[2:]]


def test_exactly_the_claims_that_read_what_a_cell_has_changed_are_stale(kernel: Kernel) -> None:
    assert listed(kernel) == ["holds", "holds", "holds"]
    assert kernel.run("hotels.describe(); x = flights.head()").status == "ok"
    assert listed(kernel) == ["holds", "holds", "holds"]
    assert kernel.run("flights.loc[0, 'delay'] = 9.5").status == "ok"
    assert listed(kernel) == ["stale: flights changed", "holds", "stale: flights changed"]
    assert listed(kernel, "check") == ["differs: now 6.00", "holds", "differs: now 2"]
    assert kernel.run("hotels = hotels[['price']].copy()").status == "ok"
    assert listed(kernel) == ["differs: now 6.00", "holds", "differs: now 2"]
    assert kernel.run("hotels = hotels[::-1]").status == "ok"
    assert listed(kernel) == ["differs: now 6.00", "stale: hotels changed", "differs: now 2"]
    assert listed(kernel, "check") == ["differs: now 6.00", "holds, checked", "differs: now 2"]
    assert kernel.run("del flights").status == "ok"
    assert listed(kernel)[0] == "stale: flights changed"
    assert listed(kernel, "check")[0] == "has no value now: NameError: name 'flights' is not defined"


def test_each_value_is_listed_with_the_cell_that_asked(kernel: Kernel) -> None:
    asked = int(kernel.run("print(len(In) - 2)").streams)  # the cell before this one
    rows = kernel.run("%agent claims").shown[-1].split("\n")[2:]
    assert [row.split("  ")[0] for row in rows] == [f"In [{asked}]"] * 3


def test_what_reads_one_column_is_not_stale_when_another_changes(kernel: Kernel) -> None:
    assert kernel.run("flights['gate'] = 'A'; hotels['stars'] = 3").status == "ok"
    assert listed(kernel) == ["holds", "holds", "stale: flights changed"]  # a function reads the frame
    assert kernel.run("hotels = hotels.rename(columns={'price': 'cost'})").status == "ok"
    assert listed(kernel) == ["holds", "stale: hotels changed", "stale: flights changed"]


def test_after_undo_none_is_stale(kernel: Kernel, api: MessagesApi) -> None:
    api.add(Reply(ToolUse("python", {"code": "flights['delay'] = 0.0; hotels = None"})))
    api.add("Done.")
    assert kernel.run("%agent change them").status == "ok"
    assert listed(kernel) == ["stale: flights changed", "stale: hotels changed", "stale: flights changed"]
    assert kernel.run("%agent undo").status == "ok"
    assert listed(kernel) == ["holds", "holds", "holds"]


def test_a_cell_that_asks_anew_has_the_claims_of_its_new_answer(kernel: Kernel, api: MessagesApi) -> None:
    api.add("Only `{python} late()`.")
    assert "Only 1." in kernel.run("%agent so", cell_id="asks").shown
    assert listed(kernel) == ["holds"]


def test_two_prompts_of_one_cell_keep_the_claims_of_both(kernel: Kernel, api: MessagesApi) -> None:
    api.add("One is `{python} late()`.", "The other `{python} hotels.price.max()`.")
    assert kernel.run("%agent one\n%agent other", cell_id="asks").status == "ok"
    assert listed(kernel) == ["holds", "holds"]


def test_of_an_answer_that_is_written_anew_only_its_own_claims_go(kernel: Kernel, api: MessagesApi) -> None:
    look = ToolUse("python", {"code": "flights.shape"})
    api.add(Reply("Late are `{python} late()`.", look), "So `{python} absent` and `{python} hotels.price.max()`.")
    api.add("So `{python} hotels.price.min()`.")
    assert kernel.run("%agent so", cell_id="asks").status == "ok"
    shown = kernel.run("%agent claims").shown[-1]
    assert [text in shown for text in ("late()", "price.max", "price.min")] == [True, False, True]


def test_the_title_counts_what_differs_and_drop_forgets_all(kernel: Kernel) -> None:
    assert kernel.run("flights.loc[0, 'delay'] = 9.5").status == "ok"
    title = kernel.run("%agent claims check").shown[-1].split("\n")[0]
    assert title == "3 values in answers, 0 stale, 2 of another value now."
    dropped = ["Dropped 3 values of answers; no variable is held for them."]
    assert kernel.run("%agent claims drop").shown == dropped
    assert kernel.run("%agent claims").shown == ["No answer of this kernel has a value of an expression."]


def test_without_claims_it_says_so(kernel: Kernel, api: MessagesApi) -> None:
    api.add("None.")
    assert kernel.run("%agent so", cell_id="asks").status == "ok"
    assert kernel.run("%agent claims").shown == ["No answer of this kernel has a value of an expression."]

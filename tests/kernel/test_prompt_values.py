"""Values of a prompt that have to be computed: a copy of the kernel does it, and the kernel stays as it was."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kernels import Kernel, private_environment
from messages_api import MessagesApi

from indus_nb.safety.sandbox.launcher import can_filter, landlock_version

pytestmark = pytest.mark.skipif(not (landlock_version() and can_filter()), reason="no Landlock here")

KEY = "test-key-of-a-length-that-is-distinct"
SET_UP = """
import os, pathlib, pandas as pd
name, items, n, text = 'Ada', [3, 1, 2], 7, 'x' * 50_000
df = pd.DataFrame({'a': [1.0, 2.0]})
class Odd:
    def __format__(self, _): return 'formatted'
odd = Odd()
def do(): items.append(9)
"""
NO_COPY = """
from indus_nb.front.notebook import conversations_of
trials = type(conversations_of(get_ipython()).kernel.trials)
original = trials._obstacle
async def _obstacle(self, code): return 'this is a test'
trials._obstacle = _obstacle
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory, api: MessagesApi) -> Iterator[Kernel]:
    root = tmp_path_factory.mktemp("values")
    (root / "work").mkdir()
    environment = private_environment(root, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY=KEY)
    with Kernel(root / "work", environment) as kernel:
        assert kernel.run("%load_ext indus_nb").status == "ok"
        assert kernel.run(SET_UP).status == "ok"
        assert kernel.run("%agent --no-session --thinking off --model anthropic/claude-sonnet-4-5").status == "ok"
        yield kernel


def prompted(kernel: Kernel, api: MessagesApi, text: str) -> tuple[str, str]:
    """Return the prompt that is sent for a text, and the notes about it."""
    api.add("ok")
    cell = kernel.run(f"%agent so: {text}")
    assert cell.status == "ok", cell.error
    return api.requests[-1].texts[-1].removeprefix("so: "), "\n".join(cell.shown)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{df.a.mean():.2f} of {len(items)}, {n}", "1.50 of 3, 7"),
        ("{[each * 2 for each in items]} {max(items, key=lambda each: -each)}", "[6, 2, 4] 1"),
        ("{odd:x} {df[df.a > 1].shape}", "formatted (1, 1)"),
        ("{n / (n - 7)} and {n + 1}", "{n / (n - 7)} and 8"),
        ("{df.sample(1).shape}", "(1, 1)"),
    ],
)
def test_values_are_computed(kernel: Kernel, api: MessagesApi, text: str, expected: str) -> None:
    assert prompted(kernel, api, text)[0] == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{items.pop()}", "changes items"),
        ("{do()}", "changes items"),
        ("{os.system('touch made') or n}", "touch made"),
        ("{pathlib.Path('made').write_text(name)}", "writes made"),
        ("{input(name)}", "asks for input"),
        ("{exit(n)}", ": it "),
        ("{os._exit(n)}", "without a result"),
        ("{name * 10 ** 10}", "memory"),
        ("{os.kill(os.getppid(), 9) or n}", "it sends signal 9"),
    ],
)
def test_what_has_an_effect_has_no_value(kernel: Kernel, api: MessagesApi, text: str, why: str) -> None:
    sent, notes = prompted(kernel, api, text)
    assert sent == text
    assert f"{text} was left as it stands: " in notes
    assert why in notes
    assert kernel.run("print(items, os.listdir())").streams == "[3, 1, 2] []\n"


def test_a_value_is_text_of_a_bounded_length_without_keys(kernel: Kernel, api: MessagesApi) -> None:
    assert prompted(kernel, api, "{os.environ['ANTHROPIC_API_KEY']}")[0] == "[secret ANTHROPIC_API_KEY]"
    sent, _ = prompted(kernel, api, "{text + text}")
    assert len(sent) < 21_000
    assert sent.endswith("(80000 more characters)")


def test_what_has_an_effect_spoils_no_value_beside_it(kernel: Kernel, api: MessagesApi) -> None:
    writes = "{open('hack.txt', 'w').write('x')}"
    sent, notes = prompted(kernel, api, f"{{sum(items)/3:.1f}} and {writes}")
    assert sent == f"2.0 and {writes}"
    assert "hack.txt" in notes
    assert "sum(items)" not in notes
    assert "this prompt computes" not in notes


def test_where_there_can_be_no_copy_it_stays_as_it_was_typed(kernel: Kernel, api: MessagesApi) -> None:
    assert kernel.run(NO_COPY).error is None
    sent, notes = prompted(kernel, api, "{len(items)} of {items[0]} and {df.shape}")
    assert sent == "{len(items)} of 3 and (2, 1)"
    assert "could not be tried in a copy of the kernel: this is a test" in notes
    assert kernel.run("trials._obstacle = original").error is None

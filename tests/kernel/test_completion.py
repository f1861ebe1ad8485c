"""Tab in a real kernel, as a front end asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kernels import Kernel, private_environment

SET_UP = """
%load_ext indus_nb
%agent --provider offline
import math
sales = 1
sales_by_year = 2
class Odd:
    def __dir__(self):
        raise RuntimeError("no")
odd = Odd()
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    root = tmp_path_factory.mktemp("kernel")
    folder = root / "work"
    folder.mkdir()
    environment = private_environment(root)
    prompts = root / "agent" / "prompts"
    prompts.mkdir()
    (prompts / "review.md").write_text("---\ndescription: look\n---\nDo it.\n")
    with Kernel(folder, environment) as kernel:
        assert kernel.run(SET_UP).status == "ok"
        yield kernel


def reply_to_tab(kernel: Kernel, code: str) -> dict[str, Any]:
    """The kernel's answer for a cell in which ``|`` is the cursor."""
    before, after = code.split("|")
    client = kernel._client
    message_id = client.complete(before + after, len(before))
    while True:
        reply = client.get_shell_msg(timeout=240)
        if reply["parent_header"].get("msg_id") == message_id:
            assert reply["content"]["status"] == "ok"
            return reply["content"]


def after_tab(kernel: Kernel, code: str) -> list[str]:
    """The cells that the offers make of this one, ``|`` being the cursor."""
    reply = reply_to_tab(kernel, code)
    text = code.replace("|", "")
    return [text[: reply["cursor_start"]] + match + text[reply["cursor_end"] :] for match in reply["matches"]]


@pytest.mark.parametrize(
    ("code", "cells"),
    [
        ("%agent --prov|", ["%agent --provider"]),
        ("%agent --no-w| hello", ["%agent --no-wait hello"]),
        ("%agent --provider off|", ["%agent --provider offline"]),
        ("%agent --thinking=xh|", ["%agent --thinking=xhigh"]),
        ("%agent --tools read,gr|", ["%agent --tools read,grep"]),
        ("%agent comp|", ["%agent compact"]),
        ("%agent /re|", ["%agent /review"]),
        ("%agent about $sales_| please", ["%agent about $sales_by_year please"]),
        ("%agent about {sales_|}", ["%agent about {sales_by_year}"]),
        ("%agent {math.lcm|}", ["%agent {math.lcm}"]),
        ("%agent -o sales_|", ["%agent -o sales_by_year"]),
        ("x = 1\nfor y in []:\n    %agent --prov|\nz = 2", ["x = 1\nfor y in []:\n    %agent --provider\nz = 2"]),
        ("%%agent --prov|\nhello", ["%%agent --provider\nhello"]),
        ("%%agent\n/re|\n", ["%%agent\n/review\n"]),
        ("%%agent --new\nfirst\nabout $sales_|\nlast", ["%%agent --new\nfirst\nabout $sales_by_year\nlast"]),
        ("%%agent\nf\u00fcr \U0001f600 {sales_|}", ["%%agent\nf\u00fcr \U0001f600 {sales_by_year}"]),
    ],
)
def test_tab_offers_what_the_agents_lines_take_and_nothing_else(kernel: Kernel, code: str, cells: list[str]) -> None:
    assert after_tab(kernel, code) == cells


def test_named_states_are_offered_behind_what_goes_to_one(kernel: Kernel) -> None:
    assert kernel.run("%agent state save 'before it'").status == "ok"
    assert after_tab(kernel, "%agent state back be|") == ['%agent state back "before it"']
    assert after_tab(kernel, "%agent state dr|") == ["%agent state drop"]
    assert kernel.run("%agent state drop 'before it'").status == "ok"


def test_only_variables_of_the_user_are_offered(kernel: Kernel) -> None:
    assert after_tab(kernel, "%agent $|") == [
        f"%agent ${name}" for name in ("Odd", "math", "odd", "sales", "sales_by_year")
    ]


def test_what_python_and_other_magics_offer_stays(kernel: Kernel) -> None:
    assert "math.lcm" in "".join(after_tab(kernel, "math.lc|"))
    assert after_tab(kernel, "sales_|") == ["sales_by_year"]
    assert any("%timeit" in cell for cell in after_tab(kernel, "%timei|"))
    assert after_tab(kernel, "'%agent'\nsales_|")[0] == "'%agent'\nsales_by_year"


def test_an_object_that_fails_when_it_is_looked_at_is_passed_over_in_silence(kernel: Kernel) -> None:
    reply_to_tab(kernel, "%agent {odd.x|}")
    assert kernel.run("1").streams == ""
    assert after_tab(kernel, "%agent --prov|") == ["%agent --provider"]


def test_what_was_installed_can_be_taken_back(kernel: Kernel) -> None:
    assert kernel.run("%unload_ext indus_nb").status == "ok"
    assert after_tab(kernel, "%agent --prov|") != ["%agent --provider"]
    assert kernel.run("%load_ext indus_nb").status == "ok"
    assert after_tab(kernel, "%agent --prov|") == ["%agent --provider"]

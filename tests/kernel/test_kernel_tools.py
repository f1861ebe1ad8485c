"""The agent in the user's own kernel: it works on the live objects, and knows what the user ran."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kernels import Kernel, private_environment
from messages_api import MessagesApi, Reply, ToolUse


@pytest.fixture(scope="module")
def api() -> Iterator[MessagesApi]:
    with MessagesApi() as api:
        yield api


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory, api: MessagesApi) -> Iterator[Kernel]:
    root = tmp_path_factory.mktemp("kernel-tools")
    environment = private_environment(root, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    with Kernel(root, environment) as kernel:
        assert kernel.run("%load_ext indus_nb").status == "ok"
        yield kernel


@pytest.fixture
def claude(kernel: Kernel, api: MessagesApi) -> Kernel:
    assert kernel.run("%agent --new --model anthropic/claude-sonnet-4-5 --thinking off").status == "ok"
    api.requests.clear()
    return kernel


def python(claude: Kernel, api: MessagesApi, code: str, **more: object) -> dict:
    """The result that the model reads after it ran ``code``."""
    api.add(Reply(ToolUse("python", {"code": code, **more})), Reply("Done."))
    cell = claude.run("%agent go")
    assert cell.status == "ok", cell.error
    return api.requests[-1].body["messages"][-1]["content"][0]


def text_of(result: dict) -> str:
    content = result["content"]
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


def test_code_runs_on_the_users_objects_and_what_it_defines_stays(claude: Kernel, api: MessagesApi) -> None:
    claude.run("numbers = [1, 2, 3]")
    result = python(claude, api, "numbers.append(4)\nprint('printed')\ntotal = sum(numbers)\ntotal")
    assert text_of(result) == "printed\n10\n"
    cell = claude.run("print(numbers, total)")
    assert cell.streams == "[1, 2, 3, 4] 10\n"


def test_what_code_shows_is_in_its_card_and_not_in_the_cell(claude: Kernel, api: MessagesApi) -> None:
    api.add(Reply(ToolUse("python", {"code": "print('to the card')\n6 * 7"})), Reply("Done."))
    cell = claude.run("%agent go")
    assert cell.streams == ""
    card = next(text for text in cell.shown if "to the card" in text)
    assert "42" in card


def test_a_failure_is_told_from_the_users_frame_on(claude: Kernel, api: MessagesApi) -> None:
    claude.run("def broken():\n    return 1 / 0")
    result = python(claude, api, "broken()")
    assert result["is_error"]
    told = text_of(result)
    assert told.startswith("Traceback (most recent call last):\n  File ")
    assert told.endswith("ZeroDivisionError: division by zero")
    assert "interactiveshell" not in told
    assert text_of(python(claude, api, "def f(:")).endswith("SyntaxError: invalid syntax")
    assert claude.run("6 * 7").status == "ok"


def test_magics_and_top_level_await_work(claude: Kernel, api: MessagesApi) -> None:
    assert "magic" in text_of(python(claude, api, "!echo magic"))
    code = (
        "import asyncio\nasync def later():\n    await asyncio.sleep(0.01)\n    return 'awaited'\nprint(await later())"
    )
    assert text_of(python(claude, api, code)) == "awaited\n"


def test_a_picture_is_given_to_the_model_as_one(claude: Kernel, api: MessagesApi) -> None:
    code = "from PIL import Image\nImage.new('RGB', (2, 2), 'red')"
    result = python(claude, api, code)
    assert [block["type"] for block in result["content"]] == ["image"]
    assert result["content"][0]["source"]["media_type"] == "image/png"


def test_code_that_takes_too_long_is_interrupted(claude: Kernel, api: MessagesApi) -> None:
    began = time.monotonic()
    result = python(claude, api, "import time\nprint('begun')\ntime.sleep(1000)", timeout=0.5)
    assert time.monotonic() - began < 20
    assert result["is_error"]
    assert text_of(result) == "begun\n\n\nThe code was interrupted after 0.5 seconds."


def test_an_interrupt_ends_code_and_run_and_the_kernel_goes_on(claude: Kernel, api: MessagesApi) -> None:
    sign = claude.folder / "begun"
    api.add(Reply(ToolUse("python", {"code": "import time\nopen('begun', 'w').close()\ntime.sleep(1000)"})))
    cell = claude.begin("%agent go")
    deadline = time.monotonic() + 20
    while not sign.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    claude.interrupt()
    assert cell.finish().status == "error"
    assert len(api.requests) == 1
    assert claude.run("6 * 7").status == "ok"
    api.add(Reply("Still here."))
    assert "Still here." in " ".join(claude.run("%agent and now?").shown)


def test_variables_are_listed_without_huge_texts(claude: Kernel, api: MessagesApi) -> None:
    claude.run(
        "class Frame:\n"
        "    shape = (3, 2)\n"
        "    dtypes = {'a': 'int64', 'b': 'object'}\n"
        "    def __repr__(self):\n"
        "        raise RuntimeError('never asked')\n"
        "frame, long_text, big = Frame(), 'x' * 1_000_000, list(range(1_000_000))\n"
    )
    api.add(Reply(ToolUse("variables", {})), Reply("Done."))
    assert claude.run("%agent look").status == "ok"
    told = text_of(api.requests[-1].body["messages"][-1]["content"][0])
    assert "frame: Frame of shape (3, 2) · a int64, b object" in told
    assert "long_text: str of 1000000 · 'xxx" in told
    assert "big: list of 1000000 · [0, 1, 2, 3, 4, 5, ...]" in told
    assert len(told) < 5000
    assert "get_ipython" not in told


def test_the_cells_that_the_user_ran_are_told_with_the_next_prompt_once(claude: Kernel, api: MessagesApi) -> None:
    api.add(Reply("Yes."))
    claude.run("%agent before")
    claude.run("secret_sauce = 41 + 1\nsecret_sauce")
    claude.run("secret_sauce / 0")
    api.add(Reply("I see."), Reply("Still."))
    claude.run("%agent what happened?")
    told = json.dumps(api.requests[-1].body["messages"][-2:], ensure_ascii=False)
    assert "secret_sauce = 41 + 1" in told
    assert "Out: int · 42" in told
    assert "ZeroDivisionError: division by zero" in told
    claude.run("%agent and now?")
    assert json.dumps(api.requests[-1].body["messages"][-1]).count("secret_sauce") == 0


def test_the_tools_of_the_kernel_are_chosen_like_any_other(claude: Kernel, api: MessagesApi, tmp_path: Path) -> None:
    api.add(Reply("Yes."), Reply("Yes."))
    claude.run("%agent --new --tools python,read hello")
    assert [tool["name"] for tool in api.requests[-1].body["tools"]] == ["python", "read"]
    claude.run('%agent --new --tools "" hello')
    assert "tools" not in api.requests[-1].body
    claude.run("%agent --new --tools read,bash,edit,write,python,variables")

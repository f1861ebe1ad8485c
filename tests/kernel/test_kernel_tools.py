"""The agent in the user's own kernel: it works on the live objects, and knows what the user ran."""

from __future__ import annotations

import base64
import html
import io
import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kernels import Kernel, private_environment
from messages_api import Gate, MessagesApi, Reply, Text, ToolUse
from PIL import Image
from waiting import wait_until


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory, api: MessagesApi) -> Iterator[Kernel]:
    root = tmp_path_factory.mktemp("kernel-tools")
    environment = private_environment(root, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    with Kernel(root, environment) as kernel:
        assert kernel.run("%load_ext indus_nb").status == "ok"
        yield kernel


@pytest.fixture
def claude(kernel: Kernel, api: MessagesApi) -> Iterator[Kernel]:
    assert kernel.run("%agent --new --model anthropic/claude-sonnet-4-5 --thinking off").status == "ok"
    api.requests.clear()
    yield kernel
    kernel.run("%agent abort")  # a run in the background may still be about to end


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


def test_a_traceback_begins_with_the_users_frame(claude: Kernel, api: MessagesApi) -> None:
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
    result = python(claude, api, "import time\nprint('begun')\ntime.sleep(1000)", timeout=0.5)
    assert result["is_error"]
    assert text_of(result) == "begun\n\n\nThe code was interrupted after 0.5 seconds."


def test_an_interrupt_ends_code_and_run_and_the_kernel_goes_on(claude: Kernel, api: MessagesApi) -> None:
    claude.run("import sys; sys.setswitchinterval(1e-6)")  # so that the agent's thread is never too slow to go on
    for attempt in range(1, 6):
        sign = claude.folder / f"begun-{attempt}"
        api.add(Reply(ToolUse("python", {"code": f"import time\nopen({sign.name!r}, 'w').close()\ntime.sleep(1000)"})))
        cell = claude.begin("%agent go")
        until(sign.exists)
        claude.interrupt()
        assert cell.finish().status == "error"
        assert len(api.requests) == attempt
        assert claude.run("6 * 7").status == "ok"
    api.add(Reply("Still here."))
    assert "Still here." in " ".join(claude.run("%agent and now?").shown)


def test_an_interrupt_just_before_code_begins_keeps_it_from_beginning(claude: Kernel, api: MessagesApi) -> None:
    # The kernel interrupts itself when the call's code is looked at, which is the last moment before it begins.
    claude.run(
        "import os, signal\n"
        "def press(lines):\n"
        "    get_ipython().input_transformers_post.remove(press)\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    return lines\n"
    )
    claude.run("def arm(*_):\n    get_ipython().input_transformers_post.append(press)")
    claude.run("from indus_nb import agent\n@agent.on('tool_call')\ndef before(event, ctx):\n    arm()")
    api.add(Reply(ToolUse("python", {"code": "open('effect', 'w').close()"})))
    cell = claude.run("%agent go")
    assert cell.status == "error"
    assert "was stopped" in str(cell.error["evalue"])
    assert not (claude.folder / "effect").exists()
    claude.run("agent.forget()")


def test_a_new_conversation_in_a_removed_directory_is_refused_with_a_sentence(claude: Kernel) -> None:
    claude.run("import os\nhere = os.getcwd()\nos.mkdir('gone')\nos.chdir('gone')\nos.rmdir('../gone')")
    cell = claude.run("%agent --new")
    claude.run("os.chdir(here)")
    assert cell.status == "error"
    assert "The working directory cannot be used (No such file or directory)" in cell.error["evalue"]


def test_a_forked_child_is_told_where_the_agent_lives(claude: Kernel, api: MessagesApi) -> None:
    code = (
        "import os\n"
        "if os.fork() == 0:\n"
        "    from indus_nb.base.errors import UsageError\n"
        "    told = 'nothing'\n"
        "    try:\n"
        "        get_ipython().run_line_magic('agent', 'hello')\n"
        "    except BaseException as error:\n"
        "        told = str(error)\n"
        "    open('told', 'w').write(told)\n"
        "    os._exit(0)\n"
        "ended = os.wait()\n"
    )
    assert claude.run(code).status == "ok"
    assert "was forked: ask it there" in (claude.folder / "told").read_text()
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
    assert "big: list of 1000000 · [0, 1, 2, 3, 4, 5, … 999994 more]" in told
    assert len(told) < 5000
    assert "get_ipython" not in told


def until(condition: Callable[[], bool], seconds: float = 240) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def in_background(claude: Kernel, api: MessagesApi, code: str, **more: object) -> None:
    """Have the model run ``code`` with no cell that waits for it."""
    api.add(Reply(ToolUse("python", {"code": code, **more})), Reply("Done."))
    assert claude.run("%agent --no-wait go").status == "ok"


def result_in_background(api: MessagesApi) -> dict:
    until(lambda: len(api.requests) == 2)
    return api.requests[-1].body["messages"][-1]["content"][0]


def configure(claude: Kernel, **notebook: object) -> None:
    """Start a conversation with these settings."""
    settings = claude.folder / "agent" / "settings.json"
    settings.write_text(json.dumps({"approve": "never", "notebook": notebook}))
    assert claude.run("%agent --new --model anthropic/claude-sonnet-4-5 --thinking off").status == "ok"


def told_before(api: MessagesApi) -> str:
    """What the model was told before the last prompt since its last answer."""
    texts: list[str] = []
    for message in reversed(api.requests[-1].body["messages"]):
        if message["role"] == "assistant":
            break
        content = message["content"]
        texts += [content] if isinstance(content, str) else [block["text"] for block in content]
    return "\n".join(texts)


def test_a_table_is_given_in_short_with_its_schema(claude: Kernel, api: MessagesApi) -> None:
    claude.run("import pandas as pd\nsales = pd.DataFrame({'region': ['n', 's'] * 500, 'price': [1.5, None] * 500})")
    for code in ("sales", "display(sales)"):
        told = text_of(python(claude, api, code))
        assert told.startswith("pandas.DataFrame: 1000 rows \N{MULTIPLICATION SIGN} 2 columns\n- region: ")
        assert "- price: float64, 500 null" in told
        assert told.endswith("9 | s | nan\n… (990 more rows)\n")


def test_a_figure_is_given_as_an_image_however_cells_show_theirs(claude: Kernel, api: MessagesApi) -> None:
    code = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\nfigure = plt.figure()\nplt.plot([3]);"
    result = python(claude, api, code)
    assert [block["type"] for block in result["content"]] == ["image", "image"]
    claude.run("%config InlineBackend.figure_formats = ['svg']")
    result = python(claude, api, "plt.plot([1, 2])\nplt.title('t');")
    assert [block["type"] for block in result["content"]] == ["image"]
    cell = claude.run("plt.plot([1]);")
    assert next(iter(cell.displays.values()))[0].keys() >= {"image/svg+xml"}


def test_a_figure_of_the_cell_that_waits_stays_in_it(claude: Kernel, api: MessagesApi) -> None:
    claude.run("import matplotlib.pyplot as plt\n%config InlineBackend.figure_formats = ['png']")
    api.add(Reply(ToolUse("python", {"code": "6 * 7"})), Reply("Done."))
    cell = claude.run("plt.plot([1, 2])\n%agent look")
    assert any("image/png" in bundle for bundles in cell.displays.values() for bundle in bundles)
    result = api.requests[-1].body["messages"][-1]["content"][0]
    assert text_of(result) == "42\n"
    assert "image" not in json.dumps(result)


def test_images_are_made_small_enough_for_a_model(claude: Kernel, api: MessagesApi) -> None:
    result = python(claude, api, "from PIL import Image\nImage.new('RGB', (5000, 10), 'red')")
    image = base64.b64decode(result["content"][0]["source"]["data"])
    assert Image.open(io.BytesIO(image)).size == (1568, 3)


def test_images_that_replace_others_count_once(claude: Kernel, api: MessagesApi) -> None:
    code = (
        "from PIL import Image\nfrom IPython.display import clear_output\n"
        "shown = display(Image.new('L', (1, 1)), display_id=True)\n"
        "for turn in range(20): shown.update(Image.new('L', (2, 2)))\n"
    )
    assert len(python(claude, api, code)["content"]) == 1
    assert len(python(claude, api, code + "clear_output()\nImage.new('L', (3, 3))")["content"]) == 1


def test_help_is_given_to_the_model_and_not_to_the_page(claude: Kernel, api: MessagesApi) -> None:
    claude.run("def documented():\n    'What it does.'")
    assert "What it does." in text_of(python(claude, api, "documented?"))


def test_frames_of_libraries_are_few_and_ours_are_none(claude: Kernel, api: MessagesApi) -> None:
    claude.run("import json\ndef deep(n):\n    return json.loads('{') if n == 0 else deep(n - 1)")
    told = text_of(python(claude, api, "deep(2)"))
    assert told.startswith('Traceback (most recent call last):\n  File "Cell In[')
    assert "in deep\n" in told
    assert "/json/decoder.py" in told
    assert "indus_nb" not in told
    assert "IPython" not in told
    told = text_of(python(claude, api, "def endless():\n    more()\ndef more():\n    endless()\nendless()"))
    assert told.endswith("RecursionError: maximum recursion depth exceeded")
    assert "frames, most of them of libraries, are left out" in told
    assert told.count("in endless") < 30
    told = text_of(
        python(claude, api, "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('x') from e")
    )
    assert "ZeroDivisionError" in told
    assert "direct cause" in told


def test_a_failure_keeps_what_was_shown_before_it(claude: Kernel, api: MessagesApi) -> None:
    result = python(claude, api, "from PIL import Image\ndisplay(Image.new('L', (1, 1)))\nprint('so far')\n1 / 0")
    assert result["is_error"]
    assert text_of(result).startswith("so far\nTraceback")
    behind = api.requests[-1].body["messages"][-1]["content"][1:]  # a failed result itself may hold text only
    assert "image" in [block["type"] for block in behind]


def test_long_output_is_cut_and_all_of_it_is_in_a_file(claude: Kernel, api: MessagesApi) -> None:
    told = text_of(python(claude, api, "for n in range(30_000): print(n)"))
    beginning, _, rest = told.partition("\n[")
    notice, _, end = rest.partition("]\n")
    assert len(told) < 8_300
    assert beginning.startswith("0\n1\n")
    assert end.endswith("\n29999\n")
    path = Path(notice.partition("The whole output: ")[2].partition(",")[0])
    assert path.read_text() == "".join(f"{number}\n" for number in range(30_000))
    path.unlink()


def test_only_what_the_code_prints_is_taken_from_the_cell(claude: Kernel, api: MessagesApi) -> None:
    claude.run(
        "import logging, sys, threading, time\n"
        "logging.basicConfig(stream=sys.stderr, level=logging.INFO, format='%(message)s')\n"
        "going = True\n"
        "def tick():\n"
        "    while going:\n"
        "        print('tick')\n"
        "        time.sleep(0.01)\n"
        "ticking = threading.Thread(target=tick)\n"
    )
    code = (
        "import logging, threading\n"
        "logging.info('logged')\n"
        "started = threading.Thread(target=print, args=('from a thread of it',)); started.start(); started.join()\n"
        "import time; time.sleep(0.3)\n"
        "going = False\nticking.join()"
    )
    api.add(Reply(ToolUse("python", {"code": code})), Reply("Done."))
    cell = claude.run("ticking.start()\n%agent go")
    assert text_of(api.requests[-1].body["messages"][-1]["content"][0]) == "logged\nfrom a thread of it\n"
    assert "tick\n" in cell.streams
    assert "logged" not in cell.streams
    assert "of it" not in cell.streams
    claude.run("logging.getLogger().handlers.clear()")


def test_code_takes_no_number_of_the_users_cells(claude: Kernel, api: MessagesApi) -> None:
    claude.run("start = get_ipython().execution_count")
    api.add(
        Reply(ToolUse("python", {"code": "first = 1\n1 / 0"})),
        Reply(ToolUse("python", {"code": "!true"})),
        Reply("Ok."),
    )
    claude.run("%agent go")
    cell = claude.run("print(get_ipython().execution_count - start)\nprint(In[start:])\n%history -n 1-1000")
    number, inputs, history = cell.streams.split("\n", 2)
    assert number == "2"
    assert inputs.startswith("[\"get_ipython().run_line_magic('agent', 'go')\", \"print(get_ipython")
    assert "first = 1" not in history
    told = text_of(python(claude, api, "def later():\n    return 1 / 0\nlater()"))
    assert re.search(r'File "Cell In\[agent \d+\]", line 3', told)


def test_the_underscore_stays_the_users(claude: Kernel, api: MessagesApi) -> None:
    claude.run("'mine'")
    assert text_of(python(claude, api, "'other'")) == "'other'\n"
    assert claude.run("print(_)").streams == "mine\n"


def test_code_cannot_end_the_kernel(claude: Kernel, api: MessagesApi) -> None:
    told = text_of(python(claude, api, "exit()"))
    assert "would end the user's kernel" in told
    assert text_of(python(claude, api, "import sys; sys.exit(3)")).endswith("SystemExit: 3")
    assert claude.run("6 * 7").status == "ok"


def test_cells_that_follow_do_not_begin_while_code_awaits(claude: Kernel, api: MessagesApi) -> None:
    code = (
        "import asyncio\nfor _ in range(10):\n    await asyncio.sleep(0.05)\norder.append('code')\nprint('of the code')"
    )
    claude.run("order = []")
    api.add(Reply(ToolUse("python", {"code": code})), Reply("Done."))
    cells = [claude.begin("%agent go"), claude.begin("order.append('cell')\nprint('of the cell')")]
    finished = cells[1].finish()
    assert finished.streams == "of the cell\n"
    assert text_of(api.requests[-1].body["messages"][-1]["content"][0]) == "of the code\n"
    assert claude.run("print(order)").streams == "['code', 'cell']\n"


def test_an_interrupt_ends_code_that_awaits(claude: Kernel, api: MessagesApi) -> None:
    for code in (
        "import asyncio\nprint('begun')\nawait asyncio.sleep(1000)",
        "import asyncio, time\nasync def f():\n    time.sleep(1000)\nprint('begun')\nawait asyncio.gather(f())",
        "import asyncio, time\nawait asyncio.sleep(0)\nprint('begun')\ntime.sleep(1000)",
    ):
        result = python(claude, api, code, timeout=0.7)
        assert text_of(result) == "begun\n\n\nThe code was interrupted after 0.7 seconds."
        assert claude.run("import asyncio\nawait asyncio.sleep(0)\nprint('alive')").streams == "alive\n"


def test_the_usual_time_limit_is_a_setting(claude: Kernel, api: MessagesApi) -> None:
    configure(claude, pythonTimeoutSeconds=0.4)
    try:
        api.requests.clear()
        assert text_of(python(claude, api, "import time; time.sleep(1000)")).endswith("after 0.4 seconds.")
        assert text_of(python(claude, api, "import time; time.sleep(0.6); print('whole')", timeout=60)) == "whole\n"
    finally:
        configure(claude)


def test_code_runs_between_the_users_cells_when_no_cell_waits(claude: Kernel, api: MessagesApi) -> None:
    sign = claude.folder / "cell-begun"
    claude.run("order = []")
    api.add(Reply(ToolUse("python", {"code": "order.append('code')\nprint('background')\nlen(order)"})), Reply("Done."))
    claude.run("%agent --no-wait go")
    cell = claude.begin(
        f"import time\nopen({str(sign)!r}, 'w').close()\ntime.sleep(0.3)\norder.append('cell')"
    ).finish()
    result = result_in_background(api)
    told = text_of(result)
    assert told in ("background\n1\n", "background\n2\n")
    assert cell.streams == ""
    assert "code" in claude.run("print(order)").streams


def test_code_waits_until_a_cell_that_awaits_has_ended(claude: Kernel, api: MessagesApi) -> None:
    claude.run("import asyncio\norder = []")
    api.add(
        Reply(ToolUse("bash", {"command": "until [ -e cell-awaits ]; do sleep 0.02; done"})),
        Reply(ToolUse("python", {"code": "order.append('code')\nprint('background')"})),
        Reply("Done."),
    )
    claude.run("%agent --no-wait go")
    cell = claude.run("open('cell-awaits', 'w').close()\nawait asyncio.sleep(0.6)\norder.append('cell')\nprint('cell')")
    assert cell.streams == "cell\n"
    until(lambda: len(api.requests) == 3)
    assert text_of(api.requests[-1].body["messages"][-1]["content"][0]) == "background\n"
    assert claude.run("print(order)").streams == "['cell', 'code']\n"


def test_cells_run_while_code_in_the_background_awaits(claude: Kernel, api: MessagesApi) -> None:
    claude.run("import asyncio\ngate = asyncio.Event()")
    in_background(claude, api, "print('before')\nopen('awaits', 'w').close()\nawait gate.wait()\nprint('after')")
    until((claude.folder / "awaits").exists)
    cell = claude.run("print('of the cell')\ngate.set()")
    assert cell.streams == "of the cell\n"
    assert text_of(result_in_background(api)) == "before\nafter\n"


@pytest.mark.parametrize(
    "code",
    [
        "import time\nopen('busy', 'w').close()\ntime.sleep(1000)",
        "import asyncio as a\na.get_running_loop().call_soon(lambda: open('busy', 'w').close())\nawait a.sleep(1000)",
        "import asyncio, time\nasync def f(): open('busy', 'w').close(); time.sleep(1000)\nawait asyncio.gather(f())",
        (
            "import asyncio as a, time\ndef f(): open('busy', 'w').close(); time.sleep(1000)\n"
            "a.get_running_loop().call_soon(f)\nawait a.sleep(1000)"
        ),
    ],
    ids=["busy", "awaiting", "busy in a task", "busy in a callback"],
)
def test_an_interrupt_ends_code_in_the_background_and_not_the_kernel(
    claude: Kernel, api: MessagesApi, code: str
) -> None:
    busy = claude.folder / "busy"
    busy.unlink(missing_ok=True)
    in_background(claude, api, code)
    until(busy.exists)
    claude.interrupt()
    assert text_of(result_in_background(api)).endswith("The code was interrupted by the user.")
    assert claude.run("print('alive')").streams == "alive\n"
    assert claude.run("import asyncio\nawait asyncio.sleep(0)").status == "ok"


def test_code_in_the_background_that_is_stopped_leaves_a_cell_alone(claude: Kernel, api: MessagesApi) -> None:
    claude.run("import asyncio, time")
    in_background(claude, api, "open('forever', 'w').close()\nawait asyncio.sleep(1000)", timeout=0.5)
    until((claude.folder / "forever").exists)
    cell = claude.run("time.sleep(1)\nprint('whole')")
    assert cell.streams == "whole\n"
    assert text_of(result_in_background(api)).endswith("The code was interrupted after 0.5 seconds.")


def test_code_that_waits_does_not_begin_when_the_run_is_aborted(claude: Kernel, api: MessagesApi) -> None:
    claude.run("import asyncio\nbegun = []")
    api.add(
        Reply(ToolUse("bash", {"command": "until [ -e abort-awaits ]; do sleep 0.02; done"})),
        Reply(ToolUse("python", {"code": "begun.append(1)"})),
    )
    claude.run("%agent --no-wait go")
    cell = claude.begin(
        "import os\nopen('abort-awaits', 'w').close()\n"
        "while not os.path.exists('asked-twice'):\n    await asyncio.sleep(0.02)\n%agent abort"
    )
    wait_until(lambda: len(api.requests) == 2)
    (claude.folder / "asked-twice").touch()
    cell.finish()
    assert cell.status == "ok", cell.error
    assert claude.run("print(begun)").streams == "[]\n"


def test_the_cells_that_the_user_ran_are_sent_with_the_next_prompt_once(claude: Kernel, api: MessagesApi) -> None:
    api.add(Reply("Yes."))
    claude.run("%agent before")
    claude.run("sauce = 41 + 1\nprint('printed', 'so')\nimport sys; print('on stderr', file=sys.stderr)\nsauce")
    claude.run("def divide(x):\n    return x / 0\ndivide(sauce)")
    claude.run("%%capture taken\nprint('captured')")
    claude.run("await __import__('asyncio').sleep(0)\nprint('awaited')")
    api.add(Reply("I see."), Reply("Still."))
    claude.run("%agent what happened?")
    told = told_before(api)
    assert "```python\nsauce = 41 + 1\n" in told
    assert "Printed:\n```\nprinted so\non stderr\n```\nOut: int · 42" in told
    assert "in divide\n    return x / 0\n" in told
    assert "ZeroDivisionError: division by zero" in told
    assert "Printed:\n```\nawaited\n```" in told
    assert told.count("captured") == 1
    claude.run("%agent and now?")
    assert json.dumps(api.requests[-1].body["messages"][-1]).count("sauce") == 0


def test_cells_are_sent_within_limits(claude: Kernel, api: MessagesApi) -> None:
    for number in range(25):
        claude.run(f"print('{number}:' + 'x' * 3000 + ':end{number}')")
    claude.run("'y' * 100_000\n" + "# long\n" * 2000)
    api.add(Reply("I see."))
    claude.run("%agent look")
    told = told_before(api).partition("The user's variables now")[0]
    assert len(told) < 8500
    assert ":end24" in told
    assert ":end19" not in told
    assert "earlier cells are left out here.)" in told


def test_what_was_sent_besides_a_prompt_is_shown_above_its_answer_without_secrets(
    claude: Kernel, api: MessagesApi
) -> None:
    api.add(Reply("Before."), Reply("I see."), Reply("Still."))
    claude.run("%agent before")
    claude.run("%reset -f")
    claude.run(
        "import json\nprint('key:', 'sk-ant-api03-' + ''.join(map(chr, range(97, 107))) * 3)\nprice = '<b>$5</b>'"
    )
    cell = claude.run("%agent look")
    context, answer = [bundles[-1] for bundles in cell.displays.values()][:2]
    assert re.fullmatch(r"Context · 2 cells, 1 variable, about [\d,]+ tokens", context["text/plain"])
    assert answer["text/plain"] == "I see."
    shown = re.search(r"<pre[^>]*>(.*?)</pre>", context["text/html"], re.DOTALL)
    assert shown is not None
    told, prompt = api.requests[-1].body["messages"][-1]["content"]
    assert prompt["text"] == "look"
    assert html.unescape(shown[1]).strip() == told["text"].strip()
    assert "price = '<b>$5</b>'" in told["text"]
    assert "abcdefghij" not in str(cell.displays)
    assert "Context" not in str(claude.run("%agent and now?").shown)


def test_variables_are_sent_when_they_changed(claude: Kernel, api: MessagesApi) -> None:
    claude.run("%reset -f")
    claude.run("import pandas as pd\nsales = pd.DataFrame({'price': [1.5]})\npassword = 'hunter2'")
    api.add(Reply("One."), Reply("Two."), Reply("Three."))
    claude.run("%agent one")
    told = told_before(api)
    assert "The user's variables now:\npassword: str (value not shown)\nsales: pandas.DataFrame of shape (1, 1)" in told
    assert "hunter2" not in told
    claude.run("%agent two")
    assert "variables now" not in told_before(api)
    claude.run("count = 3")
    claude.run("%agent three")
    assert "The user's variables now:\ncount: int · 3\n" in told_before(api)


def test_what_cells_gave_and_displayed_goes_along(claude: Kernel, api: MessagesApi) -> None:
    claude.run("%reset -f")
    claude.run("import pandas as pd, matplotlib.pyplot as plt\nsales = pd.Series([1.5, 2.5], name='eur')")
    api.add(Reply("One."), Reply("Two."))
    claude.run("%agent one")
    claude.run("display(sales.to_frame(), display_id='d')\nsales * 2")
    claude.run("fig, ax = plt.subplots()\nax.plot(sales)\nplt.show()")
    claude.run("from IPython.display import HTML, clear_output, update_display\ndisplay('gone')\nclear_output()")
    claude.run("display(HTML('<b>bold</b> text'), display_id='h')\nupdate_display(HTML('another'), display_id='h')")
    claude.run("%agent two")
    told = told_before(api)
    assert "Shown:\n```\n   eur\n0  1.5\n1  2.5\n```\nOut:\n```\npandas.Series eur: 2 values, float64, 0 null" in told
    assert "0 | 3\n1 | 5\n```" in told
    assert "Shown:\n```\n[figure] <Figure size 640x480 with 1 Axes>\n```" in told
    assert "gone\n" not in told
    assert "Shown:\n```\nanother\n```" in told


def test_frames_that_a_prompt_or_a_cell_names_go_along_with_a_profile_once(claude: Kernel, api: MessagesApi) -> None:
    claude.run("%reset -f")
    claude.run("import pandas as pd\norders = pd.DataFrame({'order': range(30), 'customer': [1, 2, 3] * 10})")
    api.add(*(Reply("Yes.") for _ in range(5)))
    cell = claude.run("%agent one")
    assert ", 1 profile, " in next(iter(cell.displays.values()))[-1]["text/plain"]
    told = told_before(api)
    assert "`orders` pandas 30 \N{MULTIPLICATION SIGN} 2; one row per order\n  order int64 0…29, all distinct" in told
    claude.run("%agent look at orders")
    assert "one row per" not in told_before(api)
    claude.run("customers = pd.DataFrame({'customer': [1, 2]})")
    claude.run("%agent two")
    assert "one row per customer" in told_before(api)
    assert "one row per order\n" not in told_before(api)
    claude.run("%agent how do orders and customers go together?")
    told = told_before(api)
    assert "customer: 66.7 % of the rows of `orders` have a match in `customers`, many to one" in told
    configure(claude, tellProfile=False)
    try:
        claude.run("orders.loc[3, 'order'] = 4")
        claude.run("%agent what of orders now?")
        assert "orders" in told_before(api)
        assert "all distinct" not in told_before(api)
    finally:
        configure(claude)


def test_what_the_agent_defined_is_not_the_users(claude: Kernel, api: MessagesApi) -> None:
    claude.run("%reset -f")
    claude.run("mine = 1")
    python(claude, api, "agents = 2")
    api.add(Reply("One."), Reply("Two."))
    claude.run("%agent one")
    assert "agents" not in told_before(api)
    claude.run("agents = 3")
    claude.run("%agent two")
    assert "The user's variables now:\nagents: int · 3\nmine: int · 1" in told_before(api)


def test_another_conversation_gets_what_it_does_not_know(claude: Kernel, api: MessagesApi) -> None:
    claude.run("known_to_one = 1")
    api.add(Reply("One."), Reply("Two."))
    claude.run("%agent one")
    claude.run("%agent --new two")
    assert "known_to_one = 1" in told_before(api)


def test_cells_and_variables_are_not_sent_if_that_is_switched_off(claude: Kernel, api: MessagesApi) -> None:
    configure(claude, tellCells=False, tellVariables=False)
    try:
        api.requests.clear()
        claude.run("private = 1")
        api.add(Reply("One."))
        claude.run("%agent one")
        assert len(api.requests[-1].body["messages"]) == 1
    finally:
        configure(claude)


def test_variables_from_before_the_extension_was_loaded_are_the_users(claude: Kernel, api: MessagesApi) -> None:
    claude.run("early = 1")
    assert claude.run("%reload_ext indus_nb").status == "ok"
    claude.run("%agent --new --model anthropic/claude-sonnet-4-5 --thinking off")
    api.requests.clear()
    api.add(Reply(ToolUse("variables", {"pattern": "early"})), Reply("Done."))
    claude.run("%agent look")
    assert text_of(api.requests[-1].body["messages"][-1]["content"][0]) == "early:\n1"
    claude.run("print('seen')")
    api.add(Reply("Yes."))
    claude.run("%agent and?")
    assert told_before(api).count("Printed:\n```\nseen\n```") == 1


def test_the_result_says_what_ran_and_how_long(claude: Kernel, api: MessagesApi) -> None:
    for code in ("6 * 7", "1 / 0"):
        python(claude, api, code)
        newest = max((claude.folder / "agent" / "sessions").rglob("*.jsonl"), key=lambda path: path.stat().st_mtime)
        entries = [json.loads(line) for line in newest.read_text().splitlines()]
        results = [entry["message"] for entry in entries if entry.get("message", {}).get("role") == "toolResult"]
        assert results[-1]["details"]["code"] == code
        assert 0 <= results[-1]["details"]["executionSeconds"] < 10


def test_the_question_names_the_variables_that_would_be_lost(claude: Kernel, api: MessagesApi) -> None:
    claude.run("precious, other = 1, 2")
    api.add(Reply(ToolUse("python", {"code": "precious = 0\ndel other"})), Reply("Done."))
    cell = claude.begin("%agent --approve effects go", asks=True)
    question = cell.answer("1")
    cell.finish()
    claude.run("%agent --approve never")
    said = question.replace("\n┆ ", "")  # the rows of a line that is wider than the terminal
    assert said.startswith("│ This deletes other and changes precious 1 → 0. Run this code in your kernel?")
    assert claude.run("print(precious, 'other' in globals())").streams == "0 False\n"


def test_the_tools_of_the_kernel_are_chosen_like_any_other(claude: Kernel, api: MessagesApi, tmp_path: Path) -> None:
    api.add(Reply("Yes."), Reply("Yes."))
    claude.run("%agent --new --tools python,read hello")
    offered = [tool["name"] for tool in api.requests[-1].body["tools"]]
    assert offered == ["python", "read", "job", "answer"]  # for code that takes long, and for --result
    claude.run('%agent --new --tools "" hello')
    assert [tool["name"] for tool in api.requests[-1].body["tools"]] == ["answer"]
    claude.run("%agent --new --tools read,bash,edit,write,python,variables")


def test_a_time_limit_holds_for_code_that_swallows_interrupts(claude: Kernel, api: MessagesApi) -> None:
    code = "import time\nwhile True:\n    try:\n        time.sleep(0.1)\n    except:\n        print('swallowed')"
    result = python(claude, api, code, timeout=0.3)
    assert text_of(result).endswith("The code was interrupted after 0.3 seconds.")
    assert claude.run("import sys\nprint(sys.gettrace())").streams == "None\n"


def test_code_that_went_on_after_its_time_says_so(claude: Kernel, api: MessagesApi) -> None:
    code = "import time\ntry:\n    time.sleep(30)\nexcept KeyboardInterrupt:\n    print('never mind')"
    told = text_of(python(claude, api, code, timeout=0.3))
    assert told == "never mind\n\n\n[It was interrupted after 0.3 seconds, but went on to its end.]"


def test_code_of_the_agents_can_neither_talk_to_the_agent_nor_unload_it(claude: Kernel, api: MessagesApi) -> None:
    for code in ("%agent --name other hello", "%agent stats", "%unload_ext indus_nb", "%reload_ext indus_nb"):
        result = python(claude, api, code)
        assert "The agent's own code cannot" in text_of(result), code
    thread = "import threading\nt = threading.Thread(target=get_ipython().run_line_magic, args=('agent', 'hello'))"
    assert "cannot talk to the agent" in text_of(python(claude, api, f"{thread}\nt.start(); t.join()"))
    assert "main" in text_of(python(claude, api, "'main'"))


def test_abort_does_not_wait_for_code_that_cannot_end_before_the_cell(claude: Kernel, api: MessagesApi) -> None:
    code = "import asyncio\nopen('hangs', 'w').close()\nawait asyncio.sleep(1000)"
    api.add(Reply(ToolUse("python", {"code": code})))
    assert claude.run("%agent --no-wait go").status == "ok"
    until((claude.folder / "hangs").exists)
    assert claude.run("%agent abort").status == "ok"
    assert claude.run("6 * 7").status == "ok"


def test_what_the_user_defines_while_code_awaits_is_the_users(claude: Kernel, api: MessagesApi) -> None:
    go = claude.folder / "go-on"
    code = "import asyncio, os\nby_agent = 1\nwhile not os.path.exists('go-on'):\n    await asyncio.sleep(0.05)"
    in_background(claude, api, f"open('waits', 'w').close()\n{code}")
    until((claude.folder / "waits").exists)
    assert claude.run("by_user = [1]").status == "ok"
    go.touch()
    result_in_background(api)
    until(lambda: not claude.run("%agent queue").error)
    api.add(Reply(ToolUse("variables", {"pattern": "by_"})), Reply("Done."))
    assert claude.run("%agent look").status == "ok"
    told = text_of(api.requests[-1].body["messages"][-1]["content"][0])
    assert "by_agent (made by you)" in told
    assert "by_user: list" in told


def test_streams_that_code_replaces_are_the_users_again(claude: Kernel, api: MessagesApi) -> None:
    python(claude, api, "import io, sys\nsys.stdout = io.StringIO()\nprint('lost')")
    assert claude.run("print('seen')").streams == "seen\n"


def test_keys_of_the_environment_are_not_in_results(claude: Kernel, api: MessagesApi) -> None:
    claude.run("import os\nos.environ['SOME_SERVICE_TOKEN'] = '0123456789abcdef'")
    assert text_of(python(claude, api, "print(os.environ['SOME_SERVICE_TOKEN'])\n!env | grep SERVICE")) == (
        "[secret SOME_SERVICE_TOKEN]\nSOME_SERVICE_TOKEN=[secret SOME_SERVICE_TOKEN]\n"
    )


def test_unloading_keeps_what_was_said_and_leaves_nothing_behind(tmp_path: Path, api: MessagesApi) -> None:
    environment = private_environment(tmp_path, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    gate = Gate()
    trace = (
        "import asyncio, pathlib, sys, threading\n"
        "def is_ours(task):\n"
        "    import indus_nb\n"
        "    code = getattr(task.get_coro(), 'cr_code', None)\n"
        "    within = pathlib.Path(indus_nb.__file__).parent\n"
        "    return 'indus' in task.get_name() or code and pathlib.Path(code.co_filename).is_relative_to(within)\n"
        "def writers():\n"
        "    found, write = [], sys.stdout.__dict__.get('write')\n"
        "    while write is not None:\n"
        "        found.append(getattr(write, '__module__', ''))\n"
        "        held = [cell.cell_contents for cell in getattr(write, '__closure__', None) or ()]\n"
        "        write = next(filter(callable, held), None)\n"
        "    return [name for name in found if 'indus' in str(name)]\n"
        "def ours():\n"
        "    tasks = [task for task in asyncio.all_tasks() if is_ours(task)]\n"
        "    return writers(), tasks, [thread.name for thread in threading.enumerate() if 'indus' in thread.name]\n"
    )
    with Kernel(tmp_path, environment) as kernel:
        kernel.run(trace)
        kernel.run("%load_ext indus_nb")
        kernel.run("%agent --model anthropic/claude-sonnet-4-5 --thinking off")
        api.requests.clear()
        code = "print('between cells')\nopen('ran', 'w').close()"
        api.add(Reply(ToolUse("python", {"code": code})), Reply(Text("Half. ", gate, "Whole.")))
        cell = kernel.begin("%agent --no-wait go").finish()
        cell.idle = False
        cell.wait_for(lambda cell: any("Half." in text for text in cell.shown))
        assert kernel.run("%unload_ext indus_nb").status == "ok"
        gate.open()
        kernel.run("1")
        # A module that is just being imported ahead of its use is the last one, and ends a little later.
        until(lambda: kernel.run("print(*ours())").streams == "[] [] []\n")
    (path,) = (tmp_path / "agent" / "sessions").rglob("*.jsonl")
    assert "Half. " in path.read_text()

"""The agent's Python in a copy of the kernel: without an effect it is done there, else the user is asked about it."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator
from pathlib import Path

import nbformat
import psutil
import pytest
from kernels import Kernel, private_environment
from messages_api import MessagesApi, Reply, ToolUse
from waiting import wait_until

from indus_nb.safety.sandbox.launcher import can_filter, landlock_version

pytestmark = pytest.mark.skipif(not (landlock_version() and can_filter()), reason="no Landlock here")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("preview")


@contextlib.contextmanager
def kernel_of(root: Path, api: MessagesApi, ipykernel: str | None = None) -> Generator[Kernel]:
    (work := root / "work").mkdir(parents=True)
    (root / "tmp").mkdir()
    environment = private_environment(
        root,
        ipykernel=ipykernel,
        ANTHROPIC_BASE_URL=api.url,
        ANTHROPIC_API_KEY="test-key",
        TMPDIR=str(root / "tmp"),
        MY_API_TOKEN="tok-0123456789abcdef",
    )
    set_settings(root)
    with Kernel(work, environment) as kernel:
        assert kernel.run("%load_ext indus_nb").status == "ok"
        assert kernel.run("%agent --new --model anthropic/claude-sonnet-4-5 --thinking off").status == "ok"
        yield kernel


@pytest.fixture(scope="module")
def kernel(folder: Path, api: MessagesApi) -> Iterator[Kernel]:
    with kernel_of(folder / "installed", api) as kernel:
        yield kernel


@pytest.fixture(scope="module")
def oldest_kernel(folder: Path, api: MessagesApi) -> Iterator[Kernel]:
    with kernel_of(folder / "oldest", api, "6.29.5") as kernel:
        yield kernel


@pytest.fixture(params=["kernel", "oldest_kernel"])
def either_kernel(request: pytest.FixtureRequest) -> Kernel:
    """What goes through ipykernel is seen in two versions; files, calls of the system and values are not its own."""
    return request.getfixturevalue(request.param)


def set_settings(root: Path, **settings: object) -> None:
    """Write settings; a machine that is busy gets the time that it needs."""
    usual = {"approve": "writes", "looksSeconds": 600, "notebook": {"pythonTimeoutSeconds": 600}}
    (root / "agent" / "settings.json").write_text(json.dumps({**usual, **settings}))


@contextlib.contextmanager
def other_settings(kernel: Kernel, **settings: object) -> Iterator[None]:
    """Settings of a conversation that begins now, until the next one."""
    set_settings(kernel.folder.parent, **settings)
    try:
        assert kernel.run("%agent --new --model anthropic/claude-sonnet-4-5 --thinking off").status == "ok"
        yield
    finally:
        set_settings(kernel.folder.parent)
        assert kernel.run("%agent --new --model anthropic/claude-sonnet-4-5 --thinking off").status == "ok"


def asked(kernel: Kernel, api: MessagesApi, code: str, answer: str = "n") -> str:
    """What the user is asked about the code; by default the answer is no."""
    api.add(Reply(ToolUse("python", {"code": code})), Reply("I see."))
    cell = kernel.begin("%agent go", asks=True)
    question = cell.answer(answer)
    assert cell.finish().status == "ok", cell.error
    return question.replace("\n┆ ", "")  # the rows of a line that is wider than the terminal


def unasked(kernel: Kernel, api: MessagesApi, code: str) -> str:
    """What the model reads of code about which nobody is asked."""
    api.add(Reply(ToolUse("python", {"code": code})), Reply("I see."))
    cell = kernel.begin("%agent go", asks=True).finish()  # a question would wait in vain
    assert cell.status == "ok", cell.error
    return told(api)


def told(api: MessagesApi) -> str:
    """What the model read of the last call."""
    result = api.requests[-1].body["messages"][-1]["content"][0]
    content = result["content"]
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


def test_what_it_prints_and_changes_is_told_and_does_not_happen(either_kernel: Kernel, api: MessagesApi) -> None:
    either_kernel.run("rows = [1, 2, 3]; also = rows; import random; random.seed(1)")
    code = "rows.append(4); fresh = 1; print('drawn', random.random())"
    question = asked(either_kernel, api, code)
    assert "This changes also 3 → 4 items, changes rows 3 → 4 items and adds fresh. Run this code" in question
    assert "Preview — not run yet: changes also 3 → 4 items" in question
    assert "new variable `fresh`" in question
    assert "draws random numbers; prints drawn 0.13436424411240122" in question
    assert "drawn" not in json.dumps([request.body["messages"][-1] for request in api.requests])
    found = either_kernel.run("print(rows, 'fresh' in globals(), random.random())").streams
    assert found == "[1, 2, 3] False 0.13436424411240122\n"


def test_the_code_stands_before_what_it_would_do_of_which_six_lines_are_shown(kernel: Kernel, api: MessagesApi) -> None:
    question = asked(kernel, api, "for n in range(30):\n    print('line', n)")
    assert question.index("for n in range(30):") < question.index("Preview — not run yet: new variable `n`; prints:")
    shown = question.partition("prints:")[2].partition("\n\n")[0].replace("│", "").split("\n")[1:]
    assert [line.strip() for line in shown] == ["line 0", "line 1", "… 8 lines …", "line 27", "line 28", "line 29"]


def test_a_yes_runs_the_code_itself(either_kernel: Kernel, api: MessagesApi) -> None:
    either_kernel.run("count = 0")
    code = "count += 1; import os; print('in', os.getpid())"
    assert "changes count 0 → 1" in asked(either_kernel, api, code, answer="1")
    assert told(api) == f"in {either_kernel.pid}\n"
    assert either_kernel.run("print(count)").streams == "1\n"


def test_what_has_no_effect_is_done_in_the_copy_and_asked_about_nowhere(
    either_kernel: Kernel, api: MessagesApi
) -> None:
    either_kernel.run("import os; rows = [1, 2, 3]")
    length, process = unasked(either_kernel, api, "print(len(rows), os.getpid())").split()
    assert length == "3"
    assert int(process) != either_kernel.pid


def test_the_card_of_a_call_that_was_not_allowed_says_so_and_not_what_was_tried(
    kernel: Kernel, api: MessagesApi
) -> None:
    api.add(Reply(ToolUse("python", {"code": "tried = print('said in the copy')"})), Reply("I see."))
    cell = kernel.begin("%agent go", asks=True)
    cell.answer("n because it is late")
    card = next(text for text in cell.finish().shown if "tried = print" in text)
    assert "They said: because it is late" in card
    assert "\n  said in the copy" not in card


def test_files_are_written_to_copies(kernel: Kernel, api: MessagesApi) -> None:
    Path(kernel.folder, "kept.txt").write_text("old")
    code = "open('kept.txt', 'a').write(' new'); open('made.txt', 'w').write('x'); print(open('kept.txt').read())"
    question = asked(kernel, api, code)
    assert "This changes kept.txt and writes made.txt." in question
    assert "changes kept.txt; writes made.txt; prints old new" in question
    assert [path.name for path in kernel.folder.iterdir()] == ["kept.txt"]
    assert Path(kernel.folder, "kept.txt").read_text() == "old"
    Path(kernel.folder, "kept.txt").unlink()
    wait_until(lambda: not [*(kernel.folder.parent / "tmp").glob("indusagi-*")])


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import urllib.request; urllib.request.urlopen('http://127.0.0.1:PORT')", "connects to 127.0.0.1:PORT"),
        ("try:\n    import socket; socket.create_connection(('127.0.0.1', PORT))\nexcept:\n    pass", "connects to"),
        ("import subprocess; subprocess.run(['touch', 'touched'])", "runs “touch touched”"),
        ("import os\nwhile True: os.fork()", "starts a process"),
        ("import os; os.kill(os.getppid(), 9)", "sends signal 9 to this kernel"),
        ("import os; os.remove('there.txt')", "deletes there.txt"),
        ("block = bytearray(8 << 30)", "needs more memory than a copy of the kernel may have"),
        ("held.read()", "uses a file or connection that was open before"),
    ],
)
def test_what_would_reach_outside_is_told_and_stopped(kernel: Kernel, api: MessagesApi, code: str, told: str) -> None:
    connected = threading.Event()
    (there := kernel.folder / "there.txt").write_text("here")
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=lambda: (server.accept(), connected.set()), daemon=True).start()
        port = str(server.getsockname()[1])
        kernel.run("held = open('there.txt')")
        question = asked(kernel, api, code.replace("PORT", port))
        assert f"stopped at: {told.replace('PORT', port)}" in question
        assert not connected.is_set()
    assert kernel.run("print(held.tell()); held.close()").streams == "0\n"
    assert there.exists()
    there.unlink()
    assert not (kernel.folder / "touched").exists()


def test_what_would_reach_outside_by_way_of_the_kernel_is_told_and_stopped(
    either_kernel: Kernel, api: MessagesApi
) -> None:
    assert "stopped at: asks for input" in asked(either_kernel, api, "input('name? ')")
    assert "stopped at: runs “touch touched”" in asked(either_kernel, api, "!touch touched")
    assert not (either_kernel.folder / "touched").exists()


@pytest.mark.parametrize(
    "code",
    [
        "import ctypes; ctypes.CDLL(None).unlink(b'there.txt')",
        "import ctypes; ctypes.CDLL(None).open(b'there.txt', 0o1000)",
        "import ctypes; ctypes.CDLL(None).chmod(b'there.txt', 0)",
        "import ctypes; ctypes.CDLL(None).kill(KERNEL, 9)",
        "import ctypes; ctypes.CDLL(None).system(b'rm there.txt')",
        "import atexit; atexit.register(open, 'at-exit', 'w')",
        "mapped[0] = 65; mapped.flush()",
        "import os; os.abort()",
    ],
)
def test_what_no_hook_of_python_sees_is_refused_by_the_system(kernel: Kernel, api: MessagesApi, code: str) -> None:
    (there := kernel.folder / "there.txt").write_bytes(b"here")
    kernel.run("import mmap; held = open('there.txt', 'r+b'); mapped = mmap.mmap(held.fileno(), 0)")
    process = int(kernel.run("import os; print(os.getpid())").streams)
    assert "review: " in asked(kernel, api, code.replace("KERNEL", str(process))).replace(" — not run yet", "")
    assert there.read_bytes() == b"here"
    assert there.stat().st_mode & 0o777
    assert kernel.run("print(mapped[0]); mapped.close(); held.close()").streams == f"{ord('h')}\n"
    there.unlink()
    assert not [*kernel.folder.iterdir()]


@pytest.mark.parametrize(
    ("setup", "code", "told"),
    [
        ("", "def helper(): pass\nclass Helper: pass", "not run yet: defines `helper`, `Helper`"),
        (
            "numbers = (x for x in [1])",
            "_ = next(numbers)",
            "reaches numbers (a generator), whose changes cannot be seen",
        ),
        (
            "import io; held = open(io.__file__)",
            "held.close()",
            "reaches held (a TextIOWrapper), whose changes cannot be seen",
        ),
        (
            "import sqlite3; sqlite3.connect('kept.db').execute('create table t (a)')",
            "INSERT",
            "stopped at: writes to a",
        ),
        (
            "",
            "import ctypes; ctypes.CDLL(None).unlink(b'none.txt')",
            "calls unlink in C, whose effects cannot be seen",
        ),
    ],
)
def test_what_it_cannot_tell_it_does_not_deny(
    kernel: Kernel, api: MessagesApi, setup: str, code: str, told: str
) -> None:
    assert kernel.run(setup, 120).status == "ok"
    insert = "c = sqlite3.connect('kept.db'); c.execute('insert into t values (1)'); c.commit()"
    assert told in asked(kernel, api, insert if code == "INSERT" else code)
    Path(kernel.folder, "kept.db").unlink(missing_ok=True)


def test_code_that_goes_on_is_asked_about_and_a_no_leaves_no_process(either_kernel: Kernel, api: MessagesApi) -> None:
    with other_settings(either_kernel, looksSeconds=1):
        either_kernel.run("counter = 1")
        question = asked(either_kernel, api, "counter = 0\nwhile True: pass")
    assert "no effect" not in question
    assert "So far it has started no program and connected to nothing; which variables and files it changes" in question
    assert "3  Wait for its end" in question
    wait_until(lambda: either_kernel.children() == [])


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_change_that_a_preview_had_not_named_is_a_warning_unless_that_was_unfinished(
    kernel: Kernel, api: MessagesApi, *, is_whole: bool
) -> None:
    kernel.run("import os, time; own, counter = os.getpid(), 1")
    code = "counter = 2\nif os.getpid() == own: surprise = 3"
    waits = "" if is_whole else "while os.getpid() != own: time.sleep(0.05)\n"
    with other_settings(kernel, looksSeconds=600 if is_whole else 1):
        api.add(Reply(ToolUse("python", {"code": waits + code})), Reply("I see."))
        cell = kernel.begin("%agent go", asks=True)
        assert ("It still runs in a copy of the kernel." in cell.answer("1")) is not is_whole
        assert cell.finish().status == "ok"
    assert ("surprise changed too, which the preview had not named." in "".join(cell.shown)) is is_whole
    kernel.run("del surprise")


def test_a_wait_for_its_end_gives_what_the_copy_gives(kernel: Kernel, api: MessagesApi) -> None:
    kernel.run("import os, time")
    code = "while not os.path.exists('go-on'): time.sleep(0.05)\nprint('went on')"
    with other_settings(kernel, looksSeconds=1):
        api.add(Reply(ToolUse("python", {"code": code})), Reply("I see."))
        cell = kernel.begin("%agent go", asks=True)
        assert "3  Wait for its end" in cell.answer("3")
        (go := kernel.folder / "go-on").touch()
        assert cell.finish().status == "ok"
    assert told(api) == "went on\n"
    go.unlink()


def test_of_code_that_took_long_in_the_copy_the_question_says_how_long(kernel: Kernel, api: MessagesApi) -> None:
    kernel.run("import time")
    code = "until = time.monotonic() + 2.5\nwhile time.monotonic() < until: pass\nfor n in range(30): print(n)"
    question = asked(kernel, api, code)
    assert re.search(r"Tried in a copy: \d+ s\. A yes runs it once more\.\W+Preview — not run yet: ", question)
    assert "Tried in a copy" not in asked(kernel, api, "quick = 1")


def test_where_there_can_be_no_copy_the_question_says_why(kernel: Kernel, api: MessagesApi) -> None:
    kernel.run("import sys; system, sys.platform = sys.platform, 'darwin'")
    try:
        question = asked(kernel, api, "print('no effect')")
    finally:
        kernel.run("sys.platform = system")
    assert "could not be tried in a copy of the kernel: this system cannot confine one. Run this code" in question
    assert unasked(kernel, api, "print('no effect')") == "no effect\n"


def test_without_anybody_to_be_asked_looks_are_done_and_the_rest_is_rejected(api: MessagesApi, tmp_path: Path) -> None:
    ask = "%agent --new --model anthropic/claude-sonnet-4-5 --approve writes go"
    cells = ["%load_ext indus_nb", "rows = [1, 2, 3]", ask, ask, "print('papers' in globals())"]
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    made.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    (tmp_path / "work").mkdir()
    nbformat.write(made, tmp_path / "work" / "in.ipynb")
    environment = private_environment(tmp_path, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    set_settings(tmp_path)
    for code in ("print('found', sum(rows))", "papers = print('found')"):
        api.add(Reply(ToolUse("python", {"code": code})), Reply("I see."))
    papermill = [sys.executable, "-m", "papermill", "in.ipynb", "out.ipynb"]
    subprocess.run(papermill, cwd=tmp_path / "work", env=environment, check=True, capture_output=True)
    done = nbformat.read(tmp_path / "work" / "out.ipynb", as_version=4).cells
    look, change = (
        "\n".join(output.data["text/plain"] for output in cell.outputs if "data" in output) for cell in done[2:4]
    )
    assert "found 6" in look
    assert "nobody can be asked" in change
    assert "review" not in change
    assert done[4].outputs[0].text == "False\n"


def test_a_stop_ends_a_preview_and_the_run(either_kernel: Kernel, api: MessagesApi) -> None:
    process = psutil.Process(int(either_kernel.run("import os; print(os.getpid())").streams))
    api.add(Reply(ToolUse("python", {"code": "while True: pass"})))
    cell = either_kernel.begin("%agent go", asks=True)
    wait_until(process.children)
    either_kernel.interrupt()
    assert cell.finish().status == "error"
    wait_until(lambda: not process.children())
    assert either_kernel.run("print(6 * 7)").streams == "42\n"


def test_secrets_and_signs_that_hide_something_are_shown_as_in_any_question(kernel: Kernel, api: MessagesApi) -> None:
    code = "import os; said = print(os.environ['MY_API_TOKEN'], chr(0x202E), chr(27) + '[31m')"
    question = asked(kernel, api, code)
    assert "Preview — not run yet: " in question
    assert "tok-0123456789abcdef" not in question
    assert "\u202e" not in question
    assert "\x1b" not in question


def test_without_the_setting_nothing_is_tried_and_all_is_asked_about(kernel: Kernel, api: MessagesApi) -> None:
    with other_settings(kernel, notebook={"preview": False}):
        question = asked(kernel, api, "print('no effect')")
    assert "Run this code in your kernel?" in question
    assert "review" not in question


# From here on libraries are loaded: each copy of a kernel that has them takes longer.


def test_figures_are_counted_and_errors_named(either_kernel: Kernel, api: MessagesApi) -> None:
    either_kernel.run("import matplotlib.pyplot as plt", 120)
    assert "shows a figure" in asked(either_kernel, api, "drawn = 1; plt.plot([1, 2]); plt.show()")
    assert either_kernel.run("print(plt.get_fignums())").streams == "[]\n"
    assert "raises ZeroDivisionError: division by zero" in asked(either_kernel, api, "part = 1; share = 1 / 0")


def test_what_would_change_inside_of_a_frame_is_said(kernel: Kernel, api: MessagesApi) -> None:
    kernel.run("import pandas as pd; sales = pd.DataFrame({'price': ['1', '2'], 'note': [None, 'x'], 'old': [1, 2]})")
    code = "sales['price'] = sales['price'].astype(float)\nsales['note'] = sales['note'].fillna('')\ndel sales['old']"
    question = asked(kernel, api, code)
    assert "changes sales 3 → 2 columns (old removed; price: str → float64; note: 1 → 0 missing)" in question
    assert kernel.run("print(list(sales), sales['price'].dtype)").streams == "['price', 'note', 'old'] str\n"


def test_what_text_would_take_for_a_change_is_none_if_nothing_changed(kernel: Kernel, api: MessagesApi) -> None:
    kernel.run("import pandas as pd; df = pd.DataFrame({'a': [1], 'b': 'x'})", 120)
    assert unasked(kernel, api, "df.values[0] = 5; print(df.a[0])") == "1\n"


def test_a_frame_whose_changes_cannot_be_compared_is_said_to_change(kernel: Kernel, api: MessagesApi) -> None:
    kernel.run("import pandas as pd; df = pd.DataFrame({'a': [1]}).convert_dtypes()", 120)
    kernel.run("def clean(d): d['a'].values[:] = 0")
    assert "not run yet: changes df" in asked(kernel, api, "clean(df)")

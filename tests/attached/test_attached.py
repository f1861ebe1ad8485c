"""What is done in a running kernel by who is attached to it, with the tools alone."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attaching import Attached, attached_to
from kernels import Kernel, private_environment
from waiting import until

from indus_nb.base.messages import ImageContent
from indus_nb.kernel.attached import AttachedKernel, open_kernel
from indus_nb.kernel.attached.late import LateKernel
from indus_nb.tools.tool import ToolError


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    folder = tmp_path_factory.mktemp("work")
    environment = private_environment(tmp_path_factory.mktemp("jupyter"), KERNELS_TOKEN="tk-0123456789abcdef")
    with Kernel(folder, environment) as kernel:
        yield kernel


@pytest.fixture
async def attached(kernel: Kernel) -> Any:
    attached = await attached_to(kernel)
    yield attached
    await attached.kernel.close()


async def taken(attached: Attached) -> None:
    """Wait until the kernel has taken a call."""
    requests = attached.kernel._kernel._connection._requests
    await until(lambda: any(request.taken.is_set() for request in requests.values()))


async def test_code_prints_displays_and_returns_as_a_cell_and_takes_no_number(
    kernel: Kernel, attached: Attached
) -> None:
    kernel.run("value = 'the last'\nvalue")
    look = "print(len(In), [*Out.values()], _, sorted(name for name in vars() if 'indus' in name))"
    before = kernel.run(look).streams
    assert await attached.text("python", code="print('one')\n2 + 3") == "one\n5\n"
    assert await attached.text("python", code="2 + 3;") == "(no output)"
    assert await attached.text("python", code="import asyncio\nawait asyncio.sleep(0)\n'awaited'") == "'awaited'\n"
    assert await attached.text("python", code="%%capture kept\nprint('caught')") == "(no output)"
    assert await attached.text("python", code="!echo of a program") == "of a program\n"
    after = kernel.run(look).streams
    assert after.partition(" ")[2] == before.partition(" ")[2]
    assert int(after.partition(" ")[0]) == int(before.partition(" ")[0]) + 1
    seen = kernel.run("print(repr(get_ipython().history_manager.__dict__.get('outputs')))").streams
    assert "of a program" not in seen


async def test_figures_are_images_and_frames_their_texts(attached: Attached) -> None:
    code = "import matplotlib.pyplot as plt\nfigure, axes = plt.subplots()\naxes.plot([1, 2])\nplt.show()"
    output = await attached.call("python", code=code)
    assert [block.mime_type for block in output.content if isinstance(block, ImageContent)] == ["image/png"]
    text = await attached.text("python", code="import pandas as pd\npd.DataFrame({'a': [1, 2]})")
    assert (
        text
        == "pandas.DataFrame: 2 rows \N{MULTIPLICATION SIGN} 1 columns\n- a: int64\nNo nulls.\n\n | a\n0 | 1\n1 | 2\n"
    )


async def test_what_is_cleared_or_updated_is_told_as_it_is_in_the_end(attached: Attached) -> None:
    code = (
        "from IPython.display import clear_output, display\n"
        "print('first'); clear_output(wait=True); print('second')\n"
        "shown = display({'text/plain': 'old'}, raw=True, display_id='named')\n"
        "shown.update({'text/plain': 'new'}, raw=True)\n"
    )
    assert await attached.text("python", code=code) == "second\n\n\nnew"


async def test_errors_are_told_without_frames_of_ours(attached: Attached) -> None:
    told = await attached.failure("python", code="def fails():\n    return 1 / 0\nfails()")
    assert told.startswith('Traceback (most recent call last):\n  File "Cell In[agent ')
    assert told.endswith("ZeroDivisionError: division by zero")
    assert "indus_nb" not in told
    assert "IPython" not in told
    assert "SyntaxError" in await attached.failure("python", code="this is no Python")
    asked = await attached.failure("python", code="input('Your name? ')")
    assert "Nobody can answer input()" in asked
    assert "so it was not done" in await attached.failure("python", code="exit()")
    assert await attached.text("python", code="'lives'") == "'lives'\n"


async def test_secrets_of_the_kernels_environment_and_variables_are_hidden(kernel: Kernel, attached: Attached) -> None:
    kernel.run("import pandas as pd\npassword = 'hunter2 and more'\nusers = pd.DataFrame({'password': ['abc123']})")
    await attached.call("variables")
    shown = await attached.text("python", code="import os; print(os.environ['KERNELS_TOKEN'])")
    assert shown == "[secret KERNELS_TOKEN]\n"
    listed = await attached.text("variables")
    assert "password: str (value not shown)" in listed
    assert "hunter2" not in listed + await attached.text("variables", pattern="password")
    assert "abc123" not in await attached.text("variables", pattern="users")


async def test_variables_are_described_without_asking_objects_of_unknown_classes(
    kernel: Kernel, attached: Attached
) -> None:
    kernel.run(
        "import numpy as np\nimport pandas as pd\n"
        "class Odd:\n    shape = property(lambda self: 1 / 0)\n    __len__ = __repr__ = lambda self: 1 / 0\n"
        "odd = Odd()\nmany = list(range(1000))\ngrid = np.zeros((3, 4))\n"
        "table = pd.DataFrame({'name': ['Ada', None], 'amount': [1.5, 2.5]})"
    )
    listed = (await attached.text("variables")).splitlines()
    assert "odd: Odd" in listed
    assert "many: list of 1000 · [0, 1, 2, 3, 4, 5, … 994 more]" in listed
    assert "grid: numpy.ndarray of shape (3, 4) · float64 · 96 bytes" in listed
    closer = await attached.text("variables", pattern="table")
    assert "pandas.DataFrame: 2 rows \N{MULTIPLICATION SIGN} 2 columns\n- name: str, 1 null" in closer
    assert "0 | Ada | 1.5" in closer
    assert await attached.text("variables", pattern="tabl*") == next(row for row in listed if row.startswith("table:"))
    assert await attached.text("variables", pattern="nothing") == "No variable matches 'nothing'."


async def test_what_is_printed_takes_bounded_memory_here(attached: Attached) -> None:
    told = await attached.text("python", code="for _ in range(10):\n    print('x' * 10_000_000)\nprint('the end')")
    assert told.rstrip().split("\n\n")[0].endswith("the end")
    assert len(told) < 100_000


async def test_code_that_does_not_want_to_end_is_interrupted_again(attached: Attached) -> None:
    stubborn = (
        "import time\nprint('begun')\nfor _ in range(3):\n"
        "    try:\n        time.sleep(1000)\n    except KeyboardInterrupt:\n        print('no')"
    )
    told = await attached.failure("python", code=stubborn, timeout=0.5)
    assert told == "begun\nno\n\n\nThe code was interrupted after 0.5 seconds."


async def test_code_that_awaits_is_interrupted_too(attached: Attached) -> None:
    awaiting = "import asyncio\nprint('begun')\nawait asyncio.sleep(1000)"
    assert (await attached.failure("python", code=awaiting, timeout=0.5)).endswith("interrupted after 0.5 seconds.")


async def test_a_call_that_is_cancelled_ends_the_code_and_tells_what_it_printed(
    kernel: Kernel, attached: Attached
) -> None:
    for leased in (True, False):
        await attached.call("variables")
        if not leased:
            attached.kernel._kernel._connection.process = None  # as if it were on another machine
            attached.kernel._kernel._client = "of another machine"
        running = asyncio.ensure_future(
            attached.failure("python", code=f"import time\nprint({leased})\ntime.sleep(1000)")
        )
        await until(lambda leased=leased: f"{leased}\n" in attached.reports)
        running.cancel()
        assert await running == f"{leased}\n\n\nThe run was aborted: the code was interrupted."
        assert kernel.run("print('works')").streams == "works\n"


async def test_a_program_that_is_gone_ends_its_code_and_begins_none_that_waits(kernel: Kernel, tmp_path: Path) -> None:
    one, other = await attached_to(kernel), await attached_to(kernel)
    await other.call("variables")
    go_on = tmp_path / "go on"
    for each, code in ((one, "import time\nprint('begun')\ntime.sleep(1000)"), (other, "ran = True")):
        waiting = asyncio.ensure_future(each.call("python", code=code))
        if each is one:
            await until(lambda: "begun\n" in one.reports)
        else:
            cell = kernel.begin(f"import os, time\nwhile not os.path.exists({str(go_on)!r}): time.sleep(0.05)")
            await taken(other)
        lease, each.kernel._kernel._lease = each.kernel._kernel._lease, None
        lease.close()  # as the system does when the program is killed
        if each is one:
            with pytest.raises(ToolError, match="begun\n\n\nThe run was aborted: the code was interrupted"):
                await waiting
    with pytest.raises(ToolError):
        await waiting
    go_on.touch()
    assert cell.finish().error is None
    assert kernel.run("print('ran' in globals())").streams == "False\n"
    await one.kernel.close()
    await other.kernel.close()


async def test_a_call_that_comes_when_its_program_is_gone_is_not_begun(kernel: Kernel) -> None:
    gone = await attached_to(kernel)
    await gone.call("variables")
    lease = gone.kernel._kernel._lease
    lease.close()
    lease.client = "one that the kernel does not know yet"
    calling = asyncio.ensure_future(gone.call("python", code="began = True"))
    await taken(gone)
    for _ in range(2):
        assert kernel.run("print('began' in globals())").streams == "False\n"
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    gone.kernel._kernel._lease = None
    await gone.kernel.close()


async def test_a_stream_that_the_code_replaces_is_the_users_again(kernel: Kernel, attached: Attached) -> None:
    code = "import io, sys\nsys.stdout = io.StringIO()\nprint('into it')"
    assert await attached.text("python", code=code) == "(no output)"
    assert kernel.run("import sys\nprint(type(sys.stdout).__name__)").streams == "OutStream\n"


async def test_a_kernel_that_was_gone_before_it_was_asked_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indus_nb.kernel.attached.connection._SILENT_SECONDS", math.inf)
    with Kernel(tmp_path, private_environment(tmp_path)) as kernel:
        gone = await attached_to(kernel)
        kernel.kill()
        assert "is gone" in await asyncio.wait_for(gone.failure("python", code="1 + 1"), 60)
    await gone.kernel.close()


async def test_a_kernel_that_is_gone_is_said_to_be_gone_by_every_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = private_environment(tmp_path)
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", environment["JUPYTER_RUNTIME_DIR"])
    with Kernel(tmp_path, environment, id="aaaa-1") as killed:
        named = Attached(await asyncio.to_thread(open_kernel, "aaaa-1", tmp_path))
        assert await named.text("python", code="1 + 1") == "2\n"
        killed.kill()
        for connection in Path(environment["JUPYTER_RUNTIME_DIR"]).glob("kernel-*.json"):
            connection.unlink()  # as a server does
        for _ in range(2):
            assert "is gone" in await named.failure("python", code="1 + 1")
    await named.kernel.close()


async def test_a_kernel_that_is_looked_for_late_may_come_and_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = private_environment(tmp_path)
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", environment["JUPYTER_RUNTIME_DIR"])
    late = Attached(AttachedKernel(LateKernel(tmp_path)))
    assert "No running kernel was found" in await late.failure("python", code="1 + 1")
    with Kernel(tmp_path, environment, id="aaaa-1") as first:
        first.run("here = 'the first'")
        assert await late.text("python", code="here") == "'the first'\n"
        with Kernel(tmp_path, environment, id="bbbb-2") as second:
            second.run("here = 'the second'")
            assert await late.text("python", code="here") == "'the first'\n"
            unchosen = Attached(AttachedKernel(LateKernel(tmp_path)))
            assert "the user chooses with /kernel ID" in await unchosen.failure("variables")
            first.kill()
            assert "is gone" in await late.failure("python", code="here")
            assert await late.text("python", code="here") == "'the second'\n"
    await late.kernel.close()

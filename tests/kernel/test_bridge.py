"""Messages that reach the agent's thread while a cell is busy, in kernels that read their socket in different ways."""

from __future__ import annotations

import ast
import importlib.metadata
import os
import queue
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from contextvars import ContextVar, copy_context
from types import SimpleNamespace
from typing import Any

import pytest
from jupyter_client.session import DELIM, Session
from kernels import Cell, Kernel, private_environment
from zmq import Frame

from indus_nb.front.notebook.page.comm_gate import CommGate

SETUP = """
import asyncio, threading
from comm import create_comm
from indus_nb.front.notebook.page.comm_gate import CommGate

loop = asyncio.new_event_loop()
agent = threading.Thread(target=loop.run_forever, daemon=True)
agent.start()
kernel = get_ipython().kernel
reading = kernel.shell_stream._recv_callback
gate = CommGate(kernel, lambda work: loop.call_soon_threadsafe(work))
stop = threading.Event()
heard, later = [], []

def hear(message):
    said = message["content"]["data"]
    heard.append(said)
    if said == "stop":
        stop.set()
    elif said == "fail":
        raise ValueError("no")
    else:
        ours.send({"heard": said, "by the agent": threading.current_thread() is agent})

ours, theirs = create_comm("test"), create_comm("test")
ours.on_msg(hear)
theirs.on_msg(lambda message: later.append(message["content"]["data"]))
gate.watch(ours.comm_id)

def wait():
    stop.clear()
    print("waiting\\n", end="", flush=True)  # in one piece
    while not stop.wait(0.05):
        gate.pump()

def wait_busy():
    with gate.busy():
        wait()
"""


class Page:
    """What a page says to a kernel, and what it hears."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.client = kernel._client
        self.ours, self.theirs = self.value("[ours.comm_id, theirs.comm_id]")

    def ask(self, kind: str, **content: Any) -> str:
        message = self.client.session.msg(kind, content)
        self.client.shell_channel.send(message)
        return message["header"]["msg_id"]

    def say(self, data: str, comm: str | None = None) -> str:
        return self.ask("comm_msg", comm_id=comm or self.ours, data=data)

    def frames(self, kind: str, content: Any) -> list[bytes]:
        """What `ask` puts on the wire: a signature and four parts."""
        session = self.client.session
        return session.serialize({**session.msg(kind), "content": content})[1:]

    def send(self, *frames: bytes) -> None:
        self.client.shell_channel.socket.send_multipart(frames)

    def hear(self, wanted: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
        """Everything on the way to the wanted message, with it."""
        messages: list[dict[str, Any]] = []
        deadline = time.monotonic() + 240
        while not messages or not wanted(messages[-1]):
            with suppress(queue.Empty):
                messages.append(self.client.get_iopub_msg(timeout=0.1))
            if time.monotonic() > deadline:
                raise AssertionError([(message["msg_type"], message["content"]) for message in messages])
        return messages

    def echo(self, data: str) -> dict[str, Any]:
        return self.hear(lambda message: message["content"].get("data", {}).get("heard") == data)[-1]

    def replies(self, last: str) -> list[str]:
        """The kinds of the answers up to that to the request ``last``."""
        kinds: list[str] = []
        while True:
            reply = self.client.get_shell_msg(timeout=240)
            kinds.append(reply["msg_type"])
            if reply["parent_header"]["msg_id"] == last:
                return kinds

    def begin(self, code: str) -> Cell:
        """A cell that has begun to wait."""
        cell = self.kernel.begin(code)
        cell.wait_for(lambda cell: "waiting" in cell.streams)
        return cell

    def end(self, cell: Cell) -> Cell:
        self.say("stop")
        cell.finish()
        assert cell.error is None
        assert cell.streams == "waiting\n"
        return cell

    def value(self, expression: str) -> Any:
        cell = self.kernel.run(f"print(repr(({expression})))")
        assert cell.error is None
        return ast.literal_eval(cell.streams)


@pytest.fixture(scope="module", params=["installed", "7.3.0", "7.0.1", "6.31.0", "6.29.5"])
def kernel(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    root = tmp_path_factory.mktemp("kernel")
    version = None if request.param == "installed" else request.param
    with Kernel(root, private_environment(root, ipykernel=version)) as kernel:
        assert kernel.run(SETUP).error is None
        yield kernel


@pytest.fixture
def page(kernel: Kernel) -> Page:
    kernel.run("heard.clear(); later.clear()")
    return Page(kernel)


def test_the_kernel_is_of_the_version_that_was_asked_for(page: Page, request: pytest.FixtureRequest) -> None:
    asked = request.node.callspec.params["kernel"]
    installed = os.environ.get("INDUS_NB_IPYKERNEL") or importlib.metadata.version("ipykernel")
    version = page.value("__import__('ipykernel').__version__")
    assert version == (installed if asked == "installed" else asked)
    assert page.value("gate.mode") == ("pump" if version.startswith("6.") else "thread")


def test_a_message_is_delivered_in_the_agents_thread_while_the_cell_waits(page: Page) -> None:
    cell = page.begin("wait_busy()")
    for number in range(3):
        page.say(str(number))
        echo = page.echo(str(number))
        assert echo["content"]["data"]["by the agent"]
        assert echo["parent_header"]["msg_id"] == cell.message_id
    page.end(cell)
    assert page.value("heard") == ["0", "1", "2", "stop"]


def test_the_status_says_when_a_message_is_handled_and_that_the_cell_still_runs(page: Page) -> None:
    cell = page.begin("wait_busy()")
    said = page.say("hello")
    page.echo("hello")

    def states(messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
        owner = {said: "message", cell.message_id: "cell"}
        return [
            (owner[message["parent_header"]["msg_id"]], message["content"]["execution_state"])
            for message in messages
            if message["msg_type"] == "status"
        ]

    assert states(page.hear(lambda message: message["content"].get("execution_state") == "busy")) == [
        ("message", "idle"),
        ("cell", "busy"),
    ]
    page.end(cell)


def test_the_kernel_is_said_to_be_busy_again_after_what_does_not_pass_the_gate(page: Page) -> None:
    cell = page.begin("wait_busy()")
    message = page.client.session.msg("kernel_info_request", {})
    page.client.control_channel.send(message)
    asked = message["header"]["msg_id"]
    page.hear(lambda message: message["parent_header"].get("msg_id") == asked and is_status(message, "idle"))
    page.hear(lambda message: message["parent_header"]["msg_id"] == cell.message_id and is_status(message, "busy"))
    page.end(cell)


def is_status(message: dict[str, Any], state: str) -> bool:
    return message["content"].get("execution_state") == state


def test_what_is_not_ours_comes_after_the_cell_and_in_order(page: Page) -> None:
    cell = page.begin("wait_busy()")
    page.say("first", page.theirs)
    page.ask("execute_request", code="later.append('cell')", silent=False, allow_stdin=False)
    page.say("last", page.theirs)
    page.say("ours")
    page.echo("ours")
    page.end(cell)
    assert page.value("later") == ["first", "cell", "last"]
    assert page.value("heard") == ["ours", "stop"]


def test_a_forgotten_comm_is_the_kernels_again(page: Page) -> None:
    cell = page.begin("gate.forget(ours.comm_id); gate.watch(theirs.comm_id); theirs.on_msg(hear); wait_busy()")
    page.say("ours")
    page.say("stop", page.theirs)
    cell.finish()
    assert page.value("heard") == ["stop", "ours"]
    page.kernel.run("gate.forget(theirs.comm_id); gate.watch(ours.comm_id)")
    page.kernel.run("theirs.on_msg(lambda message: later.append(message['content']['data']))")


def test_two_cells_after_each_other_get_messages_of_their_own(page: Page) -> None:
    for _ in range(2):
        cell = page.begin("with gate.busy():\n wait_busy()")
        page.say("hello")
        assert page.echo("hello")["parent_header"]["msg_id"] == cell.message_id
        page.end(cell)


def test_a_page_that_is_loaded_while_our_cell_waits_is_answered_at_once(page: Page) -> None:
    page.kernel.run("import ipywidgets; shown = ipywidgets.IntSlider(7)")
    slider = page.value("shown.model_id")
    cell = page.begin("with gate.busy():\n wait_busy()\n wait()")  # the outer one goes on when the inner has ended
    page.say("stop")
    cell.wait_for(lambda cell: cell.streams.count("waiting") == 2)
    assert page.replies(page.ask("kernel_info_request")) == ["kernel_info_reply"]
    assert page.replies(page.ask("comm_info_request", target_name="test")) == ["comm_info_reply"]
    control = {"comm_id": "the-page-chose-it", "target_name": "jupyter.widget.control", "data": {}}
    message = page.client.session.msg("comm_open", control, metadata={"version": "1.0.0"})
    page.client.shell_channel.send(message)
    page.ask("comm_msg", comm_id="the-page-chose-it", data={"method": "request_states"})
    states = page.hear(lambda message: message["content"].get("comm_id") == "the-page-chose-it")[-1]
    assert states["content"]["data"]["states"][slider]["state"]["value"] == 7
    page.ask("comm_close", comm_id="the-page-chose-it", data={})
    page.say("hello")
    page.echo("hello")
    page.say("stop")
    assert cell.finish().error is None
    assert page.value("'the-page-chose-it' in kernel.comm_manager.comms, len(gate._controls)") == (False, 0)


def test_a_page_that_is_loaded_while_another_cell_runs_is_answered_after_it(page: Page) -> None:
    cell = page.kernel.begin("wait()")
    cell.wait_for(lambda cell: "waiting" in cell.streams)
    page.ask("comm_open", comm_id="too early", target_name="jupyter.widget.control", data={})
    question = page.ask("kernel_info_request")
    page.say("hello")
    page.echo("hello")
    assert page.client.shell_channel.msg_ready() is False
    page.say("stop")
    assert page.replies(question) == ["execute_reply", "kernel_info_reply"]
    assert page.value("'too early' in gate._controls") is False


def test_malformed_and_forged_messages_do_no_harm(page: Page) -> None:
    cell = page.begin("wait_busy()")
    wanted = {"comm_id": page.ours, "data": "forged"}
    good = page.frames("comm_msg", wanted)
    signature, header, parent, metadata, content = good
    for frames in [
        (b"no delimiter",),
        (DELIM,),
        (DELIM, b""),
        (DELIM, signature, header),
        (DELIM, signature, b"no JSON", parent, metadata, content),
        (DELIM, signature, b"[" * 100_000, parent, metadata, content),
        (DELIM, signature, b'{"msg_type": ["comm_msg"]}', parent, metadata, content),
        (DELIM, b"0" * 64, header, parent, metadata, content),
        (DELIM, b"", header, parent, metadata, content),
        (DELIM, *page.frames("comm_msg", None)),
        (DELIM, *page.frames("comm_msg", {"comm_id": [page.ours]})),
        (DELIM, *page.frames("comm_msg", {"data": "nobody's"})),
        (DELIM, *page.frames("comm_open", {"comm_id": {}, "target_name": "jupyter.widget.control"})),
        (DELIM, *page.frames("comm_close", b"[]")),
    ]:
        page.send(*frames)
    replayed = page.frames("comm_msg", {"comm_id": page.ours, "data": "once"})
    page.send(DELIM, *replayed)
    page.send(DELIM, *replayed)
    page.say("hello")
    page.echo("hello")
    page.end(cell)
    assert page.value("heard") == ["once", "hello", "stop"]


def test_what_fails_in_a_callback_or_on_the_way_there_stops_nothing(page: Page) -> None:
    page.kernel.run("def fail(work): raise RuntimeError('the loop is closed')\nbroken = CommGate(kernel, fail)")
    page.kernel.run("broken.watch(theirs.comm_id)")
    cell = page.begin("wait_busy()")
    page.say("fail")
    page.say("lost", page.theirs)
    page.say("hello")
    page.echo("hello")
    page.end(cell)
    assert page.value("heard, later") == (["fail", "hello", "stop"], [])
    page.kernel.run("broken.close()")
    page.say("found", page.theirs)
    assert page.value("later") == ["found"]


def test_a_closed_gate_is_out_of_the_way(page: Page) -> None:
    page.kernel.run("gate.close(); gate.close()")
    assert page.value("kernel.shell_stream._recv_callback == reading") is True
    assert page.value("gate.mode") == "none"
    go = page.kernel.folder / "go"
    cell = page.begin(
        "import pathlib; stop.wait = lambda slice: pathlib.Path('go').exists(); wait_busy(); del stop.wait"
    )
    question = page.ask("kernel_info_request")
    # In ipykernel 7.0 to 7.3 a request that arrives in the moment in which a cell ends may wait for the next one.
    time.sleep(0.05)
    go.touch()
    assert page.replies(question) == ["execute_reply", "kernel_info_reply"]
    cell.wait_for(lambda cell: cell.idle)
    page.say("late")
    assert page.value("heard") == ["late"]
    assert page.kernel.run(SETUP).error is None


def test_a_closed_gate_that_something_else_stands_before_lets_everything_through(page: Page) -> None:
    page.kernel.run("under, over = CommGate(kernel, gate._call), CommGate(kernel, gate._call)")
    page.kernel.run("under.watch(theirs.comm_id); under.close()")
    page.kernel.run("theirs.on_msg(lambda message: later.append(threading.current_thread() is agent))")
    page.say("kept", page.theirs)
    assert page.value("later") == [False]
    assert page.value("kernel.shell_stream._recv_callback == over._receive") is True
    page.kernel.run("over.close(); kernel.shell_stream.on_recv(under._onward, copy=False)")


class Stream:
    """As much of a ZMQStream as a gate wants to see."""

    def __init__(self) -> None:
        self._recv_callback: Callable[[list[Any]], None] | None = print
        self._recv_copy = False
        self.flush = print
        self.on_recv: Callable[..., None] = self._on_recv

    def _on_recv(self, callback: Callable[[list[Any]], None], *, copy: bool) -> None:
        self._recv_callback = callback


def without_thread() -> Any:
    """As much of a kernel that reads its socket in the main thread."""
    return SimpleNamespace(
        session=SimpleNamespace(feed_identities=print, unpack=print, deserialize=print),
        comm_manager=SimpleNamespace(comms={}),
        shell_handlers={},
        shell_stream=Stream(),
        log=SimpleNamespace(error=lambda what, exc_info: None),
        _publish_status=print,
    )


def does_nothing(kernel: Any) -> bool:
    gate = CommGate(kernel, lambda work: None)
    mode = gate.mode
    gate.watch("some")
    with gate.busy():
        gate.pump()
    gate.forget("some")
    gate.close()
    return mode == "none"


def test_a_kernel_that_lacks_something_is_left_alone() -> None:
    assert CommGate(without_thread(), lambda work: None).mode == "pump"
    for path in (
        *("session.unpack", "session.feed_identities", "session.deserialize", "shell_stream.on_recv"),
        *("shell_stream.flush", "shell_stream._recv_callback", "shell_stream._recv_copy", "comm_manager.comms"),
        *("comm_manager", "shell_handlers", "shell_stream", "session", "log", "_publish_status"),
    ):
        kernel = without_thread()
        *owner, name = path.split(".")
        delattr(getattr(kernel, owner[0]) if owner else kernel, name)
        assert does_nothing(kernel), path
        stream = getattr(kernel, "shell_stream", None)
        assert getattr(stream, "_recv_callback", print) is print
    assert does_nothing(object())
    assert does_nothing(None)


def test_a_gate_that_cannot_be_installed_leaves_the_kernel_as_it_was() -> None:
    def refuse(callback: object, *, copy: bool) -> None:
        raise OSError("Stream is closed")

    closed, copying, silent, gone = (without_thread() for _ in range(4))
    closed.shell_stream.on_recv = refuse
    copying.shell_stream._recv_copy = True
    silent.shell_stream._recv_callback = None
    gone.shell_channel_thread = SimpleNamespace(is_alive=lambda: False, io_loop=SimpleNamespace(add_callback=print))
    begin = time.monotonic()
    for kernel in (closed, copying, silent, gone):
        before = kernel.shell_stream._recv_callback
        assert does_nothing(kernel)
        assert kernel.shell_stream._recv_callback is before
    assert time.monotonic() - begin < 2  # nothing is waited for


def test_a_message_finds_the_context_of_the_cell_that_waits() -> None:
    cell: ContextVar[str] = ContextVar("cell", default="none")
    heard: list[str] = []
    kernel = without_thread()
    kernel.session = Session(key=b"secret")
    kernel.comm_manager.comms["ours"] = SimpleNamespace(_msg_callback=lambda message: heard.append(cell.get()))
    gate = CommGate(kernel, lambda work: work())
    gate.watch("ours")

    def say() -> None:
        message = kernel.session.msg("comm_msg", {"comm_id": "ours"})
        kernel.shell_stream._recv_callback([Frame(part) for part in kernel.session.serialize(message)])

    def wait(name: str, within: Callable[[], None]) -> None:
        cell.set(name)
        with gate.busy():
            copy_context().run(within)

    def inner_and_after() -> None:
        wait("inner", say)
        say()

    say()
    copy_context().run(wait, "outer", inner_and_after)
    say()
    assert heard == ["none", "inner", "outer", "outer"]

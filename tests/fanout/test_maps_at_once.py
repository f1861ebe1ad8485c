"""Maps that run at the same time in one process ask one server together, within one limit."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fanout_calls import asked, interrupted
from messages_api import Gate, HttpError, MessagesApi, Recorded, Reply, Text

from indus_nb import SessionOptions, agent
from indus_nb.fanout.mapping import Map
from indus_nb.fanout.progress import Progress
from indus_nb.fanout.question import question
from indus_nb.fanout.reporting import Reporter
from indus_nb.fanout.rows import table_of

pytestmark = pytest.mark.usefixtures("in_work")


def test_while_a_server_refuses_all_of_one_map_another_asks_nothing(messages_api: MessagesApi) -> None:
    refused, came = threading.Event(), dict[str, float]()

    def answer(request: Recorded) -> Reply | HttpError:
        word = asked(request)
        if word not in came:
            came[word] = time.monotonic()
            if word == "first":
                return HttpError(429, "rate_limit_error", "slow down", {"retry-after": "1"})
        return Reply("ok", at_once=True)

    class Seen(Reporter):
        def show(self, progress: Progress) -> None:
            if progress.failure:
                refused.set()

    messages_api.default = answer  # type: ignore[assignment]
    first = question("{item}", table_of(["first"]), session=SessionOptions(), directory=Path("rows"), parallel=1)
    with ThreadPoolExecutor(1) as threads:
        asking = threads.submit(Map(["first"], first).here, Seen())
        assert refused.wait(30)
        assert list(agent.map("{item}", ["second"])) == ["ok"]
        assert list(asking.result(30)) == ["ok"]
    assert came["second"] - came["first"] >= 0.9


def test_two_maps_keep_the_smaller_rate_together(messages_api: MessagesApi) -> None:
    came: list[float] = []

    def answer(_: Recorded) -> Reply:
        came.append(time.monotonic())
        return Reply("ok", at_once=True)

    messages_api.default = answer  # type: ignore[assignment]
    both = threading.Barrier(2)

    def ask(rpm: float) -> int:
        both.wait()
        return len(agent.map("{item}", range(12), rpm=rpm, sessions=False).failed)

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(ask, (600, 600))) == [0, 0]
    assert max(came) - min(came) > 17 * 0.1  # 24 in all; each map alone takes 11 times 0.1 s


def test_a_map_that_is_cut_off_leaves_the_other_its_room(messages_api: MessagesApi) -> None:
    gate = Gate()

    def answer(request: Recorded) -> Reply:
        return Reply(Text("so", gate)) if asked(request) == "held" else Reply("ok", at_once=True)

    messages_api.default = answer  # type: ignore[assignment]
    held = question("{item}", table_of(["held"] * 3), session=SessionOptions(), directory=Path("rows"), dedupe=False)
    asking = Map(["held"] * 3, held)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(interrupted, lambda: asking.here(Reporter()))
        assert gate.reached.wait(30)
        second = threads.submit(agent.map, "{item}", range(30), parallel=2)
        asking.interrupt()
        asking.interrupt()
        assert list(first.result(30)) == [None] * 3
        gate.open()
        assert list(second.result(30)) == ["ok"] * 30

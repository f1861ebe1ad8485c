"""Questions on long logs, where printing much costs much."""

# Frames are of libraries that say little of their types:
# pyright: basic

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from indus_nb.evaluate.graders import NamesGrader, NumberGrader, WordGrader
from indus_nb.evaluate.suites.making import task, toy

if TYPE_CHECKING:
    from numpy.random import Generator

LOGS = "logs"
_LINES = 30_000


@task(
    LOGS,
    "access.log holds the requests to a server, one a line: time, method, path, status, duration in milliseconds (such as "
    "dur=153.2ms). What is the 95 % quantile (linear interpolation) of the duration of successful GET requests (status 200) "
    "to paths that begin with /api/orders?",
    """
    import re
    import numpy as np
    pattern = re.compile(r" GET /api/orders\\S* 200 dur=([\\d.]+)ms")
    durations = [float(found[1]) for line in open("access.log") if (found := pattern.search(line))]
    answer = float(np.percentile(durations, 95))
    """,
    NumberGrader(1e-4),
)
def slow_requests(random: Generator, place: Path) -> float:
    """Filter lines and compute a quantile."""
    import numpy as np

    paths = ["/api/orders", "/api/orders/17", "/api/orders/late?page=2", "/api/users", "/static/orders.js", "/health"]
    base = toy("wine")["proline"].to_numpy()
    which, method = random.integers(len(paths), size=_LINES), random.choice(["GET", "GET", "POST"], _LINES)
    status = random.choice([200, 200, 200, 404, 500], _LINES)
    duration = (random.choice(base, _LINES) * random.lognormal(-1.5, 0.8, _LINES)).round(1)
    lines = [
        f"2024-05-01T{at // 3600 % 24:02d}:{at // 60 % 60:02d}:{at % 60:02d} {method[at]} {paths[which[at]]} "
        f"{status[at]} dur={duration[at]}ms"
        for at in range(_LINES)
    ]
    (place / "access.log").write_text("\n".join(lines) + "\n")
    wanted = (which < 3) & (method == "GET") & (status == 200)
    return float(np.percentile(duration[wanted], 95))


@task(
    LOGS,
    "jobs.log holds the steps of jobs of many workers, mixed. A job begins with `START job=N`, may say `RETRY job=N`, and "
    "ends with `DONE job=N` or `FAIL job=N`. Which jobs failed although they were tried again? Give their numbers as a list "
    "of whole numbers.",
    """
    import re
    steps = {}
    for line in open("jobs.log"):
        if found := re.search(r"(START|RETRY|DONE|FAIL) job=(\\d+)", line):
            steps.setdefault(int(found[2]), []).append(found[1])
    answer = sorted(job for job, seen in steps.items() if "RETRY" in seen and seen[-1] == "FAIL")
    """,
    NamesGrader(),
)
def failed_again(random: Generator, place: Path) -> list[int]:
    """Put mixed lines together by what they belong to."""
    waiting: list[list[str]] = []
    wanted: list[int] = []
    for job in random.choice(90_000, 6_000, replace=False):
        retries, fails = int(random.random() < 0.02) + int(random.random() < 0.01), bool(random.random() < 0.2)
        end = "FAIL" if fails else "DONE"
        waiting.append([f"START job={job}", *([f"RETRY job={job}"] * retries), f"{end} job={job}"])
        wanted += [int(job)] if retries and fails else []
    lines: list[str] = []
    active: list[list[str]] = []
    while waiting or active:
        while waiting and len(active) < 12:
            active.append(waiting.pop())
        steps = active[int(random.integers(len(active)))]
        lines.append(f"{len(lines):07d} worker-{random.integers(12)} {steps.pop(0)} heap={random.integers(100, 999)}M")
        active = [each for each in active if each]
    (place / "jobs.log").write_text("\n".join(lines) + "\n")
    return sorted(wanted)


@task(
    LOGS,
    "app.log holds messages of a program (time, level, component, text). In which minute (as text, such as 2024-05-01T13:07) "
    "did the component db write most messages of level ERROR? Messages of several lines go on in lines that begin with a "
    "space, and count once. There is one such minute.",
    """
    from collections import Counter
    minutes = Counter()
    for line in open("app.log"):
        if line[:1] == " ":
            continue
        parts = line.split(" ", 3)
        if parts[1:3] == ["ERROR", "[db]"]:
            minutes[parts[0][:16]] += 1
    answer = minutes.most_common(1)[0][0]
    """,
    WordGrader(),
)
def worst_minute(random: Generator, place: Path) -> str:
    """Count messages, some of which have several lines."""
    worst = int(random.integers(30, 1400))
    seconds = [int(second) for second in random.integers(0, 86400, 12_000)]
    seconds += [worst * 60 + int(second) for second in random.integers(0, 60, 40)]
    counts: Counter[str] = Counter()
    lines: list[str] = []
    for at, second in enumerate(sorted(seconds)):
        burst = second // 60 == worst and at % 2 == 0
        level = "ERROR" if burst else str(random.choice(["INFO", "INFO", "WARN", "ERROR"]))
        component = "db" if burst else str(random.choice(["db", "web", "queue", "dbx"]))
        time = f"2024-05-01T{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
        lines.append(f"{time} {level} [{component}] request {random.integers(10**6)} took long")
        lines += [f"  at ERROR [db] frame {frame}" for frame in range(int(random.integers(0, 4)))]
        counts[time[:16]] += level == "ERROR" and component == "db"
    (place / "app.log").write_text("\n".join(lines) + "\n")
    return max(counts, key=lambda minute: counts[minute])


@task(
    LOGS,
    "events.jsonl holds events of a shop, one JSON object a line (user, type, value; some lines are broken off and count "
    "nowhere). What is the sum of value of the events of type purchase of those users who also had an event of type refund?",
    """
    import json
    events = []
    for line in open("events.jsonl"):
        try:
            events.append(json.loads(line))
        except ValueError:
            pass
    refunded = {event["user"] for event in events if event["type"] == "refund"}
    answer = sum(event["value"] for event in events if event["type"] == "purchase" and event["user"] in refunded)
    """,
    NumberGrader(1e-6),
)
def purchases_of_refunded(random: Generator, place: Path) -> float:
    """Read nested text line by line, with lines that are no JSON."""
    import json

    base = toy("wine")["alcohol"].to_numpy()
    users, kinds = (
        random.integers(1, 2500, _LINES),
        random.choice(["view", "purchase", "refund"], _LINES, p=[0.8, 0.18, 0.02]),
    )
    values = (random.choice(base, _LINES) * random.lognormal(0, 1, _LINES)).round(2)
    broken = random.random(_LINES) < 0.01
    lines: list[str] = []
    for user, kind, value, cut in zip(users, kinds, values, broken, strict=True):
        event = {"user": f"u{user}", "type": str(kind), "value": float(value), "agent": {"os": "linux", "v": [1, 2]}}
        lines.append(json.dumps(event)[: -9 if cut else None])
    (place / "events.jsonl").write_text("\n".join(lines) + "\n")
    refunded = set(users[(kinds == "refund") & ~broken])
    rows = zip(users, kinds, values, broken, strict=True)
    return float(sum(value for user, kind, value, cut in rows if kind == "purchase" and not cut and user in refunded))


TASKS = (slow_requests, failed_again, worst_minute, purchases_of_refunded)

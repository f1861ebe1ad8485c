"""Conversations that peers of the protocol were seen to have, had again with this program.

``cases.json`` holds what a client and a model server said in each of them, and outlines of what pi 0.73.1 and
omp 18.2.3 answered. Every difference must be listed in ``differences.toml`` with its reason, and everything listed
there must differ.
"""

from __future__ import annotations

import json
import time
import tomllib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import outline
import pytest
from messages_api import Gate, HttpError, MessagesApi, Recorded, Reply, Text, Thinking, ToolUse
from rpc_process import RpcProcess, indusagi

HERE = Path(__file__).parent
FOUND = json.loads((HERE / "cases.json").read_text())
CASES: list[dict[str, Any]] = FOUND["cases"]
LISTED: dict[str, dict[str, str]] = tomllib.loads((HERE / "differences.toml").read_text())
PEERS = list(FOUND["shapes"])


class Script:
    """The model server of a case."""

    def __init__(self, replies: list[Any]) -> None:
        self.gates: dict[str, Gate] = {}
        self._replies = [reply if isinstance(reply, dict) else {"blocks": [reply]} for reply in replies]

    def __call__(self, request: Recorded) -> Reply | HttpError:
        asked = json.dumps(request.body["messages"], ensure_ascii=False)
        for reply in self._replies:
            if reply.get("match", "") in asked:
                if not reply.get("repeat"):
                    self._replies.remove(reply)
                return self._reply(reply)
        return Reply("(script exhausted)")

    def _reply(self, reply: dict[str, Any]) -> Reply | HttpError:
        if "status" in reply:
            overloaded = {"type": "overloaded_error", "message": "Overloaded"}
            error = {**(overloaded if reply["status"] == 529 else {}), **reply.get("error", {})}
            return HttpError(reply["status"], **error)
        chunk = reply.get("chunk", 24)
        content: list[Any] = []
        for block in reply["blocks"]:
            if isinstance(block, str):
                content.append(self._text(block, reply, chunk))
            elif "tool" in block:
                content.append(ToolUse(block["tool"], block["input"]))
            else:
                content.append(Thinking(block["thinking"], signature=block["signature"]))
        return Reply(*content, chunk=chunk, stop_reason=reply.get("stop_reason"), usage=reply.get("usage"))

    def _text(self, text: str, reply: dict[str, Any], chunk: int) -> Text:
        if "gate" not in reply:
            return Text(text)
        gate = self.gates.setdefault(reply["gate"], Gate())
        before = reply["gate_after"] * chunk
        return Text(text[:before], gate, text[before:])


def had_again(case: dict[str, Any], home: Path) -> dict[str, Any]:
    """Have the conversation and outline it."""
    work = home / "work"
    work.mkdir(parents=True)
    (home / "agent").mkdir()
    (home / "agent" / "settings.json").write_text(json.dumps(case.get("settings", {})))
    for name, content in case.get("files", {}).items():
        (work / name).write_text(content)
    script = Script(case.get("replies", []))
    with MessagesApi(default=script) as api:
        more = {"ANTHROPIC_BASE_URL": api.url, "ANTHROPIC_API_KEY": "sk-test"}
        arguments = [*case.get("args", [])]
        if "session" in case:
            arguments += ["--session", str(work / case["session"])]
        if case["name"] != "default_model":
            arguments += ["--provider", "anthropic", "--model", "claude-haiku-4-5"]
        if case["mode"] == "json":
            done = indusagi("--mode", "json", *arguments, home=home, cwd=work, **more)
            frames = [json.loads(line) for line in done.stdout.encode().splitlines()]
            status: int | None = done.returncode
        else:
            frames, status = converse(case, arguments, script, api, home, more)
        for gate in script.gates.values():
            gate.open()
    files = [*work.glob("*.jsonl"), *(home / "agent" / "sessions").glob("*/*.jsonl")]
    lines = (path.read_bytes().splitlines() for path in files)
    entries = [[json.loads(line) for line in found] for found in lines if b'"session"' in found[0]]
    return {
        "frames": frames,
        "order": outline.order(frames),
        "responses": outline.responses(frames),
        "exit": status,
        "sessions": sorted(map(outline.entry_kinds, entries)),
    }


def converse(
    case: dict[str, Any], arguments: list[str], script: Script, api: MessagesApi, home: Path, more: dict[str, str]
) -> tuple[list[dict[str, Any]], int | None]:
    with RpcProcess(*arguments, home=home, cwd=home / "work", more=more) as process:
        status = None
        for step in case["steps"]:
            ((action, value),) = step.items()
            if action == "exit":
                status = process.wait_for_end()
            else:
                take_step(action, value, process, script, api, home)
        if status is None:
            process.close_stdin()
            status = process.wait_for_end()
        return process.frames, status


def take_step(action: str, value: Any, process: RpcProcess, script: Script, api: MessagesApi, home: Path) -> None:
    match action, value:
        case "send", command:
            process.send(resolved(command, process, home))
        case "raw", text:
            process.send(text.encode())
        case "wait", {"type": "response", "id": command_id}:
            process.answer_to(command_id)
        case "wait", {"type": "compaction_end"}:
            process.wait(lambda frame: frame["type"].endswith("compaction_end"))  # with the older name by default
        case "wait", wanted:
            process.wait(lambda frame: includes(frame, wanted))
        case "quiet", seconds:
            quiet(process, seconds)
        case "release", gate:
            script.gates[gate].open()
        case "requests", count:
            api.wait_for_requests(count)
        case "close", _:
            process.close_stdin()


def quiet(process: RpcProcess, seconds: float) -> None:
    """Return when nothing has come for so long: what is being compared is what comes by itself."""
    count = -1
    while count != len(process.frames):
        count = len(process.frames)
        time.sleep(seconds)


def includes(frame: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        return isinstance(frame, dict) and all(includes(frame.get(key), value) for key, value in wanted.items())
    return bool(frame == wanted)


def resolved(value: Any, process: RpcProcess, home: Path) -> Any:
    """The command with ``$id.path`` replaced by what the command ``id`` was answered."""
    if isinstance(value, dict):
        return {key: resolved(inner, process, home) for key, inner in value.items()}
    if isinstance(value, str) and value.startswith("$WORK/"):
        return str(home / "work" / value.removeprefix("$WORK/"))
    if isinstance(value, str) and value.startswith("$"):
        command_id, *path = value[1:].split(".")
        found: Any = process.answer_to(command_id)
        for name in path:
            found = found[int(name)] if isinstance(found, list) else found[name]
        return found
    return value


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    root = tmp_path_factory.mktemp("conformance")
    with ThreadPoolExecutor(4) as pool:
        done = pool.map(lambda case: had_again(case, root / case["name"]), CASES)
        return dict(zip((case["name"] for case in CASES), done, strict=True))


def differences(peer: str, ours: dict[str, dict[str, Any]]) -> Iterable[str]:
    theirs = {case["name"]: case["peers"][peer] for case in CASES}
    peer_kinds = {kind for outlined in theirs.values() for kind in outlined["order"]}
    our_kinds = {kind for outlined in ours.values() for kind in outlined["order"]}
    yield from (f"only ours: {kind}" for kind in our_kinds - peer_kinds)
    yield from (f"only the peer's: {kind}" for kind in peer_kinds - our_kinds)
    common = peer_kinds & our_kinds
    for name, outlined in theirs.items():
        here = ours[name]
        if merged(outlined["order"], common) != merged(here["order"], common):
            yield f"order: {name}"
        for command_id, answer in outlined["responses"].items():
            if here["responses"].get(command_id) != answer:
                yield f"answer: {name} {command_id}: {here['responses'].get(command_id)} for {answer}"
        if outlined["exit"] != here["exit"]:
            yield f"exit: {name}: {here['exit']} for {outlined['exit']}"
        if "sessions" in outlined and sorted(outlined["sessions"]) != here["sessions"]:
            yield f"session file: {name}"
    peer_shapes = {kind: set(paths) for kind, paths in FOUND["shapes"][peer].items()}
    our_shapes = outline.shapes(frame for outlined in ours.values() for frame in outlined["frames"])
    for kind in our_shapes.keys() & peer_shapes.keys():
        yield from (f"key: {kind} + {path}" for path in our_shapes[kind] - peer_shapes[kind])
        yield from (f"key: {kind} - {path}" for path in peer_shapes[kind] - our_shapes[kind])


def merged(kinds: list[str], common: set[str]) -> list[str]:
    """The kinds that both sides know; what now stands next to its like counts once."""
    known = [kind for kind in kinds if kind in common]
    return [kind for index, kind in enumerate(known) if index == 0 or kind != known[index - 1] or "update" not in kind]


@pytest.mark.parametrize("peer", PEERS)
def test_every_difference_from_a_peer_is_known_and_has_a_reason(ours: dict[str, dict[str, Any]], peer: str) -> None:
    unknown = [found for found in differences(peer, ours) if not any(fits(pattern, found) for pattern in LISTED[peer])]
    assert not unknown, "\n" + "\n".join(sorted(unknown))


@pytest.mark.parametrize("peer", PEERS)
def test_everything_listed_as_a_difference_does_differ(ours: dict[str, dict[str, Any]], peer: str) -> None:
    found = set(differences(peer, ours))
    idle = [pattern for pattern in LISTED[peer] if not any(fits(pattern, difference) for difference in found)]
    assert not idle, idle
    assert all(reason.strip() for reason in LISTED[peer].values())


def fits(pattern: str, difference: str) -> bool:
    """Whether it is what ``pattern`` says, where ``*`` stands for anything."""
    first, *rest = pattern.split("*")
    if not difference.startswith(first):
        return False
    at = len(first)
    for piece in rest:
        at = difference.find(piece, at)
        if at < 0:
            return False
        at += len(piece)
    return at == len(difference) or bool(rest and not rest[-1])

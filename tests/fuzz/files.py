"""Session files against what was told: well formed, complete, in order, and the same as what the process remembers."""

from __future__ import annotations

import json
from pathlib import Path

from fuzz.log import Json, Log, Violation

REPLACING = ("new_session", "switch_session", "fork", "clone")


class Files:
    """The session files of a round; ``check`` compares them with its log."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._found: list[Violation] = []
        self._entries: dict[str, list[Json]] = {}
        self._results: set[str] = set()

    def check(self) -> list[Violation]:
        """The violations found."""
        directory = self._log.directory
        assert directory is not None
        for path in sorted((directory / "sessions").glob("*.jsonl")):
            self._entries[str(path)] = self._read(path)
        everything = [entry for entries in self._entries.values() for entry in entries]
        self._results = {message["toolCallId"] for message in _messages(everything) if message["role"] == "toolResult"}
        for name, entries in self._entries.items():
            self._check_tree(name, entries)
            self._check_results(name, entries)
        self._check_told()
        self._check_memory()
        return self._found

    def _wrong(self, kind: str, text: str) -> None:
        self._found.append(Violation(kind, len(self._log.items) - 1, text))

    def _identity(self, message: Json) -> str:
        return _identity(message, strict=self._log.wire == "strict")

    def _read(self, path: Path) -> list[Json]:
        raw = path.read_bytes()
        if not raw.endswith(b"\n"):
            self._wrong("torn_file", f"{path.name} does not end with a line end")
        objects: list[Json] = []
        for number, line in enumerate(raw.splitlines(), 1):
            try:
                objects.append(json.loads(line))
            except ValueError:
                self._wrong("torn_line", f"line {number} of {path.name} is no JSON: {line[:80]!r}")
        if not objects or objects[0].get("type") != "session":
            self._wrong("no_header", f"{path.name} does not begin with a header")
        return objects[1:]

    def _check_tree(self, name: str, entries: list[Json]) -> None:
        seen: set[str] = set()
        for entry in entries:
            if entry["id"] in seen:
                self._wrong("double_entry", f"entry {entry['id']} is twice in {Path(name).name}")
            if entry["parentId"] is not None and entry["parentId"] not in seen:
                self._wrong("no_parent", f"entry {entry['id']} of {Path(name).name} hangs from {entry['parentId']}")
            seen.add(entry["id"])

    def _check_results(self, name: str, entries: list[Json]) -> None:
        """Behind an answer that calls tools there are their results, in order, before anything else is said.

        Who navigated into the middle of a turn may go on from there: then the results are on another branch.
        """
        by_id = {entry["id"]: entry for entry in entries}
        parents = {entry["parentId"] for entry in entries}
        for leaf in entries:
            if leaf["id"] in parents:
                continue
            missing: list[str] = []
            for entry in branch(by_id, leaf["id"]):
                message = entry.get("message", {})
                role = message.get("role")
                if role == "toolResult":
                    if missing[:1] != [message["toolCallId"]]:
                        self._wrong("stray_result", f"{message['toolCallId']} in {Path(name).name}, due are {missing}")
                    missing = [call for call in missing if call != message["toolCallId"]]
                elif role is not None or entry["type"] == "custom_message":
                    if lost := [call for call in missing if call not in self._results]:
                        self._wrong("no_result", f"{role} in {Path(name).name} before the results of {lost}")
                    missing = []
                if role == "assistant" and message["stopReason"] not in ("error", "aborted"):
                    missing = [block["id"] for block in message["content"] if block["type"] == "toolCall"]

    def _check_told(self) -> None:
        """What ``message_end`` told is in the file that was the session's then, in the order of telling."""
        told: list[Json] = []
        paths: set[str] = set()
        replacing: set[str] = set()
        for item in self._log.items:
            if item["type"] == "sent" and item["command"]["type"] in REPLACING:
                replacing.add(item["command"]["id"])
            elif item["type"] == "message_end":
                told.append(item["message"])
            elif item["type"] == "response" and item["command"] == "get_state" and not replacing:
                paths.add(item["data"]["sessionFile"])
            elif item["type"] == "response" and item.get("id") in replacing:
                replacing.discard(item["id"])
                if item["success"] and not item["data"]["cancelled"]:
                    self._check_epoch(told, paths)
                    told, paths = [], set()
        self._check_epoch(told, paths)

    def _check_epoch(self, told: list[Json], paths: set[str]) -> None:
        wanted = [self._identity(message) for message in told if message["role"] != "custom"]
        if not wanted:
            return
        saved = {
            name: [self._identity(message) for message in _messages(entries)] for name, entries in self._entries.items()
        }
        if self._log.has_extension:  # its handlers go on while a session takes another's place
            everything = {identity for identities in saved.values() for identity in identities}
            if lost := [identity for identity in wanted if identity not in everything]:
                self._wrong("told_not_saved", f"told, and in no file: {lost[0][:200]}")
            return
        candidates = [identities for name, identities in saved.items() if not paths or name in paths]
        if any(_is_within(wanted, identities) for identities in candidates):
            return
        where = next((name for name, identities in saved.items() if wanted[-1] in identities), None)
        place = f"in {Path(where).name}" if where else "in no file"
        names = sorted(Path(name).name for name in paths)
        self._wrong("told_not_saved", f"told as the session of {names}, the last one is {place}: {wanted[-1][:200]}")

    def _check_memory(self) -> None:
        final = {
            item["id"].removeprefix("final "): item["data"]
            for item in self._log.items
            if item["type"] == "response" and str(item.get("id")).startswith("final") and item["success"]
        }
        if not {"get_state", "get_messages", "get_entries"} <= set(final):
            return
        entries, leaf = final["get_entries"]["entries"], final["get_entries"]["leafId"]
        on_disk = self._entries.get(final["get_state"]["sessionFile"])
        if on_disk is None:
            if any(entry["type"] == "message" for entry in entries):
                self._wrong("no_file", "the session has messages and no file")
        elif entries != on_disk:
            self._wrong("memory_not_disk", f"get_entries has {len(entries)} entries, the file {len(on_disk)}")
        by_id = {entry["id"]: entry for entry in entries}
        if leaf is not None and leaf not in by_id:
            self._wrong("lost_leaf", f"the leaf {leaf} is no entry")
            return
        expected = [self._identity(message) for message in context(branch(by_id, leaf)) if not _is_failed(message)]
        told = [self._identity(message) for message in final["get_messages"]["messages"] if not _is_failed(message)]
        if expected != told:
            at = next((i for i, pair in enumerate(zip(expected, told, strict=False)) if pair[0] != pair[1]), "the end")
            self._wrong(
                "messages_not_branch",
                f"get_messages has {len(told)}, the branch {len(expected)}; they part at {at}",
            )


def branch(by_id: dict[str, Json], leaf: str | None) -> list[Json]:
    """The entries from the root to ``leaf``."""
    path: list[Json] = []
    while leaf is not None and leaf in by_id and len(path) <= len(by_id):
        path.append(by_id[leaf])
        leaf = by_id[leaf]["parentId"]
    return path[::-1]


def context(path: list[Json]) -> list[Json]:
    """The messages that a model is shown of a branch: from the latest compaction on what it kept and what followed."""
    compactions = [index for index, entry in enumerate(path) if entry["type"] == "compaction"]
    if compactions:
        at = compactions[-1]
        kept = next((i for i, entry in enumerate(path[:at]) if entry["id"] == path[at]["firstKeptEntryId"]), at)
        path = [path[at], *(entry for entry in path[kept:at] if entry["type"] != "compaction"), *path[at + 1 :]]
    return _messages(path)


def _messages(entries: list[Json]) -> list[Json]:
    found: list[Json] = []
    for entry in entries:
        match entry["type"]:
            case "message":
                found.append(entry["message"])
            case "custom_message":
                found.append({"role": "custom", "content": entry["content"]})
            case "compaction":
                found.append({"role": "compactionSummary", "summary": entry["summary"]})
            case "branch_summary" if entry["summary"]:
                found.append({"role": "branchSummary", "summary": entry["summary"]})
            case _:
                pass
    return found


def _identity(message: Json, *, strict: bool) -> str:
    """A text that is the same for the same message, wherever it stands; ``strict`` leaves out what that wire does."""
    match message["role"]:
        case "custom":
            kept = {key: message[key] for key in ("role", "content")}
        case "compactionSummary" | "branchSummary":
            kept = {key: message[key] for key in ("role", "summary")}
        case _ if strict:
            names = ("role", "timestamp", "stopReason", "toolCallId", "command", "output", "isError")
            kept = {key: message[key] for key in names if key in message}
            blocks = message.get("content", [])
            kept["content"] = [{key: block.get(key) for key in ("type", "text", "thinking", "id")} for block in blocks]
        case _:
            kept = message
    return json.dumps(kept, sort_keys=True, ensure_ascii=False)


def _is_failed(message: Json) -> bool:
    """Whether a retry may have taken the message out of memory; the file keeps it."""
    return message["role"] == "assistant" and message["stopReason"] == "error"


def _is_within(wanted: list[str], identities: list[str]) -> bool:
    rest = iter(identities)
    return all(identity in rest for identity in wanted)

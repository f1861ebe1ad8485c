"""With ``--wire pi`` every frame of every conversation holds only what pi 0.73 was seen to send in them."""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatch
from typing import Any

import outline
import pytest
from test_conformance import CASES, FOUND, had_again

SEEN = {kind: set(paths) for kind, paths in FOUND["shapes"]["pi"].items()}
# What pi sends as well, which these conversations did not bring about there.
ALSO = [
    "message_start assistant .message.responseId:string",
    "update * .message.responseId:string",
    "agent_end .messages[*].content[image]*",
    "compaction_end .errorMessage:string",
    "response get_messages success .data.messages[toolResult].details",
    "response get_messages success .data.messages[*].errorMessage:string",
    "response get_messages success .data.messages[assistant].content[thinking]*",
    "response * failure *",  # which all have the same fields
    "extension_error *",
    "extension_ui_request *",
]


@pytest.fixture(scope="module")
def frames(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    root = tmp_path_factory.mktemp("pi")

    def run(case: dict[str, Any]) -> list[dict[str, Any]]:
        as_pi = copy.deepcopy(case)
        as_pi["args"] = [*as_pi.get("args", []), "--wire", "pi"]
        return had_again(as_pi, root / case["name"])["frames"]

    with ThreadPoolExecutor(2) as pool:
        return dict(zip((case["name"] for case in CASES), pool.map(run, CASES), strict=True))


def test_no_frame_is_of_a_kind_or_holds_a_field_that_pi_does_not_send(frames: dict[str, list[dict[str, Any]]]) -> None:
    sent = outline.shapes(frame for found in frames.values() for frame in found)
    ours = {f"{kind} {path}" for kind, paths in sent.items() for path in paths - SEEN.get(kind, set())}
    assert sorted(each for each in ours if not any(fnmatch(each, also.replace("[", "[[]")) for also in ALSO)) == []


def test_every_kind_of_frame_that_pi_sends_is_sent(frames: dict[str, list[dict[str, Any]]]) -> None:
    sent = outline.shapes(frame for found in frames.values() for frame in found)
    assert {kind for kind in SEEN.keys() - sent.keys() if not kind.startswith("response")} == set()

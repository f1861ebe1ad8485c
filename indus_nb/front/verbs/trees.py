"""A session's tree as JSON: nested, which is as deep as the conversation is long, or flat.

JSON parsers recurse, and give up at a depth of some hundreds; neither the encoder here nor ``nested_tree`` does.
"""

from __future__ import annotations

from collections.abc import Sequence

from indus_nb.base.wire import JsonObject, dump
from indus_nb.core.storage.store import TreeNode

MAX_NESTED = 400
"""Deepest nested tree: each entry is an object in a list, and Python's parser takes 990 of both."""


def encoded_tree(roots: Sequence[TreeNode]) -> bytes:
    """Return the nodes, each with its ``entry``, its ``children`` and its label."""
    pieces: list[bytes] = [b"["]
    open_lists = [iter(roots)]
    tails: list[bytes] = []
    while open_lists:
        node = next(open_lists[-1], None)
        if node is None:
            open_lists.pop()
            pieces.append(b"]")
            if tails:
                pieces.append(tails.pop())
            continue
        if pieces[-1].endswith(b"}"):
            pieces.append(b",")
        pieces.append(b'{"entry":%b,"children":[' % node.entry.to_json())
        label = _label(node)
        tails.append(b",%b" % dump(label)[1:] if label else b"}")
        open_lists.append(iter(node.children))
    return b"".join(pieces)


def flat_tree(roots: Sequence[TreeNode]) -> list[JsonObject]:
    """List the nodes, parents before children, each with its depth and the ids of parent and children."""
    found: list[JsonObject] = []
    waiting: list[tuple[TreeNode, str | None, int]] = [(root, None, 0) for root in reversed(roots)]
    while waiting:
        node, parent_id, depth = waiting.pop()
        children = [child.entry.id for child in node.children]
        place = {"parentId": parent_id, "depth": depth, "children": children}
        found.append({"entry": node.entry.data, **place, **_label(node)})
        waiting += [(child, node.entry.id, depth + 1) for child in reversed(node.children)]
    return found


def nested_tree(nodes: Sequence[JsonObject]) -> list[JsonObject]:
    """Convert the result of ``flat_tree`` to that of ``encoded_tree``."""
    by_id: dict[str, JsonObject] = {}
    roots: list[JsonObject] = []
    for flat in nodes:
        label = {key: flat[key] for key in ("label", "labelTimestamp") if key in flat}
        node = by_id[flat["entry"]["id"]] = {"entry": flat["entry"], "children": [], **label}
        parent = by_id.get(flat["parentId"])
        (roots if parent is None else parent["children"]).append(node)
    return roots


def _label(node: TreeNode) -> JsonObject:
    return {"label": node.label, "labelTimestamp": node.label_timestamp} if node.label else {}

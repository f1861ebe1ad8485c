"""A prompt cache as the Messages API documents it, simulated: what of a request it reads, what it writes, the price.

The parts of a request follow each other as tools, system, blocks of messages. What ends at a mark is kept, if it has at
least 1,024 tokens, for five minutes or an hour from its last use. A request finds what is kept at one of its marks or
up to twenty parts before one. What a request writes can be read once its answer has begun.
"""

from __future__ import annotations

import hashlib
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LEAST_TOKENS = 1024
LOOK_BACK = 20
PRICES = {"input": 3.0, "read": 0.30, "short": 3.75, "long": 6.0}
"""US dollars for a million tokens."""


@dataclass
class Bill:
    """Tokens of requests by what is paid for them."""

    input: int = 0
    read: int = 0
    short: int = 0
    long: int = 0
    requests: int = 0

    @property
    def dollars(self) -> float:
        """What they cost, without the answers to them."""
        return sum(getattr(self, name) * price for name, price in PRICES.items()) / 1e6

    @property
    def sent(self) -> int:
        """All tokens that were sent."""
        return self.input + self.read + self.short + self.long

    def figures(self) -> dict[str, float]:
        """All of it by name, with the price and the sum."""
        return {**vars(self), "sent": self.sent, "dollars": self.dollars}

    def add(self, other: Bill) -> None:
        """Add the tokens of another bill."""
        for name in vars(self):
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass
class SimulatedCache:
    """The cache of one account; ``count`` counts the tokens of a text."""

    count: Callable[[str], int]
    _kept: dict[str, tuple[float, float, float]] = field(default_factory=dict)
    """Since when what has this digest can be read, when it is lost, and how long it lives."""
    _counted: dict[str, int] = field(default_factory=dict)

    def charge(self, body: dict[str, Any], now: float, begins: float | None = None) -> Bill:
        """Take a request at a moment in seconds; returns what its prompt is charged as.

        Args:
            begins: When its answer begins; ``None`` for at once.
        """
        begins = now if begins is None else begins
        texts, marks = _parts(body)
        digest, tokens = hashlib.sha256(), 0
        at: list[tuple[str, int]] = []
        for text in texts:
            digest.update(text.encode())
            if text not in self._counted:
                self._counted[text] = self.count(text)
            tokens += self._counted[text]
            at.append((digest.hexdigest(), tokens))
        found = self._found(at, marks, now)
        bill = Bill(read=at[found][1] if found >= 0 else 0, requests=1)
        done = bill.read
        for place, lifetime in sorted(marks.items()):
            name, total = at[place]
            if total < LEAST_TOKENS or place < found:
                continue
            since = min(begins, self._kept[name][0]) if self._lives(name, now) else begins
            self._kept[name] = since, now + lifetime, lifetime
            kind = "long" if lifetime > 300 else "short"
            setattr(bill, kind, getattr(bill, kind) + total - done)
            done = total
        bill.input = tokens - done
        return bill

    def _found(self, at: list[tuple[str, int]], marks: dict[int, float], now: float) -> int:
        """The last part of the longest beginning that is kept; -1 for none. It lives anew from now on."""
        for mark in sorted(marks, reverse=True):
            for place in range(mark, max(mark - LOOK_BACK, 0) - 1, -1):
                name = at[place][0]
                if self._lives(name, now) and self._kept[name][0] <= now:
                    since, _, lifetime = self._kept[name]
                    self._kept[name] = since, now + lifetime, lifetime
                    return place
        return -1

    def _lives(self, name: str, now: float) -> bool:
        """Whether something is kept, or will be once its answer begins."""
        return name in self._kept and self._kept[name][1] > now


def _parts(body: dict[str, Any]) -> tuple[list[str], dict[int, float]]:
    """The parts of a request as texts, and how long what ends at a mark is kept."""
    system = body.get("system") or []
    blocks: list[Any] = [*body.get("tools", []), *([system] if isinstance(system, str) else system)]
    for message in body["messages"]:
        content = message["content"]
        given = [{"type": "text", "text": content}] if isinstance(content, str) else content
        blocks += [{"role": message["role"], **block} for block in given]
    texts: list[str] = []
    marks: dict[int, float] = {}
    for place, block in enumerate(blocks):
        own = dict(block) if isinstance(block, dict) else {"text": block}
        mark = own.pop("cache_control", None)
        if mark:
            marks[place] = 3600.0 if mark.get("ttl") == "1h" else 300.0
        own.pop("signature", None)
        texts.append(json.dumps(own, ensure_ascii=False))
    return texts, marks


def tokenizer(directory: Path | None) -> tuple[Callable[[str], int], str]:
    """What counts tokens, and its name."""
    with tempfile.TemporaryDirectory(prefix="tokens-") as folder:
        place = directory or Path(folder)
        if directory is None:
            command = ["uv", "pip", "install", "-q", "--target", folder, "anthropic==0.34.2", "tokenizers"]
            subprocess.run(command, check=False, capture_output=True)
        sys.path.insert(0, str(place))
        try:
            from tokenizers import Tokenizer  # type: ignore[import-not-found,unused-ignore]

            known: Any = Tokenizer.from_file(str(place / "anthropic/tokenizer.json"))
        except (ImportError, OSError, ValueError):
            return lambda text: math.ceil(len(text) / 3.6), "characters / 3.6"
        finally:
            sys.path.remove(str(place))
        return lambda text: len(known.encode(text).ids), "Claude's last published tokenizer"

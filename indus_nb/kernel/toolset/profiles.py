"""Profiles of the frames that a prompt is about, in little time and few tokens.

What this module promises: what is told is what the frames hold at this moment. What was found out is remembered by the
very values that were looked at, so that it is used again only where these are the same. What was told and may hold no
more is taken back.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from indus_nb.base import textcut
from indus_nb.kernel.values.columns import Looked, look
from indus_nb.kernel.values.describe import without_secrets
from indus_nb.kernel.values.extent import BY
from indus_nb.kernel.values.joins import Named, joins
from indus_nb.kernel.values.profile import Profile, digest_of, fingerprint, profile
from indus_nb.safety.redaction import is_secret_name

_MOST_CHARACTERS = 1_000
"""What all profiles of a prompt have together: 400 tokens, as text with so many numbers has one for 2.5 characters."""
_MOST_FRAMES, _MOST_COLUMNS = 8, 30
_MOST_JOIN_CHARACTERS = 200
_MOST_REMEMBERED, _MOST_KNOWN = 64, 100
_CLOSER_SECONDS, _CLOSER_COLUMNS, _CLOSER_CHARACTERS = 1.0, 200, 6_000
"""The limits where one frame is asked for."""


class Profiles(NamedTuple):
    """Profiles for a prompt.

    Attributes:
        text: What the conversation does not know yet; empty if it knows all.
        told: How many frames that is about.
        digests: Of each frame, and each pair of them, that the conversation knows then.
    """

    text: str
    told: int
    digests: Mapping[str, str]


class FrameProfiles:
    """Profiles of the frames of one kernel."""

    def __init__(self) -> None:
        """Begin without any."""
        self._remembered: dict[bytes, Profile] = {}

    def closer(self, value: object) -> str:
        """Write the profile of one value that was asked for; empty if it is no frame."""
        looked = look(value, _CLOSER_COLUMNS, time.thread_time() + _CLOSER_SECONDS)
        return "" if looked is None else without_secrets(profile(looked).text("", _CLOSER_CHARACTERS))

    def new(self, frames: Iterable[tuple[str, object]], known: Mapping[str, str], end: float) -> Profiles:
        """Write the profiles of frames, and how these go together, as far as a conversation does not know them.

        Args:
            frames: Variables by their names, those that matter most first.
            known: The digests that the conversation knows.
            end: When to stop, on the clock of this thread's processor time.
        """
        seen: list[Named] = []
        told: list[tuple[str, Profile]] = []
        lines: list[str] = []
        digests = dict(known)
        for name, value in frames:
            if len(seen) == _MOST_FRAMES or time.thread_time() > end:
                break
            now = time.thread_time()
            looked = None if is_secret_name(name) else look(value, _MOST_COLUMNS, now + (end - now) / 2)
            if looked is None:
                continue
            found = self._profile(looked)
            before, _, size = digests.pop(name, "").partition(" ")
            if not looked.complete and before not in ("", found.digest()):
                # whose columns would be told again and again, more of them or fewer
                now_size = digest_of([looked.rows, looked.width])
                lines += [_unseen(name, looked)] if size != now_size else []
                digests[name] = f"{before} {now_size}"
                continue
            seen.append(Named(name, looked))
            if before != found.digest():
                told.append((name, found))
            digests[name] = found.digest()
        lines += _between(seen, digests, end)
        kept = dict(list(digests.items())[-_MOST_KNOWN:])
        return Profiles(without_secrets(_written(told, lines)), len(told), kept)

    def _profile(self, looked: Looked) -> Profile:
        key = fingerprint(looked)
        if key is None:
            return profile(looked)
        found = self._remembered.pop(key, None) or profile(looked)
        self._remembered[key] = found  # the newest last
        while len(self._remembered) > _MOST_REMEMBERED:
            del self._remembered[next(iter(self._remembered))]
        return found


def _between(frames: Sequence[Named], digests: dict[str, str], end: float) -> list[str]:
    """Write how frames go together as far as that is new to the digests, and add it to them."""
    lines: list[str] = []
    room = _MOST_CHARACTERS // 2
    for pair in combinations(frames, 2):
        if time.thread_time() > end:
            break
        one, other = reversed(pair) if f"{pair[1].name} {pair[0].name}" in digests else pair  # as it was told before
        name = f"{one.name} {other.name}"
        found = [textcut.fit(line, _MOST_JOIN_CHARACTERS) for line in joins(one, other)]
        digest = digest_of(found) if found else ""
        if digests.get(name, "") == digest or not (found or (one.looked.complete and other.looked.complete)):
            continue
        found = found or [f"what was told of how `{one.name}` and `{other.name}` go together holds no more"]
        room -= sum(len(line) + 1 for line in found)
        if room >= 0:
            lines += found
            digests.pop(name, None)
            digests.update({name: digest} if digest else {})
    return lines


def _unseen(name: str, looked: Looked) -> str:
    """Write what is known at once of a frame that there was no time to look at again."""
    size = f"{looked.rows or 0:,} {BY} {looked.width}"
    why = "not looked at again for lack of time"
    return f"`{name}` {looked.library} {size}; {why}: what was told of it may hold no more"


def _written(told: Sequence[tuple[str, Profile]], lines: Sequence[str]) -> str:
    """Write profiles within the limit: the first, which the user has named, get more than those after them."""
    room = _MOST_CHARACTERS - sum(len(line) + 1 for line in lines)
    texts: list[str] = []
    for number, (name, each) in enumerate(told):
        texts.append(each.text(name, max(room // (len(told) - number), room * 2 // 5)))
        room -= len(texts[-1]) + 1
    return "\n".join([*texts, *lines])

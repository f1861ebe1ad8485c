"""Base class of the kinds of objects: how a mutable object is remembered and restored.

What this module promises:

- No code of the object's class runs: a kind reaches its parts by the methods of the built-in type that it stands for.
- What is remembered refers to the object's parts and copies none of them, but for the bytes of buffers.
- ``put`` may be repeated: it writes all that was remembered, whatever is there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import is_
from typing import Any


class _Absent:
    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Any = _Absent()
"""Placeholder for a name, attribute or cell without a value."""


class Keeper:
    """Base class of the kinds of objects.

    This class is the kind of objects that hold others and cannot change: it leads to these.
    """

    holds_state = False
    """True for kinds of mutable objects."""
    fixed = ""
    """Why a change of such an object cannot be put back; empty where it can."""

    def size(self, obj: Any) -> int:  # noqa: ARG002 - of this kind nothing is copied
        """Return how many bytes a snapshot of the object takes."""
        return 0

    def elements(self, obj: Any) -> int:  # noqa: ARG002 - of this kind none are listed
        """Return how many objects an array holds, each of which a snapshot lists."""
        return 0

    def remember(self, obj: Any) -> Any:
        """Return a snapshot of the object."""
        return obj

    def outline(self, obj: Any) -> Any:
        """Return the snapshot of ``remember`` without copies of bytes: enough for ``parts``."""
        return self.remember(obj)

    def former(self, obj: Any, state: Any) -> Any:  # noqa: ARG002
        """Return another object like this one was, to be compared with it; ``ABSENT`` where that is not made."""
        return ABSENT

    def put(self, obj: Any, state: Any) -> None:
        """Restore ``state`` in the object, which was remembered of it."""

    def same(self, obj: Any, state: Any) -> bool:  # noqa: ARG002
        """Return whether the object holds ``state``."""
        return True

    def parts(self, state: Any) -> Iterable[Any]:  # noqa: ARG002
        """Return the objects in a snapshot."""
        return ()

    def beneath(self, state: Any) -> Iterable[Any]:  # noqa: ARG002
        """Return the object's copy-on-write buffers, which others may write to all the same."""
        return ()

    def lacks(self, obj: Any, state: Any) -> str:
        """Return why the object, as it is now, cannot be restored to ``state``; empty if it can."""
        return self.fixed if self.fixed and not self.same(obj, state) else ""

    def seal(self, obj: Any) -> Any:
        """Return a value that later shows whether the object changed; may be less than a snapshot."""
        return self.remember(obj)

    def sealed(self, obj: Any, seal: Any) -> bool:
        """Return whether the object is as it was when ``seal`` was made.

        Args:
            seal: Result of ``seal``.

        Returns:
            Whether nothing has changed since.
        """
        return self.same(obj, seal)

    def weight(self, state: Any) -> int:  # noqa: ARG002
        """Return roughly how many bytes ``state`` keeps from being freed."""
        return 64


class State(Keeper):
    """Base class of the kinds of mutable objects, whose snapshots Python compares."""

    holds_state = True

    def same(self, obj: Any, state: Any) -> bool:
        """Return whether the object holds ``state``."""
        return bool(self.remember(obj) == state)


class OneHeld(State):
    """Base class of the kinds of objects that hold one other."""

    def same(self, obj: Any, state: Any) -> bool:
        """Return whether the object holds ``state``."""
        return self.remember(obj) is state

    def parts(self, state: Any) -> Iterable[Any]:
        """Return the object in a snapshot."""
        return (state,)


class SeveralHeld(State):
    """Base class of the kinds of objects that hold some others, each in its place."""

    def same(self, obj: Any, state: Sequence[Any]) -> bool:
        """Return whether the object holds ``state``."""
        now = self.remember(obj)
        return len(now) == len(state) and identical(now, state)


def identical(one: Iterable[Any], other: Iterable[Any]) -> bool:
    """Return whether two sequences of equal length have the same objects in the same order.

    Returns:
        Whether each is the one at the same place.
    """
    return all(map(is_, one, other))


def attributes(obj: Any, but: Collection[str]) -> dict[str, Any]:
    """Return an object's attributes, without those named in ``but``."""
    own: dict[str, Any] = getattr(obj, "__dict__", {})
    return {name: value for name, value in own.items() if name not in but}


def put_attributes(obj: Any, state: Mapping[str, Any]) -> None:
    """Give an object the attributes in ``state``, and no others."""
    own: dict[str, Any] = getattr(obj, "__dict__", {})
    for name in own.keys() - state.keys():
        del own[name]
    own.update(state)


def same_items(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two mappings have the same objects under the same names."""
    return one.keys() == other.keys() and all(one[name] is value for name, value in other.items())


def class_of(obj: object) -> type[Any]:
    """Return the real class of an object, past an overridden ``__class__``."""
    return type(obj)

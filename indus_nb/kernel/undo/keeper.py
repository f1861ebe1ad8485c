"""How an object that can change is remembered: what all kinds of objects have in common.

What this module promises:

- No code of the object's class runs: a kind reaches its parts by the methods of the built-in type that it stands for.
- What is remembered refers to the object's parts and copies none of them, but for the bytes of buffers.
- ``put`` may be repeated: it writes all that was remembered, whatever is there.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import is_
from typing import Any


class _Absent:
    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Any = _Absent()
"""Stands for a name, attribute or cell without a value."""


class Keeper:
    """One kind of object.

    This class is the kind of objects that hold others and cannot change: it leads to these.
    """

    holds_state = False
    """Whether such an object can change."""

    def size(self, obj: Any) -> int:  # noqa: ARG002 - of this kind nothing is copied
        """Return how many bytes remembering it takes."""
        return 0

    def elements(self, obj: Any) -> int:  # noqa: ARG002 - of this kind none are listed
        """Return how many objects an array holds, which are listed one by one to remember it."""
        return 0

    def remember(self, obj: Any) -> Any:
        """Return what the object holds."""
        return obj

    def outline(self, obj: Any) -> Any:
        """Return what ``remember`` does, as far as it takes no copy of bytes: enough for ``parts``."""
        return self.remember(obj)

    def put(self, obj: Any, state: Any) -> None:
        """Make the object hold ``state``, which was remembered of it."""

    def same(self, obj: Any, state: Any) -> bool:  # noqa: ARG002
        """Return whether the object holds ``state``."""
        return True

    def parts(self, state: Any) -> Iterable[Any]:  # noqa: ARG002
        """Return the objects in what was remembered."""
        return ()

    def beneath(self, state: Any) -> Iterable[Any]:  # noqa: ARG002
        """Return buffers that the object shares and copies before it writes, which others may write to all the same."""
        return ()

    def lacks(self, obj: Any, state: Any) -> str:  # noqa: ARG002
        """Return why the object, as it is now, cannot be made to hold ``state``; empty if it can."""
        return ""

    def seal(self, obj: Any) -> Any:
        """Return what tells later whether the object changed; may be less than is needed to put it back."""
        return self.remember(obj)

    def sealed(self, obj: Any, seal: Any) -> bool:
        """Return whether the object is as it was when ``seal`` was made.

        Args:
            seal: What ``seal`` returned.

        Returns:
            Whether nothing has changed since.
        """
        return self.same(obj, seal)

    def weight(self, state: Any) -> int:  # noqa: ARG002
        """Return how many bytes ``state`` keeps from being freed, roughly."""
        return 64


class State(Keeper):
    """A kind of objects that can change."""

    holds_state = True


def identical(one: Iterable[Any], other: Iterable[Any]) -> bool:
    """Return whether the same objects follow each other in both, which are equally long.

    Returns:
        Whether each is the one at the same place.
    """
    return all(map(is_, one, other))


def class_of(obj: object) -> type[Any]:
    """Return the class of an object, whatever class it says that it has."""
    return type(obj)

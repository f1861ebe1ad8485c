"""The vault of one session: which values are secret, their placeholders, and the way back."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

if TYPE_CHECKING:
    from indus_nb.safety.vault.matching import Marks

Listed: TypeAlias = Callable[[], Sequence[tuple[str, str]]]
"""Returns secrets that others know, each with its label; called often, so it must be quick."""


class Lends(Protocol):
    """A callback that says whether a tool may have a value.

    ``asked`` is whether the user allowed the call, or does not keep the value.
    """

    def __call__(self, value: str, *, asked: bool) -> bool:
        """Return whether the tool may have a value."""
        ...


_MIN_TEXT = 6
_MAX_RECOGNISED = 10_000
_SALT = os.urandom(16)
"""Of this process: numbers of placeholders tell nothing about the values, and those of other processes mean nothing."""
_PLAIN = r"[A-Za-z0-9_.~+/=:@%,-]+"
"""Values of such characters cannot end a string or a word of a shell, nor add to it."""
_PLAIN_GUESS = r"[A-Za-z0-9_+=~%-]+"
"""Of a value that a mere name gave away, which may be a hostile file's: no address and no path."""
_PLAIN_DATA = r"[A-Za-z0-9_.~+/=:@%,!#*^?&-]+"
_KEY_BLOCK = r"-----BEGIN [A-Z ]+-----[A-Za-z0-9+/=\s:,-]+-----END [A-Z ]+-----"
_GUESSED = ("password", "token", "url-credentials", "header")


class PutBackError(Exception):
    """A placeholder that must not be filled in there; the text says why, for the model."""


class Vault:
    """Secrets of a session, and their placeholders.

    Args:
        directory: Returns the working directory, whose ``.env`` is read.
        vouched: Returns whether the user trusts the author of what is there.
        lends: Returns whether a tool may have a value; without it any.
        redact: Whether anything is hidden; without it every text stays as it is.
        home: Where ``.netrc`` lies.

    Attributes:
        look_every: For how many seconds the places of secrets count as unchanged once they were looked at. More than 0
            only where nothing that runs can change them, such as rows without tools: a look is several files.
    """

    def __init__(
        self,
        directory: Callable[[], Path] | None = None,
        listed: Listed | None = None,
        environment: Mapping[str, str] = os.environ,
        *,
        vouched: Callable[[Path], bool] = lambda _: False,
        lends: Lends | None = None,
        redact: bool = True,
        home: Path | None = None,
    ) -> None:
        self.redact = redact
        self._directory = directory
        self._listed = listed
        self._vouched = vouched
        self._lends = lends
        self._environment = environment
        self._home = home
        self.look_every: float = 0.0
        self._looked: float | None = None
        self._state: object = None
        self._places: tuple[Path | None, str | None, list[Path], Path] | None = None
        """The files with secrets, and the two that these depend on: looked at often, and paths take long to make."""
        self._values: dict[str, str] = {}
        self._own: set[str] = set()
        self._spelt: Mapping[str, str] = {}
        self._marks: Marks | None = None
        self._sure: Marks | None = None
        """Those of the user's own, and of what the user trusts."""
        self._kept: Marks | None = None
        self._recognised: dict[str, tuple[str, str]] = {}
        self._released: dict[str, Mapping[str, str]] = {}

    # Out of texts

    def hide(self, text: str, *, fresh: bool = True, typed: bool = False) -> str:
        """Replace known and likely secrets in ``text`` by placeholders.

        >>> Vault(environment={"MY_TOKEN": "0123456789abcdef"}).hide("MY_TOKEN=0123456789abcdef")
        'MY_TOKEN=[secret MY_TOKEN]'

        Args:
            fresh: Whether to look first for what has changed in the places of secrets.
            typed: Whether the user wrote it: no file of a project that is not trusted changes it then.
        """
        if not self.redact or len(text) < _MIN_TEXT:
            return text
        if fresh:
            self._refresh()
        return self._hide(text, self._sure if typed else self._marks)

    def _hide(self, text: str, marks: Marks | None) -> str:
        from indus_nb.safety.redaction import replace_named, replace_shapes

        text = text if marks is None else marks.hide(text)
        return replace_named(replace_shapes(text, self._recognise), self._recognise)

    def hide_own(self, text: str) -> str:
        """Replace the user's own secrets in the text of a question by placeholders.

        No other source can hide a word of it: what a file of the project names, or what only looks like a secret,
        stays.
        """
        if not self.redact or len(text) < _MIN_TEXT:
            return text
        self._refresh()
        return text if self._kept is None else self._kept.hide(text)

    def hide_in(self, value: Any) -> Any:
        """Replace secrets in all texts and keys of a JSON value by placeholders; return the same if unchanged.

        Args:
            value: Strings, numbers, lists and dictionaries; anything else stays.
        """
        if not self.redact:
            return value
        self._refresh()
        return self._hide_in(value)

    def _hide_in(self, value: Any, name: str = "") -> Any:
        from indus_nb.safety.redaction import replace_named

        if isinstance(value, str):
            if len(value) < _MIN_TEXT:
                return value
            if name and len(value) < 1000 and "\n" not in value:
                # In an object the name stands beside the value, not in one text with it.
                shown = f"{name}: '{value}'"
                hidden = replace_named(shown, self._recognise) if "'" not in value else shown
                value = hidden[len(name) + 3 : -1] if hidden != shown else value
            return self._hide(value, self._marks)
        if isinstance(value, Mapping):
            items = cast("Mapping[Any, Any]", value).items()
            new = {self._hide_in(key): self._hide_in(each, key if isinstance(key, str) else "") for key, each in items}
            return new if new != value else cast("Any", value)
        if isinstance(value, list | tuple):
            changed = [self._hide_in(each) for each in cast("Sequence[Any]", value)]
            same = all(new is old for new, old in zip(changed, cast("Sequence[Any]", value), strict=True))
            return cast("Any", value) if same else changed
        return value

    def open_at(self, text: str) -> int:
        """Return where a known value may have begun at an unfinished text's end; its length if none has."""
        return len(text) if self._marks is None else self._marks.open_at(text)

    def refresh(self) -> None:
        """Read the changed sources again."""
        self._looked = None
        if self.redact:
            self._refresh()

    def known(self) -> Mapping[str, str]:
        """Return the values that are known to be secret, in each way to quote them, with their placeholders."""
        self.refresh()
        return self._spelt

    def _recognise(self, kind: str, value: str) -> str:
        from indus_nb.safety.redaction import COMMON_WORDS, PLACEHOLDER, placeholder

        folded = value.lower()
        if kind == "url-credentials":
            user, _, password = folded.partition(":")
            if password in COMMON_WORDS or password in ("pass", "pwd", user, "password@", "***", "xxx", "…"):
                return value
        if re.search(PLACEHOLDER, value):
            return value
        from hashlib import blake2b  # with a library that no start needs

        digest = blake2b(value.encode(errors="replace"), key=_SALT, digest_size=16).hexdigest()
        label = f"{kind} {digest[:6]}"
        if self._recognised.setdefault(label, (kind, value))[1] != value:
            label = f"{kind} {digest}"  # another value has the short one
            self._recognised[label] = (kind, value)
        while len(self._recognised) > _MAX_RECOGNISED:
            del self._recognised[next(iter(self._recognised))]
        return placeholder(label)

    # Into arguments

    def meant(self, value: Any) -> Mapping[str, str]:
        """Return the secrets that placeholders in a JSON value stand for by now, by placeholder."""
        if self.redact:
            self._refresh()
        return {mark: secret for mark, _, secret in self._meant(value)}

    def in_question(
        self, arguments: dict[str, Any], declared: Sequence[str] | None, *, is_code: bool
    ) -> dict[str, Any]:
        """Return arguments as the user is asked about them.

        What the user must see is filled in: the author of a file of the project can have a word taken for a
        secret, and the call would do what no question has shown. So are the secrets that a file is compared with,
        which ``masked`` hides again.

        Args:
            declared: Those that may hold secrets; ``None`` for a tool that declares none.
            is_code: Whether they are run, or handed on, and not only written to a file.

        Raises:
            PutBackError: A value would change what the argument means.
        """
        if not self.redact or not self.meant(arguments):
            return arguments
        return {
            name: self._filled(value, asked=True, is_code=is_code, only_shown=is_code)
            if declared is None or name in declared
            else value
            for name, value in arguments.items()
        }

    def unseen(self, arguments: Any) -> str | None:
        """Describe the values that a question does not show though their source is not the user's alone.

        Returns:
            A sentence, or ``None`` if there are none.
        """
        marks = [mark for mark, label, value in self._meant(arguments) if label not in self._own and _hides(value)]
        if not marks:
            return None
        return f"Not shown, and perhaps chosen by whoever wrote the project's files: {', '.join(dict.fromkeys(marks))}."

    def _is_shown(self, label: str, value: str) -> bool:
        """Return whether a question shows a value, which the project may have chosen to look harmless."""
        return label not in self._own and not _hides(value)

    def _meant(self, value: Any) -> Iterator[tuple[str, str, str]]:
        """Return the placeholders in a JSON value that stand for secrets, each with its label and value."""
        from indus_nb.safety.redaction import PLACEHOLDER

        if isinstance(value, str):
            for match in re.finditer(PLACEHOLDER, value):
                if (secret := self._value_of(match[1])) is not None:
                    yield match[0], match[1], secret
        elif isinstance(value, Mapping):
            for each in cast("Mapping[Any, Any]", value).values():
                yield from self._meant(each)
        elif isinstance(value, list | tuple):
            for each in cast("Sequence[Any]", value):
                yield from self._meant(each)

    def masked(self, text: str, arguments: Any) -> str:
        """Put placeholders back into a text made of arguments with filled-in secrets.

        Args:
            text: The text, such as the preview of a call.
            arguments: The arguments as the model gave them; no other secret than theirs is replaced, for what looks
                like one may be what the user must see.

        Returns:
            The text with placeholders, but for those that the user must see.
        """
        for mark, label, value in self._meant(arguments):
            if not self._is_shown(label, value):
                text = text.replace(value, mark)
        return text

    def release(self, call_id: str, meant: Mapping[str, str]) -> None:
        """Allow a call its secrets though its tool declares no arguments for them: the user was asked.

        Args:
            meant: What its placeholders stood for when the user was asked.
        """
        self._released[call_id] = meant

    def put_back(
        self, arguments: dict[str, Any], declared: Sequence[str] | None, *, call_id: str, is_code: bool
    ) -> dict[str, Any]:
        """Return arguments of a tool with secrets in the place of their placeholders.

        Args:
            arguments: The arguments of a call, which the user was shown with placeholders.
            declared: Those that may hold secrets; ``None`` for a tool that declares none, which is given secrets only
                in a call that was released.
            is_code: Whether they are run, or handed on, and not only written to a file.

        Raises:
            PutBackError: A value would change what the argument means, is another one than the user was asked about, or
                is none that tools are given.
        """
        asked = self._released.pop(call_id, None)
        if not self.redact or (declared is None and asked is None) or not (meant := self.meant(arguments)):
            return arguments
        if asked is not None and asked != meant:
            raise PutBackError(
                "A secret that this call names was changed after the user had been asked, so nothing was done."
            )
        return {
            name: self._filled(value, asked=asked is not None, is_code=is_code)
            if declared is None or name in declared
            else value
            for name, value in arguments.items()
        }

    def _filled(self, value: Any, *, asked: bool, is_code: bool, only_shown: bool = False) -> Any:
        from indus_nb.safety.redaction import PLACEHOLDER

        def fill(match: re.Match[str]) -> str:
            return self._fill(match[0], match[1], asked=asked, is_code=is_code, only_shown=only_shown)

        def filled(value: Any) -> Any:
            if isinstance(value, str):
                return re.sub(PLACEHOLDER, fill, value)
            if isinstance(value, Mapping):
                return {key: filled(each) for key, each in cast("Mapping[Any, Any]", value).items()}
            if isinstance(value, list):
                return [filled(each) for each in cast("list[Any]", value)]
            return value

        return filled(value)

    def _fill(self, mark: str, label: str, *, asked: bool, is_code: bool, only_shown: bool) -> str:
        value = self._value_of(label)
        if value is None:
            return mark
        if self._lends is not None and not self._lends(value, asked=asked or label not in self._own):
            raise PutBackError(
                f"{mark} is not filled in: keys of model providers are given to no tool, and while calls are not asked "
                "about, only what commands find in their environment is. Nothing was done. Leave it out, or let the "
                "user do it."
            )
        guessed = label in self._recognised and self._recognised[label][0] in _GUESSED
        allowed = (_PLAIN_GUESS if guessed else _PLAIN) if is_code else _PLAIN_DATA
        if re.fullmatch(allowed, value) or (not is_code and re.fullmatch(_KEY_BLOCK, value)):
            return mark if only_shown and not self._is_shown(label, value) else value
        raise PutBackError(
            f"{mark} cannot be filled in here: the value has characters that could change what the rest means. Nothing "
            "was done. Let the program read it from where it is kept, or leave that part of the text alone."
        )

    def _value_of(self, label: str) -> str | None:
        if label in self._values:
            return self._values[label]
        held = self._recognised.get(label)
        return None if held is None else held[1]

    # What is known

    def _refresh(self) -> None:
        now = time.monotonic()
        if self._looked is not None and now < self._looked + self.look_every:
            return
        self._looked = now
        from indus_nb.safety.redaction import placeholder, spellings
        from indus_nb.safety.vault import sources
        from indus_nb.safety.vault.matching import Marks

        directory = self._directory() if self._directory is not None else None
        if self._places is None or self._places[0] != directory or self._places[1] != self._environment.get("HOME"):
            files = [directory / name for name in (".env", ".env.local")] if directory is not None else []
            self._places = directory, self._environment.get("HOME"), files, (self._home or _home()) / ".netrc"
        *_, files, netrc = self._places
        listed = tuple(self._listed()) if self._listed is not None else ()
        # Of os.environ what lies beneath it, for decoding it takes ten times as long, and it is looked at often.
        environment = frozenset(getattr(self._environment, "_data", self._environment).items())
        states = [*map(sources.state_of, files)]
        vouched = directory is not None and any(states) and self._vouched(directory)
        state = (environment, listed, directory, *states, vouched, sources.state_of(netrc))
        if state == self._state:
            return
        known = [*sources.from_environment(dict(self._environment)), *listed, *sources.from_netrc(netrc)]
        own = {value for _, value in sources.usable(known)}
        known += [each for path in files for each in sources.from_env_file(path, vouched=vouched)]
        self._values, self._own = {}, set()
        marks: dict[str, str] = {}
        sure: dict[str, str] = {}
        kept: dict[str, str] = {}
        for label, value in sources.usable(known):
            mark, number = placeholder(label), 1
            while mark[8:-1] in self._values:
                number += 1
                mark = placeholder(f"{label[:70]} {number}")
            self._values[mark[8:-1]] = value
            if value in own:
                self._own.add(mark[8:-1])
            for spelt in spellings(value):
                marks.setdefault(spelt, mark)
                if vouched or value in own:
                    sure.setdefault(spelt, mark)
                if value in own:
                    kept.setdefault(spelt, mark)
        self._spelt = marks
        self._marks = Marks(marks)
        self._sure = Marks(sure) if len(sure) < len(marks) else self._marks
        self._kept = Marks(kept) if len(kept) < len(marks) else self._marks
        self._state = state


def _hides(value: str) -> bool:
    """Return whether a question that leaves out a value, whatever its source, still shows what happens."""
    from indus_nb.safety.redaction import looks_random

    return looks_random(value)


def _home() -> Path:
    return Path(os.path.expanduser("~"))  # noqa: PTH111 - without a home, `Path.home` raises

"""Images and texts of files in rows: read once to know them by a digest, and again when their row is asked.

What this module promises: none is kept between the two, and what a row is asked with is what its prompt was made of. A
text in a row is a path in the columns alone that are named for that, and then one of a file within one directory,
wherever links lead. Other bytes than those of an image are no content.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias, cast

from indus_nb.base import textcut
from indus_nb.base.errors import UsageError
from indus_nb.base.files import read_file
from indus_nb.base.images import MAX_PIXELS, PIXELS_A_TOKEN, ImageError, fit, fit_picture, size_sent
from indus_nb.base.messages import ImageContent, image_type
from indus_nb.base.wire import clean_text
from indus_nb.fanout.pdf import Pages, is_pdf, page_images, page_sizes, pages_named
from indus_nb.safety.key_places import holds_keys

if TYPE_CHECKING:
    from PIL.Image import Image

BYTES_A_TOKEN = 4
MAX_FILE_BYTES = 64 * 1024 * 1024
"""Largest file of an image; what is sent of it is scaled down."""
MAX_TEXT_BYTES = 4 * 1024 * 1024
"""Largest file of a text: some million tokens, more than models read."""
_KNOWN = "PNG, JPEG, GIF, WebP and PDF are known"
_READ_FROM_FILES = ("PNG", "JPEG", "GIF", "WEBP")
_ORIENTATION = 0x0112  # in the Exif data of a photo
_MAX_NAME_CHARACTERS = 200

Source: TypeAlias = "Path | bytes | Image"


class Content(str):
    """An image, bytes or a path in a row; its text is what tables show of it."""

    __slots__ = ("source",)
    source: Source

    @classmethod
    def of(cls, value: object) -> Self | None:
        """Return the content that a value of the user's data is; ``None`` if it is none."""
        source: Source
        if isinstance(value, bytes | bytearray):
            source = bytes(value)
            kind = "application/pdf" if is_pdf(source) else image_type(source[:12])
            content = cls(repr(source) if kind is None else f"<{kind}, {len(source):,} bytes>")
        elif isinstance(value, Path):
            source, content = value, cls(clean_text(str(value)))
        elif (pillow := sys.modules.get("PIL.Image")) is not None and isinstance(value, pillow.Image):
            picture = cast("Any", value)
            content = cls(f"<image, {picture.width} x {picture.height} pixels>")
            # One that was opened and not loaded is read from its file, for a loaded one keeps all its pixels.
            is_in_file = getattr(picture, "tile", None) and picture.format in _READ_FROM_FILES
            named = getattr(picture, "filename", "") if is_in_file and picture.tell() == 0 else ""
            # Further frames of an animation are one object, of which the next one is made.
            source = Path(os.fsdecode(named)) if named else picture.copy() if picture.tell() else picture
        else:
            return None
        content.source = source
        return content


@dataclass(frozen=True, slots=True)
class Part:
    """Images or a text in a prompt, which are read again when its row is asked.

    Attributes:
        column: The column that it stands in.
        digest: SHA-256 of it.
        count: The number of its images: the pages of a PDF file, else 1; 0 for a text.
        size: How many bytes of text have as many tokens.
        name: What sentences call it.
        pages: Which pages of a PDF file; ``None`` for all.
    """

    column: str
    digest: str
    count: int
    size: int = field(compare=False)
    name: str = field(compare=False)
    source: Source = field(compare=False, repr=False)
    pages: Pages | None = None

    @classmethod
    def of(cls, column: str, source: Source) -> Self:
        """Read content once.

        Args:
            source: The content; a path is absolute.

        Raises:
            UsageError: It cannot be read, or no model can be shown it.
        """
        where = f"in the column {column!r}"
        if isinstance(source, Path):
            name = f"{textcut.one_line(clean_text(str(source)), _MAX_NAME_CHARACTERS)} {where}"
        else:
            name = f"The {'PDF' if isinstance(source, bytes) and is_pdf(source) else 'image'} {where}"
        if not isinstance(source, Path | bytes):
            if source.width * source.height > MAX_PIXELS:
                raise UsageError(
                    f"{name} is too large: {source.width} x {source.height} pixels. Make it smaller first."
                )
            try:
                digest = _digest_of_picture(source)
            except Exception as error:  # what Pillow raises for images that it cannot load has no common base
                raise UsageError(f"{name} cannot be loaded: {error}.") from error
            return cls(column, digest, 1, size=_size(source.size), name=name, source=source)
        data, pages = _data(source, name)
        digest = hashlib.sha256(data).hexdigest()
        if is_pdf(data):
            sizes = page_sizes(data, pages, name)
            return cls(column, digest, len(sizes), sum(map(_size, sizes)), name, source, pages)
        if pages is not None:
            raise UsageError(f"{name} is no PDF, so it has no pages. Name the file alone.")
        is_image = image_type(data[:12]) is not None
        if not is_image and isinstance(source, bytes):
            raise UsageError(
                f"The column {column!r} holds bytes here that are no image. {_KNOWN}; decode texts, and give other "
                "files as pathlib.Path."
            )
        if is_image:
            try:
                size = _size(size_sent(data, name))
            except ImageError as error:
                raise UsageError(str(error)) from error
        else:
            size = len(_text_in(data, name).encode())
        return cls(column, digest, int(is_image), size=size, name=name, source=source)

    def text(self) -> str:
        """Read the text."""
        return _text_in(self._same_data(), self.name)

    def images(self, *, resize: bool) -> list[ImageContent]:
        """Read the images, and make them small enough for every API.

        Args:
            resize: Whether it may be scaled.

        Raises:
            UsageError: It cannot be read or decoded, is too large, or has changed.
        """
        try:
            if isinstance(self.source, Path | bytes):
                data = self._same_data()
                if is_pdf(data):
                    return [fit(page, self.name)[0] for page in page_images(data, self.pages, self.name)]
                return [fit(data, self.name, resize=resize)[0]]
            if _digest_of_picture(self.source) != self.digest:
                raise UsageError(self._changed)
            return [fit_picture(self.source, self.name, resize=resize)]
        except ImageError as error:
            raise UsageError(str(error)) from error

    def _same_data(self) -> bytes:
        data, _ = _data(cast("Path | bytes", self.source), self.name)
        if hashlib.sha256(data).hexdigest() != self.digest:
            raise UsageError(self._changed)
        return data

    @property
    def _changed(self) -> str:
        return f"{self.name} has changed since it was looked at. Ask for this row once more."


@dataclass(frozen=True, slots=True)
class Prompt:
    """The prompt of a row that has content.

    Attributes:
        parts: Texts, and what is read when the row is asked, in their order.
    """

    parts: tuple[str | Part, ...]

    @property
    def images(self) -> dict[str, Part]:
        """Return the parts with images in their order, by their columns."""
        return {part.column: part for part in self.parts if isinstance(part, Part) and part.count}

    def read(self, *, resize: bool) -> tuple[str, list[tuple[Part, ImageContent]]]:
        """Read what the row is asked with.

        Args:
            resize: Whether images may be scaled.

        Returns:
            The text, in which ``[image 1]`` stands for the first image, and the images, each with its part.

        Raises:
            UsageError: A part cannot be read, or has changed.
        """
        names: dict[str, str] = {}
        images: list[tuple[Part, ImageContent]] = []
        for column, part in self.images.items():
            first = len(images) + 1
            images += [(part, image) for image in part.images(resize=resize)]
            names[column] = f"[image {first}]" if first == len(images) else f"[images {first} to {len(images)}]"
        texts = [part if isinstance(part, str) else names.get(part.column) or part.text() for part in self.parts]
        return "".join(texts), images


RowPrompt: TypeAlias = str | Prompt
"""The prompt of a row: a text, or one with content."""


def prompt_of(parts: Sequence[str | Part]) -> RowPrompt:
    """Join the parts of a prompt."""
    if not any(isinstance(part, Part) for part in parts):
        return "".join(cast("Sequence[str]", parts))
    joined: list[str | Part] = []
    for part in parts:
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        else:
            joined.append(part)
    return Prompt(tuple(joined))


def identity(prompt: RowPrompt) -> Any:
    """Return what the key of a row holds of its prompt, as JSON values: of content the digest."""
    if isinstance(prompt, str):
        return prompt
    places = {column: number for number, column in enumerate(prompt.images, 1)}

    def of(part: Part) -> list[Any]:
        return [places.get(part.column, 0), part.digest, *(part.pages or ())]

    return [part if isinstance(part, str) else of(part) for part in prompt.parts]


def size_of(prompt: RowPrompt) -> int:
    """Return how many bytes of text have as many tokens as a prompt, about."""
    if isinstance(prompt, str):
        return len(prompt.encode())
    texts = [part for part in prompt.parts if isinstance(part, str) or not part.count]
    return sum(len(part.encode()) if isinstance(part, str) else part.size for part in (*texts, *prompt.images.values()))


def images_in(prompts: Sequence[RowPrompt]) -> int:
    """Return how many images prompts have."""
    parts = (part for prompt in prompts if isinstance(prompt, Prompt) for part in prompt.images.values())
    return sum(part.count for part in parts)


def part_in(column: str, value: object, paths: Collection[str], directory: Path) -> Part | None:
    """Read the content that a value of a row is.

    Args:
        paths: The columns whose texts are paths.
        directory: Where relative paths begin, and what the files of these columns lie within.

    Returns:
        The content; ``None`` if the value is none.

    Raises:
        UsageError: It cannot be read, or no model can be shown it.
    """
    if isinstance(value, Content):
        source = value.source
        return Part.of(column, directory / source if isinstance(source, Path) else source)
    return Part.of(column, _path_in(column, value, directory)) if column in paths else None


def holds_content(value: object) -> bool:
    """Return whether a value of a row is content, or a list or dictionary with some in it."""
    if isinstance(value, dict | list):
        held = cast("dict[str, object] | list[object]", value)
        return any(map(holds_content, held.values() if isinstance(held, dict) else held))
    return isinstance(value, Content)


def _path_in(column: str, value: object, directory: Path) -> Path:
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"The column {column!r} holds no path here. Name a file, or leave the row out.")
    shown = textcut.one_line(value, _MAX_NAME_CHARACTERS)
    plain, pages = pages_named(Path(value))
    try:
        path = (directory / plain).resolve(strict=True)
        inside = path.is_relative_to(directory.resolve())
    except (OSError, RuntimeError, ValueError) as error:  # links in a circle, and what is no name of a file
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"{shown} in the column {column!r} cannot be read ({why}). Paths begin at {directory}."
        ) from error
    if not inside:
        raise UsageError(
            f"{shown} in the column {column!r} lies outside of {directory}, and texts of rows reach no other files. "
            "Work in the directory of the files, or give pathlib.Path in place of texts."
        )
    if holds_keys(path.relative_to(directory.resolve())):
        raise UsageError(
            f"{shown} in the column {column!r} is by its name there to keep secrets, which texts of rows do not reach. "
            "Give pathlib.Path if it is meant."
        )
    return path if pages is None else path.with_name(f"{path.name}#page={pages[0]}-{pages[1]}")


def _data(source: Path | bytes, name: str) -> tuple[bytes, Pages | None]:
    """Return the bytes of images, or of a file that may be a text, and which pages of it are named."""
    pages = None
    if isinstance(source, bytes):
        data = source
    else:
        source, pages = pages_named(source)
        try:
            size = source.stat().st_size or MAX_TEXT_BYTES  # the system's own files say none
            data = read_file(source, most=min(size, MAX_FILE_BYTES))
        except (OSError, ValueError) as error:
            raise UsageError(f"{name} cannot be read ({getattr(error, 'strerror', None) or error}).") from error
    if len(data) > MAX_FILE_BYTES:
        raise UsageError(f"{name} has more than {MAX_FILE_BYTES:,} bytes. Make it smaller first.")
    return data, pages


def _text_in(data: bytes, name: str) -> str:
    if len(data) > MAX_TEXT_BYTES:
        raise UsageError(f"{name} is no image, and for a text it has more than {MAX_TEXT_BYTES:,} bytes. Cut it first.")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise UsageError(f"{name} is neither an image nor a text in UTF-8. {_KNOWN}; convert it, or leave the row out.")
    return text


def _size(size: tuple[int, int]) -> int:
    return BYTES_A_TOKEN * -(-size[0] * size[1] // PIXELS_A_TOKEN)


def _digest_of_picture(picture: Image) -> str:
    pixels = picture.convert("RGBA") if picture.has_transparency_data or picture.mode in ("P", "PA") else picture
    seen = hashlib.sha256(repr((pixels.mode, pixels.size, picture.getexif().get(_ORIENTATION))).encode())
    seen.update(pixels.tobytes())
    return seen.hexdigest()

"""Images for models: their type, whether they can be decoded, and how they are scaled down.

An image that an API rejects is rejected again with every later request, since it stays in the conversation. Therefore
each image is checked twice: ``admit`` scales or rejects it where it enters a session, and ``inspect`` returns what is
known of one that a session holds already (see ``indus_nb.models.apis.conforming``).

What this module promises of images, which may be made to do harm: nothing but the decoder of the kind that the first
bytes tell is used, and of several frames the first; what decoding takes is estimated from the header, and rejected
above ``MAX_PIXELS`` and ``MAX_UNPACKED_BYTES``; one image of the process is decoded at a time, in a thread; a cancelled
caller leaves the queue at once.
"""

from __future__ import annotations

import asyncio
import base64
import io
import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from indus_nb.base.errors import UsageError
from indus_nb.base.messages import Attachment, ImageContent, TextContent, check_image, image_type

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from PIL.Image import Image
    from PIL.ImageFile import ImageFile

MAX_SIDE = 1568
"""Largest side of an image that is sent, in pixels: of larger ones Claude sees no more, by Anthropic's documents."""
MAX_SENT_PIXELS = 1_150_000
"""Most pixels of an image that is sent, from the same source."""
PIXELS_A_TOKEN = 750
"""Pixels that models count as a token, about."""
MAX_ENCODED_BYTES = 5 * 1024 * 1024
"""Bytes of base64 in one image, as the Anthropic API counts them."""
MAX_UNSCALED_SIDE = 8000
MAX_PIXELS = 40_000_000
"""Pixels that are decoded at most; of a JPEG, which may be decoded at a fraction of its size, at that size."""
MAX_UNPACKED_BYTES = 400_000_000
"""Most memory for decoding, all copies of the pixels counted."""
_MAX_BYTES = 4_500_000 * 3 // 4  # of a scaled image: its base64 leaves some room to MAX_ENCODED_BYTES
_MAX_KNOWN = 4096
_BYTES_PER_PIXEL = {"image/png": 8, "image/gif": 8, "image/webp": 16}  # as measured; libwebp keeps two canvases
_WAIT_SECONDS = 0.05
_ResultT = TypeVar("_ResultT")


class ImageError(ValueError):
    """An image that no model can be shown; the text is a whole sentence that names it."""


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """Facts about an image's data; ``problem`` is the reason why no API would accept it."""

    mime_type: str | None = None
    width: int = 0
    height: int = 0
    encoded_bytes: int = 0
    problem: str | None = None


def image_type_of(image: ImageContent) -> str | None:
    """Return the MIME type by the image's bytes, whatever is declared; ``None`` for an unknown one."""
    try:
        return image_type(base64.b64decode((image.data or "")[:16]))
    except ValueError:
        return None


def fit(
    data: bytes, name: str, *, resize: bool = True, stop: threading.Event | None = None
) -> tuple[ImageContent, str]:
    """Make an image small enough for every API.

    Args:
        resize: whether it may be scaled; otherwise it stays as it is, or is rejected
        stop: set when its caller is cancelled

    Returns:
        The image, and a note on both sizes if it was scaled.

    Raises:
        ImageError: it is no image, cannot be decoded, or is too large and may not be scaled.
    """
    mime_type = image_type(data[:12])
    if mime_type is None:
        raise ImageError(f"{name} holds no image. PNG, JPEG, GIF and WebP are known.")
    fitted = _in_turn(lambda: _fitted(data, mime_type, name, resize=resize), stop)
    image = ImageContent(data=base64.b64encode(fitted.data).decode("ascii"), mime_type=fitted.mime_type)
    _remember(image, ImageFacts(fitted.mime_type, fitted.width, fitted.height, len(image.data or "")))
    return image, fitted.note


def fit_picture(picture: Image, name: str, *, resize: bool = True) -> ImageContent:
    """Make an image of Pillow's small enough for every API.

    Args:
        picture: The image; it is loaded, and stays as it is.
        resize: whether it may be scaled; otherwise it keeps its size, or is rejected

    Returns:
        The image, as a JPEG if it was read from one, else as a PNG where that is small enough.

    Raises:
        ImageError: it cannot be loaded or encoded, or is too large.
    """

    def made() -> _Fitted:
        from PIL import ImageOps

        if picture.width * picture.height > MAX_PIXELS:
            raise ImageError(f"{name} is too large: {picture.width} x {picture.height} pixels. Make it smaller first.")
        turned = ImageOps.exif_transpose(picture)  # a copy, also where nothing is to be turned
        if resize:
            return _scaled(turned, turned.size, prefer_jpeg=picture.format == "JPEG")
        buffer = io.BytesIO()
        turned.save(buffer, "PNG")
        _fits(turned.size, buffer.tell(), name, resize=False)
        return _Fitted(buffer.getvalue(), "image/png", *turned.size)

    try:
        fitted = _in_turn(made, None)
    except ImageError:
        raise
    except Exception as error:  # what Pillow raises for images that it cannot encode has no common base
        raise ImageError(f"{name} cannot be encoded: {error}.") from error
    return ImageContent(data=base64.b64encode(fitted.data).decode("ascii"), mime_type=fitted.mime_type)


def size_sent(data: bytes, name: str) -> tuple[int, int]:
    """Return the width and height with which an image is sent, by its header.

    Args:
        data: The image, of a kind that models accept.

    Raises:
        ImageError: its header cannot be read.
    """

    def size() -> tuple[int, int]:
        with _opened(data, image_type(data[:12]) or "") as opened:
            return opened.size

    try:
        width, height = _in_turn(size, None)
    except ImageError:
        raise
    except Exception as error:  # what Pillow raises for bad files has no common base
        raise ImageError(f"{name} cannot be decoded: {error}.") from error
    share = min(1, _side_sent((width, height)) / max(width, height))
    return round(width * share), round(height * share)


def thumbnail(image: ImageContent, side: int) -> ImageContent | None:
    """Make a small picture of an image.

    Args:
        image: The image, which may be any.
        side: How many pixels it may be wide and high.

    Returns:
        A PNG; ``None`` of what cannot be decoded, or would be too large for that.
    """

    def scaled() -> bytes:
        data = base64.b64decode(image.data or "", validate=True)
        kind = image_type(data[:12]) or ""
        opened = _opened(data, kind)
        _check_unpacked(opened, kind, opened.size, "The image")
        opened.draft("RGB", (side, side))
        small = opened.convert("RGBA" if opened.has_transparency_data else "RGB")
        small.thumbnail((side, side))
        buffer = io.BytesIO()
        small.save(buffer, "PNG", optimize=True)
        return buffer.getvalue()

    try:
        made = _in_turn(scaled, None)
    except (ImageError, KeyError, OSError, ValueError, SyntaxError):
        return None
    return ImageContent(data=base64.b64encode(made).decode("ascii"), mime_type="image/png")


@cache
def _decoder() -> ThreadPoolExecutor:
    """Return the only thread that decodes: several would each keep memory of their own."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(1, "indus_nb images")


def _in_turn(work: Callable[[], _ResultT], stop: threading.Event | None) -> _ResultT:
    """Decode after all images before it; raise ``ImageError`` when its caller has been cancelled."""
    future = _decoder().submit(work)
    while True:
        try:
            return future.result(timeout=_WAIT_SECONDS)
        except TimeoutError:
            if stop is not None and stop.is_set():
                future.cancel()
                raise ImageError("An image was not read: the call ended before it was decoded.") from None


async def _in_thread(work: Callable[[threading.Event], _ResultT]) -> _ResultT:
    """Run ``work`` in a thread; the event passed to it is set once the caller no longer waits."""
    stop = threading.Event()
    try:
        return await asyncio.to_thread(work, stop)
    finally:
        stop.set()


def _opened(data: bytes, mime_type: str) -> ImageFile:
    """Open the image and read its header. Pillow's own ``open`` would try one decoder after the other."""
    try:
        from PIL import GifImagePlugin, JpegImagePlugin, PngImagePlugin, WebPImagePlugin
    except ModuleNotFoundError:
        from indus_nb.base.installed import how_to_install

        what = f"Images need the package Pillow, which is not installed: {how_to_install('images')}."
        raise ImageError(what) from None

    decoders: Mapping[str, type[ImageFile]] = {
        "image/png": PngImagePlugin.PngImageFile,
        "image/jpeg": JpegImagePlugin.JpegImageFile,
        "image/gif": GifImagePlugin.GifImageFile,
        "image/webp": WebPImagePlugin.WebPImageFile,
    }
    return decoders[mime_type](io.BytesIO(data))


def _check_unpacked(opened: ImageFile, mime_type: str, size: tuple[int, int], name: str) -> None:
    if _is_too_large(opened, mime_type, size):
        raise ImageError(
            f"{name} was not read: its image is too large when unpacked, {size[0]} x {size[1]} pixels. Make it smaller "
            "first."
        )


def _is_too_large(opened: ImageFile, mime_type: str, size: tuple[int, int]) -> bool:
    """Return whether decoding exceeds a limit; ``size`` is the header's, ``opened.size`` the decoded one."""
    pixels, decoded = size[0] * size[1], opened.size[0] * opened.size[1]
    if (each := _BYTES_PER_PIXEL.get(mime_type)) is None:
        # Of a JPEG in several scans all coefficients are kept, two bytes each, however small it is decoded.
        taken = 2 * len(opened.getbands()) * pixels + 4 * decoded
    else:
        taken = each * decoded
    return decoded > MAX_PIXELS or taken > MAX_UNPACKED_BYTES


@dataclass(frozen=True, slots=True)
class _Fitted:
    data: bytes
    mime_type: str
    width: int
    height: int
    note: str = ""


def _fitted(data: bytes, mime_type: str, name: str, *, resize: bool) -> _Fitted:
    try:
        with _opened(data, mime_type) as opened:
            from PIL import ImageOps

            width, height = opened.size
            fits = _fits(opened.size, len(data), name, resize=resize)
            if not fits:
                opened.draft(None, (MAX_SIDE, MAX_SIDE))  # JPEG can be decoded at a fraction of its size
            _check_unpacked(opened, mime_type, (width, height), name)
            opened.load()
            if fits:
                return _Fitted(data, mime_type, width, height)
            ImageOps.exif_transpose(opened, in_place=True)
            if (opened.width > opened.height) != (width > height):
                width, height = height, width
            return _scaled(opened, (width, height), prefer_jpeg=mime_type == "image/jpeg")
    except ImageError:
        raise
    except Exception as error:  # what Pillow raises for bad files has no common base
        raise ImageError(f"{name} looks like {mime_type} but cannot be decoded: {error}.") from error


def _fits(size: tuple[int, int], count: int, name: str, *, resize: bool) -> bool:
    """Return whether an image may stay as it is; raise ``ImageError`` when it can neither stay nor be scaled."""
    if resize:
        # A side that was rounded when the image was scaled may be one too long: it is not scaled again for that.
        return max(size) <= min(MAX_SIDE, _side_sent(size) + 1) and count <= _MAX_BYTES
    max_bytes = MAX_ENCODED_BYTES * 3 // 4
    if max(size) > MAX_UNSCALED_SIDE or count > max_bytes:
        raise ImageError(
            f"{name} is too large: {size[0]} x {size[1]} pixels, {count / 1e6:.1f} MB. Models take up to "
            f"{MAX_UNSCALED_SIDE} pixels a side and {max_bytes / 1e6:.1f} MB. Make it smaller, or let it be scaled "
            "(setting images.autoResize)."
        )
    return True


def _side_sent(size: tuple[int, int]) -> int:
    """Return the longest side with which an image of this size is sent."""
    width, height = size
    share = math.sqrt(MAX_SENT_PIXELS / (width * height))
    return min(MAX_SIDE, int(max(size) * min(1, share)))


def _scaled(image: Image, size: tuple[int, int], *, prefer_jpeg: bool) -> _Fitted:
    from PIL import Image

    width, height = size
    if image.mode not in ("RGB", "RGBA", "L"):
        image = image.convert("RGBA" if image.has_transparency_data else "RGB")
    side = _side_sent(size)
    while True:
        image.thumbnail((side, side), Image.Resampling.LANCZOS)
        for encoded, encoded_type in _encodings(image, prefer_jpeg=prefer_jpeg):
            if len(encoded) <= _MAX_BYTES:
                note = (
                    f"\n[Shown with {image.width} x {image.height} of {width} x {height} pixels. "
                    f"Multiply coordinates by {width / image.width:.2f} to get those of the file.]"
                )
                scaled = image.width != width
                return _Fitted(encoded, encoded_type, image.width, image.height, note if scaled else "")
        side = max(image.size) * 3 // 4


def _encodings(image: Image, *, prefer_jpeg: bool) -> Iterator[tuple[bytes, str]]:
    """Yield encodings of the image, from the largest to the smallest."""
    if not prefer_jpeg:
        buffer = io.BytesIO()
        image.save(buffer, "PNG", optimize=True)
        yield buffer.getvalue(), "image/png"
    for quality in (85, 60, 40):
        buffer = io.BytesIO()
        image.convert("RGB").save(buffer, "JPEG", quality=quality)
        yield buffer.getvalue(), "image/jpeg"


# --- where images enter a session ------------------------------------------------------------------------------------


class Admission:
    """Admission of images to one session, one call after the other, so that messages keep their order."""

    def __init__(self, *, resize: bool = True) -> None:
        self.resize = resize
        self._turn = asyncio.Lock()

    async def admit(self, images: Sequence[ImageContent]) -> list[ImageContent]:
        """Return the images as they may be sent to a model.

        Raises ``UsageError`` naming the first one that no model could be shown.
        """
        async with self._turn:
            if not any(_is_inline(image) for image in images):
                for number, image in enumerate(images, 1):
                    _check(image, _name(number, len(images)))
                return [*images]
            return await _in_thread(lambda stop: self._admitted(images, stop))

    def _admitted(self, images: Sequence[ImageContent], stop: threading.Event) -> list[ImageContent]:
        numbered = enumerate(images, 1)
        return [self._one(image, _name(number, len(images)), stop) for number, image in numbered if not stop.is_set()]

    def _one(self, image: ImageContent, name: str, stop: threading.Event) -> ImageContent:
        actual = image_type_of(image)
        if actual is not None:  # a tool or an extension may call a JPEG a PNG: it is one all the same
            image = image.replace(mime_type=actual)
        _check(image, name)
        if not _is_inline(image):
            return image
        try:
            return fit(base64.b64decode(image.data or ""), name, resize=self.resize, stop=stop)[0]
        except ImageError as error:
            raise UsageError(f"{error} Nothing was sent.") from error


def _name(number: int, count: int) -> str:
    return "The image" if count == 1 else f"Image {number} of {count}"


def _check(image: ImageContent, name: str) -> None:
    try:
        check_image(image)
    except ValueError as error:
        raise UsageError(f"{name} cannot be sent: {error}. Nothing was sent.") from error


async def admit_blocks(
    admission: Admission, blocks: Sequence[TextContent | ImageContent]
) -> list[TextContent | ImageContent]:
    """Return the blocks with their images as an admission accepts them.

    Returns:
        The blocks in their order.

    Raises:
        UsageError: An image cannot be sent.
    """
    images = iter(await admission.admit([block for block in blocks if isinstance(block, ImageContent)]))
    return [next(images) if isinstance(block, ImageContent) else block for block in blocks]


async def admit_attachments(admission: Admission, attachments: Sequence[Attachment]) -> list[Attachment]:
    """Return the attachments with their images as an admission accepts them.

    Returns:
        The attachments in their order.

    Raises:
        UsageError: An image cannot be sent.
    """

    def is_image(attachment: Attachment) -> bool:
        return attachment.type == "image" and bool(attachment.content)

    data = [ImageContent(data=each.content, mime_type=each.mime_type) for each in attachments if is_image(each)]
    images = iter(await admission.admit(data))
    return [_with_image(each, next(images)) if is_image(each) else each for each in attachments]


def _with_image(attachment: Attachment, image: ImageContent) -> Attachment:
    if image.data == attachment.content:
        return attachment
    size = len(image.data or "") * 3 // 4
    return attachment.replace(content=image.data, mime_type=image.mime_type, size=size)


async def fit_output(
    admission: Admission, blocks: Sequence[TextContent | ImageContent], name: str
) -> list[TextContent | ImageContent]:
    """Replace images of a tool's output by ones that a model can be shown, or by a note.

    Args:
        name: What the notes call the tool.

    Returns:
        The blocks in their order.
    """
    fitted: list[TextContent | ImageContent] = []
    for block in blocks:
        try:
            fitted += [block] if isinstance(block, TextContent) else await admission.admit([block])
        except UsageError as error:
            reason = str(error).removesuffix(" Nothing was sent.")
            fitted.append(TextContent(text=f"(An image that {name} gave was left out. {reason})"))
    return fitted


# --- what a session holds already ------------------------------------------------------------------------------------

_known: OrderedDict[tuple[int, int, str], ImageFacts] = OrderedDict()


async def inspect(images: Iterable[ImageContent]) -> dict[int, ImageFacts]:
    """Return the facts of each image by its ``id()``; decode in a thread what is not cached."""
    inline = [image for image in images if _is_inline(image)]
    new = [image for image in inline if _key(image) not in _known]
    if new:
        await _in_thread(lambda stop: _look_at(new, stop))
    return {id(image): _known.get(_key(image)) or _facts(image) for image in inline}


def _look_at(images: Iterable[ImageContent], stop: threading.Event) -> None:
    for image in images:
        facts = _facts(image, stop)
        if stop.is_set():
            return
        _remember(image, facts)


def _remember(image: ImageContent, facts: ImageFacts) -> None:
    _known[_key(image)] = facts
    while len(_known) > _MAX_KNOWN:
        _known.popitem(last=False)


def _facts(image: ImageContent, stop: threading.Event | None = None) -> ImageFacts:
    encoded = image.data or ""
    try:
        data = base64.b64decode(encoded, validate=True)
    except ValueError as error:  # of which what is said of a length or a sign is one
        return ImageFacts(encoded_bytes=len(encoded), problem=f"its data is no base64 ({error})")
    mime_type = image_type(data[:12])
    if mime_type is None:
        return ImageFacts(encoded_bytes=len(encoded), problem="it is none of PNG, JPEG, GIF and WebP")
    try:
        width, height, problem = _in_turn(lambda: _size(data, mime_type), stop)
    except Exception as error:  # noqa: BLE001 - what Pillow raises for bad files has no common base
        return ImageFacts(mime_type, encoded_bytes=len(encoded), problem=f"it cannot be decoded ({error})")
    return ImageFacts(mime_type, width, height, len(encoded), problem)


def _size(data: bytes, mime_type: str) -> tuple[int, int, str | None]:
    with _opened(data, mime_type) as opened:
        width, height = opened.size
        if _is_too_large(opened, mime_type, opened.size):
            return width, height, f"it has {width} x {height} pixels"
        opened.load()
    return width, height, None


def _is_inline(image: ImageContent) -> bool:
    return image.source is None


def _key(image: ImageContent) -> tuple[int, int, str]:
    """Build a cache key that does not keep the data; text caches its hash, so the second time is cheap."""
    data = image.data or ""
    return hash(data), len(data), data[-16:]

"""Images for tests: small ones that can be decoded, and such as no API takes."""

from __future__ import annotations

import base64
import io
import os

from indus_nb.base.messages import ImageContent


def encoded(width: int = 1, height: int = 1, kind: str = "PNG", *, noise: bool = False) -> str:
    """The base64 of an image; with ``noise`` it cannot be compressed."""
    from PIL import Image

    image = Image.new("RGB", (width, height), "red")
    if noise:
        image = Image.frombytes("RGB", (width, height), os.urandom(width * height * 3))
    buffer = io.BytesIO()
    image.save(buffer, kind)
    return base64.b64encode(buffer.getvalue()).decode()


def picture(width: int = 1, height: int = 1, kind: str = "PNG", *, noise: bool = False) -> ImageContent:
    """That image as a block of a message."""
    return ImageContent(data=encoded(width, height, kind, noise=noise), mime_type=f"image/{kind.lower()}")


DOT = encoded()
"""A red pixel, as PNG in base64."""

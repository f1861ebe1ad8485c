"""Images that the user attaches: from files, or from variables that can be drawn."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from indus_nb.base.errors import UsageError
from indus_nb.base.messages import ImageContent
from indus_nb.tools.files.read import fit_image, read_image
from indus_nb.tools.tool import ToolError


def image_of(wanted: str, shell: Any) -> ImageContent:
    """Find the image that a user names, and scale it down for a model.

    Args:
        wanted: The name of a variable of the user's, or else of a file.

    Returns:
        The image, with its bytes in base64.

    Raises:
        UsageError: There is no such variable or file, or it holds no image.
    """
    namespace: Mapping[str, Any] = shell.user_ns
    try:
        if wanted.isidentifier() and wanted in namespace:
            return fit_image(_bytes_of(namespace[wanted], shell), wanted)[0]
        path = Path(wanted).expanduser()
        found = read_image(path, wanted)
    except ToolError as error:
        raise UsageError(str(error)) from error
    except OSError as error:
        raise UsageError(
            f"--image {wanted}: there is no such variable, and no such file ({error.strerror or error})."
        ) from error
    images = [block for block in found.content if isinstance(block, ImageContent)] if found is not None else []
    if not images:
        raise UsageError(f"--image {wanted}: the file holds no image. PNG, JPEG, GIF and WebP are known.")
    return images[0]


def _bytes_of(value: Any, shell: Any) -> bytes:
    """Return an image's bytes: as given, drawn by its own method, or made of an array of pixels."""
    if isinstance(value, bytes):
        return value
    bundle, _ = shell.display_formatter.format(value, include={"image/png", "image/jpeg"})
    for kind in ("image/png", "image/jpeg"):
        data = cast("Mapping[str, Any]", bundle).get(kind)
        if data is not None:
            return base64.b64decode(data) if isinstance(data, str) else bytes(data)
    buffer = io.BytesIO()
    if hasattr(value, "savefig"):
        value.savefig(buffer, format="png")
        return buffer.getvalue()
    if hasattr(value, "__array_interface__"):
        from PIL import Image

        try:
            Image.fromarray(value).save(buffer, "PNG")
        except (TypeError, ValueError, OSError) as error:
            raise UsageError(f"The array cannot be shown as an image: {error}.") from error
        return buffer.getvalue()
    raise UsageError(
        f"A {type(value).__name__} cannot be shown as an image. "
        "Give bytes, a Pillow image, a figure or an array of pixels."
    )

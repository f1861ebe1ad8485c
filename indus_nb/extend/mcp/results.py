"""Results of servers' tools as a model reads them: text and images, within the limits of tool output."""

from __future__ import annotations

import base64
import contextlib
import json
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from indus_nb.base.events import ToolOutput
from indus_nb.base.messages import ImageContent, TextContent, image_type
from indus_nb.base.wire import JsonObject, clean_text
from indus_nb.tools.files.read import fit_image
from indus_nb.tools.shortening import first_part
from indus_nb.tools.tool import ToolError
from indus_nb.tools.truncate import size_text

if TYPE_CHECKING:
    import mcp_types

_MAX_IMAGES = 20


def output_of(result: mcp_types.CallToolResult, tool: str, stop: threading.Event) -> ToolOutput:
    """Convert a server's result to the output for a model.

    Reads images, so call it in a thread.

    Args:
        stop: Set when no caller waits for it any more.
    """
    parts: list[str | ImageContent] = []
    images = _Images(tool, stop)
    for block in result.content:
        if block.type == "text":
            parts.append(block.text)
        elif block.type == "image":
            parts += images.read(block.data, block.mime_type)
        elif block.type == "audio":
            parts.append(f"[Audio, {block.mime_type}: cannot be shown]")
        elif block.type == "resource_link":
            parts.append(
                f"[Resource {block.name}: {block.uri}]" + (f" {block.description}" if block.description else "")
            )
        else:
            parts += _resource(block.resource, images)
    if result.structured_content is not None and not _says(parts, result.structured_content):
        parts.append(json.dumps(result.structured_content, ensure_ascii=False))
    texts = [clean_text(part) for part in parts if isinstance(part, str) and part.strip()]
    if images.count > _MAX_IMAGES:
        texts.append(f"[{images.count - _MAX_IMAGES} of {images.count} images are left out]")
    output = first_part("\n".join(texts), "mcp")
    if output.ends is None and images.count <= _MAX_IMAGES:
        kept = [part for part in parts if not isinstance(part, str) or part.strip()]
        content = [TextContent(text=clean_text(part)) if isinstance(part, str) else part for part in kept]
    else:
        shown = [part for part in parts if isinstance(part, ImageContent)]
        content = [*(output.content if texts else []), *shown]
    return output.replace(content=content or [TextContent(text="(no output)")])


class _Images:
    """Reads the images of one result as models accept them: with one that none can read, all later requests fail."""

    def __init__(self, tool: str, stop: threading.Event) -> None:
        self.count = 0
        self._tool = tool
        self._stop = stop

    def read(self, encoded: str, mime_type: str) -> list[str | ImageContent]:
        """Return an image and a note on it; nothing once there were too many."""
        self.count += 1
        if self.count > _MAX_IMAGES or self._stop.is_set():
            return []
        name = f"from {self._tool}"
        try:
            data = base64.b64decode(encoded, validate=True)
            actual = image_type(data[:12])
            if actual is None:
                return [f"[An image {name}, {mime_type}, cannot be shown: models take PNG, JPEG, GIF and WebP]"]
            image, sizes = fit_image(data, name, stop=self._stop)
        except ValueError as error:  # no base64
            return [f"[An image {name} cannot be shown: {error}]"]
        except ToolError as error:
            return [f"[{error}]"]
        return [f"Image {name} [{actual}]{sizes}", image]


def _resource(
    resource: mcp_types.TextResourceContents | mcp_types.BlobResourceContents, images: _Images
) -> list[str | ImageContent]:
    label = f"[Resource {resource.uri}]"
    blob: str | None = getattr(resource, "blob", None)
    if blob is None:
        return [f"{label}\n{getattr(resource, 'text', '')}"]
    if (resource.mime_type or "").startswith("image/"):
        return [label, *images.read(blob, resource.mime_type or "")]
    return [f"{label} {resource.mime_type or 'binary'}, {size_text(len(blob) * 3 // 4)}: cannot be shown"]


def _says(parts: Sequence[str | ImageContent], structured: Any) -> bool:
    """Return whether the text is the structured content once more, as the protocol advises."""
    texts = [part for part in parts if isinstance(part, str)]
    values: list[Any] = [*texts]
    for text in texts:
        with contextlib.suppress(ValueError, RecursionError):
            values.append(json.loads(text))
    inner = structured
    if isinstance(structured, dict) and list(cast("JsonObject", structured)) == ["result"]:
        inner = cast("JsonObject", structured)["result"]  # how servers wrap what is no object
    return structured in values or inner in values or inner in (texts, values[len(texts) :])

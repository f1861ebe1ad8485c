"""Requests of a client: the parameters of each method, and prompts as the session takes them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote, urlsplit

from indus_nb.base.messages import Attachment, ImageContent, check_image
from indus_nb.base.wire import JsonObject
from indus_nb.base.wire_model import WireModel, wire_field
from indus_nb.front.console.acp.peer import INVALID_PARAMS, RpcError
from indus_nb.tools.files.paths import mention

_MAX_PATH_CHARACTERS = 4_000
_SESSION_ID = r"^[\w-]{1,200}$"


class Params(WireModel, unknown="ignored"):
    """Parameters of a method; unknown ones are ignored."""


class Elicitation(Params):
    """The kinds of forms that the client can show."""

    form: JsonObject | None = None


class ClientFiles(Params):
    """Capabilities of the client for files, as its editor has them."""

    read_text_file: bool = False
    write_text_file: bool = False


class ClientCapabilities(Params):
    """Capabilities of the client."""

    fs: ClientFiles | None = None
    terminal: bool = False
    elicitation: Elicitation | None = None


class Initialize(Params):
    """Parameters of the handshake; whatever version the client names, the response names ours."""

    client_capabilities: ClientCapabilities = wire_field(default_factory=ClientCapabilities)


class Authenticate(Params):
    """Parameters of ``authenticate``."""

    method_id: str


def _absolute(path: str | None) -> str | None:
    if path is not None and (not Path(path).is_absolute() or "\0" in path or len(path) > _MAX_PATH_CHARACTERS):
        raise ValueError(f"it has to be an absolute path of at most {_MAX_PATH_CHARACTERS} characters")
    return path


class NewSession(Params):
    """A new session in a directory, with servers of the client's."""

    cwd: str = wire_field(check=_absolute)
    mcp_servers: list[JsonObject] = wire_field(default_factory=list[JsonObject])


class OldSession(NewSession):
    """Parameters of a request that opens a saved session."""

    session_id: str = wire_field(pattern=_SESSION_ID)


class OfSession(Params):
    """Parameters of a request about one session."""

    session_id: str = wire_field(pattern=_SESSION_ID)


class ListSessions(Params):
    """Parameters of the request that lists sessions."""

    cwd: str | None = wire_field(default=None, check=_absolute)
    cursor: str | None = wire_field(default=None, pattern=r"^\d{1,9}$")


class Prompt(OfSession):
    """Parameters of a prompt."""

    prompt: list[JsonObject]


class SetMode(OfSession):
    """Parameters of the request that chooses an approval mode."""

    mode_id: str


class SetConfigOption(OfSession):
    """Parameters of the request that sets an option."""

    config_id: str
    value: Any


def prompt_parts(blocks: Sequence[JsonObject]) -> tuple[str, list[ImageContent], list[Attachment]]:
    """Split a prompt into its text, images and attachments.

    Returns:
        The text, with links to resources in it; the images; embedded texts, as attachments.

    Raises:
        RpcError: A block is of a kind that no model here is given, or is no such block.
    """
    text, was_link = "", False
    images: list[ImageContent] = []
    attachments: list[Attachment] = []
    for number, block in enumerate(blocks):
        match block:
            case {"type": "text", "text": str(piece)}:
                text, was_link = _joined(text, piece, apart=was_link), False
            case {"type": "image", "data": str(data), "mimeType": str(kind)}:
                images.append(_image(data, kind, number))
            case {"type": "resource_link", "uri": str(uri)}:
                text, was_link = _joined(text, _link(uri, block.get("name")), apart=True), True
            case {"type": "resource", "resource": {"uri": str(uri), "text": str(inner), **more}}:
                kind = more.get("mimeType")
                attachments.append(
                    Attachment(
                        id=uri,
                        file_name=_path_of(uri) or uri,
                        mime_type=kind if isinstance(kind, str) else "text/plain",
                        size=len(inner),
                        extracted_text=inner,
                    )
                )
            case {"type": "resource", "resource": {"uri": str(), "blob": str(data), "mimeType": str(kind)}}:
                images.append(_image(data, kind, number))
            case _:
                shown = str(block.get("type"))[:50]
                raise RpcError(
                    INVALID_PARAMS,
                    f"Block {number} of the prompt is of type {shown!r} or lacks what that needs: send text, image, "
                    "resource_link, or resource with a text. Nothing was sent.",
                )
    return text, images, attachments


def _joined(before: str, text: str, *, apart: bool) -> str:
    touch = bool(before and text) and not (before[-1].isspace() or text[0].isspace())
    return f"{before}{' ' if apart and touch else ''}{text}"


def _image(data: str, kind: str, number: int) -> ImageContent:
    try:
        image = ImageContent(data=data, mime_type=kind)
        check_image(image)
    except ValueError as error:
        raise RpcError(
            INVALID_PARAMS, f"Block {number} of the prompt is no image: {error}. Nothing was sent."
        ) from error
    return image


def _link(uri: str, name: object) -> str:
    path = _path_of(uri)
    if path is not None:
        return mention(path)
    return f"[{name}]({uri})" if isinstance(name, str) and name else uri


def _path_of(uri: str) -> str | None:
    """Return the path of a ``file:`` address."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    return unquote(parts.path) if parts.scheme == "file" and parts.path else None


def mcp_configs(servers: Sequence[JsonObject]) -> dict[str, JsonObject]:
    """Convert servers of the client's into entries of ``mcpServers`` of the settings.

    Raises:
        RpcError: A server is of a kind that cannot be used here.
    """
    configs: dict[str, JsonObject] = {}
    for server in servers:
        match server:
            case {"name": str(name), "command": str(command)}:
                configs[name] = {"command": command, "args": server.get("args") or [], "env": _pairs(server.get("env"))}
            case {"type": "http", "name": str(name), "url": str(url)}:
                configs[name] = {"url": url, "headers": _pairs(server.get("headers"))}
            case _:
                shown = str(server.get("name"))[:50]
                raise RpcError(
                    INVALID_PARAMS,
                    f"The MCP server {shown!r} is neither a command nor of type http. Nothing was opened.",
                )
    return configs


def _pairs(listed: object) -> dict[str, str]:
    pairs = cast("list[object]", listed) if isinstance(listed, list) else []
    named: dict[str, str] = {}
    for pair in pairs:
        match pair:
            case {"name": str(name), "value": str(value)}:
                named[name] = value
            case _:
                pass
    return named

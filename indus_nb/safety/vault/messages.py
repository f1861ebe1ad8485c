"""Messages and tools' outputs without secrets."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, TypeVar

from indus_nb.base.events import ToolOutput
from indus_nb.base.messages import (
    Attachment,
    BashExecutionMessage,
    CustomMessage,
    ImageContent,
    TextContent,
    ToolResultMessage,
    UserMessage,
)
from indus_nb.safety.vault.stream import without_open_end
from indus_nb.safety.vault.vault import Vault

MessageT = TypeVar("MessageT", bound=UserMessage | CustomMessage | ToolResultMessage | BashExecutionMessage)


def hidden_message(vault: Vault, message: MessageT) -> MessageT:
    """Return a message of a user, an extension or a tool with placeholders in the place of secrets.

    Returns:
        The message itself if it holds none, else a copy.
    """
    if not vault.redact:
        return message
    changed: dict[str, Any] = {}
    if isinstance(message, BashExecutionMessage):
        changed = {"command": vault.hide(message.command, typed=True), "output": vault.hide(message.output)}
    else:
        content, typed = message.content, isinstance(message, UserMessage)
        hidden = vault.hide(content, typed=typed) if isinstance(content, str) else _blocks(vault, content, typed=typed)
        changed["content"] = hidden
    if isinstance(message, UserMessage) and message.attachments:
        changed["attachments"] = [_attachment(vault, each) for each in message.attachments]
    if isinstance(message, CustomMessage | ToolResultMessage) and message.details is not None:
        changed["details"] = vault.hide_in(message.details)
    if isinstance(message, ToolResultMessage) and message.shortened is not None:
        changed["shortened"] = vault.hide(message.shortened)
    return _updated(message, changed)


def hidden_output(vault: Vault, output: ToolOutput, *, partial: bool = False) -> ToolOutput:
    """Return a tool's output with placeholders in the place of secrets.

    Args:
        partial: Whether more of it comes: what may be the beginning of a secret is left out at its end then.

    Returns:
        The output itself if it holds none, else a copy.
    """
    if not vault.redact:
        return output
    blocks = output.content
    if partial and blocks and isinstance(last := blocks[-1], TextContent):
        vault.refresh()
        shown = without_open_end(last.text, vault)
        blocks = [*blocks[:-1], last if shown == last.text else last.replace(text=shown)]
    details = output.details if output.details is None else vault.hide_in(output.details)
    ends = output.ends and [vault.hide(end) for end in output.ends]
    return _updated(output, {"content": _blocks(vault, blocks), "details": details, "ends": ends})


def _updated(model: Any, changed: dict[str, Any]) -> Any:
    update = {name: value for name, value in changed.items() if value is not getattr(model, name)}
    update = {name: value for name, value in update.items() if value != getattr(model, name)}
    return model.replace(**update) if update else model


def _blocks(
    vault: Vault, blocks: Sequence[TextContent | ImageContent], *, typed: bool = False
) -> list[TextContent | ImageContent]:
    hidden: list[TextContent | ImageContent] = []
    for block in blocks:
        text = vault.hide(block.text, typed=typed) if isinstance(block, TextContent) else None
        same = text is None or not isinstance(block, TextContent) or text == block.text
        hidden.append(block if same else block.replace(text=text))
    return hidden


def _attachment(vault: Vault, attachment: Attachment) -> Attachment:
    changed: dict[str, Any] = {
        "file_name": vault.hide(attachment.file_name),
        "extracted_text": attachment.extracted_text and vault.hide(attachment.extracted_text),
    }
    if attachment.type != "image" and attachment.content:
        try:
            text = base64.b64decode(attachment.content, validate=True).decode()
        except ValueError:
            text = None
        if text is not None and (hidden := vault.hide(text)) != text:
            changed["content"] = base64.b64encode(hidden.encode()).decode()
            changed["size"] = len(hidden.encode())
    if attachment.preview and attachment.type != "image":
        changed["preview"] = vault.hide(attachment.preview)
    if all(value == getattr(attachment, name) for name, value in changed.items()):
        return attachment
    fields = {name: getattr(attachment, name) for name in Attachment.wire_fields}
    return Attachment(**{**fields, **changed})  # what it is shown as is made anew

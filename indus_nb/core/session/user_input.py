"""From what a user wrote to the message that the model is shown.

What this module promises: a message that cannot be used (empty, with images that no model could be shown) is rejected
with ``UsageError`` before anything has happened. Extensions see the text as it was written; skills and prompt templates
are expanded afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from indus_nb.base.errors import UsageError
from indus_nb.base.images import Admission, admit_attachments, admit_blocks
from indus_nb.base.messages import Attachment, CustomMessage, ImageContent, TextContent, UserMessage, text_of
from indus_nb.base.wire import JsonObject
from indus_nb.core.session.hooks import InputSource, UserPrompt
from indus_nb.core.session.state import SessionState
from indus_nb.core.session.toolbox import Toolbox

InputT = TypeVar("InputT", UserMessage, CustomMessage)


def user_message(
    text: str, images: Sequence[ImageContent] = (), attachments: Sequence[Attachment] | None = None
) -> UserMessage:
    """Make the message of a user.

    Args:
        attachments: files; the text of documents, and the others as images, are shown to the model.

    Raises:
        UsageError: There is neither text nor anything else in it.
    """
    if not text.strip() and not images and not attachments:
        raise UsageError("The message is empty. Write something, or attach an image.")
    content = [TextContent(text=text), *images]
    # A field that is given has its validator called, for which pydantic would be imported.
    return UserMessage(content=content, attachments=list(attachments)) if attachments else UserMessage(content=content)


def images_of(message: UserMessage | CustomMessage) -> list[ImageContent]:
    """Return the images among the content of a message."""
    content = [] if isinstance(message.content, str) else message.content
    return [block for block in content if isinstance(block, ImageContent)]


class UserInput:
    """Admits, expands and hands to extensions what the user of one session writes."""

    def __init__(self, state: SessionState, toolbox: Toolbox, images: Admission) -> None:
        self._state = state
        self._toolbox = toolbox
        self._images = images

    async def admit(self, message: UserMessage) -> UserMessage:
        """Return the message with images that a model can be shown.

        Raises ``UsageError`` for others.
        """
        admitted: JsonObject = {}
        if not isinstance(message.content, str):
            admitted["content"] = await admit_blocks(self._images, message.content)
        if message.attachments:
            admitted["attachments"] = await admit_attachments(self._images, message.attachments)
        return message.replace(**admitted)

    async def admit_custom(self, message: CustomMessage) -> CustomMessage:
        """Do the same with a message that is not the user's, and hide the secrets in it."""
        if not isinstance(message.content, str):
            message = message.replace(content=await admit_blocks(self._images, message.content))
        return self._hidden(message)

    async def process(self, message: UserMessage, source: InputSource) -> UserMessage | None:
        """Ask the extensions for their view of a message, and expand it.

        Args:
            source: where it comes from; what an extension sends is not expanded.

        Returns:
            The message that counts; ``None`` when an extension has handled it.

        Raises:
            UsageError: An extension left nothing of it, or put images in that no model could be shown.
        """
        images = images_of(message)
        prompt = await self._state.hooks.input(UserPrompt(text_of(message.content), images), source)
        if prompt is None:
            return None
        admitted = images if prompt.images is images else await self._images.admit(prompt.images)
        processed = user_message(prompt.text, admitted, message.attachments)
        return self._hidden(processed if source == "extension" else self._expanded(processed))

    async def queueable(self, message: UserMessage) -> UserMessage:
        """Admit and expand a message that waits in a queue.

        Raises ``UsageError`` for a command of an extension.
        """
        message = await self.admit(message)
        text = text_of(message.content)
        if self._state.hooks.is_command(text):
            raise UsageError(f"{text.split(maxsplit=1)[0]} is a command and cannot be queued. Send it as a prompt.")
        return self._hidden(self._expanded(message))

    def _hidden(self, message: InputT) -> InputT:
        """Return the message without secrets: also its place in a queue is shown."""
        from indus_nb.safety.vault.messages import hidden_message  # with what only a text needs

        return hidden_message(self._state.settings.vault, message)

    def _expanded(self, message: UserMessage) -> UserMessage:
        text = text_of(message.content)
        if not text.startswith("/"):
            return message
        from indus_nb.core.resources.loading import expand

        return user_message(expand(text, self._toolbox.equipment.resources), images_of(message), message.attachments)

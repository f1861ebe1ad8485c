"""What Jupyter AI starts for its chats: one process of ours, spoken to over the Agent Client Protocol."""

# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUntypedBaseClass=false, reportUnknownParameterType=false
# Jupyter AI brings real-time collaboration into a Lab: only one environment of tests/matrix.py has it.

from __future__ import annotations

from pathlib import Path
from typing import Any

from acp.exceptions import RequestError
from jupyter_ai_acp_client.base_acp_persona import BaseAcpPersona
from jupyter_ai_persona_manager import PersonaDefaults
from jupyterlab_chat.models import Message

from indus_nb.base.own_imports import PROGRAM
from indus_nb.front.console.acp.peer import AUTHENTICATION_REQUIRED

_AVATAR = Path(__file__).with_name("avatar.svg")


class IndusPersona(BaseAcpPersona):
    """The agent as one of Jupyter AI's personas; all chats share one process."""

    program: tuple[str, ...] = (*PROGRAM, "--mode", "acp", "--kernel", "any")
    """That of this environment: what is first on PATH may be another's."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Make the persona of a chat."""
        super().__init__(*args, executable=[*self.program], **kwargs)

    @property
    def defaults(self) -> PersonaDefaults:
        """Its name and picture in the chat."""
        return PersonaDefaults(
            name="Indus",
            description="A coding agent with files, commands and live variables",
            avatar_path=str(_AVATAR),
            system_prompt="",
        )

    async def process_message(self, message: Message) -> None:
        """Answer a message; without a key of any provider say where to put one."""
        try:
            await super().process_message(message)
        except RequestError as error:
            if error.code != AUTHENTICATION_REQUIRED:
                self.send_message(f"The agent could not answer: {error}")
                raise
            self.send_message(f"{error} Then start the Jupyter server again.")

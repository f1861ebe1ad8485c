"""The user's kernel: code on its main thread, its variables, its interrupts, and the cells that ran there.

`tools.UserKernel` is what a session gets; `agent_thread.AgentThread` is the other thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from indus_nb._moved import Renamed

if not TYPE_CHECKING:
    __getattr__ = Renamed(__name__, {"UserKernel": "indus_nb.notebook.kernel.tools:UserKernel"})

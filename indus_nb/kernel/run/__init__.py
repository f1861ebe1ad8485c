"""The user's kernel: code on its main thread, its variables, its interrupts, and the cells that ran there.

`tools.UserKernel` is what a session gets; `agent_thread.AgentThread` is the other thread.
"""

"""Programs confined to a directory: what they may do, what this machine can hold, and the arguments that hold it."""

from __future__ import annotations

from indus_nb.safety.sandbox.policy import MODES, Mode, Policy, SandboxError, make_policy
from indus_nb.safety.sandbox.probe import Machine, machine
from indus_nb.safety.sandbox.sandbox import Confined, Sandbox

__all__ = ["MODES", "Confined", "Machine", "Mode", "Policy", "Sandbox", "SandboxError", "machine", "make_policy"]

"""Programs confined to a directory: the policy, what this machine can enforce, and the arguments that enforce it."""

from __future__ import annotations

from indus_nb.safety.sandbox.confined import Confined
from indus_nb.safety.sandbox.policy import MODES, Mode, Policy, SandboxError, make_policy
from indus_nb.safety.sandbox.probe import Machine, machine
from indus_nb.safety.sandbox.sandbox import Sandbox

__all__ = ["MODES", "Confined", "Machine", "Mode", "Policy", "Sandbox", "SandboxError", "machine", "make_policy"]

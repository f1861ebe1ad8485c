"""Arguments of the kernel's tools, for this process or a kernel that the agent is attached to."""

from __future__ import annotations

from indus_nb.base.wire_model import wire_field
from indus_nb.tools.tool import Arguments


class PythonArguments(Arguments):
    """The arguments of the tool ``python``."""

    code: str = wire_field(description="The code to run, as in a notebook cell: magics and top-level await work")
    timeout: float | None = wire_field(
        default=None, gt=0, finite=True, description="Seconds after which it is interrupted"
    )


class VariablesArguments(Arguments):
    """The arguments of the tool ``variables``."""

    pattern: str = wire_field(
        default="", description="A variable's name for a closer look, or a part of names, or df_*"
    )

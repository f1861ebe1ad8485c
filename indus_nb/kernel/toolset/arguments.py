"""Arguments of the kernel's tools, for this process or a kernel that the agent is attached to."""

from __future__ import annotations

from indus_nb.base.late_models import Field
from indus_nb.tools.tool import Arguments


class PythonArguments(Arguments):
    """The arguments of the tool ``python``."""

    code: str = Field(description="The code to run, as in a notebook cell: magics and top-level await work")
    timeout: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="Seconds after which it is interrupted"
    )


class VariablesArguments(Arguments):
    """The arguments of the tool ``variables``."""

    pattern: str = Field(default="", description="A variable's name for a closer look, or a part of names, or df_*")

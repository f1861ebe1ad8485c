"""tests/snapshots/tool_schemas.json is what models are given of the arguments of the built-in tools.

``INDUS_NB_WRITE_DOCS=1 python -m pytest tests/tools/test_tool_schemas.py`` writes it anew.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from pydantic import BaseModel

from indus_nb import tools
from indus_nb.base.events import ToolOutput
from indus_nb.tools.argument_schemas import schema_of
from indus_nb.tools.jobs import Jobs
from indus_nb.tools.todo import TodoArguments
from indus_nb.tools.tool import FunctionTool

FILE = Path(__file__).parent.parent / "snapshots" / "tool_schemas.json"


def test_the_schemas_of_the_builtin_tools_are_as_they_were(tmp_path: Path) -> None:
    builtin = [tool for tool in tools.builtin_tools(tmp_path).values() if isinstance(tool, FunctionTool)]
    with_jobs = tools.builtin_tools(tmp_path, jobs=Jobs(1)).values()
    builtin += [tool for tool in with_jobs if isinstance(tool, FunctionTool)]
    schemas = {tool.arguments.__name__: tool.spec.parameters for tool in builtin}
    text = json.dumps({**schemas, "TodoArguments": schema_of(TodoArguments)}, indent=2) + "\n"
    if os.environ.get("INDUS_NB_WRITE_DOCS"):
        FILE.write_text(text)
    assert FILE.read_text() == text


def test_a_class_of_pydantics_has_the_schema_that_pydantic_makes() -> None:
    class ReadArguments(BaseModel):
        """What is read."""

        other: int

    async def run(_arguments: ReadArguments, _context: tools.ToolContext) -> ToolOutput:
        raise NotImplementedError

    tool = FunctionTool("read", "Reads.", ReadArguments, run)
    assert tool.spec.parameters == {
        "properties": {"other": {"type": "integer"}},
        "required": ["other"],
        "type": "object",
    }

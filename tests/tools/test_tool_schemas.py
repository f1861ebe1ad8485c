"""indus_nb/tools/schemas.json is what pydantic makes of the arguments' classes.

``INDUS_NB_WRITE_DOCS=1 python -m pytest tests/tools/test_tool_schemas.py`` writes it anew.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from indus_nb import tools
from indus_nb.base.events import ToolOutput
from indus_nb.tools.jobs import Jobs
from indus_nb.tools.todo import TodoArguments
from indus_nb.tools.tool import FunctionTool, made_schema

FILE = Path(tools.__file__).with_name("schemas.json")


def test_the_kept_schemas_of_the_builtin_tools_are_those_of_their_classes(tmp_path: Path) -> None:
    builtin = [tool for tool in tools.builtin_tools(tmp_path).values() if isinstance(tool, FunctionTool)]
    with_jobs = tools.builtin_tools(tmp_path, jobs=Jobs(1)).values()
    builtin += [tool for tool in with_jobs if isinstance(tool, FunctionTool)]
    classes = dict.fromkeys([*(tool.arguments for tool in builtin), TodoArguments])
    text = json.dumps({each.__name__: made_schema(each) for each in classes}, indent=2) + "\n"
    if os.environ.get("INDUS_NB_WRITE_DOCS"):
        FILE.write_text(text)
    assert FILE.read_text() == text


def test_another_class_of_the_same_name_has_its_own_schema() -> None:
    class ReadArguments(tools.tool.Arguments):
        other: int

    async def run(_arguments: ReadArguments, _context: tools.ToolContext) -> ToolOutput:
        raise NotImplementedError

    tool = FunctionTool("read", "Reads.", ReadArguments, run)
    assert tool.spec.parameters == {
        "properties": {"other": {"type": "integer"}},
        "required": ["other"],
        "type": "object",
    }

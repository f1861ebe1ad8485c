"""tests/snapshots/tool_schemas.json is what models are given of the arguments of the built-in tools.

``INDUS_NB_WRITE_DOCS=1 python -m pytest tests/tools/test_tool_schemas.py`` writes it anew.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from pydantic import BaseModel, Field

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


class Tree(BaseModel):
    """A type that holds itself."""

    title: str = "root"
    children: list[Tree] = []


class Plan(BaseModel):
    size: int | None = Field(default=None, ge=1)
    names: list[str] | None = None
    where: int | str | None = None
    default: str = ""
    owner: str | None


def tool_of(arguments: type[BaseModel]) -> FunctionTool[BaseModel]:
    async def run(_arguments: BaseModel, _context: tools.ToolContext) -> ToolOutput:
        raise NotImplementedError

    return FunctionTool("plan", "Plans.", arguments, run)


def test_what_may_be_left_out_is_not_said_to_be_null_and_null_is_taken_for_it() -> None:
    tool = tool_of(Plan)
    assert tool.spec.parameters == {
        "properties": {
            "size": {"minimum": 1, "type": "integer"},
            "names": {"items": {"type": "string"}, "type": "array"},
            "where": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
            "default": {"type": "string"},
            "owner": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "required": ["owner"],
        "type": "object",
    }
    assert tool.check({"size": None, "names": None, "where": None, "owner": None}) == Plan(owner=None)


def test_null_is_taken_for_an_argument_of_a_builtin_tool_that_may_be_left_out(tmp_path: Path) -> None:
    read = tools.builtin_tools(tmp_path)["read"]
    assert read.spec.parameters["properties"]["limit"]["type"] == "integer"
    assert read.check({"path": "a", "limit": None}).limit is None


def test_only_a_type_that_holds_itself_is_referred_to() -> None:
    class Forest(BaseModel):
        first: Tree

    class Order(BaseModel):
        plans: list[Plan]

    assert "$ref" in json.dumps(tool_of(Forest).spec.parameters)
    order = tool_of(Order).spec.parameters
    assert "$" not in json.dumps(order)
    assert order["properties"]["plans"]["items"]["required"] == ["owner"]


def test_an_argument_called_like_a_word_of_schemas_is_resolved_as_any() -> None:
    class Fill(BaseModel):
        default: Plan
        examples: list[Plan]
        enum: Plan

    parameters = tool_of(Fill).spec.parameters
    assert "$" not in json.dumps(parameters)
    assert parameters["properties"]["default"]["required"] == ["owner"]


def test_an_argument_called_title_stays() -> None:
    assert tool_of(Tree).spec.parameters["$defs"]["Tree"]["properties"]["title"] == {
        "default": "root",
        "type": "string",
    }

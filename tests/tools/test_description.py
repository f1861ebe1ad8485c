"""What a call shows and asks: the tool says it, and where there is no tool the arguments do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from indus_nb.tools import CallDescription, FunctionTool, Tool, ToolError, builtin_tools, describe_call, text_output
from indus_nb.tools.function import function_tool
from indus_nb.tools.tool import Arguments


@pytest.fixture
def tools(tmp_path: Path) -> dict[str, Tool]:
    return builtin_tools(tmp_path)


def test_a_command_is_asked_about_in_full(tools) -> None:
    described = describe_call("bash", {"command": "make\nmake test", "timeout": 3}, tools)
    asked = described.approval()
    assert (asked.question, asked.preview) == ("Run this command?", "make\nmake test")
    assert described.has_effects


def test_writing_a_file_shows_the_difference_and_the_file_that_is_reached(tools, tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text("one\ntwo\n")
    (tmp_path / "link.txt").symlink_to("real.txt")
    described = describe_call("write", {"path": "link.txt", "content": "one\nthree\n"}, tools)
    asked = described.approval()
    assert (described.summary, asked.question) == ("link.txt", f"Write {tmp_path.resolve() / 'real.txt'}?")
    assert asked.preview.splitlines()[-2:] == ["-two", "+three"]
    assert [(each.kind, each.what) for each in asked.effects] == [("writes_file", str(tmp_path.resolve() / "real.txt"))]


def test_an_edit_shows_what_goes_and_what_comes_however_the_model_wrote_it(tools) -> None:
    call = {"path": "f.txt", "edits": '[{"oldText": "good", "newText": "better"}]'}
    assert describe_call("edit", call, tools).approval().preview == "-good\n+better\n"


@pytest.mark.parametrize(
    ("name", "arguments", "summary", "details"),
    [
        ("read", {"path": "notes.txt", "offset": 3}, "notes.txt", {"offset": 3}),
        ("grep", {"pattern": "x", "path": "src"}, "src", {"pattern": "x"}),
        ("ls", {}, "", {}),
    ],
)
def test_tools_that_only_read_have_no_effects_and_are_summarised_by_an_argument(
    tools, name, arguments, summary, details
) -> None:
    described = describe_call(name, arguments, tools)
    assert (described.summary, described.details, described.has_effects) == (summary, details, False)


def test_arguments_that_the_tool_rejects_are_shown_and_not_asked_about(tools) -> None:
    for arguments in ({"path": "f.txt"}, {"path": "a\0b", "content": "x"}, {}):
        described = describe_call("write", arguments, tools)
        assert described.summary == arguments.get("path", "")
        with pytest.raises(ToolError):
            described.approval()


def test_a_call_of_an_unknown_tool_is_described_by_its_arguments_and_counts_as_one_with_effects() -> None:
    described = describe_call("deploy", {"where": "here", "url": "https://x.y"})
    assert (described.name, described.summary, described.details) == ("deploy", "https://x.y", {"where": "here"})
    assert (described.code, described.has_effects) == (None, True)
    asked = described.approval()
    assert (asked.question, asked.preview) == ("Call deploy?", '{\n  "where": "here",\n  "url": "https://x.y"\n}')
    assert [(each.kind, each.what) for each in asked.effects] == [("unknown", "tool deploy")]


def test_a_tool_that_describes_nothing_or_fails_at_it_is_described_by_its_arguments() -> None:
    class Silent:
        read_only = True

    class Failing:
        def describe_call(self, arguments: dict[str, Any]) -> CallDescription:
            raise RuntimeError("defect")

    class Wrong:
        def describe_call(self, arguments: dict[str, Any]) -> Any:
            return {"summary": "y"}

    for tool in (Silent(), Failing(), Wrong()):
        described = describe_call("odd", {"path": "x"}, {"odd": tool})
        assert (described.summary, described.has_effects) == ("x", True)


@pytest.mark.parametrize("wrong", [ToolError("by mistake"), RuntimeError("defect"), None])
def test_where_a_tool_fails_to_ask_the_arguments_are_asked_about(wrong: Exception | None) -> None:
    class Target(Arguments):
        target: str

    async def run(arguments: Target, context: Any) -> Any:
        return text_output(arguments.target)

    def approval() -> Any:
        if wrong is not None:
            raise wrong

    tool = FunctionTool("deploy", "", Target, run, describe=lambda default, _: replace(default, approval=approval))
    asked = describe_call("deploy", {"target": "here"}, {"deploy": tool}).approval()
    assert (asked.question, asked.preview) == ("Call deploy?", '{\n  "target": "here"\n}')
    assert not asked.effects  # nothing that could be allowed for good


def test_a_function_is_described_by_the_models_arguments() -> None:
    def convert(amount: float, unit: str = "C") -> float:
        return amount

    described = describe_call("convert", {"amount": "3"}, {"convert": function_tool(convert, read_only=True)})
    assert not described.has_effects
    assert described.approval().preview == '{\n  "amount": "3"\n}'


def test_the_warning_of_a_tool_comes_with_its_question_only() -> None:
    class Shown(Arguments):
        code: str

    async def run(arguments: Shown, context: Any) -> Any:
        return text_output(arguments.code)

    warned: list[str] = []

    def warn(arguments: Shown) -> str:
        warned.append(arguments.code)
        return "It overwrites x."

    described = describe_call("run", {"code": "x = 1"}, {"run": FunctionTool("run", "", Shown, run, warn=warn)})
    assert warned == []
    assert described.approval().warning == "It overwrites x."

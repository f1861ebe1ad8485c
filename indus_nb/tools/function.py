"""A typed function as a tool: its schema from the annotations, its descriptions from the docstring."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import inspect
import io
from collections.abc import Awaitable, Callable, Mapping
from types import FunctionType
from typing import Annotated, Any, cast, get_type_hints

import pydantic_core
from pydantic import BaseModel, ConfigDict, Field, create_model

from indus_nb.base.errors import UsageError
from indus_nb.base.events import ToolOutput
from indus_nb.base.messages import ImageContent, TextContent
from indus_nb.base.wire import clean_text
from indus_nb.tools.description import CallDescription
from indus_nb.tools.shortening import first_part
from indus_nb.tools.tool import FunctionTool, Tool, ToolContext

_ROWS = 50
_PLAIN = (BaseModel, dict, list, tuple, int, float)


def function_tool(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    description: str | None = None,
    read_only: bool = False,
    snippet: str | None = None,
    describe: Callable[[CallDescription, Any], CallDescription] | None = None,
    inject: Mapping[type, Callable[[], Any]] | None = None,
) -> Tool:
    """Make a tool that a model can call from a function.

    The schema comes from the annotations and defaults, descriptions from the docstring (Google, NumPy or Sphinx style).
    A parameter annotated with ``ToolContext``, or with a class in ``inject``, is filled in here and not by the model.
    A plain function runs in a thread, a coroutine function on the event loop. What it returns becomes content, see
    ``as_output``; what it raises is a failure that the model reads.

    >>> def add(a: int, b: int = 1) -> int:
    ...     '''Add two numbers.
    ...
    ...     Args:
    ...         a: the first one
    ...     '''
    ...     return a + b
    >>> spec = function_tool(add).spec
    >>> spec.name, spec.description
    ('add', 'Add two numbers.')
    >>> spec.parameters["properties"]["a"], spec.parameters["required"]
    ({'description': 'the first one', 'type': 'integer'}, ['a'])

    Args:
        function: The function, plain or a coroutine function.
        name: The tool's name; by default the function's.
        description: Description for the model; by default the docstring without its sections.
        read_only: True if it has no effects, so that the user need not be asked before a call.
        snippet: A line about the tool for the system prompt.
        describe: Given what the arguments make of a call for people, and the arguments as attributes; returns a better
            description.
        inject: Classes and, for each, a function that returns the value of a parameter annotated with that class.

    Returns:
        The tool.

    Raises:
        UsageError: The function cannot be one: ``*args``, ``**kwargs``, parameters without annotation, types without a
            JSON schema.
    """
    given = {ToolContext: None, **(inject or {})}
    tool_name = name or getattr(function, "__name__", type(function).__name__)
    about, described = _documentation(function)
    fields: dict[str, Any] = {}
    injected: dict[str, type] = {}
    try:
        hints = parameter_types(function)
    except Exception as error:
        raise UsageError(f"The annotations of {tool_name} cannot be understood: {error}") from error
    for parameter in inspect.signature(function).parameters.values():
        hint = hints.get(parameter.name)
        if isinstance(hint, type) and hint in given:
            injected[parameter.name] = hint
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise UsageError(f"{tool_name} cannot be a tool: a model gives its arguments by name ({parameter}).")
        if hint is None:
            raise UsageError(f"{tool_name} cannot be a tool: annotate its parameter {parameter.name} with a type.")
        default = ... if parameter.default is parameter.empty else parameter.default
        words = described.get(parameter.name)
        fields[parameter.name] = (Annotated[hint, Field(description=words)] if words else hint, default)
    try:
        config = ConfigDict(extra="forbid", arbitrary_types_allowed=False)
        arguments = create_model(tool_name, __config__=config, **fields)
        arguments.model_json_schema()
    except Exception as error:
        raise UsageError(f"{tool_name} cannot be a tool: {error}") from error

    async def run(wanted: BaseModel, context: ToolContext) -> ToolOutput:
        values = {field: getattr(wanted, field) for field in fields}
        for parameter, kind in injected.items():
            values[parameter] = context if kind is ToolContext else cast("Callable[[], Any]", given[kind])()
        if inspect.iscoroutinefunction(function):
            return as_output(await function(**values))
        result: Any = await asyncio.to_thread(function, **values)
        return as_output(await result if isinstance(result, Awaitable) else result)

    return FunctionTool(
        name=tool_name,
        description=description or about or f"Call the user's function {tool_name}.",
        arguments=arguments,
        run=run,
        read_only=read_only,
        snippet=snippet,
        describe=describe,
    )


def parameter_types(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the types of a function's parameters by name, without resolving its return type."""
    if not inspect.isfunction(function):
        return get_type_hints(function, include_extras=True)
    bare = FunctionType(function.__code__, function.__globals__, closure=function.__closure__)
    bare.__annotations__ = {name: hint for name, hint in function.__annotations__.items() if name != "return"}
    known: dict[str, Any] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # not yet there
            known[name] = cell.cell_contents
    return get_type_hints(bare, localns=known, include_extras=True)


def as_output(value: Any) -> ToolOutput:
    """Convert a function's result to content: texts, images, and everything else in words.

    A ``ToolOutput`` and content blocks stay as they are. Frames become a table with their types, figures and images
    become images, models and plain data JSON; of anything else its text.
    """
    if isinstance(value, ToolOutput):
        return value
    if isinstance(value, TextContent | ImageContent):
        return ToolOutput(content=[value])
    if isinstance(value, list | tuple) and value:
        items = cast("list[object]", value)
        if all(isinstance(item, TextContent | ImageContent) for item in items):
            return ToolOutput(content=cast("list[TextContent | ImageContent]", [*items]))
    if (image := _image(value)) is not None:
        return ToolOutput(content=[ImageContent(data=base64.b64encode(image).decode(), mime_type="image/png")])
    return _text(_words(value))


def _text(text: str) -> ToolOutput:
    return first_part(clean_text(text), "tool")


def _image(value: Any) -> bytes | None:
    """Return the value as PNG, if it is a picture."""
    module = type(value).__module__.partition(".")[0]
    if module == "matplotlib":
        figure = value if hasattr(value, "savefig") else getattr(value, "figure", None)
        if figure is not None:
            buffer = io.BytesIO()
            figure.savefig(buffer, format="png", bbox_inches="tight")
            return buffer.getvalue()
    if module == "PIL":
        buffer = io.BytesIO()
        value.save(buffer, format="PNG")
        return buffer.getvalue()
    drawn: object = _repr(value, "_repr_png_")
    if isinstance(drawn, str):
        return base64.b64decode(drawn)
    return drawn if isinstance(drawn, bytes) else None


def _repr(value: object, method: str) -> object:
    """Return the MIME bundle of IPython's display protocol, as far as the class of ``value`` implements it."""
    kind: Any = type(value)
    return getattr(kind, method)(value) if hasattr(kind, method) else None


def _words(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return "Done."
    if type(value).__name__ in ("DataFrame", "Series") and hasattr(value, "head") and hasattr(value, "shape"):
        return _table(value)
    if isinstance(value, _PLAIN):
        try:
            return pydantic_core.to_json(value, indent=2, serialize_unknown=True).decode()
        except ValueError:
            return repr(cast("object", value))
    written = _repr(value, "_repr_markdown_")
    return written if isinstance(written, str) else str(value)


def _table(frame: Any) -> str:
    rows = frame.shape[0]
    head = frame.head(_ROWS)
    shown = head.to_string() if hasattr(head, "to_string") else str(head)
    types = getattr(frame, "dtypes", None)
    columns = ""
    if hasattr(types, "items"):
        columns = "\n".join(f"{name}: {kind}" for name, kind in cast("Any", types).items())
    more = f"\n[The first {_ROWS} of {rows} rows.]" if rows > _ROWS else ""
    return f"{type(frame).__name__} of shape {frame.shape}\n{columns}\n\n{shown}{more}".replace("\n\n\n", "\n\n")


def _documentation(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """Return the docstring's description of the function and of its parameters."""
    text = inspect.getdoc(function)
    if not text:
        return "", {}
    import docstring_parser

    try:
        parsed = docstring_parser.parse(text)
    except docstring_parser.ParseError:
        return text, {}
    paragraphs = [part for part in (parsed.short_description, parsed.long_description) if part]
    return "\n\n".join(paragraphs), {item.arg_name: item.description for item in parsed.params if item.description}

"""A demonstration that needs no key and no network: it answers from patterns, and it calls tools for real.

It is no language model, and its answers state that. What it does follows from the last user message and what came after
it alone, so the same conversation always goes on in the same way.
"""

from __future__ import annotations

import ast
import asyncio
import hashlib
import json
import re
import shlex
import shutil
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from indus_nb.base import textcut
from indus_nb.base.messages import (
    AssistantMessage,
    ImageContent,
    ModelMessage,
    TextContent,
    ThinkingContent,
    ToolResultMessage,
    UserMessage,
    text_of,
)
from indus_nb.base.streaming import AssistantMessageEvent, GrowingMessage, TextStart, ThinkingStart, ToolCallStart
from indus_nb.base.wire import JsonObject
from indus_nb.models.apis.offline_values import AnswerWanted, value_for, wanted_in
from indus_nb.models.catalog import Model
from indus_nb.models.protocol import Context, StreamOptions, ToolSpec

_MAX_REQUEST_CHARACTERS = 4000
_MAX_STEPS = 20
_MAX_LINES = 20
_MAX_OUTPUT_CHARACTERS = 2000
_CHARACTERS_PER_TOKEN = 4


class OfflineProvider:
    """The demonstration assistant behind the ``Provider`` protocol."""

    def preload(self) -> None:
        """Do nothing: everything is imported."""

    async def stream(
        self, model: Model, context: Context, options: StreamOptions
    ) -> AsyncGenerator[AssistantMessageEvent]:
        """Answer the last user message: one tool call for each step of it, then a report of what came back.

        Args:
            context: What it is shown; its last user message and what follows it count.
            options: Only whether it thinks counts.
        """
        for event in _events(model, context, thinks=options.thinking != "off"):
            yield event
            await asyncio.sleep(0)  # between any two deltas others get their turn, and an abort its chance


def _events(model: Model, context: Context, *, thinks: bool) -> Iterator[AssistantMessageEvent]:
    reply = _reply_to(context)
    growing = GrowingMessage(api=model.api, provider=model.provider, model=model.id)
    read, written = _tokens(_characters(context)), len(reply.text)
    growing.usage = model.cost.usage(input=read, output=0)
    yield growing.start()
    if thinks:
        written += len(reply.thought)
        yield from _block(growing, growing.open_thinking(), re.findall(r"\S+\s*", reply.thought))
    if reply.text:
        yield from _block(growing, growing.open_text(), re.findall(r"\S{1,40}\s*|\s+", reply.text))
    if reply.call is not None:
        arguments = json.dumps(reply.call.arguments, ensure_ascii=False)
        written += len(arguments)
        opening = growing.open_tool_call(_call_id(context, reply.call, arguments), reply.call.tool)
        yield from _block(growing, opening, re.findall(r"(?s).{1,16}", arguments))
    growing.usage = model.cost.usage(input=read, output=_tokens(written))
    yield growing.finish("stop" if reply.call is None else "toolUse")


def _block(
    growing: GrowingMessage, opening: TextStart | ThinkingStart | ToolCallStart, pieces: Sequence[str]
) -> Iterator[AssistantMessageEvent]:
    yield opening
    for piece in pieces:
        yield growing.append(opening.content_index, piece)
    yield growing.close(opening.content_index)


@dataclass(frozen=True, slots=True)
class _Call:
    tool: str
    arguments: JsonObject


@dataclass(frozen=True, slots=True)
class _Step:
    """One step of a request: its words, the title of its outcome, and calls of which the first possible is made.

    ``conclude`` says what follows from the output, where that is more than the output. ``known`` is the outcome where
    no tool is needed to know it.
    """

    action: str
    title: str
    calls: tuple[_Call, ...]
    conclude: Callable[[str], str] | None = None
    known: str | None = None

    def possible(self, tools: Mapping[str, ToolSpec]) -> _Call | None:
        return next((call for call in self.calls if _fits(tools.get(call.tool), call.arguments)), None)


@dataclass(frozen=True, slots=True)
class _Reply:
    thought: str
    text: str
    call: _Call | None = None


def _fits(tool: ToolSpec | None, arguments: JsonObject) -> bool:
    return tool is not None and arguments.keys() <= tool.parameters.get("properties", {}).keys()


def _reply_to(context: Context) -> _Reply:
    tools = {tool.name: tool for tool in context.tools}
    final = next((tool for tool in context.tools if tool.is_final), None)
    request, results, asked = _current_turn(context.messages)
    if asked is not None:
        final = tools.get(asked.tool)
    if final is not None:
        results = [result for result in results if result.tool_name != final.name]
    parts = _parts(request)[:_MAX_STEPS] if len(request) <= _MAX_REQUEST_CHARACTERS else []
    mending = _mend(request)
    understood = [(part, _understand(part)) for part in parts] if mending is None else [(request, mending)]
    steps = [step for _, step in understood if step is not None]
    possible = [(step, call) for step in steps if (call := step.possible(tools))]
    if len(results) < len(possible):
        step, call = possible[len(results)]
        thought = f"Step {len(results) + 1} of {len(possible)}: {step.action}. The tool for that is {call.tool}."
        return _Reply(thought, f"I {step.action}.", call)
    known = [step for step in steps if step.known is not None and not step.possible(tools)]
    if final is not None:
        outcomes = [*(text_of(result.content) for result in results), *(str(step.known) for step in known)]
        text = "\n".join(outcomes) or request
        thought = f"A typed answer is asked for. I make it of what came back, for the tool {final.name}."
        by_schema = value_for(final.parameters if asked is None else asked.schema, text)
        return _Reply(thought, "", _Call(final.name, by_schema if asked is None else {"answer": json.dumps(by_schema)}))
    paragraphs = [
        _report(possible[number][0], result) if number < len(possible) else _outcome(_code(result.tool_name), result)
        for number, result in enumerate(results)
    ]
    paragraphs += [f"{step.title} is {step.known}." for step in known]
    paragraphs += [
        f"I cannot {step.action}: none of the tools that do it is switched on ({_names(step)})."
        for step in steps
        if step not in known and not step.possible(tools)
    ]
    if not paragraphs:
        alone = not any(isinstance(message, AssistantMessage) for message in context.messages)
        text = "\n\n".join(
            filter(None, (_seen(request, whole=not tools), _introduction(tools), "" if alone else _FORGETFUL))
        )
        return _Reply("None of my patterns fits this request, so I say what I can do.", text)
    paragraphs += [f"I did not understand {_code(part)}." for part, step in understood if step is None]
    done = f"{textcut.counted(len(results), 'call')} {'is' if len(results) == 1 else 'are'} done"
    return _Reply(f"{done}; I report what came back.", "\n\n".join(paragraphs))


def _current_turn(messages: Sequence[ModelMessage]) -> tuple[str, list[ToolResultMessage], AnswerWanted | None]:
    """Return the request, the results since, and the value that is asked for in a message, if one is."""
    since = list(takewhile(lambda message: not isinstance(message, UserMessage), reversed(messages)))
    before = reversed(messages[: len(messages) - len(since)])
    asked = takewhile(lambda message: isinstance(message, UserMessage), before)
    results = [message for message in reversed(since) if isinstance(message, ToolResultMessage)]
    all_texts = [text_of(message.content) for message in asked if isinstance(message, UserMessage)]
    wanted = next(filter(None, map(wanted_in, all_texts)), None)
    texts = [text for text in all_texts if wanted is None or wanted_in(text) is None]
    # The end of a job is told in a message of its own, which may come behind the request.
    return next(filter(_is_understood, texts), texts[0] if texts else ""), results, wanted


def _is_understood(text: str) -> bool:
    return len(text) <= _MAX_REQUEST_CHARACTERS and any(map(_understand, _parts(text)))


# --- understanding ---------------------------------------------------------------------------------------------------

_QUOTED = r"""(?:```.*?```|`[^`]*`|"[^"]*"|(?<!\w)'[^']*'(?!\w))"""
_NAME = rf"(?:{_QUOTED}|[^\s`\"']+)"
_IN = rf"(?: (?:in|of|under|within)(?: the)?(?: folder| directory)? (?P<path>{_NAME}|this folder|this directory))?"


def _list(found: Mapping[str, str]) -> _Step:
    path = _path(found)
    calls = _Call("ls", {"path": path}), _bash(f"ls -la -- {shlex.quote(path)}")
    return _Step(f"list the files in {_code(path)}", f"Files in {_code(path)}", calls)


def _find(found: Mapping[str, str]) -> _Step:
    pattern, path = _unquoted(found["pattern"]), _path(found)
    command = f"find {shlex.quote(path)} -name {shlex.quote(pattern)}"
    calls = _Call("find", {"pattern": pattern, "path": path}), _bash(command)
    return _Step(f"find files named {_code(pattern)}", f"Files named {_code(pattern)}", calls)


def _search(found: Mapping[str, str]) -> _Step:
    text, path = _unquoted(found["text"]), _path(found)
    command = f"grep -rnF -- {shlex.quote(text)} {shlex.quote(path)}"
    calls = _Call("grep", {"pattern": text, "path": path, "literal": True}), _bash(command)
    return _Step(f"search for {_code(text)} in {_code(path)}", f"Matches of {_code(text)}", calls)


def _read(found: Mapping[str, str]) -> _Step:
    path = _unquoted(found["path"])
    calls = _Call("read", {"path": path}), _bash(f"cat -- {shlex.quote(path)}")
    return _Step(f"read {_code(path)}", _code(path), calls)


def _write(found: Mapping[str, str]) -> _Step:
    text, path = _unquoted(found["text"]), _unquoted(found["path"])
    command = f"printf %s {shlex.quote(text)} > {shlex.quote(path)}"
    calls = _Call("write", {"path": path, "content": text}), _bash(command)
    return _Step(f"write {_code(text)} to {_code(path)}", f"Writing {_code(path)}", calls)


def _python(found: Mapping[str, str]) -> _Step:
    code = _unquoted(found["code"])
    calls = _Call("python", {"code": code}), _bash(f"python3 -c {shlex.quote(code)}")
    return _Step(f"run the Python code {_code(code)}", f"Output of {_code(code)}", calls)


def _run(found: Mapping[str, str]) -> _Step | None:
    command = _unquoted(found["command"])
    if command == found["command"].strip() and shutil.which(command.split()[0]) is None:
        return None  # "run the tests" is a request; in quotes it is a command, whatever it is
    return _Step(f"run {_code(command)}", f"Output of {_code(command)}", (_bash(command),))


def _start(found: Mapping[str, str]) -> _Step:
    command = _unquoted(found["command"])
    call = _Call("bash", {"command": command, "background": True})
    return _Step(f"start {_code(command)} in the background", f"{_code(command)} in the background", (call,))


def _compute(found: Mapping[str, str]) -> _Step | None:
    expression = _unquoted(found["expression"])
    if not _is_arithmetic(expression):
        return None
    program = f"print({expression})"
    calls = _bash(f"python3 -c {shlex.quote(program)}"), _Call("python", {"code": program})
    return _Step(f"compute {_code(expression)}", _code(expression), calls, known=_value(expression))


def _value(expression: str) -> str:
    try:
        return str(eval(expression, {"__builtins__": {}}))  # noqa: S307 - plain numbers, see `_is_arithmetic`
    except (ArithmeticError, ValueError) as error:
        return f"not defined ({error})"


_CELL = re.compile(r"^Cell(?: \[\d+\])?:\n(?P<fence>`{3,})python\n(?P<code>.*?)\n(?P=fence)$", re.DOTALL | re.MULTILINE)
_UNKNOWN_NAME = re.compile(r"NameError: name '(?P<name>\w+)' is not defined")


def _mend(request: str) -> _Step | None:
    """Find the name that a cell meant when it failed at an undefined one."""
    cell = _CELL.search(request)
    error = _UNKNOWN_NAME.search(request, cell.end()) if cell and len(request) <= _MAX_REQUEST_CHARACTERS else None
    if cell is None or error is None:
        return None
    code, name = cell["code"], error["name"]

    def conclude(output: str) -> str:
        found = re.search(r"\['(\w+)'\]", output)
        if found is None:
            return f"{_code(name)} is not defined, and no other name is like it. Define it above."
        mended = re.sub(rf"\b{name}\b", found[1], code)
        return (
            f"{_code(name)} is not defined, and {_code(found[1])} is. The mended cell:\n\n{_fenced(mended, 'python')}"
        )

    lookup = f'__import__("difflib").get_close_matches("{name}", [*globals()], 1)'
    return _Step(f"look for a name like {_code(name)}", "Names", (_Call("python", {"code": lookup}),), conclude)


_PATTERNS: Sequence[tuple[str, Callable[[Mapping[str, str]], _Step | None]]] = (
    (rf"(?:list|show)(?: me)?(?: all)?(?: the)? (?:files|contents|directory|folder)(?: here)?{_IN}", _list),
    (rf"(?:what|which) files are(?: there| here)?{_IN}", _list),
    (
        rf"find(?: me)?(?: all)?(?: the)?(?: files?)?(?: named| called| matching| like)? (?P<pattern>{_NAME}){_IN}",
        _find,
    ),
    (rf"(?:search|look|grep) for (?P<text>{_QUOTED}|.+?){_IN}", _search),
    (rf"write (?P<text>{_QUOTED}|.+?) (?:to|into)(?: the)?(?: file)? (?P<path>{_NAME})", _write),
    (rf"(?:run|execute|evaluate)(?: this| the)? python(?: code)?:? (?P<code>{_QUOTED})", _python),
    (r"(?:compute|calculate|evaluate|what is|what's|how much is) (?P<expression>.+)", _compute),
    (r"(?:run|execute|start)(?: the)?(?: command)?:? (?P<command>.+) in the background", _start),
    (r"(?:run|execute)(?: the)?(?: command)?:? (?P<command>.+)", _run),
    (rf"(?:read|show|open|display)(?: me)?(?: the)?(?: file)? (?P<path>{_NAME})", _read),
)
_POLITE = r"(?:(?:please|now|first|and|also|(?:can|could|would|will) you)[, ]+)*"


def _parts(request: str) -> list[str]:
    """Split the request at each ``then`` outside of quotations.

    >>> _parts("list the files, and then run `if x; then y; fi`")
    ['list the files', 'run `if x; then y; fi`']
    """
    parts: list[str] = []
    start = 0
    for found in re.finditer(
        rf"{_QUOTED}|(?P<cut>(?:(?<=\S)[,;.])?\s+(?:and\s+)?then\b[,:]?\s)", request, re.IGNORECASE | re.DOTALL
    ):
        if found["cut"]:
            parts.append(request[start : found.start()])
            start = found.end()
    return [part.strip() for part in (*parts, request[start:]) if part.strip()]


def _understand(part: str) -> _Step | None:
    request = re.sub(r"(?:\s*[!?]+|(?<=[\w`\"')])[.]+)$", "", part)
    for pattern, step in _PATTERNS:
        found = re.fullmatch((_POLITE + pattern).replace(" ", r"\s+"), request, re.IGNORECASE | re.DOTALL)
        if found and (understood := step(found.groupdict(""))):
            return understood
    return None


def _is_arithmetic(text: str) -> bool:
    """Return whether the text is a sum of plain numbers that is computed in no time.

    >>> [_is_arithmetic(text) for text in ("2**10 + 1", "(1 + 2) / .5", "9**9**9", "().__class__", "love")]
    [True, True, False, False, False]
    """
    if len(text) > 200 or not re.fullmatch(r"[\d.eE+\-*/%() ]+", text):
        return False
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError):
        return False
    nodes = list(ast.walk(tree))
    powers = [node for node in nodes if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow)]
    small = all(isinstance(power.right, ast.Constant) and float(str(power.right.value)) <= 1000 for power in powers)
    kinds = ast.Expression | ast.BinOp | ast.UnaryOp | ast.Constant | ast.operator | ast.unaryop
    return small and len(powers) <= 1 and all(isinstance(node, kinds) for node in nodes)


def _bash(command: str) -> _Call:
    return _Call("bash", {"command": command})


def _path(found: Mapping[str, str]) -> str:
    path = _unquoted(found["path"])
    return "." if path.casefold() in ("", "here", "this folder", "this directory") else path


def _unquoted(text: str) -> str:
    text = text.strip()
    if fenced := re.fullmatch(r"```(?:\w*\n)?(.*?)\n?```", text, re.DOTALL):
        return fenced[1]
    return text[1:-1] if re.fullmatch(_QUOTED, text, re.DOTALL) else text


# --- answering -------------------------------------------------------------------------------------------------------

_EXAMPLES = (
    "list the files in .",
    "read README.md",
    "find *.py",
    'search for "import" in .',
    "run `date`",
    "compute 6*7",
    'write "hello" to hello.txt then read hello.txt',
)


def _introduction(tools: Mapping[str, ToolSpec]) -> str:
    possible = [
        example
        for example in _EXAMPLES
        if all(step and step.possible(tools) for step in map(_understand, _parts(example)))
    ]
    can = (
        "I understand a few plain requests, and run them with real tools:\n\n"
        + "\n".join(f"- {example}" for example in possible)
        if possible
        else "No tool that I could use is switched on."
    )
    return (
        "I am no language model. I am the offline demonstration, which needs no key and no network. "
        f"{can}\n\nFor real answers set ANTHROPIC_API_KEY and choose one of Anthropic's models."
    )


_FORGETFUL = "I look at the last message alone: what was said before it, I can neither shorten nor go on with."


def _seen(request: str, *, whole: bool) -> str:
    """Describe the attached files, the diff, or the text before a request: what can be counted without reading it.

    Args:
        whole: Whether the request is all one text, as that for a summary, which comes without tools.
    """
    files = re.finditer(r'(?s)<file name="([^"\n]*)">\n(.*?)\n?</file>', request)
    lines = [f"- {_code(file[1])}: {_size(file[2])}" for file in files]
    for changed in re.split(r"(?m)^diff --git a/", request)[1:]:
        name, *rest = changed.splitlines()
        added, removed = (sum(line.startswith(sign) and line[:3] != sign * 3 for line in rest) for sign in "+-")
        lines.append(
            f"- {_code(name.partition(' b/')[0])}: changed, {textcut.counted(added, 'line')} more and {removed} less"
        )
    before = request.rpartition("\n\n")[0].strip()
    if before and not lines and not whole:
        lines.append(f"- what stands before the last paragraph: {_size(before)}")
    return "\n".join(["I can count what came along, and not understand it:\n", *lines]) if lines else ""


def _size(text: str) -> str:
    lines = text.splitlines()
    first = next((line for line in lines if line.strip()), "")
    counted = f"{textcut.counted(len(lines), 'line')}, {textcut.counted(len(text.split()), 'word')}"
    return f"{counted}, beginning with {_code(first)}"


def _report(step: _Step, result: ToolResultMessage) -> str:
    if step.conclude is not None and not result.is_error:
        return step.conclude(text_of(result.content))
    outcome = _outcome(step.title, result)
    if step.known is not None and result.is_error and "not found" in text_of(result.content):
        outcome += f"\n\nWithout that program: {step.title} is {step.known}."
    return outcome


def _outcome(title: str, result: ToolResultMessage) -> str:
    output = text_of(result.content).strip("\n")
    images = sum(isinstance(block, ImageContent) for block in result.content)
    shown = _clipped(output) or ("" if images else "(no output)")
    block = f"\n\n{_fenced(shown)}" if shown else ""
    picture = " an image came back." if images else ""
    return f"{title}{' failed' if result.is_error else ''}:{picture}{block}"


def _fenced(text: str, language: str = "") -> str:
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}{language}\n{text}\n{fence}"


def _clipped(output: str) -> str:
    lines = output[:_MAX_OUTPUT_CHARACTERS].split("\n")[:_MAX_LINES]
    shown = "\n".join(lines)
    left = len(output) - len(shown)
    return f"{shown}\n… {left} more characters" if left > 0 else shown


def _code(text: str) -> str:
    line = textcut.one_line(text, 60)
    return f"`` {line} ``" if "`" in line else f"`{line}`"


def _names(step: _Step) -> str:
    return ", ".join(dict.fromkeys(call.tool for call in step.calls))


def _call_id(context: Context, call: _Call, arguments: str) -> str:
    asked = next((message.timestamp for message in reversed(context.messages) if isinstance(message, UserMessage)), 0)
    seed = f"{asked} {len(context.messages)} {call.tool} {arguments}"
    return f"offline_{hashlib.sha256(seed.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def _tokens(characters: int) -> int:
    return -(-characters // _CHARACTERS_PER_TOKEN)


def _characters(context: Context) -> int:
    tools = sum(len(tool.name) + len(tool.description) + len(json.dumps(tool.parameters)) for tool in context.tools)
    return len(context.system_prompt) + tools + sum(map(_length, context.messages))


def _length(message: ModelMessage) -> int:
    if not isinstance(message, AssistantMessage):
        return len(text_of(message.content))
    return sum(
        len(block.text)
        if isinstance(block, TextContent)
        else len(block.thinking)
        if isinstance(block, ThinkingContent)
        else len(json.dumps(block.arguments))
        for block in message.content
    )

"""Shortening of long results: the model reads beginning and end, and where the whole is kept.

What this module promises: whichever tool gave it, a text above the limit reaches the model as whole lines from both
ends, with one line between them that says how much is left out and names the file with all of it, which ``read`` opens.
What views are shown and what the session holds is not touched.
"""

from __future__ import annotations

from typing import cast

from indus_nb.base import textcut
from indus_nb.base.events import ToolOutput
from indus_nb.base.messages import TextContent
from indus_nb.base.textcut import byte_size
from indus_nb.base.wire import JsonObject
from indus_nb.tools.tool import text_output
from indus_nb.tools.truncate import MAX_BYTES, Truncation, head, keep_whole, size_text

WHOLE = "fullOutputPath"
"""Key of a result's details: the file with the whole output."""


def with_beginning(output: ToolOutput, shown: Truncation, notice: str) -> ToolOutput:
    """Add the beginning of a text to an output that holds its end.

    Args:
        shown: What is shown of the text.
        notice: What the output says of that, which is not true where the beginning is shown too.
    """
    if not shown.beginning:
        return output
    before, _, after = _text(output).rpartition(notice)
    return output.replace(ends=[shown.beginning, f"{before}{after}"])


def first_part(text: str, label: str) -> ToolOutput:
    """Return as much of the beginning of a whole text as a view is shown, and keep a longer one in a file.

    Args:
        label: What gave it, for the name of the file.
    """
    shown = head(text)
    if not shown.truncated:
        return text_output(text)
    if shown.first_line_exceeds_limit:
        content = textcut.head_bytes(text, MAX_BYTES)
        shown = shown.replace(content=content, output_bytes=byte_size(content), output_lines=1)
        what = f"the first {size_text(shown.output_bytes)} of line 1"
    else:
        what = f"lines 1-{shown.output_lines}"
    details: JsonObject = {"truncation": shown.to_wire()}
    try:
        details[WHOLE] = str(keep_whole(label, text))
        where = f"Full output: {details[WHOLE]}"
    except OSError as error:
        where = f"The full output could not be kept: {error}"
    total = f"{shown.total_lines} lines, {size_text(shown.total_bytes)}"
    output = text_output(f"{shown.content}\n\n[Long output: {what} of {total} are shown. {where}]", details)
    return output.replace(ends=[text[:MAX_BYTES], text[-MAX_BYTES:]])


def shortened(output: ToolOutput, characters: int, tool: str) -> ToolOutput:
    """Shorten a result for the model. It may write a file, so call it in a thread.

    Args:
        characters: Length up to which a result stays as it is.
        tool: Name of the tool, for that of the file.

    Returns:
        The result itself, or the same with what a model reads of it.
    """
    text = _text(output)
    if len(text) <= characters:
        return output
    first, last = output.ends or (text, text)
    beginning, end = _beginning(first, characters // 2), _end(last, characters // 2)
    given: object = output.details
    details = cast("JsonObject", given) if isinstance(given, dict) else {}
    truncation: object = details.get("truncation")
    total = cast("JsonObject", truncation).get("totalBytes") if isinstance(truncation, dict) else None
    whole = total if isinstance(total, int) and output.ends else byte_size(text)
    left_out = size_text(max(whole - byte_size(beginning) - byte_size(end), 1))
    path, counts = details.get(WHOLE), output.ends is not None
    try:
        path, counts = (path, counts) if path else (str(keep_whole(tool, text)), True)
        where = f"The whole output: {path}"
        if counts and beginning.endswith("\n"):
            where += f", which read shows from here with offset={beginning.count(chr(10)) + 1}"
    except OSError as error:
        where = f"The whole output could not be kept: {error}"
    separator = "" if beginning.endswith("\n") else "\n"
    short = f"{beginning}{separator}[{left_out} are left out here. {where}.]\n{end}"
    if path and (details or not given):
        given = {**details, WHOLE: path}
    return output.replace(shortened=short, details=given, ends=None)


def _text(output: ToolOutput) -> str:
    return "\n".join(block.text for block in output.content if isinstance(block, TextContent))


def _beginning(text: str, characters: int) -> str:
    """Return the first whole lines, or of a text with long ones so many characters."""
    end = text.rfind("\n", characters // 2, characters) + 1
    return text[: end or characters]


def _end(text: str, characters: int) -> str:
    start = text.find("\n", len(text) - characters, len(text) - characters // 2) + 1
    return text[start or len(text) - characters :]

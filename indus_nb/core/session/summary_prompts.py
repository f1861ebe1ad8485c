"""What a model that writes summaries reads: a conversation as text, and the headings that it is to use.

What this module promises: the text fits into the room that there is, and of what is too long both ends are kept, for
errors and results stand at the end of outputs. Where code ran in the user's kernel the summary is to name the variables
that matter, for they outlive it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from indus_nb.base import textcut
from indus_nb.base.messages import (
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    Message,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    text_of,
)

_RESULT_CHARACTERS = (2000, 500, 100)
"""Characters of a result that are shown, and of those of a conversation that is too long with them."""
_RUNS_IN_KERNEL = "python"
_SECTIONS = """Write a summary from which another model can go on with the work. Use exactly these headings:

## Goal
What the user wants; several points if there are several.

## Constraints and preferences
What the user asked for or ruled out, or "(none)".

## Progress
### Done
- [x] what is finished
### In progress
- [ ] what is being worked on
### Blocked
- what stands in the way, or "(none)"

## Key decisions
- **Decision**: its reason

## Next steps
1. what comes next, in order

{variables}## Critical context
- facts, names, paths and error messages that are needed to go on, or "(none)"

Be brief. Keep paths, names of functions and error messages exactly as they are."""
_UPDATE = (
    "The summary below, in <previous-summary>, stands for what came before this conversation. Bring it up to date: "
    "keep what still holds, add what is new, move what was finished to Done, and drop what no longer matters."
)
_TURN_HEAD = """This is the beginning of one long turn; its end is kept word for word. Summarise the beginning, so that
the end can be understood. Use exactly these headings:

## Request
What the user asked for in this turn.

## Early progress
What was done and decided so far.

## Context for the rest
What one must know to understand the rest."""
_BRANCH = """This branch of the conversation was left to go on from an earlier point. Summarise what was tried and found
there."""
_VARIABLES_HEADING = "## Variables"
_VARIABLES = f"""{_VARIABLES_HEADING}
- `name` in the user's kernel: what it holds (kind, size, columns or units that matter) and how it was made; only those
  that are needed to go on, or "(none)"

"""
_VARIABLES_OF_HEAD = "\nName the variables of the user's kernel that matter: what they hold, how they were made."
_WORDS_PER_TOKEN = 0.4
"""Words of a summary that was too long, for each token that it may have: about half of what would fit."""


def about_history(messages: Sequence[Message], previous: str | None, instructions: str | None) -> str:
    """Return what is asked about the older part of a conversation.

    Args:
        previous: The summary of what came before it.
        instructions: What matters most.
    """
    update = f"{_UPDATE}\n\n<previous-summary>\n{previous}\n</previous-summary>\n\n" if previous else ""
    in_kernel = _is_in_kernel(messages) or _VARIABLES_HEADING in (previous or "")
    return f"{update}{_sections(in_kernel=in_kernel)}{_focus(instructions)}"


def about_turn_head(messages: Sequence[Message], instructions: str | None) -> str:
    """Return what is asked about the beginning of a turn whose end is kept."""
    return f"{_TURN_HEAD}{_VARIABLES_OF_HEAD if _is_in_kernel(messages) else ''}{_focus(instructions)}"


def about_branch(messages: Sequence[Message], instructions: str | None, *, replaces: bool) -> str:
    """Return what is asked about a branch that was left.

    Args:
        replaces: Whether the instructions are all that is asked.
    """
    if instructions and replaces:
        return instructions
    return f"{_BRANCH}\n\n{_sections(in_kernel=_is_in_kernel(messages))}{_focus(instructions)}"


def shorter(max_tokens: int) -> str:
    """Return what is asked when a summary has reached its limit."""
    return f"Use at most {int(max_tokens * _WORDS_PER_TOKEN)} words: a longer summary was cut off before its end."


def _sections(*, in_kernel: bool) -> str:
    return _SECTIONS.replace("{variables}", _VARIABLES if in_kernel else "")


def _focus(instructions: str | None) -> str:
    return f"\n\nPay special attention to this: {instructions}" if instructions else ""


def _is_in_kernel(messages: Iterable[Message]) -> bool:
    calls = (call for message in messages if isinstance(message, AssistantMessage) for call in message.tool_calls)
    return any(call.name == _RUNS_IN_KERNEL for call in calls)


def as_text(messages: Sequence[Message], characters: int) -> str:
    """Render messages as text that cannot be mistaken for a conversation to go on with.

    Args:
        characters: How long the text may be, but for what frames it.
    """
    text = ""
    for limit in _RESULT_CHARACTERS:
        text = "\n\n".join(line for message in messages for line in _lines(message, limit))
        if len(text) <= characters:
            break
    text = textcut.middle(text, characters, "\n\n[... {left} characters of the conversation are left out ...]\n\n")
    return f"<conversation>\n{text}\n</conversation>"


def _lines(message: Message, limit: int) -> Iterable[str]:
    match message:
        case UserMessage():
            yield f"[User]: {text_of(message.whole_content)}"
        case CustomMessage():
            yield f"[User]: {text_of(message.content)}"
        case AssistantMessage():
            if thought := "\n".join(
                b.thinking for b in message.content if isinstance(b, ThinkingContent) if b.thinking
            ):
                yield f"[Assistant thinking]: {thought}"
            if message.text:
                yield f"[Assistant]: {message.text}"
            if calls := message.tool_calls:
                yield f"[Assistant tool calls]: {'; '.join(map(_call, calls))}"
        case ToolResultMessage():
            yield f"[Tool result]: {_shortened(text_of(message.content), limit)}"
        case BashExecutionMessage():
            yield f"[User]: Ran `{message.command}`\n{_shortened(message.output, limit)}"
        case BranchSummaryMessage() | CompactionSummaryMessage():
            yield f"[Summary]: {message.summary}"


def _call(call: ToolCall) -> str:
    arguments = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in call.arguments.items())
    return f"{call.name}({arguments})"


def _shortened(text: str, limit: int) -> str:
    return textcut.middle(text, limit, "\n[... {left} characters are left out ...]\n")

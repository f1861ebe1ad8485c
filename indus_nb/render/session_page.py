"""A session as one HTML page: no network, no scripts, light and dark, for a phone, a screen and paper."""

from __future__ import annotations

import html
import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from indus_nb.base import textcut
from indus_nb.base.errors import SessionFileError, UsageError
from indus_nb.base.files import write_export
from indus_nb.base.messages import (
    AssistantMessage,
    Attachment,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    ImageContent,
    Message,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
    text_of,
)
from indus_nb.core.limits.words import cost_in_words
from indus_nb.core.session.stats import session_stats
from indus_nb.core.storage.entries import milliseconds
from indus_nb.core.storage.store import SessionStore, TreeNode
from indus_nb.core.storage.text import user_text
from indus_nb.render import cards, markup
from indus_nb.render.cards import Call, Steps
from indus_nb.render.context import context, contexts_along, is_along, is_context
from indus_nb.render.nodes import Box, CodeBlock, Fold, Node, Passage, Sentence
from indus_nb.render.writers import as_html
from indus_nb.tools.description import by_arguments

_MAX_TITLE_CHARACTERS = 100
_MAX_SECONDS = 1e9
"""Longest duration that is shown: a session file may hold any number, infinity among them."""
_MAX_BRANCHES = 1000
_MAX_DEPTH = 8
_MAX_LOOKED_AT = 1000
"""Entries that are searched for the first message of the user in a branch."""
# The colours that the styles of markup ask for, which a notebook's front end sets otherwise.
_PAGE_STYLE = """
:root{color-scheme:light dark;--ground:#fff;--ink:#1f2328;--quiet:#656d76;--line:#d0d7de;--raised:#f6f8fa;
--accent:#0969da;--jp-border-color2:var(--line);
--jp-cell-editor-background:var(--raised);--jp-brand-color1:var(--accent)}
@media(prefers-color-scheme:dark){:root{--ground:#0d1117;--ink:#e6edf3;--quiet:#8d96a0;--line:#30363d;
--raised:#161b22;--accent:#4493f8}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:56rem;padding:1rem;background:var(--ground);color:var(--ink);overflow-wrap:break-word;
font:16px/1.5 system-ui,sans-serif}
h1{font-size:1.4rem;margin:.5rem 0}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem;color:var(--quiet);font-size:.85rem;margin:0}
dd{margin:0;overflow-wrap:anywhere}
article{margin:1rem 0}
article>h2{font-size:.8rem;font-weight:600;color:var(--quiet);margin:0 0 .25rem}
article.user{border-left:3px solid var(--accent);padding-left:.75rem}
article.summary,details.branch{border:1px dashed var(--line);border-radius:6px;padding:.25rem .75rem}
details.branch{margin:1rem 0}
summary{cursor:pointer}
.label{border:1px solid var(--accent);border-radius:1em;padding:0 .5em;color:var(--accent)}
.error{color:#d1242f}
img{max-width:100%;height:auto}
pre{max-width:100%}
math[display="block"]{margin:.75rem 0;overflow-x:auto;overflow-y:hidden;padding-block:.25em}
table{display:block;width:max-content;max-width:100%;overflow-x:auto;border-collapse:collapse}
td,th{border:1px solid var(--line);padding:.2rem .5rem;overflow-wrap:normal}
@media print{body{max-width:none;padding:0;font-size:11pt}pre{max-height:none!important;white-space:pre-wrap!important}
article{break-inside:avoid-page}details.branch{display:none}}
"""


_HEAD = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8">'
    '<meta name="viewport" content="width=device-width,initial-scale=1">'
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\';'
    "style-src 'unsafe-inline';img-src data:\">"
)
"""Beginning of every page; a file without it is never replaced by one."""


def page_name(store: SessionStore) -> str:
    """Return a file name for the page; the id comes from a file, and could lead to another directory."""
    return f"indusagi-session-{re.sub(r'[^A-Za-z0-9._-]', '_', store.session_id)[:100]}.html"


def export_html(store: SessionStore, path: Path) -> Path:
    """Write a session as a page, which its owner alone can read; it appears whole or not at all.

    Args:
        path: The file; missing directories are made, and such a page that is there is replaced.

    Returns:
        The absolute path of the file.

    Raises:
        UsageError: The session holds no message.
        SessionFileError: The file cannot be written, or something else is there.
    """
    page = session_page(store)
    path = path.expanduser().absolute()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_export(path, page.encode(errors="replace"), lambda head: head.startswith(_HEAD.encode()))
    except (OSError, ValueError) as error:  # a ValueError is a zero byte in the path
        reason = error.strerror if isinstance(error, OSError) else error
        raise SessionFileError(path, f"the page cannot be written ({reason}). Choose another path") from error
    return path


def session_page(store: SessionStore) -> str:
    """Return the page's HTML; raises ``UsageError`` for a session without messages."""
    if not any(entry.type == "message" for entry in store.entries):
        raise UsageError("Nothing to export yet: start a conversation first.")
    title = store.name or next((text for text in map(_user_text, store.tree()) if text), "") or "Session"
    head = html.escape(_one_line(title))
    with markup.drawn_formulas():
        tree = "".join(_tree(store))
    return (
        f'{_HEAD}<meta name="generator" content="indus_nb">'
        f"<title>{head}</title><style>{_PAGE_STYLE}</style></head><body><header><h1>{head}</h1>{_facts(store)}</header>"
        f"<main>{tree}</main></body></html>\n"
    )


def _facts(store: SessionStore) -> str:
    stats = session_stats(store.entries)
    tokens = stats.tokens
    facts = {
        "Session": store.session_id,
        "Directory": str(store.cwd),
        "Started": str(store.header.get("timestamp", "")),
        "Messages": f"{stats.user_messages} of the user, {stats.assistant_messages} answers, "
        f"{stats.tool_calls} tool calls",
        "Tokens": f"{tokens.input + tokens.cache_read + tokens.cache_write:,} in, {tokens.output:,} out",
        "Cost": cost_in_words(
            stats.cost + (stats.cost_before or 0),
            stats.cost_unconfirmed or 0,
            unpriced=bool(stats.cost_unknown),
            before=stats.cost_before,
        ),
    }
    return "<dl>" + "".join(f"<dt>{name}</dt><dd>{_escaped(fact)}</dd>" for name, fact in facts.items()) + "</dl>"


@dataclass(frozen=True)
class _Entry:
    """An entry of the session, and what it shows of itself beside its content."""

    node: TreeNode
    message: Message | None

    @property
    def label(self) -> str:
        return f'<span class="label">{_escaped(self.node.label)}</span>' if self.node.label else ""

    def article(self, kind: str, who: str, body: str, paid: str = "") -> str:
        """Return an article that begins with this entry."""
        stamp = self.node.entry.timestamp
        when = f" · {stamp[:16].replace('T', ' ')} UTC" if milliseconds(stamp) else ""
        label = f" {self.label}" if self.label else ""
        return f'<article class="{kind}"><h2>{_escaped(who)}{when}{paid}{label}</h2>{body}</article>'


def _tree(store: SessionStore) -> Iterator[str]:
    """Yield the conversation up to the leaf, every branch that was left folded away where it begins.

    Of very many, or of those that begin in each other, the newest are there.
    """
    active = {entry.id for entry in store.branch()}
    waiting: list[tuple[TreeNode | str, int]] = []
    turn: list[_Entry] = []
    shown = left_out = 0

    def follow(siblings: list[TreeNode], depth: int) -> None:
        nonlocal shown, left_out
        if not siblings:
            return
        trunk = next((node for node in siblings if node.entry.id in active), siblings[-1])
        waiting.append((trunk, depth))
        others = [node for node in reversed(siblings) if node is not trunk]
        room = _MAX_BRANCHES - shown if depth < _MAX_DEPTH else 0
        shown, left_out = shown + len(others[:room]), left_out + len(others[room:])
        for node in others[:room]:
            text = _one_line(_user_text(node)) or "another branch"
            opening = f'<details class="branch"><summary>Another branch: {html.escape(text)}</summary>'
            waiting.extend((("</details>", depth), (node, depth + 1), (opening, depth)))

    follow(store.tree(), 0)
    while waiting:
        item, depth = waiting.pop()
        entry = None if isinstance(item, str) else _Entry(item, _message(item))
        if entry is not None and isinstance(entry.message, AssistantMessage | ToolResultMessage):
            turn.append(entry)
        elif entry is None or entry.message is not None or entry.label:
            yield _turn(turn)
            turn.clear()
            yield item if isinstance(item, str) else _single(entry) if entry else ""
        if not isinstance(item, str):
            follow(item.children, depth)
    yield _turn(turn)
    if left_out:
        yield f"<p>{left_out:,} more branches are not shown here; the session file holds them.</p>"


def _message(node: TreeNode) -> Message | None:
    """Return the message of an entry, if it is one that is shown."""
    try:
        message = node.entry.message
    except ValueError:
        return None  # of a kind unknown here
    return None if isinstance(message, CustomMessage) and not (message.display or is_context(message)) else message


def _single(entry: _Entry) -> str:
    """Return the HTML of an entry that is no part of an answer."""
    match entry.message:
        case UserMessage(content=content, attachments=attachments) as message:
            attached = [_attachment(each) for each in attachments or () if not is_along(each)]
            shown = entry.article("user", "User", "".join([_content(content), *attached]))
            return "".join([*map(as_html, contexts_along(message)), shown])
        case BashExecutionMessage():
            return entry.article("tool", "Shell", _shell(entry.message))
        case CustomMessage() as message if is_context(message):
            return as_html(context(message))
        case CustomMessage(custom_type=who, content=content):
            return entry.article("user", who, _content(content))
        case BranchSummaryMessage(summary=summary) | CompactionSummaryMessage(summary=summary):
            of_branch = isinstance(entry.message, BranchSummaryMessage)
            title = "Summary of a branch" if of_branch else "Summary of what came before"
            return entry.article("summary", title, as_html(cards.answer(summary)))
        case _:
            return f"<p>{entry.label}</p>"


def _turn(entries: Sequence[_Entry]) -> str:
    """Return the answers to a message of the user's, and the results of their calls, as one article."""
    answers = [entry.message for entry in entries if isinstance(entry.message, AssistantMessage)]
    body = _Body([entry.message for entry in entries if isinstance(entry.message, ToolResultMessage)])
    for entry in entries:
        if entry.label and entry is not entries[0]:
            body.add(f"<p>{entry.label}</p>")
        if isinstance(entry.message, AssistantMessage):
            body.add_answer(entry.message)
        elif isinstance(entry.message, ToolResultMessage):
            body.add_result(entry.message)
    who = ", ".join(dict.fromkeys(answer.model for answer in answers)) or "Results"
    paid = _paid(sum((answer.usage for answer in answers), Usage()))
    return entries[0].article("assistant", who, body.html(), paid) if entries else ""


class _Body:
    """Content of an article, calls that follow each other as one line."""

    def __init__(self, results: Sequence[ToolResultMessage]) -> None:
        """Begin empty; ``results`` are those of the calls that will come."""
        self._results: dict[str, deque[ToolResultMessage]] = {}
        for result in results:
            self._results.setdefault(result.tool_call_id, deque()).append(result)
        self._pieces: list[str] = []
        self._row: list[Node] = []
        """The first card to the last one, with the remarks between them."""
        self._remarks: list[Node] = []
        """Remarks since the last card."""
        self._amount = Steps()

    def html(self) -> str:
        self._end_row()
        return "".join(self._pieces)

    def add(self, piece: str) -> None:
        """Add HTML that ends a row of calls."""
        self._end_row()
        self._pieces.append(piece)

    def add_answer(self, message: AssistantMessage) -> None:
        for block in message.content:
            match block:
                case TextContent():
                    self._add_text(cards.answer(block.text), is_remark=cards.is_remark(block.text))
                case ThinkingContent() if block.thinking:
                    inner = Box("thinking", None, Passage(block.thinking))
                    self._add_text(_folded("Thinking", inner), is_remark=True)
                case ThinkingContent():
                    pass
                case ToolCall():
                    results = self._results.get(block.id)
                    self._add_call(block, results.popleft() if results else None)
        if message.error_message:
            self.add(f'<p class="error">{_escaped(message.error_message)}</p>')

    def add_result(self, result: ToolResultMessage) -> None:
        """Add a result whose call is not here, but on another branch."""
        results = self._results[result.tool_call_id]
        if results and results[0] is result:
            self._add_call(ToolCall(id=result.tool_call_id, name=result.tool_name, arguments={}), results.popleft())

    def _add_text(self, shown: Node, *, is_remark: bool) -> None:
        if is_remark and self._row:
            self._remarks.append(shown)
        else:
            self.add(as_html(shown))

    def _add_call(self, call: ToolCall, result: ToolResultMessage | None) -> None:
        shown = _call(call, result)
        if shown.plan:
            self.add(as_html(cards.card(shown)))  # it stays in sight
            return
        self._row += [*self._remarks, cards.card(shown)]
        self._remarks = []
        self._amount += shown.steps()
        for block in result.content if result else ():
            if isinstance(block, ImageContent):
                self.add(_image(block))

    def _end_row(self) -> None:
        row = [cards.steps(self._amount, self._row)] if self._amount.count > 1 else self._row
        self._pieces += map(as_html, (*row, *self._remarks))
        self._row, self._remarks, self._amount = [], [], Steps()


def _call(call: ToolCall, result: ToolResultMessage | None) -> Call:
    """Return a call as a notebook shows it when it is over."""
    shown = Call(call.name, cards.arguments_of(call), state="not run", folded=True, whole=True)
    shown.described = by_arguments(shown.name, shown.arguments)
    if result is None:
        return shown
    shown.state = cards.state_of(result.details, is_error=result.is_error)
    job = shown.report(result.details)
    shown.output = text_of(cards.for_user(result.content, result.details)) if job is None else job
    details = cards.told_by(result.details)
    code, seconds = details.get("code"), details.get("executionSeconds")
    if isinstance(code, str):  # what ran in a kernel, which the tool knows and its arguments do not say
        others = {name: value for name, value in shown.arguments.items() if value != code}
        shown.described = replace(shown.described, summary="", text="", code=code, details=others)
    if isinstance(seconds, int | float) and 0 <= seconds < _MAX_SECONDS:
        shown.seconds = seconds
    return shown


def _shell(message: BashExecutionMessage) -> str:
    """Return the HTML of a command of the user's."""
    state = "failed" if message.exit_code or message.cancelled else "done"
    ended = "cancelled" if message.cancelled else f"exit code {message.exit_code}"
    call = Call("!", {"command": message.command}, state=state, output=message.output, changed=ended, whole=True)
    return as_html(cards.card(call))


def _content(content: str | list[TextContent | ImageContent]) -> str:
    blocks = [TextContent(text=content)] if isinstance(content, str) else content
    return "".join(
        as_html(cards.answer(block.text)) if isinstance(block, TextContent) else _image(block) for block in blocks
    )


def _attachment(attachment: Attachment) -> str:
    try:
        block = attachment.block()
    except ValueError:
        return f"<p>{_escaped(attachment.title)}</p>"
    if isinstance(block, ImageContent):
        return f"<p>{_escaped(attachment.title)}</p>{_image(block)}"
    return as_html(_folded(attachment.title, CodeBlock(block.text.partition("\n")[2])))


def _image(image: ImageContent) -> str:
    if image.source is not None:
        return f"<p>[image: {_escaped(image.source.url)}]</p>"
    shown = markup.picture(str(image.mime_type), image.data or "", "")
    return f"<p>{shown or '[an image that cannot be shown]'}</p>"


def _folded(title: str, inner: Node) -> Node:
    return Box("card", "call", Fold(Sentence(_one_line(title)), [inner]))


def _paid(usage: Usage) -> str:
    read = usage.input + usage.cache_read + usage.cache_write
    paid, before = usage.cost, usage.cost.before
    cost = cost_in_words(paid.total + (before or 0), paid.unconfirmed or 0, unpriced=bool(paid.unknown), before=before)
    told = usage.total_tokens or paid.unconfirmed or before
    return f" · {read:,} tokens in, {usage.output:,} out · {cost}" if told else ""


def _user_text(node: TreeNode) -> str:
    """Return the text of the first user's message from ``node`` on."""
    for _ in range(_MAX_LOOKED_AT):
        if (text := user_text(node.entry)) or not node.children:
            return text
        node = node.children[0]
    return ""


def _one_line(text: str) -> str:
    return textcut.one_line(markup.plain(text[: 10 * _MAX_TITLE_CHARACTERS]), _MAX_TITLE_CHARACTERS)


def _escaped(text: str) -> str:
    return html.escape(markup.plain(text))

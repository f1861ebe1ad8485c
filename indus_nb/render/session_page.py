"""A session as one HTML page: no network, no scripts, light and dark, for a phone, a screen and paper."""

from __future__ import annotations

import base64
import binascii
import html
import re
from collections.abc import Iterator
from pathlib import Path

from indus_nb import textcut
from indus_nb.errors import SessionFileError, UsageError
from indus_nb.files import write_atomically
from indus_nb.messages import (
    IMAGE_TYPES,
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
from indus_nb.render import markup
from indus_nb.session.stats import session_stats
from indus_nb.storage.entries import milliseconds
from indus_nb.storage.store import SessionStore, TreeNode
from indus_nb.storage.text import user_text
from indus_nb.tools.todo import list_of_result
from indus_nb.wire import dump

_MAX_TITLE_CHARACTERS = 100
# The colours that the styles of markup ask for, which a notebook's front end sets otherwise.
_PAGE_STYLE = """
:root{color-scheme:light dark;--ground:#fff;--ink:#1f2328;--quiet:#656d76;--line:#d0d7de;--raised:#f6f8fa;
--accent:#0969da;--jp-ui-font-color2:var(--quiet);--jp-border-color2:var(--line);
--jp-cell-editor-background:var(--raised);--jp-brand-color1:var(--accent)}
@media(prefers-color-scheme:dark){:root{--ground:#0d1117;--ink:#e6edf3;--quiet:#8d96a0;--line:#30363d;
--raised:#161b22;--accent:#4493f8}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:56rem;padding:1rem;background:var(--ground);color:var(--ink);overflow-wrap:anywhere;
font:16px/1.5 system-ui,sans-serif}
h1{font-size:1.4rem;margin:.5rem 0}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem;color:var(--quiet);font-size:.85rem;margin:0}
dd{margin:0}
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
table{border-collapse:collapse}td,th{border:1px solid var(--line);padding:.2rem .5rem}
@media print{body{max-width:none;padding:0;font-size:11pt}pre{max-height:none!important;white-space:pre-wrap!important}
article{break-inside:avoid-page}details.branch{display:none}}
"""


def page_name(store: SessionStore) -> str:
    """What the file of a session's page is called; the id comes from a file, and could lead to another directory."""
    return f"indusagi-session-{re.sub(r'[^A-Za-z0-9._-]', '_', store.session_id)[:100]}.html"


def export_html(store: SessionStore, path: Path) -> Path:
    """Write a session as a page; the file appears whole or not at all.

    Args:
        store: The session.
        path: The file; missing directories are made, and a file that is there is replaced.

    Returns:
        The absolute path of the file.

    Raises:
        UsageError: The session holds no message.
        SessionFileError: The file cannot be written.
    """
    page = session_page(store)
    path = path.expanduser().absolute()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, page.encode(errors="replace"))
    except (OSError, ValueError) as error:  # a ValueError is a zero byte in the path
        reason = error.strerror if isinstance(error, OSError) else error
        raise SessionFileError(path, f"the page cannot be written ({reason}). Choose another path") from error
    return path


def session_page(store: SessionStore) -> str:
    """The page's HTML; raises ``UsageError`` for a session without messages."""
    if not any(entry.type == "message" for entry in store.entries):
        raise UsageError("Nothing to export yet: start a conversation first.")
    title = store.name or next((text for text in map(_user_text, store.tree()) if text), "") or "Session"
    head = html.escape(_one_line(title))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\';'
        "style-src 'unsafe-inline';img-src data:\">"
        f"<title>{head}</title><style>{_PAGE_STYLE}</style></head><body><header><h1>{head}</h1>{_facts(store)}</header>"
        f"<main>{''.join(_tree(store))}</main></body></html>\n"
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
        "Cost": f"${stats.cost:.4f}",
    }
    return "<dl>" + "".join(f"<dt>{name}</dt><dd>{_escaped(fact)}</dd>" for name, fact in facts.items()) + "</dl>"


def _tree(store: SessionStore) -> Iterator[str]:
    """The conversation up to the leaf, every branch that was left folded away where it begins."""
    active = {entry.id for entry in store.branch()}
    waiting: list[TreeNode | str] = []

    def follow(siblings: list[TreeNode]) -> None:
        if not siblings:
            return
        trunk = next((node for node in siblings if node.entry.id in active), siblings[-1])
        waiting.append(trunk)
        for node in reversed(siblings):
            if node is not trunk:
                text = _one_line(_user_text(node)) or "another branch"
                opening = f'<details class="branch"><summary>Another branch: {html.escape(text)}</summary>'
                waiting.extend(("</details>", node, opening))

    follow(store.tree())
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
        else:
            yield _entry(item)
            follow(item.children)


def _entry(node: TreeNode) -> str:
    try:
        message = node.entry.message
    except ValueError:
        return ""  # of a kind unknown here
    label = f' <span class="label">{_escaped(node.label)}</span>' if node.label else ""
    if message is None or (isinstance(message, CustomMessage) and not message.display):
        return f"<p>{label}</p>" if label else ""
    kind, who, body = _shown(message)
    moment = milliseconds(node.entry.timestamp)
    when = f" · {node.entry.timestamp[:16].replace('T', ' ')} UTC" if moment else ""
    return f'<article class="{kind}"><h2>{_escaped(who)}{when}{label}</h2>{body}</article>'


def _shown(message: Message) -> tuple[str, str, str]:  # noqa: PLR0911 - one for each kind
    """Its class, whose it is, and its body."""
    match message:
        case UserMessage():
            return "user", "User", _content(message.content) + "".join(map(_attachment, message.attachments or ()))
        case AssistantMessage():
            body = "".join(map(_block, message.content))
            if message.error_message:
                body += f'<p class="error">{_escaped(message.error_message)}</p>'
            return "assistant", f"{message.model}{_paid(message.usage)}", body
        case ToolResultMessage():
            return "tool", message.tool_name, _result(message)
        case BashExecutionMessage():
            ended = "cancelled" if message.cancelled else f"exit code {message.exit_code}"
            return "tool", "Shell", _folded(message.command, markup.preformatted(message.output, "output"), ended)
        case CustomMessage():
            return "user", message.custom_type, _content(message.content)
        case BranchSummaryMessage():
            return "summary", "Summary of a branch", _markdown(message.summary)
        case CompactionSummaryMessage():
            return "summary", "Summary of what came before", _markdown(message.summary)


def _block(block: TextContent | ThinkingContent | ToolCall) -> str:
    match block:
        case TextContent():
            return _markdown(block.text)
        case ThinkingContent():
            body = markup.element("div", markup.markdown_html(block.thinking), "thinking")
            return _folded("Thinking", body) if block.thinking else ""
        case ToolCall():
            arguments = dump(block.arguments).decode()
            return _folded(f"{block.name} {_one_line(arguments)}", markup.preformatted(arguments, "arguments"))


def _result(message: ToolResultMessage) -> str:
    details: object = message.details
    diff: object = details.get("diff") if isinstance(details, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if isinstance(diff, str):
        inner = markup.coloured_diff(diff)
    else:
        inner = markup.preformatted(text_of(message.content), "failed-output" if message.is_error else "output")
    title = f"{'✗' if message.is_error else '✓'} {message.tool_name}"
    if (todos := list_of_result(message.tool_name, message.details)) is not None:
        title += f" · {todos.summary}"
        return _folded(title, markup.preformatted(todos.checklist(), "output"), opened=True)
    return _folded(title, inner) + "".join(
        _image(block) for block in message.content if isinstance(block, ImageContent)
    )


def _content(content: str | list[TextContent | ImageContent]) -> str:
    if isinstance(content, str):
        return _markdown(content)
    return "".join(_markdown(block.text) if isinstance(block, TextContent) else _image(block) for block in content)


def _attachment(attachment: Attachment) -> str:
    try:
        block = attachment.block()
    except ValueError:
        return f"<p>{_escaped(attachment.title)}</p>"
    if isinstance(block, ImageContent):
        return f"<p>{_escaped(attachment.title)}</p>{_image(block)}"
    return _folded(attachment.title, markup.preformatted(block.text.partition("\n")[2], "output"))


def _image(image: ImageContent) -> str:
    if image.source is not None:
        return f"<p>[image: {_escaped(image.source.url)}]</p>"
    try:
        data = base64.b64decode(image.data or "", validate=True)
    except binascii.Error:
        data = b""
    if not data or image.mime_type not in IMAGE_TYPES:
        return "<p>[an image that cannot be shown]</p>"
    return f'<p><img alt="" src="data:{image.mime_type};base64,{base64.b64encode(data).decode()}"></p>'


def _markdown(text: str) -> str:
    return markup.page(markup.element("div", markup.markdown_html(text), "answer", "answer"))


def _folded(title: str, body: str, aside: str = "", *, opened: bool = False) -> str:
    shown = markup.escape(_one_line(title))
    if aside:
        shown = markup.element("span", markup.escape(aside), "aside") + shown
    summary = markup.element("summary", shown, "head")
    return markup.page(
        markup.element("div", f"<details{' open' if opened else ''}>{summary}{body}</details>", "card", "call")
    )


def _paid(usage: Usage) -> str:
    read = usage.input + usage.cache_read + usage.cache_write
    return f" · {read:,} tokens in, {usage.output:,} out · ${usage.cost.total:.4f}" if usage.total_tokens else ""


def _user_text(node: TreeNode) -> str:
    """The text of the first user's message from ``node`` on."""
    while not (text := user_text(node.entry)) and node.children:
        node = node.children[0]
    return text


def _one_line(text: str) -> str:
    return textcut.one_line(markup.plain(text[: 10 * _MAX_TITLE_CHARACTERS]), _MAX_TITLE_CHARACTERS)


def _escaped(text: str) -> str:
    return html.escape(markup.plain(text))

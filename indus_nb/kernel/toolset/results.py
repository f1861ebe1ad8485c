"""Results of code for the model, from this process or a kernel that the agent is attached to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from indus_nb.base.events import ToolOutput
from indus_nb.base.messages import ImageContent, TextContent
from indus_nb.base.wire import JsonObject, clean_text
from indus_nb.core.resources.settings import Settings
from indus_nb.kernel.run import charts
from indus_nb.kernel.run.execution import Shown
from indus_nb.kernel.run.outputs import CallOutputs
from indus_nb.safety.redaction import hide_known, labelled_secrets
from indus_nb.tools.files.read import fit_image
from indus_nb.tools.shortening import with_beginning
from indus_nb.tools.tool import ToolContext, ToolError, in_thread

_DRAW_SECONDS = 20.0
_REPORT_EVERY = 0.1


def joined(first: str, *others: str) -> str:
    """Join the printed text as it is, and sentences behind blank lines.

    Args:
        others: The sentences; empty ones are left out.
    """
    return "\n\n".join(part for part in (first, *others) if part)


def without_secrets(value: Any, hide: Callable[[Any], Any], known: Mapping[str, str] | None = None) -> Any:
    """Redact known secrets in a text, and all that ``hide`` redacts in any value.

    Args:
        hide: Returns a value without what a session hides.
        known: As for ``output_of``.

    Returns:
        The value without them.
    """
    if not isinstance(value, str):
        return hide(value)
    return hide(clean_text(hide_known(value, labelled_secrets() if known is None else known)))


class Signal:
    """Signal to a task of this loop, from any thread, that there is more to read."""

    def __init__(self) -> None:
        """Make the signal, on the loop of the task."""
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def set(self) -> None:
        """Wake the task."""
        self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self) -> None:
        """Wait until there is more."""
        await self._event.wait()
        self._event.clear()


async def reported(
    shown: Shown,
    changed: Signal,
    context: ToolContext,
    outputs: CallOutputs,
    details: Callable[[], JsonObject],
    known: Mapping[str, str] | None = None,
) -> None:
    """Report what code has shown so far, as it grows.

    Args:
        known: As for ``output_of``.
    """

    def report() -> None:
        text = shown.text().content
        outputs.show(shown.card_text() or text, shown.displays.outputs)
        cleaned = without_secrets(text, str, known)
        context.report(ToolOutput(content=[TextContent(text=cleaned)] if cleaned else [], details=details()))

    report()
    while True:
        await changed.wait()
        report()
        await asyncio.sleep(_REPORT_EVERY)


async def output_of(
    shown: Shown,
    how: Literal["done", "failed"],
    ending: str,
    details: JsonObject,
    settings: Settings,
    outputs: CallOutputs,
    known: Mapping[str, str] | None = None,
) -> ToolOutput:
    """Build the tool's output.

    Args:
        ending: How the code ended, as a sentence; empty if there is nothing to say.
        details: The details for front ends; notes on truncation are added.
        known: Values to be hidden, with their placeholders; those of this process's environment if left out.

    Raises:
        ToolError: The code has failed; with the images that there are.
    """
    tail, printed, displays = shown.tail, shown.text(), shown.displays
    details |= printed.details() or {}
    drawn = await _drawn(displays.charts)
    secrets = labelled_secrets() if known is None else known
    parts = [hide_known(printed.content, secrets)]
    printed = printed.replace(beginning=hide_known(printed.beginning, secrets))
    notice = ""
    if printed.truncated:
        details |= {"fullOutputPath": str(tail.path)} if tail.path else {}
        notice = f"[The end of {printed.total_lines} lines. " + (
            f"All of it: {tail.path}]" if tail.path else f"The rest could not be kept: {tail.file_problem}]"
        )
        parts.append(notice)
    pictures = [*displays.images, *(picture for picture in drawn.values() if isinstance(picture, bytes))]
    images, problems = await in_thread(lambda _: _fitted(pictures, resize=settings.images.auto_resize))
    if displays.more_images:
        problems.append(f"{displays.more_images} more images were left out.")
    parts += [*(f"[{problem}]" for problem in problems), *displays.told_at_end(outputs.place, drawn)]
    card = joined(shown.card_text(), displays.left_out(), ending)
    text = joined(*parts, ending)
    if how == "done":
        text = text if text or images else "(no output)"
        outputs.show(card or "(no output)" if not displays.outputs else card, displays.outputs)
        blocks: list[TextContent | ImageContent] = [TextContent(text=clean_text(text))] if text else []
        return with_beginning(ToolOutput(content=[*blocks, *images], details=details), printed, f"\n\n{notice}")
    outputs.show(card, displays.outputs)
    failure = ToolError(text.rstrip(), details)
    failure.output = with_beginning(failure.output, printed, f"\n\n{notice}")
    failure.output.content.extend(images)
    raise failure


async def _drawn(shown: Sequence[charts.Chart]) -> dict[charts.Chart, bytes | str]:
    """Draw charts as pictures; give up on those that take too long."""
    if not shown:
        return {}
    try:
        return await asyncio.wait_for(in_thread(lambda _: charts.draw(shown), patience=0), _DRAW_SECONDS)
    except TimeoutError:
        return dict.fromkeys(shown, f" (it could not be drawn within {_DRAW_SECONDS:g} seconds)")


def _fitted(images: list[bytes], *, resize: bool) -> tuple[list[ImageContent], list[str]]:
    """Return the images in a form that models accept, and the reasons against the others."""
    fitted: list[ImageContent] = []
    problems: list[str] = []
    for data in images:
        try:
            fitted.append(fit_image(data, "An image", resize=resize)[0])
        except ToolError as error:
            problems.append(str(error))
    return fitted, problems

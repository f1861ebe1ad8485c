"""Results of code for the model, from this process or a kernel that the agent is attached to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from indus_nb.base.messages import ImageContent
from indus_nb.base.wire import JsonObject, clean_text
from indus_nb.kernel.run import charts
from indus_nb.kernel.run.outputs import Displays, Place
from indus_nb.safety.redaction import hide_known, labelled_secrets
from indus_nb.tools.files.read import fit_image
from indus_nb.tools.tool import ToolError, in_thread
from indus_nb.tools.truncate import GrowingTail, Truncation

_DRAW_SECONDS = 20.0


async def told(
    tail: GrowingTail,
    shown: Truncation,
    displays: Displays,
    place: Place | None,
    details: JsonObject,
    *,
    resize: bool,
    known: Mapping[str, str] | None = None,
) -> tuple[list[str], list[ImageContent]]:
    """Return the results for the model, without how the code ended.

    Args:
        place: Where the user sees the call.
        details: The details for front ends; notes on truncation are added.
        known: Values to be hidden, with their placeholders; those of this process's environment if left out.
    """
    details |= shown.details() or {}
    drawn = await _drawn(displays.charts)
    parts = [hide_known(shown.content, labelled_secrets() if known is None else known)]
    if shown.truncated:
        details |= {"fullOutputPath": str(tail.path)} if tail.path else {}
        parts.append(
            f"[The end of {shown.total_lines} lines. "
            + (f"All of it: {tail.path}]" if tail.path else f"The rest could not be kept: {tail.file_problem}]")
        )
    pictures = [*displays.images, *(picture for picture in drawn.values() if isinstance(picture, bytes))]
    images, problems = await in_thread(lambda _: _fitted(pictures, resize=resize))
    if displays.more_images:
        problems.append(f"{displays.more_images} more images were left out.")
    parts += [f"[{problem}]" for problem in problems]
    return [*parts, *displays.told_at_end(place, drawn)], images


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
        known: As for ``told``.

    Returns:
        The value without them.
    """
    if not isinstance(value, str):
        return hide(value)
    return hide(clean_text(hide_known(value, labelled_secrets() if known is None else known)))


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

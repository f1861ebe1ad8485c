"""Pictures of a page for the README: a still, and a short film of screenshots."""

from __future__ import annotations

import io
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from messages_api import Gate
from PIL import Image
from playwright.sync_api import Page


class Film:
    """Films ``page`` where it is told to look; when it does not ``run`` it only does what the film is about."""

    def __init__(self, page: Page, *, runs: bool) -> None:
        self.runs = runs
        self._page = page
        self._frames: list[Image.Image] = []
        self._lengths: list[float] = []

    def look(self, seconds: float) -> None:
        """Show what the page shows now for so long."""
        if self.runs:
            self._add(self._picture(), seconds)

    def type(self, text: str) -> None:
        """Type as somebody would."""
        for start in range(0, len(text), 3):
            self._page.keyboard.type(text[start : start + 3])
            self.look(0.08)

    def stream(self, gates: Iterable[Gate]) -> None:
        """Let an answer come, piece by piece."""
        for gate in gates:
            if self.runs:
                gate.reached.wait(60)
                self.look(0.14)
            gate.open()

    def follow(self, seconds: float) -> None:
        """Look for so long, as often as may be."""
        end = time.monotonic() + seconds
        while self.runs and time.monotonic() < end:
            began = time.monotonic()
            picture = self._picture()
            self._add(picture, time.monotonic() - began)

    def save(self, path: Path, width: int) -> None:
        """Write what was filmed as a GIF that goes on for ever."""
        shown = [
            frame.resize((width, frame.height * width // frame.width), Image.Resampling.LANCZOS)
            for frame in self._frames
        ]
        palette = _palette(shown)  # one for all, so that what does not change has the same pixels in each frame
        frames = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in shown]
        lengths = [round(length * 100) * 10 for length in self._lengths]
        frames[0].save(path, save_all=True, append_images=frames[1:], duration=lengths, loop=0, optimize=False)

    def _picture(self) -> Image.Image:
        return Image.open(io.BytesIO(self._page.screenshot(scale="css"))).convert("RGB")

    def _add(self, picture: Image.Image, seconds: float) -> None:
        if self._frames and picture.tobytes() == self._frames[-1].tobytes():
            self._lengths[-1] += seconds
        else:
            self._frames.append(picture)
            self._lengths.append(seconds)


def still(page: Page, path: Path) -> None:
    """Write a picture of the page, of few bytes and sharp on every screen."""
    shot = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    shot.quantize(palette=_palette([shot]), dither=Image.Dither.NONE).save(path, optimize=True)


def _palette(pictures: Sequence[Image.Image]) -> Image.Image:
    """The most frequent colours: a page is made of few, and what is between them is at the edges of letters."""
    found: Counter[tuple[int, ...]] = Counter()
    for picture in [*pictures[:: max(1, len(pictures) // 16)], pictures[-1]]:
        for count, colour in picture.getcolors(picture.width * picture.height):
            found[colour] += count
    chosen: dict[tuple[int, ...], tuple[int, ...]] = {}
    for colour, _ in found.most_common():
        chosen.setdefault(tuple(component >> 3 for component in colour), colour)
    palette = Image.new("P", (1, 1))
    palette.putpalette([component for colour in [*chosen.values()][:256] for component in colour])
    return palette

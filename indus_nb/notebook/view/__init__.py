"""Events as blocks, blocks as MIME bundles, and where they are drawn: a cell's output, or a widget while they grow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indus_nb._moved import Renamed

if not TYPE_CHECKING:
    __getattr__ = Renamed(
        __name__,
        {
            "CellView": "indus_nb.notebook.view.cell:CellView",
            "LiveDrawing": "indus_nb.notebook.view.growing:LiveDrawing",
            "StaticDrawing": "indus_nb.notebook.view.cell:StaticDrawing",
            "live_state": "indus_nb.notebook.view.growing:live_state",
        },
    )

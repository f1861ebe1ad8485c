"""Undo and redo of what code did to variables, settings, files and cells.

>>> namespace, code = {"rows": [1, 2]}, "rows.append(3)"
>>> checkpoint = take(namespace, code)
>>> exec(code, namespace)
>>> change = checkpoint.close()
>>> change.summary
'rows 2 → 3 items'
>>> sorted(change.undo())
['rows']
>>> namespace["rows"]
[1, 2]

It reaches neither notebooks nor sessions: for cells of a notebook it makes plans. Nothing is copied but bytes of
buffers, nothing has to be picklable, and a library is never imported: its objects are known by the names of their
classes.
"""

from indus_nb.kernel.undo.budget import CheckpointBudget
from indus_nb.kernel.undo.cells import (
    CellEdit,
    CellsChange,
    CellsPlan,
    CellState,
    CellStep,
    RemovedCell,
    leave_cells,
    new_cell,
    plan_cells,
)
from indus_nb.kernel.undo.change import Change
from indus_nb.kernel.undo.checkpoint import Checkpoint, forecast, take
from indus_nb.kernel.undo.contents import Contents
from indus_nb.kernel.undo.files import Files, FilesChange
from indus_nb.kernel.undo.history import History, Moved, NamedState
from indus_nb.kernel.undo.reading import Reading, read
from indus_nb.kernel.undo.states import LAST, Dropped, is_of_left
from indus_nb.kernel.undo.steps import Book, Maker, Step, Touched
from indus_nb.kernel.undo.transaction import RefusedError, TouchedError, carry_out
from indus_nb.kernel.undo.walk import can_change_inside

__all__ = [
    "LAST",
    "Book",
    "CellEdit",
    "CellState",
    "CellStep",
    "CellsChange",
    "CellsPlan",
    "Change",
    "Checkpoint",
    "CheckpointBudget",
    "Contents",
    "Dropped",
    "Files",
    "FilesChange",
    "History",
    "Maker",
    "Moved",
    "NamedState",
    "Reading",
    "RefusedError",
    "RemovedCell",
    "Step",
    "Touched",
    "TouchedError",
    "can_change_inside",
    "carry_out",
    "forecast",
    "is_of_left",
    "leave_cells",
    "new_cell",
    "plan_cells",
    "read",
    "take",
]

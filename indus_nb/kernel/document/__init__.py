"""The notebook file of a kernel: finding it, its cells for the model, and cells that the model proposes."""

from indus_nb.kernel.document.notebook_file import (
    Cell,
    NotebookFile,
    Traces,
    find_notebook,
    named_notebook,
    read_notebook,
)
from indus_nb.kernel.document.notebook_tools import NotebookTools, WrittenCell
from indus_nb.kernel.document.page_cells import FinishedCell
from indus_nb.kernel.document.reading import NotebookReader, Reading
from indus_nb.kernel.document.run_cells import RunCells

__all__ = [
    "Cell",
    "FinishedCell",
    "NotebookFile",
    "NotebookReader",
    "NotebookTools",
    "Reading",
    "RunCells",
    "Traces",
    "WrittenCell",
    "find_notebook",
    "named_notebook",
    "read_notebook",
]

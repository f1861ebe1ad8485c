"""The notebooks that are shown to users, run as on a machine with no key, no network and nobody to ask.

What they show is made the same for every machine and every run, so that it can be kept in the files and compared.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import nbformat
from kernels import private_environment
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).resolve().parents[1] / "notebooks"
NAMES = (
    "quickstart",
    "data_analysis",
    "answers_that_stay_true",
    "tools_from_functions",
    "dialogs_and_gates",
    "branches",
    "replay_in_ci",
    "many_rows",
    "embedding_rpc",
)

_KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
_NOWHERE = "http://127.0.0.1:9"
_SAVED: Mapping[str, str] = {
    # Folders of sessions are named after the folder that they belong to.
    r"sessions/--[\w-]+?-notebooks--/": "sessions/--home-you-notebooks--/",
    r"\btmp[a-z0-9_]{8}\b": "tmp",
    r"\b\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{3}Z": "2026-01-01T12-00-00-000Z",
    r"\b\d{4}-\d\d-\d\d \d\d:\d\d\b": "2026-01-01 12:00",
    r"\b\d+\.\d s\b": "0.1 s",
    r"(?<![0-9a-f])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b": "00000000-0000-7000-8000-000000000000",
    r" at 0x[0-9a-f]+": " at 0x…",
    # A share of the memory that the machine has free.
    r"(?<=\bAll steps take 0 kB of )[\d,.]+ MB": "1,000.0 MB",
}
"""What is never the same in two runs, and what stands for it in the files."""
_ID = re.compile(r"\b(?=[0-9a-f]{0,7}\d)[0-9a-f]{8}(?:-[0-9a-f]{1,4})?\b(?!-)")
"""Of an entry, or the beginning of a session's. They are counted, so that the same one stays the same."""
_SUBSTANCE: Mapping[str, str] = {
    # They depend on every word of the prompts and descriptions that come with a request.
    r"(?m)^(\S+ · )(?:[\d,]+ tokens in.*|\d+\.\d s)$": r"\1usage",
    r"(?m)^(Context · .*?about )[\d,]+(?= tokens$)": r"\1some",
    # Only of calls that took long enough to be told.
    r"(?m)  \(0\.1 s\)$": "",
    r"(?m)^(\d+ steps(?: · \d+ (?:failed|not run))*) · \d+\.\d s$": r"\1",
    r"(?m)^(tokens in|tokens out|cost|context) +.*$": r"\1",
    r"(?<=older part of )[\d,]+(?= tokens)": "some",
    r"(?m)^(job-\d+ .* (?:has run for|after) )\d+ s\.$": r"\1some time.",
    # The same figure is another file with another version of matplotlib.
    r"(?m)(?<=^\[image: image/png, )[\d,]+(?= bytes\]$)": "some",
}
"""What may differ between a saved output and a new one that says the same."""


def executed(name: str, root: Path, **more: str) -> nbformat.NotebookNode:
    """The notebook of that name after it ran in a copy of its folder below ``root``; ``more`` goes to its environment.

    Raises ``nbclient.exceptions.CellExecutionError`` when a cell fails.
    """
    folder = root / "notebooks"
    shutil.copytree(NOTEBOOKS, folder)
    (root / "tmp").mkdir()
    environment = private_environment(
        root,
        TMPDIR=str(root / "tmp"),
        **{f"{scheme}_PROXY": _NOWHERE for scheme in ("HTTP", "HTTPS", "ALL")},
        NO_PROXY="127.0.0.1",
        **more,
    )
    (root / "agent" / "settings.json").unlink()  # what a notebook needs it says itself
    notebook = nbformat.read(folder / f"{name}.ipynb", as_version=4)
    client = NotebookClient(
        notebook,
        timeout=None,
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(folder)}},
    )
    client.execute(env=environment)
    return _portable(notebook, root)


def plain_outputs(notebook: nbformat.NotebookNode) -> list[str]:
    """What each code cell shows as plain text, without what two runs of the same notebook need not share."""
    return [
        # How many displays were emptied when calls folded depends on how fast they were.
        _replaced("\n".join(filter(None, map(_plain, cell.outputs))), _SUBSTANCE)
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def _plain(output: nbformat.NotebookNode) -> str:
    match output.output_type:
        case "stream":
            return output.text
        case "error":
            return output.evalue
        case _:
            return output.data["text/plain"]


def _portable(notebook: nbformat.NotebookNode, root: Path) -> nbformat.NotebookNode:
    notebook.metadata = nbformat.from_dict({"kernelspec": _KERNEL, "language_info": {"name": "python"}})
    ids: dict[str, str] = {}

    def portable(text: str) -> str:
        text = text.replace(str(root), "/home/you")
        text = _ID.sub(lambda found: ids.setdefault(found[0], f"{len(ids) + 1:08}"), text)
        return _replaced(text, _SAVED)

    for cell in notebook.cells:
        tags = cell.metadata.get("tags")  # such as that a cell is to fail
        cell.metadata = nbformat.from_dict({"tags": tags} if tags else {})
        for holder, key in _texts(cell.get("outputs", ())):
            holder[key] = portable(holder[key])
    return notebook


def _texts(outputs: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """Where the texts of outputs stand."""
    for output in outputs:
        for key in ("text", "evalue"):
            if key in output:
                yield output, key
        traceback = output.get("traceback", [])
        yield from ((traceback, number) for number in range(len(traceback)))
        yield from ((output.data, kind) for kind in output.get("data", ()) if kind.startswith("text/"))


def _replaced(text: str, rules: Mapping[str, str]) -> str:
    for pattern, replacement in rules.items():
        text = re.sub(pattern, replacement, text)
    return text

"""What makes one site of the Markdown files of this repository: a hook of mkdocs, see mkdocs.yml.

Those beside the README become pages too, links between all of them are made to fit, and the README is the first page.
"""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
BESIDE_THE_README = ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
_LINK = re.compile(r"(\]\()(?!https?://|#|mailto:)([^)#\s]+)")
_ALERT = re.compile(r"^> \[!(\w+)\]\n((?:>.*\n?)+)", re.MULTILINE)


def on_files(files: Files, config: Any) -> Files:
    """Add what lies outside of docs/: pages, notebooks, and the tour as a page."""
    files.append(File.generated(config, "index.md", content=page_of(ROOT / "README.md")))
    for name in BESIDE_THE_README:
        files.append(File.generated(config, name, content=page_of(ROOT / name)))
    tour = (ROOT / "docs" / "tour.py").read_text(encoding="utf-8")
    files.append(File.generated(config, "tour.md", content=f"# A session by hand\n\n```python\n{tour}```\n"))
    for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
        files.append(File.generated(config, f"notebooks/{notebook.name}", abs_src_path=str(notebook)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn the warnings of code hosts into those of the site, and links beside docs/ into those to its pages."""

    def admonition(found: re.Match[str]) -> str:
        lines = re.sub(r"^> ?", "    ", found[2], flags=re.MULTILINE)
        return f"!!! {found[1].lower()}\n\n{lines}\n"

    markdown = markdown.replace("](../README.md", "](index.md").replace("](../notebooks/", "](notebooks/")
    for name in BESIDE_THE_README:
        markdown = markdown.replace(f"](../{name}", f"]({name}")
    return _ALERT.sub(admonition, markdown)


def page_of(path: Path) -> str:
    """The text of a Markdown file at the root of the repository, with links as they are below docs/."""

    def moved(found: re.Match[str]) -> str:
        target = found[2].removeprefix("docs/")
        return found[1] + {"README.md": "index.md", "tour.py": "tour.md"}.get(target, target)

    return _LINK.sub(moved, path.read_text(encoding="utf-8"))

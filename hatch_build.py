"""What is written into the package's metadata when it is built: see ``[tool.hatch.metadata.hooks.custom]``.

The README of a release has whole addresses instead of relative ones, which PyPI cannot follow, and the release names
where it is from. Both come from the environment, as no address is known before: ``INDUS_NB_REPOSITORY`` is that of the
repository (``https://github.com/OWNER/NAME``), ``INDUS_NB_TAG`` the tag that is built. Without them the README stays as
it is.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(?P<image>!?)(?P<text>\[[^][]*\])\((?P<target>(?!https?://|#|mailto:)[^)\s]+)\)")


class ReleaseMetadata(MetadataHookInterface):
    """The README, and the addresses of the project."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Set what ``project.dynamic`` leaves to this hook."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["urls"] = {}
        repository, tag = os.environ.get("INDUS_NB_REPOSITORY", "").rstrip("/"), os.environ.get("INDUS_NB_TAG", "")
        if repository and tag:
            text = _LINK.sub(lambda link: _absolute(link, repository, tag), text)
            metadata["urls"] = {
                "Source": repository,
                "Documentation": f"{repository}/tree/{tag}/docs",
                "Issues": f"{repository}/issues",
                "Changelog": f"{repository}/blob/{tag}/CHANGELOG.md",
            }
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def _absolute(link: re.Match[str], repository: str, tag: str) -> str:
    kind = "raw" if link["image"] else "blob"
    return f"{link['image']}{link['text']}({repository}/{kind}/{tag}/{link['target']})"

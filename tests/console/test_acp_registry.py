"""What the registry of ACP agents is given says what this package is."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from xml.etree import ElementTree as ET

from indus_nb.version import __version__

ROOT = Path(__file__).parents[2]
ENTRY = ROOT / "docs" / "acp-registry" / "indusagi"


def test_the_entry_starts_this_version_by_a_program_that_it_installs() -> None:
    entry = json.loads((ENTRY / "agent.json").read_text())
    name, _, version = entry["distribution"]["uvx"]["package"].partition("==")
    assert entry["version"] == version == __version__
    assert entry["id"] == ENTRY.name
    assert entry["distribution"]["uvx"]["args"] == ["--mode", "acp"]
    assert name in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]


def test_the_icon_is_small_and_takes_the_colour_of_the_text() -> None:
    icon = ET.parse(ENTRY / "icon.svg").getroot()
    assert (icon.get("width"), icon.get("height"), icon.get("viewBox")) == ("16", "16", "0 0 16 16")
    colours = {icon.get(name) for name in ("fill", "stroke")}
    assert colours == {"none", "currentColor"}

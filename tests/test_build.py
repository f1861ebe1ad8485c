"""What is built for PyPI: a README whose links lead somewhere, and a source distribution from which all can be made."""

from __future__ import annotations

import re
import tarfile
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest
from installing import ROOT, Installer

REPOSITORY = "https://code.example/somebody/indus_nb"


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as opened:
        (name,) = [name for name in opened.namelist() if name.endswith(".dist-info/METADATA")]
        return message_from_bytes(opened.read(name))


def description(message: Message) -> str:
    content = message.get_payload(decode=True)
    assert isinstance(content, bytes)
    return content.decode()


def test_without_an_address_the_readme_is_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INDUS_NB_REPOSITORY", raising=False)
    built = metadata(Installer().build(tmp_path))
    assert built.get_all("Project-URL") is None
    assert description(built).strip() == (ROOT / "README.md").read_text(encoding="utf-8").strip()


def test_a_release_has_whole_addresses_and_all_that_the_site_is_made_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INDUS_NB_REPOSITORY", REPOSITORY)
    monkeypatch.setenv("INDUS_NB_TAG", "v1.2.3")
    installer = Installer()
    wheel = installer.build(tmp_path)
    built = metadata(wheel)
    assert f"Source, {REPOSITORY}" in built.get_all("Project-URL", [])
    text = description(built)
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    assert f"]({REPOSITORY}/blob/v1.2.3/docs/models.md)" in text
    assert f"]({REPOSITORY}/raw/v1.2.3/docs/screenshot.png)" in text
    assert [target for target in re.findall(r"\]\(([^)]+)\)", prose) if not target.startswith("https://")] == []
    code = re.findall(r"^```.*?^```", text, flags=re.MULTILINE | re.DOTALL)
    assert code == re.findall(
        r"^```.*?^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
    assert not [name for name in names if name.endswith(".map") or "tests/" in name]
    if installer.uv:  # pip leaves none behind
        (source,) = tmp_path.glob("*.tar.gz")
        with tarfile.open(source) as archive:
            held = {name.partition("/")[2] for name in archive.getnames()}
        assert {"SECURITY.md", "mkdocs.yml", "docs/_site.py", "hatch_build.py", "notebooks/quickstart.ipynb"} <= held

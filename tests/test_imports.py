"""What a start and a first prompt import, and what they do without."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import asyncio, sys
from indus_nb.front.console.rpc import RpcServer
from indus_nb.start import SessionOptions, open_session
from indus_nb.base.wire_model import WireModel

class Writer:
    wire = "snapshot"
    def send_line(self, line):
        assert b'"success":true' in line, line

async def main():
    with open_session(SessionOptions(provider="anthropic", model="claude-haiku-4-5", no_session=True)) as session:
        RpcServer(session, Writer()).handle_line(b'{"type":"get_state"}')

asyncio.run(main())
early = {name for name in sys.modules if name in UNWANTED or name.startswith("indus_nb.extend")}
assert not early, early
assert len([name for name in sys.modules if name.startswith("indus_nb.")]) <= 108
"""
UNWANTED = {
    "pydantic", "pydantic_core",
    "anthropic", "openai", "httpx2", "httpx", "PIL", "yaml", "json5", "regex", "IPython", "mcp",
    "importlib.metadata", "difflib", "shlex", "tempfile", "indus_nb.tools.files.writing", "indus_nb.tools.files.search",
    "indus_nb.tools.files.read", "indus_nb.tools.todo", "indus_nb.front.console.once", "indus_nb.render.markup",
    "indus_nb.core.session.stats", "indus_nb.core.resources.loading",
}  # fmt: skip


def test_the_state_of_a_session_is_answered_without_what_only_its_work_needs(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "INDUS_NB_AGENT_DIR": str(tmp_path)}
    program = f"UNWANTED = {UNWANTED!r}\n{PROGRAM}"
    subprocess.run([sys.executable, "-c", program], check=True, env=environment, cwd=tmp_path)


FIRST_PROMPT = """
import sys
from indus_nb.start import SessionOptions, open_session

with open_session(SessionOptions(provider="offline", no_session=True), definable=False) as session:
    session.run("hello")
early = UNWANTED & set(sys.modules)
assert not early, early
"""
UNWANTED_BY_A_PROMPT = {
    "pydantic", "pydantic_core",
    "PIL", "yaml", "json5", "regex", "difflib", "tomllib", "html", "indus_nb.extend.events",
    "indus_nb.extend.host", "indus_nb.extend.definitions", "indus_nb.core.resources.stream_rules",
    "indus_nb.tools.files.edit", "indus_nb.tools.todo", "indus_nb.tools.function", "indus_nb.extend.mcp.servers",
}  # fmt: skip


def test_a_prompt_without_extensions_imports_nothing_of_theirs(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "INDUS_NB_AGENT_DIR": str(tmp_path)}
    program = f"UNWANTED = {UNWANTED_BY_A_PROMPT!r}\n{FIRST_PROMPT}"
    subprocess.run([sys.executable, "-c", program], check=True, env=environment, cwd=tmp_path)

"""A kernel whose configuration loads the extension before the kernel has begun does all that others do."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from attaching import attached_to
from kernels import Cell, Kernel, private_environment
from messages_api import MessagesApi, Reply, ToolUse
from panel_pages import Page, Wire
from waiting import wait_until

CONFIGURATION = 'c = get_config()\nc.InteractiveShellApp.extensions.append("indus_nb")\n'
MODEL = "--model claude-sonnet-4-5 --thinking off --approve never"


@pytest.fixture
def environment(tmp_path: Path, api: MessagesApi) -> Mapping[str, str]:
    (tmp_path / "a.ipynb").write_text('{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}')
    environment = private_environment(
        tmp_path, JPY_SESSION_NAME=str(tmp_path / "a.ipynb"), ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key"
    )
    profile = Path(environment["IPYTHONDIR"], "profile_default")
    profile.mkdir(parents=True, exist_ok=True)
    (profile / "ipython_config.py").write_text(CONFIGURATION)
    return environment


def test_a_prompt_that_no_cell_waits_for_runs_code(
    tmp_path: Path, environment: Mapping[str, str], api: MessagesApi
) -> None:
    api.add(Reply(ToolUse("python", {"code": "found = 40 + 2"})), Reply("Done."))
    before = len(api.requests)
    with Kernel(tmp_path, environment) as kernel:
        kernel.run(f"%agent --no-wait {MODEL} go")
        wait_until(lambda: len(api.requests) == before + 2)
        assert "nothing can run" not in str(api.requests[-1].body["messages"])
        assert kernel.run("print(found)").streams == "42\n"


def test_a_panel_looks_expressions_up_and_runs_code(
    tmp_path: Path, environment: Mapping[str, str], api: MessagesApi
) -> None:
    with Kernel(tmp_path, environment) as kernel:
        wire = Wire(kernel)
        kernel.run(f"%agent --new {MODEL}\norders = [1, 2]")
        page = Page(wire, _widget(kernel.begin("%agent panel", asks=True).finish()))
        api.add(Reply(ToolUse("python", {"code": "orders.append(3)"})), Reply("It is `{python} len(orders)` now."))
        page.prompt("There are {len(orders)} of $orders.")
        page.wait_until_idle("It is")
        assert "There are 2 of" in str(api.requests[-2].body["messages"])
        assert kernel.run("print(orders)").streams == "[1, 2, 3]\n"
        wire.close()


async def test_an_attached_program_runs_code_before_any_cell(tmp_path: Path, environment: Mapping[str, str]) -> None:
    Path(environment["INDUS_NB_AGENT_DIR"], "settings.json").write_text('{"approve": "never"}')
    with Kernel(tmp_path, environment) as kernel:
        attached = await attached_to(kernel)
        try:
            async with asyncio.timeout(60):
                assert "42" in await attached.text("python", code="found = 40 + 2; print(found)")
        finally:
            await attached.kernel.close()
        assert kernel.run("print(found)").streams == "42\n"


def _widget(cell: Cell) -> str:
    (bundle,) = next(iter(cell.displays.values()))
    view: Any = bundle["application/vnd.jupyter.widget-view+json"]
    return view["model_id"]

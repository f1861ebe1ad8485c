"""Notebooks written cell by cell, for tests that read them."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

from PIL import Image


def code(source: str, *outputs: dict[str, Any], own_id: str | None = None, run_as: int | None = None) -> dict[str, Any]:
    cell = {"cell_type": "code", "source": source, "metadata": {}, "outputs": [*outputs], "execution_count": run_as}
    return cell if own_id is None else {**cell, "id": own_id}


def stream(text: str | list[str]) -> dict[str, Any]:
    return {"output_type": "stream", "name": "stdout", "text": text}


def shown(**data: Any) -> dict[str, Any]:
    bundle = {name.replace("_", "/", 1): value for name, value in data.items()}
    return {"output_type": "display_data", "data": bundle, "metadata": {}}


def png(width: int = 2, height: int = 2) -> str:
    buffer = io.BytesIO()
    Image.new("RGB", (width, height), "red").save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode()


def write(path: Path, *cells: dict[str, Any], **more: Any) -> Path:
    path.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [*cells], **more}))
    return path

"""What the front end of this process brings to code of the user's that asks for rows; a notebook sets it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

reporter: Callable[[bool], Any] | None = None
"""Returns the progress display of many rows, given whether it is to be seen; ``None`` where it has none."""
usual_model: Callable[[], tuple[str, str] | None] | None = None
"""Returns provider and id of the model that rows are asked of unless another is named, or ``None``."""

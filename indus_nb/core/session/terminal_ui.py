"""Methods of programs that own a terminal, which do nothing here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from indus_nb.base.wire import JsonObject


class TerminalUi:
    """Methods for programs that own a terminal. Extensions written for one call them, so each has a harmless answer."""

    async def custom(self, factory: Callable[..., Any] | None = None, **_: Any) -> None:
        """Accept a component of an extension's own for the terminal; nothing is shown."""

    def set_footer(self, factory: Callable[..., Any] | None = None) -> None:
        """Do nothing, as the other setters here."""

    set_header = set_footer
    set_editor_component = set_footer

    def set_working_visible(self, visible: bool) -> None:  # noqa: FBT001 - as everywhere in this family of programs
        """Do nothing."""

    set_tools_expanded = set_working_visible

    def set_working_indicator(self, options: Any = None) -> None:
        """Do nothing."""

    set_hidden_thinking_label = set_working_indicator

    def add_autocomplete_provider(self, factory: Callable[..., Any]) -> None:
        """Do nothing; commands have ``complete``."""

    def on_terminal_input(self, _handler: Callable[..., Any]) -> Callable[[], None]:
        """Return a callback that does nothing; the handler is never called."""
        return lambda: None

    def get_editor_text(self) -> str:
        """Return an empty text: no front end reports what the user is writing."""
        return ""

    def get_tools_expanded(self) -> bool:
        """Return ``False``."""
        return False

    @property
    def theme(self) -> None:
        """Return ``None``: there are no themes."""

    def get_all_themes(self) -> list[JsonObject]:
        """Return an empty list."""
        return []

    def get_theme(self, name: str) -> None:
        """Return ``None``."""

    def set_theme(self, _theme: Any) -> JsonObject:
        """Return that it cannot be done."""
        return {"success": False, "error": f"Theme switching not supported in {self._place}"}

    _place = "this interface"

"""Connections to databases in memory, kept from being changed while code is tried in a copy of the kernel.

What such a connection holds cannot be compared, but the database itself can refuse to change: DuckDB in a transaction
that only reads, SQLite by its authorizer. So a copy knows of a query whether it changes anything, and asks nobody
about one that does not.
"""

from __future__ import annotations

import contextlib
import sqlite3
import sys
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from indus_nb.effects import Effect
from indus_nb.preview import Stop

_DUCKDB = "duckdb"
_BEGIN = "begin transaction read only"
_STATE = (
    "select name, value from duckdb_settings()",
    "select database_name from duckdb_databases()",
    "select database_name, schema_name, table_name, temporary from duckdb_tables()",
    "select database_name, schema_name, view_name from duckdb_views()",
    "select extension_name from duckdb_extensions() where loaded",
    "select name, statement from duckdb_prepared_statements()",
)
"""What of a connection of DuckDB a transaction that only reads can change all the same."""
_CHANGES = "create table indus_nb_guard as select 1"
_READS = frozenset(
    getattr(sqlite3, name)
    for name in ("SQLITE_SELECT", "SQLITE_READ", "SQLITE_FUNCTION", "SQLITE_RECURSIVE", "SQLITE_TRANSACTION")
)
_PRAGMAS = frozenset({"foreign_key_check", "foreign_key_list", "integrity_check", "quick_check"}) | {
    f"{what}_{form}" for what in ("table", "index") for form in ("info", "xinfo", "list")
}
"""Those of SQLite whose argument is what they tell about; that of others is a new value."""


class Databases:
    """The connections that code reaches, guarded from its beginning on.

    Attributes:
        names: The variables that are such connections.
    """

    def __init__(self, held: Mapping[str, Any], names: Collection[str], stop: Stop) -> None:
        """Guard them.

        Args:
            held: The variables.
            names: Those that the code reaches.
            stop: Ends the copy with what the code was about to do.
        """
        self.names: set[str] = set()
        self._guarded: dict[str, tuple[Any, Any]] = {}
        for name in names & held.keys():
            if type(held[name]) is sqlite3.Connection:
                held[name].set_authorizer(_authorizer(name, stop))
                self.names.add(name)
        for name, connection in _of_duckdb(held, names):
            with contextlib.suppress(Exception):  # in a transaction already, closed, or too old: it stays unknown
                connection.execute(_BEGIN)
                self._guarded[name] = connection, _state(connection)
                self.names.add(name)

    def changes(self) -> list[Effect]:
        """Return what the code did to those that report nothing by themselves."""
        return [effect for name, (each, before) in self._guarded.items() for effect in _changes(name, each, before)]


def _authorizer(name: str, stop: Stop) -> Any:
    def allow(action: int, *about: object) -> int:
        if action not in _READS:
            if action == getattr(sqlite3, "SQLITE_PRAGMA", 19) and (about[1] is None or about[0] in _PRAGMAS):
                return sqlite3.SQLITE_OK
            stop(Effect("changes_variable", name, f"changes the database {name}"))
        return sqlite3.SQLITE_OK

    return allow


def _of_duckdb(held: Mapping[str, Any], names: Collection[str]) -> Iterator[tuple[str, Any]]:
    library: Any = sys.modules.get(_DUCKDB)
    if library is None:
        return
    for name in names & held.keys():
        if isinstance(held[name], library.DuckDBPyConnection):
            yield name, held[name]
    if _DUCKDB in names or any(held.get(name) is library for name in names):
        default = library.default_connection
        yield _DUCKDB, default() if callable(default) else default


def _state(connection: Any) -> dict[str, list[str]]:
    """What the tables about a connection say; those that this version has, each asked for by itself."""
    return {question: found for question in _STATE if (found := _asked(connection, question)) is not None}


def _asked(connection: Any, question: str) -> list[str] | None:
    try:
        return sorted(map(repr, connection.execute(question).fetchall()))
    except Exception:  # noqa: BLE001 - no such table; the transaction is over with that
        connection.execute("rollback")
        connection.execute(_BEGIN)
        return None


def _changes(name: str, connection: Any, before: Any) -> Iterator[Effect]:
    changed = Effect("changes_variable", name, f"changes the database {name}")
    try:
        if any(sorted(map(repr, connection.execute(each).fetchall())) != held for each, held in before.items()):
            yield changed
            return
        connection.execute(_CHANGES)
    except Exception as error:  # noqa: BLE001 - what the guard refused is what is to be known
        if "read-only" not in str(error):
            yield changed  # the code met the guard, and the transaction has ended
        return
    yield changed  # the guard is gone

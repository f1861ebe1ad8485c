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
    getattr(sqlite3, name) for name in ("SQLITE_SELECT", "SQLITE_READ", "SQLITE_FUNCTION", "SQLITE_RECURSIVE")
)
_OF_SQLITE = ("in_transaction", "isolation_level", "row_factory", "text_factory", "total_changes", "autocommit")
_TABLES_OF_SQLITE = ("pragma_function_list", "pragma_collation_list", "pragma_database_list", "pragma_schema_version")
"""What of a connection of SQLite can be changed by other means than statements."""
_MAX_SERIALIZED_BYTES = 32 << 20
_ASKS = frozenset(
    {"table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo", "foreign_key_list"}
)
"""Pragmas whose argument is what they tell about."""


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
        self._sqlite: list[_Guarded] = []
        for name in names & held.keys():
            if type(held[name]) is sqlite3.Connection:
                guarded = _Guarded(name, held[name], stop)
                if guarded.begin():
                    self._sqlite.append(guarded)
                    self.names.add(name)
        for name, connection in _of_duckdb(held, names):
            with contextlib.suppress(Exception):  # in a transaction already, closed, or too old: it stays unknown
                connection.execute(_BEGIN)
                self._guarded[name] = connection, _state(connection)
                self.names.add(name)

    def changes(self) -> list[Effect]:
        """Return what the code did to those that report nothing by themselves."""
        changes = [effect for name, (each, before) in self._guarded.items() for effect in _changes(name, each, before)]
        return [*changes, *(_changed(guarded.name) for guarded in self._sqlite if guarded.differs())]


def _changed(name: str) -> Effect:
    return Effect("changes_variable", name, f"changes the database {name}")


class _Guarded:
    """A connection of SQLite whose statements are looked at before they run."""

    def __init__(self, name: str, connection: sqlite3.Connection, stop: Stop) -> None:
        self.name = name
        self._connection = connection
        self._stop = stop
        self._before: Any = None
        self._asked = 0

    def begin(self) -> bool:
        """Guard it; false if it cannot be, as when it is closed."""
        try:
            self._before = self._state()
            self._connection.set_authorizer(self._allow)
        except sqlite3.Error:
            return False
        return True

    def differs(self) -> bool:
        """Whether it was changed otherwise than by a statement: closed, set, or rid of its guard."""
        try:
            now, asked = self._state(), self._asked
        except sqlite3.Error:
            return True
        return now != self._before or not asked

    def _state(self) -> Any:
        connection, self._asked = self._connection, 0
        given = [getattr(connection, name, None) for name in _OF_SQLITE]
        cursor = connection.cursor()
        cursor.row_factory = None
        cursor.execute("select 1 from sqlite_master limit 1").fetchall()
        (pages,), (size,) = (cursor.execute(f"pragma {name}").fetchone() for name in ("page_count", "page_size"))
        content = hash(connection.serialize()) if pages * size <= _MAX_SERIALIZED_BYTES else pages
        return given, content, [_rows(cursor, question) for question in _TABLES_OF_SQLITE]

    def _allow(self, action: int, *about: object) -> int:
        self._asked += 1
        if action not in _READS:
            if action == getattr(sqlite3, "SQLITE_PRAGMA", 19) and (about[1] is None or about[0] in _ASKS):
                return sqlite3.SQLITE_OK  # it asks for a value
            self._stop(_changed(self.name))
        return sqlite3.SQLITE_OK


def _rows(cursor: sqlite3.Cursor, table: str) -> list[Any] | None:
    try:
        return sorted(map(repr, cursor.execute(f"select * from {table}").fetchall()))  # noqa: S608 - one of those above
    except sqlite3.OperationalError:
        return None  # of a SQLite that was made without


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
    changed = _changed(name)
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

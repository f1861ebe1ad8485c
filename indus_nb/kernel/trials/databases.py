"""Connections to databases in memory, kept from being changed while code is tried in a copy of the kernel.

What such a connection holds cannot be compared, but the database itself can refuse to change: DuckDB in a transaction
that only reads, SQLite by its authorizer. So a copy knows whether a query changes anything, and the user is not
asked about one that does not.
"""

from __future__ import annotations

import contextlib
import sqlite3
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from indus_nb.kernel.preview import Stop
from indus_nb.safety.effects import Effect

_DUCKDB = "duckdb"
_BEGIN = "begin transaction read only"
_STATE = (
    "select name, value from duckdb_settings()",
    "select database_name from duckdb_databases()",
    "select database_name, schema_name, table_name, temporary from duckdb_tables()",
    "select database_name, schema_name, view_name from duckdb_views()",
    "select extension_name from duckdb_extensions() where loaded",
    "select name, statement from duckdb_prepared_statements()",
    "select count(*), max(function_oid) from duckdb_functions()",
    "select name, value from duckdb_variables()",
)
"""Queries for state of a DuckDB connection that even a read-only transaction can change."""
_CHANGES = "create table indus_nb_guard as select 1"
_READS = frozenset(
    getattr(sqlite3, name) for name in ("SQLITE_SELECT", "SQLITE_READ", "SQLITE_FUNCTION", "SQLITE_RECURSIVE")
)
_PRAGMA = getattr(sqlite3, "SQLITE_PRAGMA", 19)
_PRAGMAS = frozenset({"foreign_key_check", "foreign_key_list", "integrity_check", "quick_check"}) | {
    f"{what}_{form}" for what in ("table", "index") for form in ("info", "xinfo", "list")
}
"""Pragmas of SQLite whose argument selects the report; that of others is a new value."""
_OF_SQLITE = ("in_transaction", "isolation_level", "row_factory", "text_factory", "total_changes", "autocommit")
_ABOUT_SQLITE = (
    "select * from pragma_function_list",
    "select * from pragma_collation_list",
    "select * from pragma_database_list where name <> 'temp'",  # it is opened to check others
    "select * from pragma_schema_version",
)
"""Queries for state of an SQLite connection that can be changed without a statement."""
_MAX_SERIALIZED_BYTES = 32 << 20


class Databases:
    """Guards of the connections that code reaches."""

    def __init__(self, held: Mapping[str, Any], names: Collection[str], stop: Stop) -> None:
        """Guard the connections among the variables.

        Args:
            stop: Ends the copy with what the code was about to do.
        """
        self._guards: dict[str, _Sqlite | _Duckdb] = {}
        for name in names & held.keys():
            if type(held[name]) is sqlite3.Connection:
                with contextlib.suppress(sqlite3.Error):  # closed, or another thread's: it stays unknown
                    self._guards[name] = _Sqlite(held[name], lambda name=name: stop(_changed(name)))
        for name, connection in _of_duckdb(held, names):
            with contextlib.suppress(Exception):  # in a transaction already, closed, or too old: it stays unknown
                self._guards[name] = _Duckdb(connection)
        self.names: frozenset[str] = frozenset(self._guards)

    def changes(self) -> list[Effect]:
        """Return the effects on connections that report no changes by themselves."""
        return [_changed(name) for name, guard in self._guards.items() if guard.is_changed()]


def _changed(name: str) -> Effect:
    return Effect("changes_variable", name, f"changes the database {name}")


class _Sqlite:
    """Guard of an SQLite connection, whose authorizer ends the copy."""

    def __init__(self, connection: sqlite3.Connection, stop: Callable[[], object]) -> None:
        self._connection = connection
        self._stop = stop
        self._is_asked = self._is_trusted = False
        connection.set_authorizer(self._allow)
        self._before = self._state()

    def _allow(self, action: int, *about: object) -> int:
        if self._is_trusted or action in _READS or (action == _PRAGMA and (about[1] is None or about[0] in _PRAGMAS)):
            return sqlite3.SQLITE_OK
        if not self._is_asked:
            self._stop()
        self._is_asked = False
        return sqlite3.SQLITE_DENY

    def _state(self) -> Any:
        """Return the state that can change without a statement."""
        each, text_factory = self._connection, self._connection.text_factory
        self._is_trusted = True
        try:
            given = [getattr(each, name, None) for name in _OF_SQLITE]
            for ask, about in (("getlimit", "SQLITE_LIMIT_"), ("getconfig", "SQLITE_DBCONFIG_")):
                numbers = [number for name, number in vars(sqlite3).items() if name.startswith(about)]
                given += [getattr(each, ask)(number) for number in numbers if hasattr(each, ask)]
            cursor = each.cursor(sqlite3.Cursor)
            cursor.row_factory, each.text_factory = None, bytes
            return given, [_rows(cursor, question) for question in _ABOUT_SQLITE], _content(each, cursor)
        except sqlite3.ProgrammingError:
            return "closed"
        finally:
            self._is_trusted = False
            each.text_factory = text_factory

    def is_changed(self) -> bool:
        """Return whether the code has changed the connection or its guard."""
        if self._state() != self._before:
            return True
        self._is_asked = True
        with contextlib.suppress(sqlite3.Error):
            self._connection.execute(_CHANGES)
        return self._is_asked


def _rows(cursor: sqlite3.Cursor, question: str) -> list[str] | None:
    try:
        return sorted(map(repr, cursor.execute(question).fetchall()))
    except sqlite3.DatabaseError:
        return None  # of a SQLite that was made without


def _content(connection: sqlite3.Connection, cursor: sqlite3.Cursor) -> Any:
    """Return a hash of the database, or its number of pages if it is too large to hash."""
    try:
        (pages,), (size,) = (cursor.execute(f"pragma {name}").fetchone() for name in ("page_count", "page_size"))
        return hash(connection.serialize()) if 0 < pages * size <= _MAX_SERIALIZED_BYTES else pages
    except (sqlite3.DatabaseError, AttributeError):
        return None


class _Duckdb:
    """Guard of a DuckDB connection, in a read-only transaction."""

    def __init__(self, connection: Any) -> None:
        connection.execute(_BEGIN)
        self._connection = connection
        self._before = _state(connection)

    def is_changed(self) -> bool:
        """Return whether the code has changed the connection or its guard."""
        each = self._connection
        try:
            if any(sorted(map(repr, each.execute(ask).fetchall())) != held for ask, held in self._before.items()):
                return True
            each.execute(_CHANGES)
        except Exception as error:  # noqa: BLE001 - what the guard refused is what is to be known
            return "read-only" not in str(error)  # else the code met the guard, and the transaction has ended
        return True


def _of_duckdb(held: Mapping[str, Any], names: Collection[str]) -> Iterator[tuple[str, Any]]:
    library: Any = sys.modules.get(_DUCKDB)
    if library is None:
        return
    for name in names & held.keys():
        if issubclass(type(held[name]), library.DuckDBPyConnection):  # its ``__class__`` may raise anything
            yield name, held[name]
    if _DUCKDB in names or any(held.get(name) is library for name in names):
        default = library.default_connection
        yield _DUCKDB, default() if callable(default) else default


def _state(connection: Any) -> dict[str, list[str]]:
    """Return the rows of the tables about a connection, for each table that this version has."""
    return {question: found for question in _STATE if (found := _asked(connection, question)) is not None}


def _asked(connection: Any, question: str) -> list[str] | None:
    try:
        return sorted(map(repr, connection.execute(question).fetchall()))
    except Exception:  # noqa: BLE001 - no such table; the transaction is over with that
        connection.execute("rollback")
        connection.execute(_BEGIN)
        return None

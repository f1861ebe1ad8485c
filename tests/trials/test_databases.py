"""Connections to databases in memory that code reaches in a copy: what changes them is found, and reading is free."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from typing import NoReturn

import pytest

from indus_nb.kernel.trials.databases import Databases
from indus_nb.safety.effects import Effect


class StoppedError(Exception):
    """The copy would have ended here."""


def stop(effect: Effect) -> NoReturn:
    raise StoppedError(effect.words)


@pytest.fixture
def lite() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:")
    connection.execute("create table t (a)")
    connection.execute("insert into t values (1)")
    connection.commit()
    yield connection
    connection.close()


def after(lite: sqlite3.Connection, do: Callable[[sqlite3.Connection], object]) -> list[str]:
    """What is found of code that does something with the connection ``lite``."""
    asked: list[Effect] = []

    def note(effect: Effect) -> NoReturn:
        asked.append(effect)
        raise StoppedError

    databases = Databases({"lite": lite, "other": 5}, ["lite", "other", "missing"], note)
    assert databases.names == {"lite"}
    try:
        do(lite)
    except sqlite3.DatabaseError:
        assert asked
    return [each.words for each in (asked[:1] or databases.changes())]


@pytest.mark.parametrize(
    "statement",
    [
        *("select * from t", "select count(*), max(a) from t", "with recursive n(i) as (values(1)) select i from n"),
        *("pragma table_info(t)", "pragma table_xinfo(t)", "pragma index_list(t)", "pragma user_version"),
        *("pragma integrity_check", "pragma foreign_key_check(t)", "explain select 1"),
    ],
)
def test_reading_changes_nothing(lite: sqlite3.Connection, statement: str) -> None:
    assert after(lite, lambda connection: connection.execute(statement).fetchall()) == []


@pytest.mark.parametrize(
    "statement",
    [
        *("insert into t values (2)", "update t set a = 3", "delete from t", "drop table t", "create table u (b)"),
        *("create temp table u (b)", "create index i on t (a)", "alter table t rename to u", "attach ':memory:' as m"),
        *(
            "pragma user_version = 5",
            "pragma foreign_keys = on",
            "begin",
            "savepoint s",
            "vacuum",
            "analyze",
        ),
    ],
)
def test_a_statement_that_changes_something_is_stopped(lite: sqlite3.Connection, statement: str) -> None:
    assert after(lite, lambda connection: connection.execute(statement)) == ["changes the database lite"]
    lite.set_authorizer(None)
    assert lite.execute("select a from t").fetchall() == [(1,)]


@pytest.mark.parametrize(
    "do",
    [
        lambda lite: setattr(lite, "row_factory", sqlite3.Row),
        lambda lite: setattr(lite, "text_factory", bytes),
        lambda lite: setattr(lite, "isolation_level", None),
        lambda lite: lite.create_function("f", 1, len),
        lambda lite: lite.create_collation("c", lambda one, two: 0),
        lambda lite: lite.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1000),
        lambda lite: lite.set_authorizer(None),
        lambda lite: (lite.set_authorizer(None), lite.execute("insert into t values (2)")),
        lambda lite: lite.close(),
    ],
)
def test_what_is_changed_without_a_statement_is_found_afterwards(
    lite: sqlite3.Connection, do: Callable[[sqlite3.Connection], object]
) -> None:
    assert after(lite, do) == ["changes the database lite"]


def test_one_that_is_closed_is_not_known() -> None:
    connection = sqlite3.connect(":memory:")
    connection.close()
    assert Databases({"lite": connection}, ["lite"], stop).names == frozenset()


def test_only_what_the_code_reaches_is_guarded(lite: sqlite3.Connection) -> None:
    databases = Databases({"lite": lite}, ["rows"], stop)
    lite.execute("insert into t values (2)")
    assert (databases.names, databases.changes()) == (frozenset(), [])


def test_a_class_of_the_users_is_not_taken_for_a_connection() -> None:
    class Mine(sqlite3.Connection):
        pass

    with sqlite3.connect(":memory:", factory=Mine) as connection:
        assert Databases({"lite": connection}, ["lite"], stop).names == frozenset()
    connection.close()

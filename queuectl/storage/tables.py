"""Whole tables: their names and columns are read from the database, so that none is ever forgotten."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from queuectl.storage.base import Storage

# The limits of one batch: a row's output often has a megabyte, and may have a hundred million bytes.
BATCH_ROWS, BATCH_BYTES = 1_000, 8_000_000

Row = tuple[Any, ...]


class Table(NamedTuple):
    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    texts: tuple[str, ...]  # the columns that may be long


def tables(storage: Storage) -> dict[str, Table]:
    found: dict[str, Table] = {}
    for name, column, is_key, is_text in storage.columns():
        table = found.get(name, Table(name, (), (), ()))
        found[name] = Table(
            name, (*table.columns, column), table.key + (column,) * is_key, table.texts + (column,) * is_text
        )
    return found


def count(storage: Storage, table: Table) -> int:
    return int(storage.statement(f"SELECT COUNT(*) FROM {table.name}", {}).fetchone()[0])


class Range(NamedTuple):
    """The rows of one batch: those after one key, up to and including another."""

    table: Table
    last: Row
    where: str
    values: dict[str, Any]


def ranges(storage: Storage, table: Table, after: Sequence[Any] | None = None) -> Iterator[Range]:
    """The batches of rows after this key, in the order of the key, as the database itself sorts it."""
    key = ", ".join(table.key)
    size = " + ".join(["0", *(f"COALESCE({storage.DIALECT['size']}({text}), 0)" for text in table.texts)])
    while True:
        beyond = "WHERE" if after is None else f"WHERE ({key}) > ({places('after', table)}) AND"
        known = values("after", after or ())
        sizes = storage.statement(
            f"SELECT {size}, {key} FROM {table.name} {beyond} TRUE ORDER BY {key} LIMIT {BATCH_ROWS}", known
        ).fetchall()
        if not sizes:
            return
        ends = accumulate(bytes for bytes, *_ in sizes)
        fitting = sum(end <= BATCH_BYTES for end in ends)
        last = sizes[max(fitting, 1) - 1][1:]
        yield Range(table, last, f"{beyond} ({key}) <= ({places('last', table)})", {**known, **values("last", last)})
        after = last


def rows_of(storage: Storage, part: Range) -> list[Row]:
    columns = ", ".join(part.table.columns)
    found: list[Row] = storage.statement(
        f"SELECT {columns} FROM {part.table.name} {part.where}", part.values
    ).fetchall()
    return found


def delete(storage: Storage, part: Range) -> None:
    storage.statement(f"DELETE FROM {part.table.name} {part.where}", part.values)


def places(prefix: str, table: Table) -> str:
    return ", ".join(f":{prefix}{number}" for number in range(len(table.key)))


def values(prefix: str, key: Sequence[Any]) -> dict[str, Any]:
    return {f"{prefix}{number}": value for number, value in enumerate(key)}

"""Rewriting a window of a versioned table: what changed is written, what is gone is marked deleted, the rest is left alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from billing.store.clickhouse import Ledger

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    """Rows to write and rows to mark deleted."""

    write: list[Row]
    delete: list[Row]

    @property
    def count(self) -> int:
        """How many rows differ."""
        return len(self.write) + len(self.delete)


def change(old: Sequence[Row], new: Sequence[Row], key: Sequence[str]) -> Change:
    """What turns `old` into `new`; rows are the same row when their `key` columns are equal. No I/O."""

    def identity(row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in key)

    before = {identity(row): row for row in old}
    after = {identity(row): row for row in new}
    return Change(
        write=[row for row_key, row in after.items() if before.get(row_key) != row],
        delete=[row for row_key, row in before.items() if row_key not in after],
    )


def apply(ledger: Ledger, table: str, changed: Change, version: int) -> int:
    """Write a change in one block, so that a reader sees all of it or nothing; how many rows.

    `version` must be above that of every row it replaces: the instant at which the ledger learns this.
    """
    rows = [(row, 0) for row in changed.write] + [(row, 1) for row in changed.delete]
    return ledger.insert(table, [{**row, "version": version, "deleted": deleted} for row, deleted in rows])

"""The one door to ClickHouse: a server over HTTP, or chDB in this process with its data in a directory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from typing import Any, Final, Literal, NamedTuple, Self

from clickhouse_connect.driver.client import Client

from billing.store import queries
from billing.store.door import DATABASE, RUNS, Door, failing

FileForm = Literal["csv", "parquet"]
_FORMS: Final[dict[FileForm, str]] = {"csv": "CSVWithNames", "parquet": "Parquet"}
_FILE_SETTINGS: Final = {
    "date_time_output_format": "iso",
    "format_csv_null_representation": "",
    "output_format_parquet_string_as_string": 1,
}


class Table(NamedTuple):
    """The answer to a free query: column names and rows."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]

    def dicts(self) -> list[dict[str, Any]]:
        """One mapping per row."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


class Ledger:
    """An open ledger. Use as a context manager and keep it open briefly: an embedded one keeps other processes out."""

    def __init__(self, client: Client, door: Door, leave: Callable[[], None]) -> None:
        self._client = client
        self._door = door
        self._leave = leave
        self.cluster = door.cluster
        """Name of the cluster that the schema is spread over; None on one server."""
        self.where = door.where
        """The DSN without its password."""

    @classmethod
    def open(cls, dsn: str, *, wait_s: float | None = None, sleep: Callable[[float], None] = time.sleep) -> Self:
        """Connect, and make the database if it is not there yet; the schema is `migrate`'s business.

        `chdb:///directory` is embedded; `http(s)://user:password@host:port` is a server, and with `?cluster=name` the
        schema is spread over that cluster. An embedded ledger that another process holds is waited for: `wait_s`, or as long as the
        DSN says. LedgerBusy (it stayed held) or LedgerUnreachable otherwise.
        """
        door = Door.of(dsn)
        client, leave = door.enter(wait_s=wait_s, sleep=sleep)
        with ExitStack() as unless_open, door.reached(RUNS):
            unless_open.callback(leave)
            everywhere = f" ON CLUSTER '{door.cluster}'" if door.cluster else ""
            client.command(f"CREATE DATABASE IF NOT EXISTS {DATABASE}{everywhere}")
            client.database = DATABASE
            unless_open.pop_all()
        return cls(client, door, leave)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go; an embedded ledger is free for others afterwards."""
        self._leave()

    def read(self, name: str, parameters: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """Rows of the named query; QueryFailed when the database refuses it."""
        with failing(f"query {name}"):
            result = self._client.query(queries.text(name), parameters=dict(parameters or {}))
        return [dict(zip(result.column_names, row, strict=True)) for row in result.result_rows]

    def file(self, name: str, parameters: Mapping[str, Any], form: FileForm) -> bytes:
        """The answer of the named query as a file, made by the database: no value passes through Python.

        Decimals keep every digit, instants are UTC (`2026-10-01T00:00:00Z` in CSV), null is an empty CSV cell.
        """
        with failing(f"query {name}"):
            return self._client.raw_query(
                queries.text(name), parameters=dict(parameters), fmt=_FORMS[form], settings=_FILE_SETTINGS
            )

    def count(self, name: str, parameters: Mapping[str, Any]) -> int:
        """How many rows the named query has."""
        with failing(f"query {name}"):
            counted = self._client.query(f"SELECT count() FROM ({queries.text(name)}\n)", parameters=dict(parameters))
        return int(counted.result_rows[0][0])

    def execute(self, statement: str, what: str) -> None:
        """Run one schema statement; `what` names it in errors."""
        with failing(what):
            self._client.command(statement)

    def insert(self, table: str, rows: Iterable[Mapping[str, Any]], *, once: str | None = None) -> int:
        """Append rows, all of the same columns, as one block; how many. Nothing is sent for no rows.

        Of all blocks with one token `once` the first lands in the table, whoever sends it, and the others vanish silently:
        the caller reads who was first. It holds for tables that keep a deduplication window.
        """
        block = list(rows)
        if block:
            token = {} if once is None else {"insert_deduplicate": 1, "insert_deduplication_token": once}
            columns = list(block[0])
            values = [[row[name] for name in columns] for row in block]
            # What does not fit its column is found while it is packed, by a fault of the language itself.
            with failing(f"insert into {table}", OverflowError):
                self._client.insert(table, values, column_names=columns, settings=token)
        return len(block)

    def ask(self, sql: str) -> Table:
        """Run one query of our own that has no file, on a connection that does not write. For queries of others there is `Reader`."""
        reader, leave = self._door.enter()
        with ExitStack() as after, failing("query"):
            after.callback(leave)
            reader.database = DATABASE
            reader.command("SET readonly = 2") if self.embedded else reader.set_client_setting("readonly", "2")
            result = reader.query(sql)
        return Table(tuple(result.column_names), [tuple(row) for row in result.result_rows])

    @property
    def embedded(self) -> bool:
        """Whether the data is in a directory of this machine."""
        return self._door.directory is not None

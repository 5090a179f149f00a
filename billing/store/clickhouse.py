"""The one door to ClickHouse: a server over HTTP, or chDB in this process with its data in a directory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Literal, NamedTuple, Self

from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import ClickHouseError

from billing.store import queries
from billing.store.door import DATABASE, Door, first_line
from billing.store.errors import LedgerUnreachable, QueryFailed

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

    def __init__(self, client: Client, door: Door, let_go: Callable[[], None]) -> None:
        self._client = client
        self._door = door
        self._let_go = let_go
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
        client, let_go = door.enter(wait_s=wait_s, sleep=sleep)
        try:
            everywhere = f" ON CLUSTER '{door.cluster}'" if door.cluster else ""
            client.command(f"CREATE DATABASE IF NOT EXISTS {DATABASE}{everywhere}")
            client.database = DATABASE
        except (ClickHouseError, OSError) as error:
            client.close()
            let_go()
            raise LedgerUnreachable(
                door.where, first_line(error), "check the address, the credentials and that it runs"
            ) from error
        return cls(client, door, let_go)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go; an embedded ledger is free for others afterwards."""
        self._client.close()
        self._let_go()

    def read(self, name: str, parameters: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """Rows of the named query; QueryFailed when the database refuses it."""
        try:
            result = self._client.query(queries.text(name), parameters=dict(parameters or {}))
        except ClickHouseError as error:
            raise QueryFailed(f"query {name}", first_line(error)) from error
        return [dict(zip(result.column_names, row, strict=True)) for row in result.result_rows]

    def file(self, name: str, parameters: Mapping[str, Any], form: FileForm) -> bytes:
        """The answer of the named query as a file, made by the database: no value passes through Python.

        Decimals keep every digit, instants are UTC (`2026-10-01T00:00:00Z` in CSV), null is an empty CSV cell.
        """
        try:
            return self._client.raw_query(
                queries.text(name), parameters=dict(parameters), fmt=_FORMS[form], settings=_FILE_SETTINGS
            )
        except ClickHouseError as error:
            raise QueryFailed(f"query {name}", first_line(error)) from error

    def count(self, name: str, parameters: Mapping[str, Any]) -> int:
        """How many rows the named query has."""
        try:
            counted = self._client.query(f"SELECT count() FROM ({queries.text(name)}\n)", parameters=dict(parameters))
        except ClickHouseError as error:
            raise QueryFailed(f"query {name}", first_line(error)) from error
        return int(counted.result_rows[0][0])

    def execute(self, statement: str, what: str) -> None:
        """Run one schema statement; `what` names it in errors."""
        try:
            self._client.command(statement)
        except ClickHouseError as error:
            raise QueryFailed(what, first_line(error)) from error

    def insert(
        self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, once: str | None = None
    ) -> int:
        """Append rows as one block; how many. Nothing is sent for no rows.

        Of all blocks with one token `once` the first lands in the table, whoever sends it, and the others vanish silently:
        the caller reads who was first. It holds for tables that keep a deduplication window.
        """
        block = list(rows)
        if block:
            token = {} if once is None else {"insert_deduplicate": 1, "insert_deduplication_token": once}
            try:
                self._client.insert(table, block, column_names=list(columns), settings=token)
            except ClickHouseError as error:
                raise QueryFailed(f"insert into {table}", first_line(error)) from error
        return len(block)

    def ask(self, sql: str) -> Table:
        """Run one query of our own that has no file, on a connection that does not write. For queries of others there is `Reader`."""
        reader, let_go = self._door.enter()
        try:
            reader.database = DATABASE
            reader.command("SET readonly = 2") if self.embedded else reader.set_client_setting("readonly", "2")
            result = reader.query(sql)
        except ClickHouseError as error:
            raise QueryFailed("query", first_line(error)) from error
        finally:
            reader.close()
            let_go()
        return Table(tuple(result.column_names), [tuple(row) for row in result.result_rows])

    @property
    def embedded(self) -> bool:
        """Whether the data is in a directory of this machine."""
        return self._door.directory is not None

"""The one door to ClickHouse: a server over HTTP, or chDB in this process with its data in a directory."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, NamedTuple, Self
from urllib.parse import parse_qs, urlsplit, urlunsplit

import clickhouse_connect
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import ClickHouseError

from billing.store import queries
from billing.store.cluster import SETTINGS
from billing.store.errors import LedgerBusy, LedgerUnreachable, QueryFailed, QueryRefused

DATABASE: Final = "loraledger"
_READS: Final = ("SELECT", "WITH", "SHOW", "DESCRIBE", "DESC", "EXPLAIN")
_POLL_S: Final = 0.1
_ADVICE: Final = "the DSN must look like chdb:///var/lib/loraledger or http(s)://user:password@host:8443"

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

    def __init__(self, client: Client, where: str, connect: Callable[[], Client], cluster: str | None) -> None:
        self._client = client
        self._connect = connect
        self.cluster = cluster
        """Name of the cluster that the schema is spread over; None on one server."""
        self.where = where
        """The DSN without its password."""

    @classmethod
    def open(cls, dsn: str, *, wait_s: float = 5.0, sleep: Callable[[float], None] = time.sleep) -> Self:
        """Connect, and make the database if it is not there yet; the schema is `migrate`'s business.

        `chdb:///directory` is embedded; `http(s)://user:password@host:port` is a server, and with `?cluster=name` the
        schema is spread over that cluster. An embedded ledger that another process holds is tried again for `wait_s`. LedgerBusy (it stayed held) or
        LedgerUnreachable otherwise.
        """
        where, connect, cluster = _plan(dsn, wait_s, sleep)
        try:
            client = connect()
            everywhere = f" ON CLUSTER '{cluster}'" if cluster else ""
            client.command(f"CREATE DATABASE IF NOT EXISTS {DATABASE}{everywhere}")
            client.database = DATABASE
        except (ClickHouseError, OSError) as error:
            raise LedgerUnreachable(
                where, _first_line(error), "check the address, the credentials and that it runs"
            ) from error
        return cls(client, where, connect, cluster)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go; an embedded ledger is free for others afterwards."""
        self._client.close()

    def read(self, name: str, parameters: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """Rows of the named query; QueryFailed when the database refuses it."""
        try:
            result = self._client.query(queries.text(name), parameters=dict(parameters or {}))
        except ClickHouseError as error:
            raise QueryFailed(f"query {name}", _first_line(error)) from error
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
            raise QueryFailed(f"query {name}", _first_line(error)) from error

    def count(self, name: str, parameters: Mapping[str, Any]) -> int:
        """How many rows the named query has."""
        try:
            counted = self._client.query(f"SELECT count() FROM ({queries.text(name)}\n)", parameters=dict(parameters))
        except ClickHouseError as error:
            raise QueryFailed(f"query {name}", _first_line(error)) from error
        return int(counted.result_rows[0][0])

    def execute(self, statement: str, what: str) -> None:
        """Run one schema statement; `what` names it in errors."""
        try:
            self._client.command(statement)
        except ClickHouseError as error:
            raise QueryFailed(what, _first_line(error)) from error

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
                raise QueryFailed(f"insert into {table}", _first_line(error)) from error
        return len(block)

    def ask(self, sql: str) -> Table:
        """Run one free query that only reads, on a connection that cannot write. QueryRefused or QueryFailed."""
        statement = sql.strip().rstrip(";").strip()
        if not statement:
            raise QueryRefused("it is empty")
        if (first := _first_word(statement)) not in _READS:
            raise QueryRefused(f"it begins with {first or statement[:12]!r}")
        reader = self._connect()
        try:
            # Not the refusal above but this keeps the data safe: the engine itself takes no writing statement from here on.
            reader.database = DATABASE
            reader.command("SET readonly = 2") if self.embedded else reader.set_client_setting("readonly", "2")
            result = reader.query(statement)
        except ClickHouseError as error:
            raise QueryFailed("query", _first_line(error)) from error
        finally:
            reader.close()
        return Table(tuple(result.column_names), [tuple(row) for row in result.result_rows])

    @property
    def embedded(self) -> bool:
        """Whether the data is in a directory of this machine."""
        return self.where.startswith("chdb:")


def _plan(dsn: str, wait_s: float, sleep: Callable[[float], None]) -> tuple[str, Callable[[], Client], str | None]:
    parts = urlsplit(dsn)
    if parts.scheme == "chdb":
        path = Path(parts.path)
        where = f"chdb://{path}"
        if parts.netloc or not parts.path or path == Path("/"):
            raise LedgerUnreachable(dsn, "a chdb DSN needs three slashes and an absolute directory", _ADVICE)

        def embedded() -> Client:
            path.mkdir(parents=True, exist_ok=True)
            _wait_until_free(path, where, wait_s, sleep)
            return clickhouse_connect.get_client(interface="chdb", path=str(path), tz_mode="aware")

        return where, embedded, None
    if parts.scheme in ("http", "https") and parts.hostname:
        where = f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")
        cluster = next(iter(parse_qs(parts.query).get("cluster", ())), None)
        if cluster is not None and not cluster.isidentifier():
            raise LedgerUnreachable(where, f"{cluster!r} is not the name of a cluster", _ADVICE)

        def server() -> Client:
            return clickhouse_connect.get_client(
                dsn=urlunsplit(parts._replace(query="")),
                tz_mode="aware",
                connect_timeout=5,
                settings=dict(SETTINGS) if cluster else {},
            )

        return where, server, cluster
    raise LedgerUnreachable(parts.scheme or dsn or "(empty)", "not a ledger DSN", _ADVICE)


def _wait_until_free(path: Path, where: str, wait_s: float, sleep: Callable[[float], None]) -> None:
    """The engine keeps a lock on its status file; asking first gives a clear answer, where opening it would not."""
    waited = 0.0
    while (holder := _holder(path)) is not None:
        if waited >= wait_s:
            raise LedgerBusy(where, holder or None)
        sleep(_POLL_S)
        waited += _POLL_S


def _holder(path: Path) -> str | None:
    """None when nobody else has the ledger open; else the process id that does, or an empty text."""
    try:
        with (path / "status").open("rb") as status:
            try:
                fcntl.flock(status, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                first = status.readline().decode("ascii", "replace").strip()
                pid = first.removeprefix("PID: ") if first.startswith("PID: ") else ""
                return None if pid == str(os.getpid()) else pid
            return None
    except FileNotFoundError:
        return None


def _first_word(statement: str) -> str:
    for line in statement.splitlines():
        code = line.split("--", 1)[0].strip().lstrip("(").strip()
        if code:
            return code.split(None, 1)[0].upper()
    return ""


def _first_line(error: Exception) -> str:
    """What a person needs of a driver's error: no stack, no address of ours, one line."""
    text = " ".join(str(error).split())
    for marker in (" Stack trace", ", Stack trace", " (for url", " (version "):
        text = text.split(marker, 1)[0]
    if "Caused by" in text:
        text = text.rsplit(": ", 1)[-1].split(")", 1)[0].strip("\"' ")
    return text[:400]

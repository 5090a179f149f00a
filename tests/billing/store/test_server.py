"""The same ledger over HTTP: a loopback server that speaks ClickHouse's HTTP interface, with the embedded engine behind it."""

from __future__ import annotations

import base64
import re
import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import chdb
import lz4.frame  # type: ignore[import-untyped]
import pytest

from billing.store.clickhouse import Ledger
from billing.store.engine_time import write_engine_time
from billing.store.errors import LedgerUnreachable, QueryFailed
from billing.store.ingest import ingest
from billing.store.migrate import migrate, migrations
from billing.store.tenant_cost import write_tenant_cost
from billing.store.usage import book_spans
from catalog.model import Catalog
from telemetry.engine_time import SessionEvent

S = 1_000_000_000


class Server(ThreadingHTTPServer):
    """One embedded engine, asked by one request at a time; each request is a session of its own, as on a server."""

    daemon_threads = True

    def __init__(self, directory: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.path, self.lock, self.statements = directory, threading.Lock(), list[str]()
        self.engine = chdb.connect(str(directory / "data"))

    def answer(self, asked: dict[str, str], body: bytes) -> bytes:
        head, _, data = body.partition(b" FORMAT Native\n") if body.startswith(b"INSERT") else (body, b"", b"")
        statement = asked["query"] if "query" in asked else head.decode()
        self.statements.append(statement)
        parameters = {name.removeprefix("param_"): value for name, value in asked.items() if name.startswith("param_")}
        if data:
            payload = self.path / "payload"
            payload.write_bytes(data)
            statement += f" FROM INFILE '{payload}' FORMAT Native"
        with self.lock:
            session = chdb.connect(str(self.path / "data"))
            try:
                if "database" in asked:
                    session.query(f"USE {asked['database']}")
                if "readonly" in asked:
                    session.query(f"SET readonly = {asked['readonly']}")
                return bytes(session.query(statement, "TabSeparated", params=parameters).bytes())
            finally:
                session.close()


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Content-Encoding") == "lz4":
            body = lz4.frame.decompress(body)
        if self.headers.get("Authorization") != "Basic " + base64.b64encode(b"me:secret").decode():
            return self.reply(401, b"Code: 516. DB::Exception: me: Authentication failed. (AUTHENTICATION_FAILED)")
        try:
            self.reply(
                200, self.server.answer(dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True)), body)
            )
        except Exception as error:
            self.reply(500, str(error).encode())

    def reply(self, status: int, body: bytes) -> None:
        self.send_response(status)
        if status != 200:
            self.send_header("X-ClickHouse-Exception-Code", "1")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path)
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()
    made.engine.close()


def test_the_dsn_alone_decides_that_it_is_a_server(
    server: Server, traffic: Any, example: Catalog, ns: Callable[..., int], now: datetime, tmp_path: Path
) -> None:
    t0 = ns(2026, 10, 5, 10)
    traffic.session(SessionEvent.STARTED, t0)
    traffic.serve("clinic", t0, 300_000_001, 50_000_000, adapter="icd10-coder", cold_ns=7_000_003)
    traffic.session(SessionEvent.STOPPED, t0 + 60 * S)
    with Ledger.open(f"http://me:secret@127.0.0.1:{server.server_port}") as ledger:
        assert len(migrate(ledger, now)) == len(migrations())
        assert ingest(ledger, [traffic.write(tmp_path / "spool")], example, now).lines == 6
        assert book_spans(ledger, t0, t0 + S, example, now).records == 1
        assert write_engine_time(ledger, t0, t0 + 3600 * S, example, now) == 1
        assert write_tenant_cost(ledger, t0, t0 + 3600 * S, example, now) == 2
        assert ledger.ask("SELECT sum(measured_ns) FROM tenant_cost").rows == [(357_000_004,)]
        with pytest.raises(QueryFailed, match="READONLY"):
            ledger.ask("WITH 1 AS x INSERT INTO prices SELECT x")
        assert ledger.where == f"http://127.0.0.1:{server.server_port}"
    assert not [statement for statement in server.statements if ";" in re.sub(r"--.*|'[^']*'", "", statement)], (
        "one statement a request"
    )


def test_a_refused_password_is_one_line_without_it(server: Server) -> None:
    with pytest.raises(LedgerUnreachable, match="Authentication failed") as error:
        Ledger.open(f"http://me:wrong-secret@127.0.0.1:{server.server_port}")
    assert "wrong-secret" not in str(error.value)
    assert "\n" not in str(error.value)

"""A loopback server that speaks ClickHouse's HTTP interface, with the embedded engine behind it: shared by processes."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import chdb
import lz4.frame  # type: ignore[import-untyped]
import pytest


class Server(ThreadingHTTPServer):
    """One embedded engine, asked by one request at a time; each request is a session of its own, as on a server."""

    daemon_threads = True

    def __init__(self, directory: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.path, self.lock, self.statements = directory, threading.Lock(), list[str]()
        self.engine = chdb.connect(str(directory / "data"))

    @property
    def dsn(self) -> str:
        return f"http://me:secret@127.0.0.1:{self.server_port}"

    def answer(self, asked: dict[str, str], body: bytes) -> bytes:
        head, _, data = body.partition(b" FORMAT Native\n") if body.startswith(b"INSERT") else (body, b"", b"")
        statement = asked["query"] if "query" in asked else head.decode()
        parameters = {name.removeprefix("param_"): value for name, value in asked.items() if name.startswith("param_")}
        settings = {name: value for name, value in asked.items() if name in ("readonly",) or "dedup" in name}
        with self.lock:
            self.statements.append(statement)
            session = chdb.connect(str(self.path / "data"))
            try:
                if "database" in asked:
                    session.query(f"USE {asked['database']}")
                for name, value in settings.items():
                    session.query(f"SET {name} = '{value}'")
                if data:
                    payload = self.path / "payload"
                    payload.write_bytes(data)
                    statement += f" FROM INFILE '{payload}' FORMAT Native"
                form = asked.get("default_format", "TabSeparated")
                return bytes(session.query(statement, form, params=parameters).bytes())
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

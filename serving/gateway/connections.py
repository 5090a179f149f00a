"""The connections of a listening gateway: how many, how long they may be idle, and how much they may send before a request.

uvicorn bounds none of this: a connection that never sends a whole header, or never reads its reply, lives for ever there.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from serving.attempt.client import ABORT
from serving.attempt.limits import Limits
from serving.gateway.clients import neighbourhood
from serving.protocol.errors import error_body
from telemetry.metrics import Metrics
from telemetry.names import CONNECTIONS_CLOSED, CONNECTIONS_OPEN

log = logging.getLogger(__name__)

SWEEP_S: Final = 1.0
HEAD_BYTES: Final = 64 << 10
"""Most bytes of a request's first line and headers."""
OVERHEAD: Final = 8
"""A chunked body may take so many times the bytes that it holds."""
SLOWEST_BYTES_S: Final = 16 << 10
"""At this rate, at least, a finished reply must be read."""
PIPELINED: Final = 8
"""Requests that may wait on one connection behind the one being served."""
LINGER_S: Final = 0.5
"""How long the rest of a refused request is read; what comes later is lost with the connection."""
_BUSY: Final = error_body(503, "too_many_connections", "There are too many connections. Retry.")
_REFUSED: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\nconnection: close\r\n"
    b"content-length: " + str(len(_BUSY)).encode() + b"\r\n\r\n" + _BUSY
)
_TOO_LARGE: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class Connections:
    """All open connections, bounded in total and by address; those of `proxies` (addresses, networks) by the total alone.

    Make one with every server, and `sweep` beside it. ValueError for a proxy that is neither.
    """

    def __init__(self, limits: Limits, metrics: Metrics, proxies: Iterable[str] = ()) -> None:
        self.limits = limits
        self._metrics = metrics
        self._proxies = [ipaddress.ip_network(proxy) for proxy in proxies]
        self._open: set[Connection] = set()
        self._by_address: Counter[str] = Counter()

    def enter(self, connection: Connection) -> bool:
        """Count it in; False when there are too many."""
        address = connection.address
        if len(self._open) >= self.limits.connections:
            self.closed("total")
            return False
        if not self._is_proxy(connection.host) and self._by_address[address] >= self.limits.connections_per_address:
            self.closed("address")
            return False
        self._open.add(connection)
        self._by_address[address] += 1
        self._metrics.set(CONNECTIONS_OPEN, len(self._open))
        return True

    def leave(self, connection: Connection) -> None:
        """Count it out; nothing happens if it never was in."""
        if connection not in self._open:
            return
        self._open.remove(connection)
        self._by_address[connection.address] -= 1
        if not self._by_address[connection.address]:
            del self._by_address[connection.address]
        self._metrics.set(CONNECTIONS_OPEN, len(self._open))

    def closed(self, reason: str) -> None:
        """One was refused or closed for that reason."""
        self._metrics.add(CONNECTIONS_CLOSED, what=reason)

    async def sweep(self) -> None:
        """Close what is overdue, until cancelled."""
        while True:
            await asyncio.sleep(SWEEP_S)
            now = asyncio.get_running_loop().time()
            for connection in tuple(self._open):
                if connection.deadline is not None and now > connection.deadline:
                    self.closed("idle")
                    connection.abort()

    async def end(self, flush_s: float) -> None:
        """Close all: what is being sent gets `flush_s`."""
        deadline = asyncio.get_running_loop().time() + flush_s
        while self._open and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.02)
        for connection in tuple(self._open):
            connection.abort()

    def _is_proxy(self, host: str) -> bool:
        with contextlib.suppress(ValueError):
            address = ipaddress.ip_address(host)
            return any(address in network for network in self._proxies)
        return False


class Connection(HttpToolsProtocol):
    """uvicorn's connection, with a deadline wherever nobody else watches: before a request is whole, and after its reply."""

    def __init__(self, connections: Connections, **given: Any) -> None:
        super().__init__(**given)
        self._all = connections
        self.deadline: float | None = None
        """After that it is idle, half sent or unread for too long."""
        self._in_head = True
        self._raw = 0
        self._messages = 0
        self.host = self.address = ""
        self.app = self._stoppable(self.app)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See asyncio.Protocol."""
        super().connection_made(transport)
        self.host = self.client[0] if self.client else ""
        self.address = neighbourhood(self.host)
        self._wait()
        if not self._all.enter(self):
            transport.write(_REFUSED)
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._all.leave(self)
        super().connection_lost(exc)

    def eof_received(self) -> None:
        """See asyncio.Protocol. The transport closes itself once what is written has been read, which may be never."""
        if self.deadline is None:
            self._wait()

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        if self.transport.is_closing():
            return
        self._raw += len(data)
        before = self._messages
        super().data_received(data)
        if self._messages != before:
            self._raw = 0
        limit = HEAD_BYTES if self._in_head else HEAD_BYTES + OVERHEAD * self._all.limits.body_bytes
        if self._raw > limit or len(self.pipeline) > PIPELINED:
            self._all.closed("flood")
            if self._in_head and self.deadline is not None:
                self.transport.write(_TOO_LARGE)
                self.transport.close()
            else:
                self.abort()

    def on_headers_complete(self) -> None:
        """See httptools."""
        super().on_headers_complete()
        self._in_head = False
        self.deadline = None

    def on_message_complete(self) -> None:
        """See httptools."""
        self._messages += 1
        self._in_head = True
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """See uvicorn."""
        super().on_response_complete()
        if self.cycle.response_complete:
            self._wait()

    def abort(self) -> None:
        """Close at once; what was not sent is dropped."""
        self.transport.abort()

    def _wait(self) -> None:
        """From now on the next request, or the end of the connection, must come in time."""
        unread = self.transport.get_write_buffer_size()
        self.deadline = self.loop.time() + self._all.limits.idle_s + unread / SLOWEST_BYTES_S

    def _stoppable(self, app: Callable[..., Any]) -> ASGIApp:
        async def stoppable(scope: Scope, receive: Receive, send: Send) -> None:
            scope.setdefault("extensions", {})[ABORT] = self.abort
            linger = _Linger(receive, send)
            await app(scope, linger.receive, linger.send)

        return stoppable


class _Linger:
    """The receive and send of one request, for its application.

    When a reply ends its connection, the rest of a request that was not read to its end is read before the last byte goes: a
    socket that is closed with something unread is reset, and a reset takes away replies that the client has not read yet.
    """

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive, self._send = receive, send
        self._whole = self._closes = False

    async def receive(self) -> Message:
        """See ASGI."""
        message = await self._receive()
        self._whole = self._whole or not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        """See ASGI. The end of a reply that closes the connection waits for the rest of the request."""
        if message["type"] == "http.response.start":
            self._closes = (b"connection", b"close") in message["headers"]
        elif self._closes and not self._whole and not message.get("more_body", False):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LINGER_S):
                    while not self._whole:
                        await self.receive()
        await self._send(message)

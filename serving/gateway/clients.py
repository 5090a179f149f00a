"""The clients that are being served, so that a gateway that stops can hurry them all; where they come from, and whole replies to them."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from starlette.types import Receive, Scope, Send

from serving.attempt.client import Client, abort_of
from serving.attempt.services import Services
from serving.attempt.telling import guarded
from telemetry.names import CONNECTIONS_CLOSED


class Clients:
    """Everybody who is being served by one gateway process."""

    def __init__(self, services: Services) -> None:
        self._services, self._limits = services, services.limits
        self._here: set[Client] = set()
        self._hurried = False

    @asynccontextmanager
    async def served(self, scope: Scope, receive: Receive, send: Send) -> AsyncIterator[Client]:
        """Whoever sends this request, until it has its reply or is not waited for any longer."""
        client = Client(
            receive,
            send,
            piece_s=self._limits.deliver_s,
            total_s=self._limits.deliver_total_s,
            abort=abort_of(scope),
            mono_ns=self._services.clock.mono_ns,
        )
        if self._hurried:
            client.hurry(self._limits.hurry_s)
        self._here.add(client)
        try:
            yield client
        finally:
            self._here.discard(client)
            client.close()
            if client.slow:
                with guarded("a connection that was closed is not in the metrics"):
                    self._services.metrics.add(CONNECTIONS_CLOSED, what="slow")
                # The server hears of the closed connection in the loop's next turn, and would miss an answer before.
                await asyncio.sleep(0)

    def hurry(self) -> None:
        """From now on nobody is waited for long: one that does not send or take its part is given up at once."""
        self._hurried = True
        for client in self._here:
            client.hurry(self._limits.hurry_s)


def neighbourhood(host: str) -> str:
    """What counts as one address: an IPv4 address, or the 64 bits of an IPv6 network, which one customer has."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        return str(address.ipv4_mapped or ipaddress.ip_network((address, 64), strict=False))
    return host


async def reply(send: Send, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
    """Send one whole reply, JSON unless `headers` say otherwise."""
    every = {"content-type": "application/json", "content-length": str(len(body)), **(headers or {})}
    raw = [(name.encode(), value.encode()) for name, value in every.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body, "more_body": False})

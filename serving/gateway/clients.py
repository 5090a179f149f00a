"""The clients that are being served, so that a gateway that stops can hurry them all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.types import Receive, Scope, Send

from serving.attempt.client import Client, Patience, abort_of
from serving.attempt.limits import Limits
from serving.attempt.telling import guarded
from telemetry.metrics import Metrics
from telemetry.names import CONNECTIONS_CLOSED


class Clients:
    """Everybody who is being served by one gateway process."""

    def __init__(self, limits: Limits, metrics: Metrics, mono_ns: Callable[[], int]) -> None:
        self._limits, self._metrics, self._mono_ns = limits, metrics, mono_ns
        self._here: set[Client] = set()
        self._hurried = False

    def __len__(self) -> int:
        return len(self._here)

    def admit(self, scope: Scope, receive: Receive, send: Send) -> Client:
        """Whoever sends this request."""
        client = Client(
            receive,
            send,
            patience=Patience(self._limits.deliver_s, self._limits.deliver_total_s),
            abort=abort_of(scope),
            mono_ns=self._mono_ns,
        )
        if self._hurried:
            client.hurry(self._limits.hurry_s)
        self._here.add(client)
        return client

    async def dismiss(self, client: Client) -> None:
        """It has its reply, or is not waited for any longer."""
        self._here.discard(client)
        client.close()
        if client.slow:
            with guarded("a connection that was closed is not in the metrics"):
                self._metrics.add(CONNECTIONS_CLOSED, what="slow")
            # The server hears of the closed connection in the loop's next turn, and would miss an answer before.
            await asyncio.sleep(0)

    def hurry(self) -> None:
        """From now on nobody is waited for long: one that does not send or take its part is given up at once."""
        self._hurried = True
        for client in self._here:
            client.hurry(self._limits.hurry_s)

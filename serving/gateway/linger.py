"""A reply that ends its connection, to a request that was not read to its end: the rest is read before the last byte goes.

A socket that is closed with something unread is reset, and a reset takes away replies that the client has not read yet.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from starlette.types import Message, Receive, Send

LINGER_S: Final = 0.5
"""How long the rest of a refused request is read; what comes later is lost with the connection."""


class Linger:
    """The receive and send of one request, for its application."""

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

"""The client's side of one request: its body, and whether it is still there."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from starlette.types import Message, Receive, Send

from serving.gateway.errors import ClientGone, too_large, too_slow


class Client:
    """Reads the body once, then listens for the hang-up; `send` to a client that is gone does nothing."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive, self._send = receive, send
        self._listener: asyncio.Task[None] | None = None
        self.gone = asyncio.Event()
        """Set once the client has hung up."""

    async def body(self, declared: int | None, limit: int, timeout_s: float) -> bytes:
        """The whole request body. Raises Refusal (413, 408), or ClientGone when it never came to its end."""
        if declared is not None and declared > limit:
            raise too_large(limit)
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    message = await self._receive()
                    if message["type"] == "http.disconnect":
                        self.gone.set()
                        raise ClientGone
                    parts.append(message.get("body", b""))
                    if (size := size + len(parts[-1])) > limit:
                        raise too_large(limit)
                    if not message.get("more_body", False):
                        break
        except TimeoutError:
            raise too_slow() from None
        self._listener = asyncio.create_task(self._listen())
        return b"".join(parts)

    async def _listen(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.gone.set()

    async def unless_gone(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work`; when the client hangs up first, cancel it, await its end and raise ClientGone."""
        task = asyncio.create_task(work)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        leaving = asyncio.create_task(self.gone.wait())
        try:
            await asyncio.wait({task, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
        if not task.cancelled():
            task.result()
        if self.gone.is_set():
            raise ClientGone

    async def send(self, message: Message) -> None:
        """Pass one message on; a broken connection counts as a hang-up."""
        if self.gone.is_set():
            return
        try:
            await self._send(message)
        except OSError:
            self.gone.set()

    def close(self) -> None:
        """Stop listening."""
        if self._listener is not None:
            self._listener.cancel()

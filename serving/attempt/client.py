"""The client's side of one request: its body, whether it is still there, and whether it takes its reply.

Work that grows with what a client sent is done beside the event loop, so that no request holds up the others: `offload`.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final, ParamSpec, TypeVar

from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope, Send

from serving.protocol.errors import ClientGone, too_large, too_slow

ABORT: Final = "loraledger.abort"
"""Name of the ASGI extension that closes the connection at once, unsent bytes and all; its value is a function."""
SMALL: Final = 16_384
"""Characters or bytes that are worked through sooner than a thread is called."""
_P = ParamSpec("_P")
_T = TypeVar("_T")


class Client:
    """Reads the body once, then listens for the hang-up; `send` to a client that is gone does nothing.

    It is waited for `piece_s` to take a piece of its reply, and `total_s` for all pieces together. One that does not take its
    reply is `slow`, and gone from then on. `waited_ns` is how long the gateway waited for the client alone: for its body, and
    for it to take what was there.
    """

    def __init__(
        self,
        receive: Receive,
        send: Send,
        *,
        piece_s: float = math.inf,
        total_s: float = math.inf,
        abort: Callable[[], None] = lambda: None,
        mono_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._receive, self._send, self._abort, self._mono_ns = receive, send, abort, mono_ns
        self._piece_s, self._total_s = piece_s, total_s
        self._spent_s = 0.0
        self._waiting: asyncio.Timeout | None = None
        self._listener: asyncio.Task[None] | None = None
        self.gone = asyncio.Event()
        """Set once the client has hung up, or is not waited for any longer."""
        self.slow = False
        self.waited_ns = 0

    async def body(self, declared: int | None, limit: int, timeout_s: float) -> bytes:
        """The whole request body. Raises Refusal (413, 408), or ClientGone when it never came to its end."""
        if declared is not None and declared > limit:
            raise too_large(limit)
        parts: list[bytes] = []
        size = 0
        try:
            with self._waited():
                async with asyncio.timeout(min(timeout_s, self._total_s)) as self._waiting:
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

    async def unless_gone(
        self, work: Coroutine[Any, Any, None], *, limit_s: float | None = None, grace_s: float = 0
    ) -> None:
        """Run `work` to its end; what it raises is raised.

        ClientGone when the client hung up meanwhile, TimeoutError after `limit_s`: `work` is cancelled and has ended then. It
        has `grace_s` to end by itself after a hang-up, and again to end when it is cancelled (0: as long as that takes).
        """
        task = asyncio.create_task(work)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        leaving = asyncio.create_task(self.gone.wait())
        try:
            await asyncio.wait({task, leaving}, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
            if grace_s and not task.done() and self.gone.is_set():
                await asyncio.wait({task}, timeout=grace_s)
        finally:
            leaving.cancel()
            late = not task.done()
            if late:
                task.cancel()
                await asyncio.wait({task}, timeout=grace_s or None)
        if self.gone.is_set():
            raise ClientGone
        if late:
            raise TimeoutError
        task.result()

    async def send(self, message: Message) -> None:
        """Pass one message on; returns when the client has taken it, is gone, or turned out to be slow."""
        if self.gone.is_set():
            return
        began = asyncio.get_running_loop().time()
        patience_s = min(self._piece_s, self._total_s - self._spent_s)
        try:
            with self._waited():
                async with asyncio.timeout(patience_s) as self._waiting:
                    await self._send(message)
        except TimeoutError:
            self.slow = True
            self.gone.set()
        except OSError:
            self.gone.set()
        finally:
            self._spent_s += asyncio.get_running_loop().time() - began

    def hurry(self, seconds: float) -> None:
        """From now on wait no longer than that for the client, whatever is waited for."""
        self._piece_s, self._total_s = min(seconds, self._piece_s), min(seconds, self._total_s)
        self._spent_s = 0.0
        when = asyncio.get_running_loop().time() + seconds
        waiting = self._waiting
        if waiting is not None and not waiting.expired() and (waiting.when() or math.inf) > when:
            waiting.reschedule(when)

    def close(self) -> None:
        """Stop listening; a client that did not take its reply loses its connection at once."""
        if self._listener is not None:
            self._listener.cancel()
        if self.slow:
            self._abort()

    @contextmanager
    def _waited(self) -> Iterator[None]:
        began = self._mono_ns()
        try:
            yield
        finally:
            self._waiting = None
            self.waited_ns += self._mono_ns() - began


def abort_of(scope: Scope) -> Callable[[], None]:
    """How to close the request's connection at once; nothing happens where the server cannot."""
    abort: Callable[[], None] = (scope.get("extensions") or {}).get(ABORT, lambda: None)
    return abort


def declared_length(headers: Headers) -> int | None:
    """How long the request's body is said to be; None where it is not, or not in a number."""
    value = headers.get("content-length", "")
    return int(value) if value.isdecimal() and len(value) < 20 else None


async def offload(size: int, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """What `work` makes of input of that size, in a thread unless it is small."""
    if size <= SMALL:
        return work(*args, **kwargs)
    return await asyncio.to_thread(work, *args, **kwargs)

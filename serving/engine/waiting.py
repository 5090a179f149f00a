"""An event loop that waits for a value from another thread."""

from __future__ import annotations

import asyncio
import logging
from typing import Generic, TypeVar

log = logging.getLogger(__name__)

Value = TypeVar("Value")


class Waiter(Generic[Value]):
    """One coroutine that waits; made in its event loop, answered from any thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[Value] = self._loop.create_future()

    async def get(self, timeout_s: float) -> Value | None:
        """The value, or None when it does not come in time."""
        try:
            return await asyncio.wait_for(self._future, timeout_s)
        except TimeoutError:
            return None

    def put(self, value: Value) -> None:
        """Answer; the first answer holds."""
        try:
            self._loop.call_soon_threadsafe(self._set, value)
        except RuntimeError:
            log.debug("the event loop that waited for a value is closed")

    def _set(self, value: Value) -> None:
        if not self._future.done():
            self._future.set_result(value)

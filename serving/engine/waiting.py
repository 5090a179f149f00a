"""An event loop that waits for a value from another thread."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import TypeVar

Value = TypeVar("Value")


class Waiter(Future[Value]):
    """One coroutine that waits, answered from any thread."""

    async def get(self, timeout_s: float) -> Value | None:
        """The value, or None when it does not come in time."""
        if self.done():
            return self.result()
        try:
            return await asyncio.wait_for(asyncio.wrap_future(self), timeout_s)
        except TimeoutError:
            return None

    def put(self, value: Value) -> None:
        """Answer; the first answer holds."""
        with suppress(InvalidStateError):
            self.set_result(value)

"""Who waits for the meter's thread: for a value, and for what a load took, from the asking until it is accounted for.

No thread of its own, no lock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from msgspec.structs import replace

from serving.wire.events import Hello, LoadSpan
from telemetry.engine_time import AdapterLoad, LoadCause

Value = TypeVar("Value")


class Waiter(Future[Value]):
    """One coroutine that waits, in any event loop, answered from any thread."""

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


@dataclass(slots=True)
class AskedLoad:
    """A load that was asked for; `heard` gets its spans once it is over."""

    hash: str
    cause: LoadCause
    heard: Waiter[tuple[LoadSpan, ...]]
    spans: tuple[LoadSpan, ...] = ()


class AskedLoads:
    """The loads of one engine; one at a time of an adapter."""

    def __init__(self) -> None:
        self._under_way: dict[str, AskedLoad] = {}
        self._read: dict[tuple[str, int], AskedLoad] = {}

    def begin(self, adapter: str, load: AskedLoad) -> None:
        """`load` of that adapter is asked for now."""
        self._under_way[adapter] = load

    def end(self, adapter: str) -> None:
        """Nobody waits for the load any more."""
        self._under_way.pop(adapter, None)

    def hear(self, spans: Iterable[LoadSpan], hello: Hello) -> None:
        """Remember who asked for a load that is over: it is accounted for later, when idle time is settled."""
        for span in spans:
            load = self._under_way.get(span.adapter)
            if load is None:
                continue
            load.spans += (span,)
            if span.kind == "read":
                self._read[span.adapter, span.start_ns - hello.mono_ns + hello.utc_ns] = load
            if span.first:
                load.heard.put(load.spans)

    def told_apart(self, loads: Iterable[AdapterLoad]) -> list[AdapterLoad]:
        """Accounted loads with the cause and the hash of who asked for them."""
        found: list[AdapterLoad] = []
        for load in loads:
            asked = self._read.pop((load.adapter, load.start_ns), None)
            if asked is None:
                # Nobody asked: the engine itself had to read it again, inside a step.
                found.append(replace(load, cause=LoadCause.RELOAD))
            else:
                found.append(replace(load, cause=asked.cause, adapter_hash=asked.hash))
        return found

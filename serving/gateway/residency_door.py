"""Keeps the engine's host tier of adapters: loads before first use, evicts by the pure `serving.residency`.

We decide, so that vLLM's own LRU never has to: the tier is kept within its capacity before each load.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from catalog.model import Adapter
from serving.engine import AdapterFiles, EngineDoor, LoadTiming
from serving.errors import AdapterLoadFailed, EngineError
from serving.gateway.clock import Clock
from serving.residency import EVICT, HIT, MISS, Resident, victim
from telemetry.engine_time import LoadCause

log = logging.getLogger(__name__)


class TierBusy(EngineError):
    """Every place in the host tier holds an adapter that is in use."""

    def __init__(self, adapter: str, capacity: int) -> None:
        self.adapter, self.capacity = adapter, capacity
        super().__init__(f"could not load adapter {adapter}: all {capacity} places of the host tier are in use")


@dataclass(frozen=True, slots=True)
class Held:
    """An adapter that stays resident until it is given back. `timing` is None when it was resident already."""

    files: AdapterFiles
    outcome: str
    timing: LoadTiming | None


@dataclass(frozen=True, slots=True)
class _Loaded:
    timing: LoadTiming
    evicted: bool


class ResidencyDoor:
    """One engine's host tier. Requests that need the same cold adapter wait for one load.

    `read` checks and copies an adapter's files; it runs in a thread, once per catalog entry and catalog version.
    """

    def __init__(
        self,
        door: EngineDoor,
        read: Callable[[Adapter], AdapterFiles],
        capacity: int,
        clock: Clock,
        room_wait_s: float = 10.0,
    ) -> None:
        self._door, self._read, self._capacity, self._clock = door, read, capacity, clock
        self._room_wait_s = room_wait_s
        self._files: dict[Adapter, asyncio.Task[AdapterFiles]] = {}
        self._tier: dict[str, Resident] = {}
        self._loading: dict[str, asyncio.Task[_Loaded]] = {}
        self._places: set[str] = set()
        self._leaving: str | None = None
        self._making_room = asyncio.Lock()
        self._freed = asyncio.Event()

    def forget_files(self) -> None:
        """Read every adapter again when it is next used: a new catalog version may mean new weights under an old path."""
        self._files.clear()

    async def hold(self, adapter: Adapter, cause: LoadCause, strictness: Fraction) -> Held:
        """Make the adapter resident and keep it so until `release`.

        Raises AdapterLoadFailed, TierBusy or another EngineError; then nothing is held and other adapters are as before.
        A load goes on when its waiter is cancelled.
        """
        files = await self._version(adapter)
        name = files.served_name
        now = self._clock.mono_ns()
        entry = self._tier.get(name) or Resident(name, files.size_bytes, loaded_ns=now, used_ns=now)
        entry = replace(entry, warm=adapter.warm, strictness=max(strictness, entry.strictness))
        self._tier[name] = entry.hit(now)
        try:
            if name in self._door.resident() and name not in self._loading and name != self._leaving:
                return Held(files, HIT, None)
            if (task := self._loading.get(name)) is None:
                task = self._loading[name] = asyncio.create_task(self._load(files, cause))
                task.add_done_callback(lambda done: done.cancelled() or done.exception())
            loaded = await asyncio.shield(task)
        except BaseException:
            self.release(name)
            raise
        return Held(files, EVICT if loaded.evicted else MISS, loaded.timing)

    def release(self, served_name: str) -> None:
        """Give back what `hold` returned."""
        entry = self._tier[served_name]
        self._tier[served_name] = replace(entry, in_flight=entry.in_flight - 1)
        self._forget(served_name)
        self._freed.set()

    def _forget(self, name: str) -> None:
        """Keep no count of what is neither resident nor wanted."""
        if not self._tier[name].in_flight and name not in self._loading and name not in self._door.resident():
            del self._tier[name]

    async def warm(self, adapters: list[Adapter], cause: LoadCause) -> None:
        """Load adapters ahead of their first request; one that fails is logged and left to its first request."""
        for adapter in adapters:
            try:
                held = await self.hold(adapter, cause, Fraction(0))
            except EngineError as error:
                log.error("warm pool: %s", error)
            else:
                self.release(held.files.served_name)

    async def _version(self, adapter: Adapter) -> AdapterFiles:
        task = self._files.get(adapter)
        if task is None:
            task = self._files[adapter] = asyncio.create_task(asyncio.to_thread(self._read, adapter))
            task.add_done_callback(lambda done: self._forget_failure(adapter, done))
        return await asyncio.shield(task)

    def _forget_failure(self, adapter: Adapter, task: asyncio.Task[AdapterFiles]) -> None:
        if (task.cancelled() or task.exception()) and self._files.get(adapter) is task:
            del self._files[adapter]

    async def _load(self, files: AdapterFiles, cause: LoadCause) -> _Loaded:
        name = files.served_name
        try:
            async with self._making_room:
                evicted = await self._make_room(name)
                self._places.add(name)
            timing = await self._door.load_adapter(files, cause)
            now = self._clock.mono_ns()
            self._tier[name] = replace(self._tier[name], loaded_ns=now, used_ns=now)
            return _Loaded(timing, evicted)
        finally:
            self._places.discard(name)
            del self._loading[name]
            self._freed.set()

    async def _make_room(self, name: str) -> bool:
        """Evict until one place is free; whether anything had to leave. Runs under `_making_room`."""
        evicted = False
        while len((resident := self._door.resident() | self._places) - {name}) >= self._capacity:
            now = self._clock.mono_ns()
            tier = [self._tier.get(r) or Resident(r, 0, 0, 0) for r in resident - self._places]
            chosen = victim(tier, now)
            if chosen is None:
                self._freed.clear()
                try:
                    await asyncio.wait_for(self._freed.wait(), self._room_wait_s)
                except TimeoutError:
                    raise TierBusy(name, self._capacity) from None
                continue
            self._leaving = chosen
            try:
                await self._door.evict_adapter(chosen)
            finally:
                self._leaving = None
            if chosen in self._door.resident():
                raise AdapterLoadFailed(name, "the host tier", f"{chosen} could not be evicted")
            if chosen in self._tier:
                self._forget(chosen)
            evicted = True
        return evicted

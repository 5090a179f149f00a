"""Keeps the engine's host tier of adapters: loads before first use, evicts by the pure `serving.policy.residency`.

We decide, so that vLLM's own LRU never has to: the tier is kept within its capacity before each load.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from catalog.model import Adapter
from serving.attempt.adapter_shelf import AdapterShelf
from serving.attempt.limits import Clock
from serving.engine.door import AdapterFiles, EngineDoor, LoadTiming
from serving.errors import AdapterLoadFailed, EngineError
from serving.policy.residency import EVICT, HIT, MISS, Resident, victim
from telemetry.engine_time import LoadCause

log = logging.getLogger(__name__)

PATIENCE: Final = 0.5
"""The part of the wait for room after which new requests for one adapter in use are held back, so that it can leave."""


class TierBusy(EngineError):
    """The adapter could not be made resident in time: every place is in use, or its load takes longer."""


class _NotWanted(Exception):
    """A load that nobody waits for any more, or that nobody asked for and that finds no free place."""


@dataclass(frozen=True, slots=True)
class Lease:
    """An adapter that stays resident until it is given back. `timing` is None when it was resident already."""

    files: AdapterFiles
    outcome: str
    timing: LoadTiming | None


_Loaded = tuple[LoadTiming, bool]
"""How long the load took, and whether another adapter had to leave for it."""


class ResidencyDoor:
    """One engine's host tier. Requests that need the same cold adapter wait for one load, and for room in their order.

    Whoever asks is answered within `room_s`, whatever happens to the place it waits for. `read` checks and copies an
    adapter's files; it runs in a thread, once per catalog entry and catalog version.
    """

    def __init__(
        self,
        door: EngineDoor,
        read: Callable[[Adapter], AdapterFiles],
        capacity: int,
        clock: Clock,
        room_s: float = 10.0,
    ) -> None:
        self._door, self._capacity, self._clock, self._room_s = door, capacity, clock, room_s
        self._shelf = AdapterShelf(read)
        self._tier: dict[str, Resident] = {}
        self._waiting: Counter[str] = Counter()
        self._warming: set[str] = set()
        self._loading: dict[str, asyncio.Task[_Loaded]] = {}
        self._places: set[str] = set()
        self._leaving: str | None = None
        self._draining: str | None = None
        self._making_room = asyncio.Lock()
        self._changed = asyncio.Event()

    def adopt(self, adapters: Iterable[Adapter]) -> None:
        """A new catalog: every adapter's files are looked at again when next used, and what it does not want warm is not."""
        adapters = tuple(adapters)
        self._shelf.adopt(adapters)
        warm = {adapter.name for adapter in adapters if adapter.warm}
        for name, entry in self._tier.items():
            self._tier[name] = replace(entry, warm=entry.warm and _adapter_name(name) in warm)

    def copies(self) -> frozenset[str]:
        """Hashes of the adapter copies that the engine or the catalog uses."""
        held = {name for name, entry in self._tier.items() if entry.in_flight}
        return self._shelf.hashes(self._door.resident() | held | self._loading.keys())

    def ready(self, adapter: Adapter) -> bool:
        """Whether `hold` would wait for nothing."""
        files = self._shelf.known(adapter)
        return files is not None and self._here(files.served_name)

    async def hold(self, adapter: Adapter, cause: LoadCause, strictness: Fraction) -> Lease:
        """Make the adapter resident and keep it so until `release`.

        Raises AdapterLoadFailed, another EngineError, or TierBusy after `room_s`; then nothing is held and other adapters
        are as before. A load that has begun goes on when its waiter is gone.
        """
        deadline = asyncio.timeout(self._room_s)
        try:
            async with deadline:
                return await self._hold(adapter, cause, strictness)
        except TimeoutError:
            if not deadline.expired():
                raise
            fact = f"no place and no load within {self._room_s:g} s"
            raise TierBusy(f"could not load adapter {adapter.name}: {fact}") from None

    async def _hold(self, adapter: Adapter, cause: LoadCause, strictness: Fraction) -> Lease:
        files = await self._shelf.files(adapter)
        name = files.served_name
        outcome, timing = HIT, None
        self._waiting[name] += 1
        try:
            while not self._here(name):
                timing, evicted = await asyncio.shield(self._load(files, cause))
                outcome = EVICT if evicted else MISS
        finally:
            self._waiting -= Counter({name: 1})
            self._changed.set()
        now = self._clock.mono_ns()
        entry = self._entry(name, files)
        entry = replace(entry, warm=adapter.warm, strictness=max(strictness, entry.strictness))
        self._tier[name] = entry.hit(now)
        return Lease(files, outcome, timing)

    def release(self, served_name: str) -> None:
        """Give back what `hold` returned."""
        entry = self._tier[served_name]
        self._tier[served_name] = replace(entry, in_flight=entry.in_flight - 1)
        self._forget(served_name)
        self._changed.set()

    async def warm(self, adapters: Iterable[Adapter], cause: LoadCause) -> None:
        """Load adapters ahead of their first request, as far as there is room beside other warm ones.

        One that fails is logged and left to its first request.
        """
        for adapter in adapters:
            try:
                await self._warm(adapter, cause)
            except _NotWanted:
                log.warning("warm pool: there is no place for %s; it is loaded on demand", adapter.name)
            except EngineError as error:
                log.error("warm pool: %s", error)

    async def _warm(self, adapter: Adapter, cause: LoadCause) -> None:
        files = await self._shelf.files(adapter)
        name = files.served_name
        for other, entry in self._tier.items():
            if other != name and _adapter_name(other) == adapter.name:
                # An older version of an adapter has no claim to a place.
                self._tier[other] = replace(entry, warm=False)
        if not self._here(name):
            self._warming.add(name)
            try:
                await asyncio.shield(self._load(files, cause))
            finally:
                self._warming.discard(name)
                self._changed.set()
        if self._here(name):
            self._tier[name] = replace(self._entry(name, files), warm=True)

    def _entry(self, name: str, files: AdapterFiles) -> Resident:
        now = self._clock.mono_ns()
        return self._tier.get(name) or Resident(name, files.size_bytes, loaded_ns=now, used_ns=now)

    def _here(self, name: str) -> bool:
        """Whether a request may use it at once."""
        there = name in self._door.resident() and name not in self._loading
        return there and name not in (self._leaving, self._draining)

    def _forget(self, name: str) -> None:
        """Keep no count of what is neither resident nor held."""
        entry = self._tier.get(name)
        if entry is not None and not entry.in_flight and name not in self._door.resident():
            del self._tier[name]

    def _load(self, files: AdapterFiles, cause: LoadCause) -> asyncio.Task[_Loaded]:
        """The one load of this version that is on its way."""
        name = files.served_name
        if (task := self._loading.get(name)) is None:
            task = self._loading[name] = asyncio.create_task(self._load_once(files, cause))
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task

    async def _load_once(self, files: AdapterFiles, cause: LoadCause) -> _Loaded:
        name = files.served_name
        hurry = asyncio.get_running_loop().time() + self._room_s * PATIENCE
        try:
            async with self._making_room:
                evicted = await self._make_room(name, hurry)
                self._places.add(name)
            timing = await self._door.load_adapter(files, cause)
            now = self._clock.mono_ns()
            self._tier[name] = replace(self._entry(name, files), loaded_ns=now, used_ns=now)
            return timing, evicted
        finally:
            self._places.discard(name)
            del self._loading[name]
            self._changed.set()

    async def _make_room(self, name: str, hurry: float) -> bool:
        """Evict until one place is free; whether anything had to leave. Runs under `_making_room`, in the order of asking."""
        evicted = False
        try:
            while True:
                asked = self._waiting[name] > 0
                if not asked and name not in self._warming:
                    raise _NotWanted
                resident = self._door.resident() | self._places
                if len(resident - {name}) < self._capacity:
                    return evicted
                chosen = victim(self._leavers(resident), self._clock.mono_ns(), spare_warm=not asked)
                if chosen is not None:
                    await self._evict(chosen, name)
                    evicted = True
                elif asked:
                    await self._change(hurry, resident)
                else:
                    raise _NotWanted
        finally:
            self._draining = None

    def _leavers(self, resident: Iterable[str]) -> list[Resident]:
        """Who is in the tier; whom a request waits for is in use, unless those requests are held back on purpose."""
        return [
            replace(entry, in_flight=entry.in_flight + (self._waiting[name] if name != self._draining else 0))
            for name in sorted(set(resident) - self._places)
            for entry in [self._tier.get(name) or Resident(name, 0, 0, 0)]
        ]

    async def _change(self, hurry: float, resident: Iterable[str]) -> None:
        """Wait until something is given back or given up; once `hurry` has come, let one adapter drain."""
        self._changed.clear()
        late = asyncio.get_running_loop().time() >= hurry
        if late and self._draining is None:
            idle = [replace(entry, in_flight=0) for entry in self._leavers(resident)]
            if (drained := victim(idle, self._clock.mono_ns())) is not None:
                self._draining = drained
                return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(None if late else hurry):
                await self._changed.wait()

    async def _evict(self, chosen: str, wanted: str) -> None:
        self._leaving = chosen
        try:
            await self._door.evict_adapter(chosen)
        finally:
            self._leaving = None
        if chosen in self._door.resident():
            raise AdapterLoadFailed(wanted, "the host tier", f"{chosen} could not be evicted")
        self._forget(chosen)


def _adapter_name(served_name: str) -> str:
    return served_name.partition("@")[0]

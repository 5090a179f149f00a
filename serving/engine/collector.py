"""The thread in the gateway process that hears the meter, has it accounted for, and hands on what is finished.

It must not die quietly: whatever goes wrong with one event is logged and counted in `faults`, and the next event is taken.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from copy import deepcopy

from serving.engine.asked_loads import AskedLoad, AskedLoads, Waiter
from serving.engine.door import AdapterFiles, LoadTiming
from serving.errors import EventInvalid
from serving.metering.accounting import Accountant, Measured, Totals
from serving.metering.tally import Tally
from serving.wire.channel import Message, Occupancy, Receiver
from serving.wire.events import Bye, EngineStep, Hello, Loaded
from telemetry.engine_time import AdapterLeft, AdapterLoad, LoadCause, MeterValue

POLL_S = 0.1
SETTLE_S = 0.5
HEARTBEAT_S = 5.0
BATCH = 256
"""Messages taken before whoever waits for figures is answered."""

logger = logging.getLogger(__name__)


class Collector:
    """Owns the receiving end and the accountant of one engine. `sink` gets every finished value, in this thread.

    `heartbeat` is called every few seconds, in this thread. What other threads ask is answered under a lock.
    """

    def __init__(
        self,
        receiver: Receiver,
        accountant: Accountant,
        sink: Callable[[MeterValue], None],
        heartbeat: Callable[[], None] = lambda: None,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._receiver = receiver
        self._accountant = accountant
        self._sink = sink
        self._heartbeat = heartbeat
        self._clock = clock
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="meter-collector", daemon=True)
        self._up = threading.Event()
        self._done = threading.Event()
        self._stop = threading.Event()
        self._waiting: dict[str, list[Waiter[Measured | None]]] = {}
        self._asked = AskedLoads()
        self.heard_ns = clock()
        """When the engine last said something, on the monotonic clock."""
        self._cross_tenant_hits: frozenset[tuple[str, str]] = frozenset()
        self._ended = False
        self.hello: Hello | None = None
        self.occupancy = Occupancy(0, 0, ())
        self._left: list[AdapterLeft] = []
        self._departures = 0
        self.faults = 0

    @property
    def gaps(self) -> int:
        """Messages that never arrived."""
        return self._receiver.gaps

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    def up(self, timeout_s: float) -> bool:
        """Whether the engine's meter has said hello, at the latest after `timeout_s`."""
        return self._up.wait(timeout_s)

    @property
    def over(self) -> bool:
        """Whether the engine's meter has said bye."""
        return self._done.is_set()

    def stop(self, timeout_s: float) -> bool:
        """Listen until the engine says bye, `timeout_s` at most, then settle everything. Whether it said bye."""
        said_bye = self._done.wait(timeout_s)
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        self._receiver.close()
        return said_bye

    def totals(self) -> Totals:
        """Measured time so far, all of one moment."""
        with self._lock:
            return deepcopy(self._accountant.totals)

    def tally(self) -> Tally:
        """Requests and tokens counted so far."""
        with self._lock:
            return self._accountant.tally()

    def knows(self, attempt: str) -> bool:
        """Whether the attempt entered the engine, as far as heard."""
        with self._lock:
            return self._accountant.knows(attempt)

    async def measured(self, attempt: str, timeout_s: float) -> Measured | None:
        """The figures of an attempt once it has left the engine, which is then forgotten; None after `timeout_s`, or when nothing follows."""
        waiter: Waiter[Measured | None] = Waiter()
        with self._lock:
            found = self._take_measured(attempt)
            if found is not None or self._ended:
                return found
            self._waiting.setdefault(attempt, []).append(waiter)
        try:
            return await waiter.get(timeout_s)
        finally:
            with self._lock:
                left = [other for other in self._waiting.pop(attempt, ()) if other is not waiter]
                if left:
                    self._waiting[attempt] = left
                self._accountant.forget(attempt)

    async def load(
        self, adapter: AdapterFiles, cause: LoadCause, do: Callable[[], Awaitable[None]], timeout_s: float
    ) -> LoadTiming | None:
        """Await `do()`, which loads the adapter; what the meter says it took, None if that takes `timeout_s` more.

        One load of an adapter at a time. Whatever `do()` raises passes through.
        """
        load = AskedLoad(adapter.hash, cause, Waiter())
        with self._lock:
            self._accountant.expect(adapter.name, cause, adapter.hash)
            self._asked.begin(adapter.name, load)
        try:
            await do()
            spans = await load.heard.get(timeout_s)
        finally:
            with self._lock:
                self._accountant.withdraw(adapter.name)
                self._asked.end(adapter.name)
        if spans is None:
            return None
        took = {kind: sum(s.end_ns - s.start_ns for s in spans if s.kind == kind) for kind in ("read", "activate")}
        return LoadTiming(took["read"], took["activate"], sum(took.values()), adapter.size_bytes)

    def _run(self) -> None:
        settled = beaten = time.monotonic()
        while not (self._stop.is_set() or self._done.is_set()):
            self._guarded(self._listen)
            now = time.monotonic()
            if now - settled >= SETTLE_S:
                settled = now
                self._guarded(self._settle)
            if now - beaten >= HEARTBEAT_S:
                beaten = now
                self._guarded(self._heartbeat)
        self._guarded(self._finish)

    def _listen(self) -> None:
        if not self._receiver.wait(POLL_S):
            return
        with self._lock:
            self._take_all(BATCH)
            self._answer()
            loads = self._take_loads()
        self._hand_on(loads)

    def _settle(self) -> None:
        # The clock is read before the events are taken that led up to it: see Accountant.windows.
        now = self._clock()
        with self._lock:
            while self._take_all(BATCH) == BATCH:
                self._answer()
            values = self._take_values(now)
            self._answer()
        self._hand_on(values)

    def _finish(self) -> None:
        with self._lock:
            while self._take_all(BATCH) == BATCH:
                pass
            # Without a bye the engine died: nothing is known after its last word.
            self._accountant.finish(self.heard_ns)
            values = self._take_values(self._clock())
            self._answer()
            self._ended = True
            for waiter in [waiter for waiters in self._waiting.values() for waiter in waiters]:
                waiter.put(None)
        self._hand_on(values)

    def _take_all(self, most: int) -> int:
        """Take what has arrived, at most so many messages; how many it were."""
        for taken in range(most):
            try:
                message = self._receiver.take()
            except EventInvalid:
                self._fault("could not read an event")
                continue
            if message is None:
                return taken
            self._take(message)
        return most

    def _take(self, message: Message) -> None:
        if isinstance(message, Occupancy):
            self._note_left(message)
            self.occupancy = message
            return
        self.heard_ns = self._clock()
        try:
            self._accountant.take(message)
        except Exception:
            self._fault(f"could not account for {type(message).__name__}")
        if isinstance(message, Loaded | EngineStep):
            if self.hello is not None:
                self._asked.hear(message.loads, self.hello)
        elif isinstance(message, Hello):
            self.hello = message
            self._up.set()
        elif isinstance(message, Bye):
            self._done.set()

    def _note_left(self, now: Occupancy) -> None:
        """What an engine held and does not hold any more; another version of an adapter is that adapter still."""
        before, after = ({name.partition("@")[0] for name in held.host} for held in (self.occupancy, now))
        for adapter in sorted(before - after):
            if (hello := self.hello) is not None:
                at_ns = hello.utc_ns + self._clock() - hello.mono_ns
                self._left.append(AdapterLeft(hello.emitter, self._departures, hello.engine, adapter, at_ns))
                self._departures += 1

    def _answer(self) -> None:
        for attempt in list(self._waiting):
            found = self._take_measured(attempt)
            if found is not None:
                for waiter in self._waiting.pop(attempt):
                    waiter.put(found)

    def _take_measured(self, attempt: str) -> Measured | None:
        found = self._accountant.measured(attempt)
        if found is not None:
            self._accountant.forget(attempt, claimed=True)
        return found

    def _take_values(self, now: int) -> list[MeterValue]:
        known, self._cross_tenant_hits = self._cross_tenant_hits, self._accountant.cross_tenant_hits
        for payer, user in sorted(self._cross_tenant_hits - known):
            logger.warning(
                "isolation: tenant %s used a stored prefix that tenant %s computed, and it is not re-shared: they are of one "
                "sharing group, or had the same cache salt by mistake",
                user,
                payer,
            )
        left, self._left = self._left, []
        return [*self._accountant.windows(now), *self._take_loads(), *left, *self._accountant.reshared()]

    def _take_loads(self) -> list[AdapterLoad]:
        return self._asked.told_apart(self._accountant.loads())

    def _hand_on(self, values: Sequence[MeterValue]) -> None:
        for value in values:
            try:
                self._sink(value)
            except Exception:
                self._fault(f"could not hand on {type(value).__name__} {value.emitter}:{value.seq}")

    def _guarded(self, do: Callable[[], None]) -> None:
        try:
            do()
        except Exception:
            self._fault("could not go on with what came last")

    def _fault(self, what: str) -> None:
        self.faults += 1
        logger.exception("the engine's meter %s", what)

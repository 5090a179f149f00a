"""Turns what the scheduler does into the meter's events: steps that never overlap, and what came between them.

Knows nothing of vLLM, so that it can be driven by hand. One recorder per engine process, called from the engine's thread only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple

from serving.wire.channel import Ended, Occupancy, OutgoingMessage
from serving.wire.events import Aborted, Bye, Entered, Hello, Loaded, LoadSpan, Mark, PrefixHit, Rows, Woke
from telemetry.engine_time import SystemCause

HELD_EVERY_NS = 200_000_000
"""How often what the engine holds is reported while steps run."""


class _Open(NamedTuple):
    """A step that was scheduled and has not been answered by the device yet."""

    entry_ns: int
    rows: Rows
    cached: tuple[tuple[str, int], ...]
    preempted: tuple[str, ...]
    hits: tuple[PrefixHit, ...]


class Recorder:
    """Sends through `send`, which must not block. `clock` is CLOCK_MONOTONIC in nanoseconds, `utc` the wall clock."""

    def __init__(
        self,
        send: Callable[[OutgoingMessage], None],
        clock: Callable[[], int] = time.monotonic_ns,
        utc: Callable[[], int] = time.time_ns,
    ) -> None:
        self._send = send
        self._clock = clock
        self._utc = utc
        self._open: dict[Hashable, _Open] = {}
        self._left: list[str] = []
        self._given_up: set[str] = set()
        self._loads: list[LoadSpan] = []
        self._marks: list[Mark] = []
        self._previous_end_ns = 0
        self._seq = 0
        self._awake = False
        self._held = Occupancy(-1, -1, ())
        self._held_ns = 0

    @property
    def in_step(self) -> bool:
        """Whether a scheduled step has not ended yet."""
        return bool(self._open)

    def hello(self, emitter: str, engine: str) -> None:
        """Measured time begins now. The wall clock is read once, between the two closest of three monotonic readings."""
        readings = []
        for _ in range(3):
            before = self._clock()
            utc = self._utc()
            readings.append((self._clock() - before, before, utc))
        width, before, utc = min(readings)
        anchor = before + width // 2
        self._previous_end_ns = anchor
        self._send(Hello(emitter, engine, anchor, utc))

    def entered(
        self, request: str, attempt: str, tenant: str, adapter: str | None, prompt_tokens: int, prompt: str = ""
    ) -> None:
        """The scheduler knows a new request, a choice of the attempt's `prompt`."""
        now = self._clock()
        if not self._awake:
            self._awake = True
            self._send(Woke(now))
        self._send(Entered(request, attempt, tenant, adapter, prompt_tokens, now, prompt))

    def began(
        self,
        step: Hashable,
        entry_ns: int,
        rows: Rows,
        cached: Iterable[tuple[str, int]],
        preempted: Iterable[str],
        hits: Iterable[PrefixHit] = (),
    ) -> None:
        """A step was scheduled; scheduling was entered at `entry_ns`. Nobody changes `rows` any more."""
        self._open[step] = _Open(entry_ns, rows, tuple(cached), tuple(preempted), tuple(hits))

    def left(self, request: str, given_up: bool = False) -> None:
        """A request left the scheduler, for whatever reason; `given_up` when nobody wants it any more."""
        self._left.append(request)
        if given_up:
            self._given_up.add(request)

    def ended(self, step: Hashable, end_ns: int, work_left: Callable[[], bool]) -> None:
        """A step's results are in the scheduler. Steps end in the order they began; one that never began leaves a hole in `seq`."""
        seq, self._seq = self._seq, self._seq + 1
        begun = self._open.pop(step, None)
        if begun is None:
            return
        start_ns, self._previous_end_ns = max(begun.entry_ns, self._previous_end_ns), end_ns
        self._awake = bool(self._open) or work_left()
        finished = self._take_left()
        self._send(
            Ended(
                seq=seq,
                start_ns=start_ns,
                end_ns=end_ns,
                rows=begun.rows,
                cached=begun.cached,
                finished=finished,
                preempted=begun.preempted,
                loads=self._take_loads(),
                work_left=self._awake,
                marks=self._take_marks(),
                aborted=self._take_given_up(finished),
                hits=begun.hits,
            )
        )

    def did(self, cause: SystemCause, start_ns: int) -> None:
        """From `start_ns` until now the engine's thread did this; it counts between steps while requests are there."""
        if self._awake and not self._open:
            last = self._marks[-1].end_ns if self._marks else 0
            self._marks.append(Mark(cause, max(start_ns, last), self._clock()))

    def aborted(self, work_left: bool) -> None:
        """Requests were thrown out; inside a step that step tells it, and nothing is sent when none were."""
        if self._open or not self._left:
            return
        self._awake = work_left
        left = self._take_left()
        self._take_given_up(left)
        self._send(Aborted(left, self._clock(), work_left))

    def loaded(self, spans: Iterable[LoadSpan]) -> None:
        """Adapters were loaded or activated; inside a step that step tells it."""
        self._loads.extend(spans)
        if self._loads and not self._open:
            self._send(Loaded(self._take_loads()))

    def holds(self, held: Occupancy, at_once: bool) -> None:
        """Tell what the engine holds, if that changed; not more often than HELD_EVERY_NS unless `at_once`."""
        if held != self._held and (at_once or self.holds_due):
            self._held, self._held_ns = held, self._clock()
            self._send(held)

    @property
    def holds_due(self) -> bool:
        """Whether HELD_EVERY_NS passed since what the engine holds was told."""
        return self._clock() - self._held_ns >= HELD_EVERY_NS

    def bye(self) -> None:
        """Measured time ends now."""
        self._send(Bye(self._clock()))

    def _take_left(self) -> tuple[str, ...]:
        if not self._left:
            return ()
        # With two steps in flight a request can be done while the later step still has a row of it: it leaves with that one.
        pending = {request for step in self._open.values() for request in step.rows.requests}
        left = tuple(name for name in self._left if name not in pending)
        self._left = [name for name in self._left if name in pending]
        return left

    def _take_given_up(self, left: tuple[str, ...]) -> tuple[str, ...]:
        if not self._given_up:
            return ()
        given_up = tuple(name for name in left if name in self._given_up)
        self._given_up.difference_update(given_up)
        return given_up

    def _take_marks(self) -> tuple[Mark, ...]:
        marks, self._marks = tuple(self._marks), []
        return marks

    def _take_loads(self) -> tuple[LoadSpan, ...]:
        loads, self._loads = tuple(self._loads), []
        return loads

"""Turns the engine's events into the meter's windows and each attempt's figures, without a gap and without a clamp.

One anchor (`Hello`) turns monotonic time into UTC. A cursor then passes over every nanosecond once. In a step, adapter loads
come off first, what lies above 3 x the predicted time is a stall of the machine, and the rest is split by `split_step`.
Between steps the time is a load's, idle (from an engine that ran empty until `Woke`), or the loop's; after events were lost it is
unattributed. Whatever straddles a UTC minute is cut there and each piece is split by itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from serving.metering.attempts import Attempts, Measured
from serving.metering.events import Aborted, Bye, Entered, Event, Hello, Loaded, LoadSpan, Mark, Step, Woke
from serving.metering.loads import LoadBook, is_cold
from serving.metering.models import StepModel
from serving.metering.prefix_lines import PrefixLines
from serving.metering.steps import book_step
from serving.metering.tally import Tally
from serving.metering.timeline import Cover, Owner, first_fault, lay
from serving.metering.windows import Totals, WindowBook, minutes
from telemetry.engine_time import AdapterLoad, LoadCause, MeterWindow, PrefixReshare, SystemCause

__all__ = ["Accountant", "EventRefused", "Measured", "Totals"]

SETTLE_NS: Final = 1_000_000_000
"""Idle time is booked only this far behind now, since events of the last moment may still be on their way."""
SETTLE_LOADING_NS: Final = 120 * 1_000_000_000
"""The same while an announced load may be running: it reports itself when it is over."""


class _Every:
    """Holds everything."""

    def __contains__(self, _: object) -> bool:
        return True


_EVERY: Final = _Every()


class EventRefused(ValueError):
    """An event contradicts what was booked before it, and was not taken.

    The accountant goes on as if the event had been lost: time that it would have explained becomes unattributed.
    """

    def __init__(self, event: Event, fact: str) -> None:
        self.event = event
        super().__init__(f"could not take {type(event).__name__} event: {fact}")


class Accountant:
    """The meter's figures for one engine. Not thread safe: its owner takes events and asks from one thread, or locks."""

    def __init__(self, profile: StepModel, engine: str) -> None:
        self.profile = profile
        self.totals = Totals()
        self.gaps = 0
        """How many steps were lost on their way."""
        self._engine = engine
        self._hash = profile.hash
        self._attempts = Attempts()
        self._loads = LoadBook(engine)
        self._prefixes = PrefixLines(engine)
        self._ready: list[MeterWindow] = []
        self._book: WindowBook | None = None
        self._offset = 0
        self._next_step = 0
        self._idle_from: int | None = None
        self._covers: list[Cover] = []
        self._spans: list[LoadSpan] = []

    def take(self, event: Event) -> None:
        """Take one event; EventRefused when it goes backward, overlaps, or comes outside Hello and Bye."""
        if isinstance(event, Hello):
            self._hello(event)
            return
        if self._book is None:
            raise EventRefused(event, "no Hello came before it, or Bye did")
        match event:
            case Step():
                self._step(event, self._book)
            case Entered():
                self._attempts.enter(event, event.at_ns + self._offset)
            case Woke():
                self._woke(event, self._book)
            case Aborted():
                self._aborted(event, self._book)
            case Loaded():
                self._spans = self._with_spans(event, event.loads, self._book)
            case Bye():
                if event.at_ns + self._offset < self._reached(self._book):
                    raise EventRefused(event, "it lies before time that is already taken")
                self.finish(event.at_ns)

    def windows(self, now_mono_ns: int) -> list[MeterWindow]:
        """Closed windows since the last call. Read `now_mono_ns` before taking the events that led up to it."""
        book = self._book
        if book is not None:
            self._attempts.drop_stale(now_mono_ns + self._offset)
            settle = SETTLE_LOADING_NS if self._loads.expecting else SETTLE_NS
            to_ns = now_mono_ns + self._offset - settle
            if self._idle_from is not None and to_ns > max(self._idle_from, self._reached(book)):
                self._fill(book, to_ns, [*self._covers, Cover(self._idle_from, to_ns, Owner.IDLE)], Owner.LOOP)
                self._idle_from = to_ns
            self._ready += book.ready
            book.ready = []
        out, self._ready = self._ready, []
        return out

    def loads(self) -> list[AdapterLoad]:
        """Adapter loads that finished since the last call."""
        return self._loads.take()

    def reshared(self) -> list[PrefixReshare]:
        """Lines that re-share a prefix, since the last call."""
        return self._prefixes.take()

    @property
    def strangers(self) -> frozenset[tuple[str, str]]:
        """Pairs of tenants (who computed, who used) between which a stored prefix was found."""
        return frozenset(self._prefixes.strangers)

    def expect(
        self, adapter: str, cause: LoadCause, adapter_hash: str | None = None, fetch_ns: int | None = None
    ) -> None:
        """Announce a load of `adapter` before it begins, with its cause; without it a load counts as a request's."""
        self._loads.expect(adapter, cause, adapter_hash, fetch_ns)

    def withdraw(self, adapter: str) -> None:
        """An announced load will not come, if it was not reported yet."""
        self._loads.withdraw(adapter)

    def measured(self, attempt: str) -> Measured | None:
        """The attempt's figures; None while any of its requests is in the engine, or when it is not known."""
        return self._attempts.measured(attempt, self.profile.method, self._hash)

    def knows(self, attempt: str) -> bool:
        """Whether the attempt is in the engine, or left it and was not forgotten."""
        return attempt in self._attempts

    def forget(self, attempt: str, claimed: bool = False) -> None:
        """Free what is kept of an attempt; `claimed` when its figures go into a usage record."""
        self._attempts.forget(attempt, claimed)

    def tally(self) -> Tally:
        """Requests and tokens counted so far."""
        return self._attempts.tally()

    def finish(self, at_mono_ns: int) -> None:
        """Measured time ends at `at_mono_ns`, or where the last event ended if that is later; nothing after Bye or finish."""
        book = self._book
        if book is None:
            return
        to_ns = max(at_mono_ns + self._offset, self._reached(book))
        if self._idle_from is not None:
            last = Cover(self._idle_from, to_ns, Owner.IDLE)
        else:
            last = Cover(self._known(book), to_ns, Owner.NOBODY)
        self._fill(book, to_ns, [*self._covers, last], Owner.LOOP)
        self._end(book)

    def _hello(self, event: Hello) -> None:
        if self._book is not None:
            # The process before it died without a word: its measured time ends with its last event.
            self._fill(self._book, self._reached(self._book), self._covers, Owner.NOBODY)
            self._end(self._book)
        self._offset = event.utc_ns - event.mono_ns
        self._book = WindowBook(
            event.emitter, self._engine, event.utc_ns, (self.profile.method, self._hash), self.totals
        )
        self._loads.begin(event.emitter)
        self._prefixes.begin(event.emitter)
        self._next_step = 0
        self._idle_from = event.utc_ns

    def _end(self, book: WindowBook) -> None:
        book.close()
        self._ready += book.ready
        self._attempts.leave(None, book.cursor, _EVERY)
        self._loads.end()
        self._book = None
        self._idle_from = None

    def _woke(self, event: Woke, book: WindowBook) -> None:
        at_ns = event.at_ns + self._offset
        start_ns, owner = self._idle_from, Owner.IDLE
        if start_ns is None:
            start_ns, owner = self._known(book), Owner.NOBODY
        if at_ns < start_ns:
            raise EventRefused(event, f"it lies {start_ns - at_ns} ns inside time that is already taken")
        self._covers.append(Cover(start_ns, at_ns, owner))
        self._idle_from = None

    def _aborted(self, event: Aborted, book: WindowBook) -> None:
        at_ns = event.at_ns + self._offset
        if not event.work_left and self._idle_from is None:
            if at_ns < self._known(book):
                raise EventRefused(event, "it lies before time that is already taken")
            self._idle_from = at_ns
        self._attempts.leave(None if not event.work_left else event.requests, at_ns, _EVERY)

    def _with_spans(self, event: Event, loads: Iterable[LoadSpan], book: WindowBook) -> list[LoadSpan]:
        """The spans not booked yet, with these, in UTC."""
        offset = self._offset
        new = [span._replace(start_ns=span.start_ns + offset, end_ns=span.end_ns + offset) for span in loads]
        spans = sorted([*self._spans, *new], key=lambda span: (span.start_ns, span.end_ns))
        if fault := first_fault(spans, book.cursor):
            raise EventRefused(event, fault)
        for span in new:
            self._loads.arrived(span)
        return spans

    def _known(self, book: WindowBook) -> int:
        """Where the time begins of which only the next event will tell whose it is."""
        return self._covers[-1].end_ns if self._covers else book.cursor

    def _reached(self, book: WindowBook) -> int:
        """How far the events taken so far explain time."""
        return max(self._known(book), *(span.end_ns for span in self._spans[-1:]), book.cursor)

    def _step(self, event: Step, book: WindowBook) -> None:
        start_ns, end_ns = event.start_ns + self._offset, event.end_ns + self._offset
        if event.seq < self._next_step:
            raise EventRefused(event, f"seq {event.seq} came after seq {self._next_step - 1}")
        if start_ns < book.cursor or end_ns < start_ns:
            raise EventRefused(event, f"[{event.start_ns}, {event.end_ns}) goes backward or overlaps")
        spans = self._with_spans(event, event.loads, book)
        if spans and spans[-1].end_ns > end_ns:
            raise EventRefused(event, f"{spans[-1].kind} of {spans[-1].adapter} ends after the step that reports it")
        lost = event.seq - self._next_step
        self.gaps += lost
        self._next_step = event.seq + 1
        self._spans = spans
        covers = self._covers
        if self._idle_from is not None:
            # An engine that steps without rows still has no request; one with rows got them at a moment that was not told.
            still = Owner.NOBODY if event.rows or lost else Owner.IDLE
            covers = [*covers, Cover(self._idle_from, start_ns, still)]
        covers = sorted([*covers, *map(self._cover, event.marks)], key=lambda cover: cover[:2])
        self._fill(book, start_ns, covers, Owner.NOBODY if lost else Owner.LOOP)
        stalled = book_step(event, (start_ns, end_ns), spans, book, self._attempts, self._prefixes, self.profile)
        self._settle_spans(end_ns, stalled)
        self._attempts.leave(event.finished if event.work_left else None, end_ns, event.aborted)
        self._covers = [cover for cover in self._covers if cover.end_ns > end_ns]
        self._idle_from = None if event.work_left else end_ns

    def _fill(self, book: WindowBook, to_ns: int, covers: list[Cover], rest: Owner) -> None:
        """Book the time between steps up to `to_ns`."""
        for start_ns, end_ns, owner in lay(book.cursor, to_ns, self._spans, covers, rest):
            for start, end in minutes(start_ns, end_ns):
                if owner is Owner.IDLE:
                    book.idle(end - start)
                elif owner is Owner.NOBODY:
                    book.unattributed(end - start)
                elif isinstance(owner, LoadSpan) and is_cold(owner):
                    book.cold(owner.adapter, end - start)
                else:
                    cause = SystemCause.LOOP if isinstance(owner, LoadSpan) else SystemCause(owner.value)
                    book.system(cause, end - start)
                book.move(end)
        self._settle_spans(to_ns, ())
        self._covers = [cover for cover in self._covers if cover.end_ns > to_ns]

    def _cover(self, mark: Mark) -> Cover:
        return Cover(mark.start_ns + self._offset, mark.end_ns + self._offset, Owner(mark.cause.value))

    def _settle_spans(self, to_ns: int, stalled: Iterable[str]) -> None:
        for span in self._spans:
            if span.end_ns <= to_ns and is_cold(span):
                self._loads.record(span, stalled)
        self._spans = [span for span in self._spans if span.end_ns > to_ns]

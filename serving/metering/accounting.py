"""Turns the engine's events into the meter's windows and each attempt's figures, without a gap and without a clamp.

Events become tiles (`timeline`), and tiles are folded, once and in order of time, into windows (`windows`), attempts (`attempts`)
and loads (`loads`). A tile that straddles a UTC minute is cut there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from catalog.durations import MINUTE_NS, SECOND_NS
from catalog.owners import TimeOwner
from serving.metering import timeline
from serving.metering.attempts import AttemptBook, Measured
from serving.metering.loads import LoadBook, is_cold
from serving.metering.prefix_lines import PrefixLines
from serving.metering.steps import book_step, split_run
from serving.metering.tally import Tally
from serving.metering.tiles import StepRun, Tile, lay
from serving.metering.timeline import EngineTimeline, EventRefused
from serving.metering.windows import Totals, WindowBook, minutes
from serving.step_model.profile import Profile, RowWork
from serving.wire.events import Aborted, Bye, EngineStep, Entered, Event, Hello, Loaded, LoadSpan
from telemetry.engine_time import AdapterLoad, LoadCause, MeterWindow, PrefixReshare

__all__ = ["Accountant", "EventRefused", "Measured", "Totals"]

SETTLE_NS: Final = SECOND_NS
"""Idle time is booked only this far behind now, since events of the last moment may still be on their way."""
SETTLE_LOADING_NS: Final = 2 * MINUTE_NS
"""The same while an announced load may be running: it reports itself when it is over."""


StepHeard = Callable[[int, int, int, Sequence[RowWork]], None]
"""Told of each step: start, end, net of adapter loads (nanoseconds), and what its rows did."""


class Accountant:
    """The meter's figures for one engine. Not thread safe: its owner takes events and asks from one thread, or locks."""

    def __init__(self, profile: Profile, engine: str, hear: StepHeard | None = None) -> None:
        self.profile = profile
        self._hear = hear
        self.totals = Totals()
        self.gaps = 0
        """How many steps were lost on their way."""
        self._line: EngineTimeline | None = None
        """None while no process of the engine is up."""
        self._hash = profile.hash
        self._windows = WindowBook(engine, (profile.method, self._hash), self.totals)
        self._attempts = AttemptBook()
        self._loads = LoadBook(engine)
        self._prefixes = PrefixLines(engine)

    def take(self, event: Event) -> None:
        """Take one event; EventRefused, and nothing has changed, when it goes backward, overlaps, or comes outside Hello and Bye."""
        if isinstance(event, Hello):
            self._hello(event)
            return
        before = self._line
        if before is None:
            raise EventRefused(event, "no Hello came before it, or Bye did")
        self._line, tiles = timeline.advance(before, event)
        match event:
            case EngineStep():
                self.gaps += event.seq - before.next_step
                self._loads.arrived(timeline.in_utc(before, event.loads))
                self._fold(tiles)
            case Entered():
                self._attempts.enter(event, event.at_ns + before.anchor_ns)
            case Aborted():
                gone = event.requests if event.work_left else None
                self._attempts.leave(gone, event.at_ns + before.anchor_ns, None)
            case Loaded():
                self._loads.arrived(timeline.in_utc(before, event.loads))
            case Bye():
                self._end(tiles)

    def windows(self, now_mono_ns: int) -> list[MeterWindow]:
        """Closed windows since the last call. Read `now_mono_ns` before taking the events that led up to it."""
        if self._line is not None:
            now_ns = now_mono_ns + self._line.anchor_ns
            self._attempts.drop_stale(now_ns)
            settle_ns = SETTLE_LOADING_NS if self._loads.expecting else SETTLE_NS
            self._line, tiles = timeline.stay_idle(self._line, now_ns - settle_ns)
            self._fold(tiles)
        return self._windows.take()

    def loads(self) -> list[AdapterLoad]:
        """Adapter loads that finished since the last call."""
        return self._loads.take()

    def reshared(self) -> list[PrefixReshare]:
        """Lines that re-share a prefix, since the last call."""
        return self._prefixes.take()

    @property
    def cross_tenant_hits(self) -> frozenset[tuple[str, str]]:
        """Pairs of tenants (who computed, who used) between which a stored prefix was found."""
        return frozenset(self._prefixes.cross_tenant_hits)

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
        if self._line is not None:
            self._end(timeline.end(self._line, at_mono_ns))

    def _hello(self, event: Hello) -> None:
        if self._line is not None:
            self._end(timeline.die(self._line))
        self._line = timeline.begin(event)
        self._windows.begin(event.emitter, event.utc_ns)
        self._loads.begin(event.emitter)
        self._prefixes.begin(event.emitter)

    def _end(self, tiles: Iterable[Tile]) -> None:
        """The last tiles of an engine process."""
        self._fold(tiles)
        self._windows.close()
        self._attempts.leave(None, self._windows.cursor, None)
        self._loads.end()
        self._line = None

    def _fold(self, tiles: Iterable[Tile]) -> None:
        """Book the time of tiles that follow what was booked. Only here is time cut at UTC minutes."""
        for start_ns, end_ns, owner in tiles:
            if isinstance(owner, StepRun):
                self._fold_step(owner, start_ns, end_ns)
                continue
            for _, until_ns in minutes(start_ns, end_ns):
                self._windows.between(owner, until_ns)
            if isinstance(owner, LoadSpan) and owner.end_ns == end_ns and is_cold(owner):
                self._loads.record(owner)

    def _fold_step(self, run: StepRun, start_ns: int, end_ns: int) -> None:
        step = run.step
        try:
            split = split_run(run, minutes(start_ns, end_ns), self._attempts, self.profile)
        except Exception:
            # Whatever is wrong with its rows, its time has passed: loads are loads, and the rest is nobody's.
            self._fold(lay(start_ns, end_ns, run.loads, (), TimeOwner.UNATTRIBUTED))
            raise
        finally:
            self._attempts.leave(step.finished if step.work_left else None, end_ns, step.aborted)
        book_step(split, self._windows)
        if self._hear is not None:
            self._hear(start_ns, end_ns, sum(piece.net_ns for piece in split.pieces), split.works)
        for load in run.loads:
            if is_cold(load):
                self._loads.record(load, split.attempts)
        if step.hits or any(work.prefill for work in split.works):
            self._prefixes.step(split.requests, split.works, split.took_ns, step.hits, self.profile, end_ns)

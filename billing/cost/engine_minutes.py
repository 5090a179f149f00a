"""From what the meter saw and what was rented to engine minutes: down time is the rented time that nobody measured. No I/O."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final

from billing.cost.attempts import Life
from billing.cost.facts import EngineMinute, MeasuredMinute, NotConserved
from billing.errors import EngineHourInvalid
from billing.exact.periods import to_ns
from catalog.durations import MINUTE_NS
from catalog.model import Catalog

_MS: Final = 1_000_000
"""What a row's instant is made of, in nanoseconds."""


@dataclass(frozen=True, slots=True)
class Session:
    """What is known of one engine process: first and last of its session events, and whether it said that it stopped."""

    engine: str
    session: str
    emitter: str
    first_ns: int
    last_ns: int
    stopped: bool
    gpu_type: str
    gpu_count: int


@dataclass(frozen=True, slots=True)
class Extent:
    """From the first to the last window of one meter: a sign of life, also of a process whose session events are lost."""

    engine: str
    emitter: str
    start_ns: int
    end_ns: int


def lives(sessions: Iterable[Session], extents: Iterable[Extent], catalog: Catalog) -> list[Life]:
    """The runs of engine processes: from the first to the last sign of life, be it a session event or a meter window.

    A run is over when it said so, or when a later one of the same engine began. Windows of a process without session
    events make a run of their own, with the hardware that the catalog declares. EngineHourInvalid when it declares none.
    """
    runs: dict[tuple[str, str], Session] = {(s.engine, s.session): s for s in sessions}
    for extent in sorted(extents, key=lambda e: (e.engine, e.start_ns)):
        session = _session_of(extent, runs.values()) or _unannounced(extent, catalog)
        runs[session.engine, session.session] = replace(
            session, first_ns=min(session.first_ns, extent.start_ns), last_ns=max(session.last_ns, extent.end_ns)
        )
    ordered = sorted(runs.values(), key=lambda s: (s.engine, s.first_ns, s.session))
    newest = {run.engine: run for run in ordered}
    over = [run.stopped or run is not newest[run.engine] for run in ordered]
    return [
        Life(run.engine, run.first_ns, run.last_ns, ended, run.gpu_type, run.gpu_count)
        for run, ended in zip(ordered, over, strict=True)
    ]


def rentals(runs: Iterable[Life], catalog: Catalog, end_ns: int) -> list[Life]:
    """The intervals that are paid for: an engine's runs when it is rented on demand, else what the catalog lists.

    A listed interval without an end lasts until `end_ns`. Engines that the catalog no longer has count as on demand.
    """
    fixed = {e.id: e for e in catalog.engines if e.rented != "on_demand"}
    paid = [run for run in runs if run.engine not in fixed]
    for engine in fixed.values():
        hardware = engine.gpu_type, engine.gpu_count
        for interval in engine.rented if engine.rented != "on_demand" else ():
            over = interval.until is not None
            until_ns = end_ns if interval.until is None else to_ns(interval.until)
            paid.append(Life(engine.id, to_ns(interval.start), until_ns, over, *hardware))
    return paid


def hardware_changes(paid: Iterable[Life]) -> dict[str, list[int]]:
    """By engine, when a life began on other hardware than the one before, in whole milliseconds, up: there its minute is cut."""
    last: dict[str, tuple[str, int]] = {}
    cuts: defaultdict[str, list[int]] = defaultdict(list)
    for life in sorted(paid, key=lambda life: (life.engine, life.start_ns)):
        hardware = life.gpu_type, life.gpu_count
        if last.setdefault(life.engine, hardware) != hardware:
            cuts[life.engine].append(-(-life.start_ns // _MS) * _MS)
        last[life.engine] = hardware
    return dict(cuts)


def engine_minutes(
    measured: Sequence[MeasuredMinute], paid: Iterable[Life], start_ns: int, end_ns: int
) -> list[EngineMinute]:
    """Every minute in [start_ns, end_ns) that was rented or measured, one in which the hardware changed in parts; down = rented - measured.

    NotConserved when a minute's parts do not sum to its wall time, or more time was measured than was rented: nothing
    is clamped. EngineHourInvalid when one minute of one engine is rented on two kinds of hardware.
    """
    rented: defaultdict[tuple[str, int], int] = defaultdict(int)
    hardware: dict[tuple[str, int], tuple[str, int]] = {}
    lifes = list(paid)
    cuts = hardware_changes(lifes)
    for life in lifes:
        since = max((cut for cut in cuts.get(life.engine, ()) if cut < life.start_ns + _MS), default=0)
        for minute_ns, ns in _by_minute(max(life.start_ns, start_ns), min(life.end_ns, end_ns)):
            key = (life.engine, max(minute_ns, since))
            rented[key] += ns
            if hardware.setdefault(key, (life.gpu_type, life.gpu_count)) != (life.gpu_type, life.gpu_count):
                raise EngineHourInvalid(
                    f"could not place engine {life.engine}, minute {minute_ns}: it is rented as {hardware[key]} and as {(life.gpu_type, life.gpu_count)}"
                )
    seen = {(m.engine, m.start_ns): m for m in measured}
    minutes = []
    for key in sorted(rented.keys() | seen.keys()):
        minute = _minute(key, seen.get(key), rented[key], hardware.get(key))
        minute.check()
        minutes.append(minute)
    return minutes


def _minute(
    key: tuple[str, int], seen: MeasuredMinute | None, rented_ns: int, hardware: tuple[str, int] | None
) -> EngineMinute:
    engine, minute_ns = key
    seen = seen or MeasuredMinute(engine, minute_ns, 0, 0, 0, 0, 0, 0, 0)
    wall_ns = seen.wall_ns
    if hardware is None or rented_ns < wall_ns:
        raise NotConserved(
            f"engine {engine}, minute {minute_ns}: {wall_ns} ns measured, {rented_ns} ns rented", rented_ns - wall_ns
        )
    return EngineMinute(**asdict(seen), down_ns=rented_ns - wall_ns, gpu_type=hardware[0], gpu_count=hardware[1])


def _by_minute(start_ns: int, end_ns: int) -> Iterator[tuple[int, int]]:
    for minute_ns in range(start_ns - start_ns % MINUTE_NS, end_ns, MINUTE_NS):
        yield minute_ns, min(end_ns, minute_ns + MINUTE_NS) - max(start_ns, minute_ns)


def _session_of(extent: Extent, sessions: Iterable[Session]) -> Session | None:
    """The run that a meter belongs to: named by its own id, else the latest of its engine that began before it measured."""
    mine = [s for s in sessions if s.engine == extent.engine]
    named = [s for s in mine if extent.emitter in (s.session, s.emitter)]
    before = [s for s in mine if s.first_ns <= extent.start_ns]
    candidates = named or before or [s for s in mine if s.first_ns < extent.end_ns]
    return max(candidates, key=lambda s: s.first_ns, default=None)


def _unannounced(extent: Extent, catalog: Catalog) -> Session:
    engine = catalog.engine(extent.engine)
    if engine is None:
        raise EngineHourInvalid(
            f"could not place meter {extent.emitter}: engine {extent.engine} has no session events and is not in the catalog; declare it under engines"
        )
    return Session(
        extent.engine,
        extent.emitter,
        extent.emitter,
        extent.start_ns,
        extent.end_ns,
        True,
        engine.gpu_type,
        engine.gpu_count,
    )

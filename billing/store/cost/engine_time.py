"""Engine minutes and cold starts: derived from the meter's stream, written by window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from billing.cost.attempts import Life
from billing.cost.engine_minutes import Extent, Session, engine_minutes, hardware_changes, lives, rentals
from billing.cost.facts import MEASURED_PARTS, EngineMinute, MeasuredMinute, NotConserved
from billing.errors import EngineHourInvalid
from billing.exact.periods import to_ns
from billing.store import versions
from billing.store.clickhouse import Ledger
from billing.store.cost.derivations import Derived
from catalog.model import Catalog
from catalog.months import to_datetime
from telemetry.engine_time import AdapterLoad
from telemetry.names import EventName

_MINUTE: Final = (*MEASURED_PARTS, "down_ns", "gpu_type", "gpu_count")
"""Fields of EngineMinute whose column has the same name."""
_EXTRAS: Final = ("steps", "predicted_ns", "system_causes")
_SAME: Final = (
    "emitter",
    "seq",
    "engine",
    "adapter_hash",
    "engine_ns",
    "fetch_ns",
    "read_ns",
    "activate_ns",
    "size_bytes",
)
"""Fields of AdapterLoad whose column has the same name and value."""


def engine_lives(ledger: Ledger, start_ns: int, end_ns: int, catalog: Catalog) -> list[Life]:
    """The runs of engine processes, by their session events and their windows that begin in the range."""
    sessions = [Session(**row) for row in ledger.read("engine_sessions", {"session": EventName.SESSION})]
    window = {"window": EventName.WINDOW, "start_ns": start_ns, "end_ns": end_ns}
    extents = [
        Extent(r["engine"], r["emitter"], r["first_ns"], r["last_ns"]) for r in ledger.read("engine_extents", window)
    ]
    return [
        life
        for engine in sorted({s.engine for s in sessions} | {e.engine for e in extents})
        for life in _lives(
            [s for s in sessions if s.engine == engine], [e for e in extents if e.engine == engine], catalog
        )
    ]


def _lives(sessions: Sequence[Session], extents: Sequence[Extent], catalog: Catalog) -> list[Life]:
    """The runs of one engine; none when nobody declared its hardware: then its time cannot be placed, and that is seen."""
    try:
        return lives(sessions, extents, catalog)
    except EngineHourInvalid:
        return []


def write_engine_time(ledger: Ledger, start_ns: int, end_ns: int, catalog: Catalog, now: datetime) -> Derived:
    """Derive the minutes of [start_ns, end_ns) and rewrite what differs.

    An engine whose parts do not sum to rented time is a fault, keeps the rows that it has, and stops no other.
    """
    end_ns = min(end_ns, to_ns(now))
    window = {"window": EventName.WINDOW, "start_ns": start_ns, "end_ns": end_ns}
    paid = rentals(engine_lives(ledger, start_ns, end_ns, catalog), catalog, end_ns)
    sums = ledger.read("engine_measured", {**window, **cut_parameters(hardware_changes(paid))})
    measured = [MeasuredMinute(r["engine"], r["minute_ns"], *(r[name] for name in MEASURED_PARTS)) for r in sums]
    extras = {(r["engine"], r["minute_ns"]): {name: r[name] for name in _EXTRAS} for r in sums}
    new: list[dict[str, Any]] = []
    faults: dict[str, str] = {}
    for engine in sorted({m.engine for m in measured} | {life.engine for life in paid}):
        try:
            minutes = engine_minutes(
                [one for one in measured if one.engine == engine],
                [one for one in paid if one.engine == engine],
                start_ns,
                end_ns,
            )
        except (NotConserved, EngineHourInvalid) as error:
            faults[engine] = str(error)
            continue
        new += [_row(minute, extras.get((minute.engine, minute.start_ns))) for minute in minutes]
    old = [row for row in ledger.read("engine_time_window", window) if row["engine"] not in faults]
    changed = versions.change(old, new, ("engine", "minute"))
    versions.apply(ledger, "engine_time_versions", changed, to_ns(now))
    return Derived(changed.count, tuple(faults.values()))


def cut_parameters(changes: Mapping[str, Sequence[int]]) -> dict[str, list[Any]]:
    """By engine, when its hardware changed, as statements take it: two lists, one beside the other."""
    pairs = [(engine, cut) for engine, cuts in changes.items() for cut in cuts]
    return {"cut_engines": [engine for engine, _ in pairs], "cuts": [cut for _, cut in pairs]}


def read_engine_minutes(ledger: Ledger, start_ns: int, end_ns: int) -> list[EngineMinute]:
    """The minutes of a window, by engine and time."""
    return [
        EngineMinute(row["engine"], to_ns(row["minute"]), **{name: row[name] for name in _MINUTE})
        for row in ledger.read("engine_time_window", {"start_ns": start_ns, "end_ns": end_ns})
    ]


def write_cold_starts(ledger: Ledger, start_ns: int, end_ns: int, now: datetime) -> int:
    """Add a row for each adapter load that began in the window and has none yet; how many."""
    window = {"load": EventName.LOAD, "start_ns": start_ns, "end_ns": end_ns}
    loads = [AdapterLoad.from_json(row["body"]) for row in ledger.read("cold_start_events", window)]
    return ledger.insert("cold_start_versions", [_load(load, to_ns(now)) for load in loads])


def _row(minute: EngineMinute, extras: dict[str, Any] | None) -> dict[str, Any]:
    row = {"engine": minute.engine, "minute": to_datetime(minute.start_ns)}
    row |= {name: getattr(minute, name) for name in _MINUTE}
    return row | (extras or {"steps": 0, "predicted_ns": 0, "system_causes": {}})


def _load(load: AdapterLoad, version: int) -> dict[str, Any]:
    own = {"adapter": load.adapter.split("@")[0], "cause": load.cause.value, "start": load.start_ns}
    return {name: getattr(load, name) for name in _SAME} | own | {"stalled": list(load.stalled), "version": version}

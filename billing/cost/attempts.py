"""What a usage record must be to enter the ledger, and when an attempt without one is lost. No I/O."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from catalog.durations import DAY_NS, HOUR_NS, MINUTE_NS, QUARTER_NS
from catalog.model import Catalog
from catalog.months import to_datetime
from telemetry.engine_time import Opened
from telemetry.usage import UNAUTHENTICATED, Status, UsageRecord
from telemetry.values import misplaced

LOST_AFTER_NS: Final = HOUR_NS
"""An attempt that has not closed this long after it arrived never will: no request may run that long."""

LONGEST_NS: Final = DAY_NS
"""An attempt that would have run longer than this did not."""

MOST_TOKENS: Final = 10**9
"""No attempt has more tokens than this, in or out."""

SILENT_NS: Final = MINUTE_NS
"""An engine process gives a sign of life every few seconds; after this long without one it is gone."""


@dataclass(frozen=True, slots=True)
class Life:
    """One run of an engine process, [start_ns, end_ns) in UTC nanoseconds; `over` when it will not go on."""

    engine: str
    start_ns: int
    end_ns: int
    over: bool
    gpu_type: str
    gpu_count: int


def faults(record: UsageRecord, catalog: Catalog, seen: Container[str] = ()) -> list[str]:
    """Why the record cannot be booked; empty when it can. `seen` are engines that told of themselves, in the catalog or not."""
    found = record.problems()
    if record.tenant != UNAUTHENTICATED and catalog.tenant(record.tenant) is None:
        found.append(f"tenant {record.tenant!r} is not in the catalog")
    ran = record.slices != ()
    if ran and record.adapter is not None and catalog.adapter(record.adapter) is None:
        found.append(f"adapter {record.adapter!r} is not in the catalog")
    if record.engine is not None and catalog.engine(record.engine) is None and record.engine not in seen:
        found.append(f"engine {record.engine!r} is not in the catalog, and never told of itself")
    if ran and record.gpu_type is not None:
        at = to_datetime(record.arrival_ns)
        if not any(book.price(record.gpu_type, at) is not None for book in catalog.price_books):
            found.append(f"GPU type {record.gpu_type!r} has no price at {at.isoformat()} in any price book")
    return found


def absurdities(record: UsageRecord, now_ns: int) -> list[str]:
    """What cannot be true of any attempt, whoever wrote the record; empty when nothing is."""
    found = misplaced("arrival_ns", record.arrival_ns, now_ns)
    if not found and record.finished_ns is not None and record.finished_ns - record.arrival_ns > LONGEST_NS:
        found.append(f"ran for {record.finished_ns - record.arrival_ns} ns, longer than a day")
    for name in ("input_tokens", "cached_tokens", "output_tokens_computed", "output_tokens_delivered"):
        if (getattr(record, name) or 0) > MOST_TOKENS:
            found.append(f"{name} is {getattr(record, name)}, more than {MOST_TOKENS}")
    for part in record.slices or ():
        if max(part.measured_ns, part.kv_saved_base_ns + part.kv_saved_adapter_ns) > LONGEST_NS:
            found.append(f"slice at {part.start_ns} has {part.measured_ns} ns, more than a day")
        if not -QUARTER_NS < part.start_ns - record.arrival_ns <= LONGEST_NS:
            found.append(f"slice at {part.start_ns} is not of an attempt that arrived at {record.arrival_ns}")
    return found


def is_lost(opened: Opened, lives: Iterable[Life], now_ns: int) -> bool:
    """Whether an attempt that opened and did not close never will: too much time passed, or its engine's run is over or silent.

    Should its record still come, it takes the place of the lost one.
    """
    if now_ns - opened.arrival_ns >= LOST_AFTER_NS:
        return True
    runs = [life for life in lives if life.engine == opened.engine and life.start_ns <= opened.arrival_ns]
    if not runs:
        return False
    run = max(runs, key=lambda life: life.start_ns)
    return run.over or now_ns - run.end_ns >= SILENT_NS


def lost_record(opened: Opened) -> UsageRecord:
    """The record of an attempt that never closed: who and when are known, everything else is not."""
    return UsageRecord(
        emitter=opened.emitter,
        seq=opened.seq,
        request_id=opened.request_id,
        tenant=opened.tenant,
        arrival_ns=opened.arrival_ns,
        finished_ns=None,
        status=Status.LOST,
        trace_id=opened.trace_id,
        adapter=opened.adapter,
        engine=opened.engine,
        source="ledger",
    )


def gaps(seen: Mapping[str, tuple[int, int]]) -> dict[str, int]:
    """Missing sequence numbers: `seen` gives each emitter's highest number and how many distinct ones there are."""
    return {emitter: missing for emitter, (highest, count) in sorted(seen.items()) if (missing := highest + 1 - count)}

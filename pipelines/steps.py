"""What the facts become, one plain function a step: the command line runs them in this order, Dagster runs them as assets.

To add a step, write its function and its row in `DERIVED` or `HOURLY`, behind the steps whose rows it reads. A step that is run again
changes nothing. Each returns figures about what it made, by name; lists and no tuples, which Dagster does not take.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final

from billing.store.cost.derivations import Derived, remember_derivation
from billing.store.cost.engine_time import engine_lives, write_cold_starts, write_engine_time
from billing.store.cost.tenant_cost import write_tenant_cost
from billing.store.finance import publish_snapshot
from billing.store.intake.ingest import ingest
from billing.store.intake.usage import book_lost, book_spans
from catalog.durations import HOUR_NS
from pipelines.work import Window, Work

Figures = dict[str, Any]
_LOOKBACK_NS: Final = HOUR_NS
"""A request ends at most this long after it arrived, and has no record before."""


@dataclass(frozen=True, slots=True)
class Step:
    """One dataset that is made hour by hour: its name, the datasets it is made from, its function and its grain in words."""

    name: str
    after: tuple[str, ...]
    make: Callable[[Work, Window], Figures]
    description: str


def _otel_traces(work: Work, _window: Window) -> Figures:
    spool = work.settings.spool
    spool.mkdir(parents=True, exist_ok=True)

    def progress(done: int, total: int) -> None:
        work.progress("otel_traces", done, total)

    report = ingest(work.ledger, [spool], work.catalog, work.now, progress)
    lists = {"reasons": list(report.reasons), "skipped": [asdict(one) for one in report.skipped]}
    return {**asdict(report), **lists}


def _usage(work: Work, window: Window) -> Figures:
    start_ns, end_ns = window.start_ns - _LOOKBACK_NS, window.end_ns
    booked = book_spans(work.ledger, start_ns, end_ns, work.catalog, work.now)
    lives = engine_lives(work.ledger, start_ns, end_ns, work.catalog)
    lost = book_lost(work.ledger, lives, work.catalog, work.now)
    return {
        "records": booked.records,
        "lost": lost,
        "quarantined": booked.quarantined,
        "foreign": booked.foreign,
    }


def _engine_time(work: Work, window: Window) -> Figures:
    return _derived(write_engine_time(work.ledger, *window, work.catalog, work.now))


def _cold_starts(work: Work, window: Window) -> Figures:
    return {"added": write_cold_starts(work.ledger, *window, work.now)}


def _tenant_cost(work: Work, window: Window) -> Figures:
    derived = write_tenant_cost(work.ledger, *window, work.catalog, work.now)
    remember_derivation(work.ledger, *window, work.catalog, work.now)
    return _derived(derived)


def _derived(derived: Derived) -> Figures:
    return {"changed": derived.changed, "faults": list(derived.faults)}


def _gateway_snapshot(work: Work, _window: Window) -> Figures:
    path = work.settings.snapshot
    publish_snapshot(work.ledger, work.catalog, path, work.now)
    return {"file": str(path)}


DERIVED: Final = (
    Step(
        "usage",
        ("otel_traces",),
        _usage,
        "One row per attempt that arrived in these hours or in the hour before, deduplicated by identity.",
    ),
    Step(
        "engine_time",
        ("otel_traces",),
        _engine_time,
        "One row per engine and minute that was rented or measured: rented = wall + down.",
    ),
    Step(
        "cold_starts",
        ("otel_traces",),
        _cold_starts,
        "One row per adapter load that began in these hours.",
    ),
    Step(
        "tenant_cost",
        ("usage", "engine_time"),
        _tenant_cost,
        "Engine time by tenant, quarter hour, adapter, engine and status, with its price; and engine-hours by owner.",
    ),
)
"""What is derived from the facts that were taken in, of any stretch of time."""

HOURLY: Final = (
    Step(
        "otel_traces",
        (),
        _otel_traces,
        "Everything new in the spool, whichever hour it is from: one row per span, one per ledger event.",
    ),
    *DERIVED,
    Step(
        "gateway_snapshot",
        ("tenant_cost",),
        _gateway_snapshot,
        "The ledger's figures of the running months for the gateways: costs, what is wrong, how much of each budget is used.",
    ),
)

"""usage, engine_time and cold_starts: what the spans and the meter's stream say. Grains: attempt; engine and minute; adapter load."""

import dagster as dg

from billing.store.engine_time import engine_lives, write_cold_starts, write_engine_time
from billing.store.usage import book_lost, book_spans
from pipelines.partitions import Cut, Window, asset, window
from pipelines.resources import CatalogFile, Desk, LedgerResource

_LOOKBACK_NS = 3_600_000_000_000
"""A request ends at most this long after it arrived, and only then has it a record."""


def usage(cut: Cut) -> dg.AssetsDefinition:
    """One row per attempt that arrived in the window, or in the hour before it."""

    @asset(
        cut.hours,
        name="usage",
        group_name="ledger",
        deps=["otel_traces"],
        description="One row per attempt, deduplicated by identity.",
    )
    def make(
        context: dg.AssetExecutionContext, ledger: LedgerResource, catalog: CatalogFile, desk: dg.ResourceParam[Desk]
    ) -> dg.MaterializeResult[None]:
        now, declared, stretch = desk.clock(), catalog.load(), _with_lookback(window(context))
        with ledger.open(now) as opened:
            booked = book_spans(opened, *stretch, declared, now)
            lost = book_lost(opened, engine_lives(opened, *stretch, declared), declared, now)
        desk.progress("usage", 1, 1)
        return dg.MaterializeResult(
            metadata={
                "records": booked.records,
                "lost": lost,
                "quarantined": booked.quarantined,
                "foreign": booked.foreign,
            }
        )

    return make


def engine_time(cut: Cut) -> dg.AssetsDefinition:
    """One row per engine and minute of the window that was rented or measured."""

    @asset(
        cut.hours,
        name="engine_time",
        group_name="ledger",
        deps=["otel_traces"],
        description="One row per engine and minute: rented = wall + down.",
    )
    def make(
        context: dg.AssetExecutionContext, ledger: LedgerResource, catalog: CatalogFile, desk: dg.ResourceParam[Desk]
    ) -> dg.MaterializeResult[None]:
        now = desk.clock()
        with ledger.open(now) as opened:
            derived = write_engine_time(opened, *window(context), catalog.load(), now)
        desk.progress("engine_time", 1, 1)
        return dg.MaterializeResult(metadata={"changed": derived.changed, "faults": list(derived.faults)})

    return make


def cold_starts(cut: Cut) -> dg.AssetsDefinition:
    """One row per adapter load that began in the window."""

    @asset(
        cut.hours,
        name="cold_starts",
        group_name="ledger",
        deps=["otel_traces"],
        description="One row per adapter load.",
    )
    def make(
        context: dg.AssetExecutionContext, ledger: LedgerResource, desk: dg.ResourceParam[Desk]
    ) -> dg.MaterializeResult[None]:
        now = desk.clock()
        with ledger.open(now) as opened:
            added = write_cold_starts(opened, *window(context), now)
        desk.progress("cold_starts", 1, 1)
        return dg.MaterializeResult(metadata={"added": added})

    return make


def _with_lookback(stretch: Window) -> Window:
    return Window(stretch.start_ns - _LOOKBACK_NS, stretch.end_ns)

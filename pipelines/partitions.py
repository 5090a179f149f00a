"""Hours and months, and which stretch of time a run is about."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import dagster as dg

from billing.periods import to_ns

START_TAG: Final = "loraledger/start_ns"
END_TAG: Final = "loraledger/end_ns"
MONTH_TAG: Final = "loraledger/month"
"""Run tags that say what an unpartitioned run is about."""

Asset = Callable[[Callable[..., Any]], dg.AssetsDefinition]


class Window(NamedTuple):
    """[start_ns, end_ns) in UTC nanoseconds, whole hours."""

    start_ns: int
    end_ns: int


class Cut(NamedTuple):
    """How assets are cut in time. None: not at all; the run's tags then say what it is about.

    An orchestrator remembers each hour by itself; a run in process for a whole month would only pay for 720 entries that
    nobody keeps.
    """

    hours: dg.HourlyPartitionsDefinition | None
    months: dg.MonthlyPartitionsDefinition | None


UNCUT: Final = Cut(None, None)


def cut_from(start: str) -> Cut:
    """UTC hours and months from the day `start` on, the running ones included."""
    return Cut(
        dg.HourlyPartitionsDefinition(start_date=f"{start}-00:00", timezone="UTC", end_offset=1),
        dg.MonthlyPartitionsDefinition(start_date=f"{start[:7]}-01", timezone="UTC", end_offset=1),
    )


def asset(partitions: dg.PartitionsDefinition[Any] | None, **arguments: Any) -> Asset:
    """`dg.asset`, whole ranges in one run."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        policy = dg.BackfillPolicy.single_run() if partitions is not None else None

    def decorate(function: Callable[..., Any]) -> dg.AssetsDefinition:
        with warnings.catch_warnings():
            # The single-run policy is marked as beta; losing it would cost 720 runs a month, and a test would see it.
            warnings.simplefilter("ignore", dg.BetaWarning)
            made: dg.AssetsDefinition = dg.asset(partitions_def=partitions, backfill_policy=policy, **arguments)(
                function
            )
            return made

    return decorate


def window(context: dg.AssetExecutionContext | dg.AssetCheckExecutionContext) -> Window:
    """The stretch of time that this run is about."""
    if context.run.tags.get(START_TAG) is not None:
        return Window(int(context.run.tags[START_TAG]), int(context.run.tags[END_TAG]))
    stretch = context.partition_time_window
    return Window(to_ns(stretch.start), to_ns(stretch.end))


def month(context: dg.AssetExecutionContext) -> str:
    """The billing month that this run is about, as 2026-10."""
    return context.run.tags.get(MONTH_TAG) or context.partition_key[:7]

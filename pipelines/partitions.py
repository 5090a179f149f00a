"""Hours and months as Dagster's partitions, and which of them a run is about."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import dagster as dg

from billing.exact.periods import to_ns
from pipelines.work import Window


def hours_from(start: str) -> dg.HourlyPartitionsDefinition:
    """UTC hours from the day `start` on, the running one included."""
    return dg.HourlyPartitionsDefinition(start_date=f"{start}-00:00", timezone="UTC", end_offset=1)


def months_from(start: str) -> dg.MonthlyPartitionsDefinition:
    """UTC months from that of the day `start` on, the running one included."""
    return dg.MonthlyPartitionsDefinition(start_date=f"{start[:7]}-01", timezone="UTC", end_offset=1)


def asset(
    partitions: dg.PartitionsDefinition[Any], **arguments: Any
) -> Callable[[Callable[..., Any]], dg.AssetsDefinition]:
    """`dg.asset` that makes a whole range of partitions in one run."""

    def decorate(function: Callable[..., Any]) -> dg.AssetsDefinition:
        with warnings.catch_warnings():
            # The single-run policy is marked as beta; losing it would cost 720 runs a month, and a test would see it.
            warnings.simplefilter("ignore", dg.BetaWarning)
            policy = dg.BackfillPolicy.single_run()
            made: dg.AssetsDefinition = dg.asset(partitions_def=partitions, backfill_policy=policy, **arguments)(
                function
            )
            return made

    return decorate


def window(context: dg.AssetExecutionContext | dg.AssetCheckExecutionContext) -> Window:
    """The stretch of time that this run is about."""
    stretch = context.partition_time_window
    return Window(to_ns(stretch.start), to_ns(stretch.end))


def month(context: dg.AssetExecutionContext) -> str:
    """The billing month that this run is about, as 2026-10."""
    key: str = context.partition_key
    return key[:7]

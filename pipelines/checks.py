"""What must hold of the data: nothing is missing, nothing is refused, every nanosecond and every cent has an owner.

To add a check, write its function and its row in `CHECKS`. A function returns its faults in words; none is a pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from billing.store.close.gaps import stream_gaps, unexplained
from billing.store.finance import reconciliation, waiting
from catalog.months import to_datetime
from pipelines.work import Window, Work


@dataclass(frozen=True, slots=True)
class Check:
    """One check of the dataset that a step made.

    A fault of a check that only `warns` is shown, any other fails the run. Dagster makes nothing of data that a `blocking`
    check refuses; the command line makes what it can and then fails.
    """

    name: str
    dataset: str
    faults: Callable[[Work, Window], list[str]]
    description: str
    warns: bool = False
    blocking: bool = False


def _quarantine_is_empty(work: Work, window: Window) -> list[str]:
    return [f"{count} x {reason}" for reason, count in waiting(work.ledger, *window)]


def _usage_is_complete(work: Work, window: Window) -> list[str]:
    gaps = stream_gaps(work.ledger, *window)
    found = reconciliation(work.ledger, *_instants(window))
    faults = [f"{missing} missing of {stream}" for stream, missing in gaps.items()]
    if found.uneven_attempts:
        faults.append(
            f"{found.uneven_attempts} attempts differ from the meter, by {found.record_difference_ns} ns together"
        )
    return faults


def _counters_are_explained(work: Work, window: Window) -> list[str]:
    return unexplained(work.ledger, *window)


def _cost_is_conserved(work: Work, window: Window) -> list[str]:
    found = reconciliation(work.ledger, *_instants(window))
    faults = [f"{found.missing_ns} GPU-ns of rented time have no owner"] if found.missing_ns else []
    if found.missing_cost:
        faults.append(f"{found.missing_cost} {found.currency} of tenants' time are not in tenant_cost")
    return faults


def _instants(window: Window) -> tuple[datetime, datetime]:
    return to_datetime(window.start_ns), to_datetime(window.end_ns)


CHECKS: Final = (
    Check(
        "quarantine_is_empty",
        "usage",
        _quarantine_is_empty,
        "Nothing waits in quarantine.",
        warns=True,
    ),
    Check(
        "usage_is_complete",
        "usage",
        _usage_is_complete,
        "Sequence numbers have no gaps; records agree with the meter.",
    ),
    Check(
        "counters_are_explained",
        "usage",
        _counters_are_explained,
        "Each gap between the engine's own counters, the meter and the usage records has a named cause.",
    ),
    Check(
        "cost_is_conserved",
        "tenant_cost",
        _cost_is_conserved,
        "Owners sum to rented time x GPUs, in ns and in money.",
        blocking=True,
    ),
)

"""When a billing month may be closed, and which numbers its invoices get. Pure decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from billing.periods import to_datetime


@dataclass(frozen=True, slots=True)
class MonthState:
    """What the ledger knows of a month that should be closed. `end_ns` is when it is over for its latest tenant (UTC)."""

    month: str
    end_ns: int
    quarantined: Sequence[tuple[str, int]] = ()
    """Open entries by reason."""
    gaps: Mapping[str, int] = field(default_factory=dict)
    """Missing sequence numbers by stream."""
    open_attempts: int = 0
    """Attempts of the month that neither closed nor are known to be lost."""
    unpriced_hours: Sequence[str] = ()
    """Engine-hours that were rented and have no cost."""
    missing_ns: int = 0
    """Rented time x GPUs minus its owners, summed without sign."""
    uneven_hours: int = 0
    """Engine-hours whose tenants' money is not what their engine time cost."""
    uneven_attempts: int = 0
    """Closed attempts whose record says another engine time than the meter's windows."""


def refusals(state: MonthState, now_ns: int) -> list[str]:
    """Everything that is red, one line each; empty when the month may be closed."""
    found = []
    if now_ns < state.end_ns:
        found.append(
            f"the month is not over: its last tenant's time zone ends it at {to_datetime(state.end_ns).isoformat()}"
        )
    for reason, count in state.quarantined:
        found.append(f"quarantine: {count} x {reason}")
    for stream, missing in sorted(state.gaps.items()):
        found.append(f"record gap: {missing} missing of {stream}; ingest the spool files that are not here yet")
    if state.open_attempts:
        found.append(f"{state.open_attempts} attempts opened and neither closed nor are they old enough to be lost")
    for hour in state.unpriced_hours:
        found.append(f"not priced: {hour}")
    if state.missing_ns:
        found.append(f"conservation: {state.missing_ns} GPU-ns of rented time have no owner")
    if state.uneven_hours:
        found.append(f"conservation: in {state.uneven_hours} engine-hours the cost rows do not sum to the cost")
    if state.uneven_attempts:
        found.append(
            f"completeness: {state.uneven_attempts} attempts have another engine time in their record than in the meter's windows"
        )
    return found


def free_sequence(taken: Iterable[str], series: str, year: int) -> int:
    """First free number of a series and year, given the numbers issued so far: one above the highest."""
    prefix = f"{series}-{year}-"
    return max((int(number.removeprefix(prefix)) for number in taken if number.startswith(prefix)), default=0) + 1

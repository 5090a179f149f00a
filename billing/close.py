"""When a billing month may be closed, and which documents with which numbers it gets. Pure decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Final

from billing.invoice import Invoice, issue_invoice
from billing.periods import BillingMonth, to_datetime

CLOSE_WITHIN_NS: Final = (3 * 24 + 12) * 3_600_000_000_000
"""A month is closed on its 72nd hour after, in the morning; by noon (UTC) it should be done."""

GRACE_NS: Final = 72 * 3_600_000_000_000
"""After a month (UTC) is over, late records are awaited this long before its invoices are issued."""


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
    unexplained: Sequence[str] = ()
    """Gaps between engines' own counters, the meter and the records that no cause covers."""


def refusals(state: MonthState, now_ns: int, grace_ns: int = 0) -> list[str]:
    """Everything that is red, one line each; empty when the month may be closed, `grace_ns` after its end in UTC."""
    found = []
    open_until = BillingMonth(state.month).end_ns + grace_ns
    if now_ns < state.end_ns:
        found.append(
            f"the month is not over: its last tenant's time zone ends it at {to_datetime(state.end_ns).isoformat()}"
        )
    elif now_ns < open_until:
        found.append(
            f"grace: late records are awaited until {to_datetime(open_until).isoformat()}; close without grace to issue now"
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
    found += [f"counters: {gap}" for gap in state.unexplained]
    return found


def overdue_ns(oldest_open: str, now_ns: int) -> int:
    """How long the oldest month that is not closed (none: an empty text) should have been; 0 when that is not yet due."""
    if not oldest_open:
        return 0
    return max(0, now_ns - BillingMonth(oldest_open).end_ns - CLOSE_WITHIN_NS)


def free_sequence(taken: Iterable[str], series: str, year: int) -> int:
    """First free number of a series and year, given the numbers issued so far: one above the highest."""
    prefix = f"{series}-{year}-"
    return max((int(number.removeprefix(prefix)) for number in taken if number.startswith(prefix)), default=0) + 1


def numbered(drafts: Iterable[Invoice], series: str, first: int, issued_on: date) -> list[Invoice]:
    """The drafts as issued invoices: numbers from `first` on by rank in the order of tenant ids, so without gaps.

    A pure function: two that close the same month from the same ledger make the same documents, to the byte.
    """
    ranked = sorted(drafts, key=lambda draft: draft.tenant)
    return [issue_invoice(draft, series, first + rank, issued_on) for rank, draft in enumerate(ranked)]


def charges_something(draft: Invoice) -> bool:
    """Whether a document is due at all: a month in which nothing is charged, not even a fraction of a cent, has none."""
    return any(line.exact or line.amount for line in draft.lines)

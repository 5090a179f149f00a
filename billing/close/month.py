"""When a billing month may be closed, for whom, and which documents with which numbers it gets. Pure decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

from billing.close.blocks import Block, Kind, blocked
from billing.errors import InvoiceInvalid
from billing.exact.periods import BillingMonth
from billing.invoice.invoice import Invoice, issue_invoice
from catalog.durations import HOUR_NS
from catalog.months import month_after, to_datetime

CLOSE_WITHIN_NS: Final = (3 * 24 + 12) * HOUR_NS
"""A month is closed on its 72nd hour after, in the morning; by noon (UTC) it should be done."""

GRACE_NS: Final = 72 * HOUR_NS
"""After a month (UTC) is over, late records are awaited this long before its invoices are issued."""


@dataclass(frozen=True, slots=True)
class MonthState:
    """What the ledger knows of a month that should be closed. `end_ns` is when it is over for its latest tenant (UTC)."""

    month: str
    end_ns: int
    blocks: Sequence[Block] = ()
    """What is not as it must be, and whom it touches."""
    open_before: Sequence[str] = ()
    """Earlier months that were closed for nobody yet, from the first that the ledger has costs of; none once the month was closed."""

    def count(self, *kinds: Kind) -> int:
        """How many entries, numbers or hours the findings of these kinds are about."""
        return sum(block.records or 0 for block in self.blocks if block.kind in kinds)


@dataclass(frozen=True, slots=True)
class Closed:
    """A month after closing: all its invoices, and by tenant what kept the others from theirs."""

    month: str
    invoices: Sequence[Invoice]
    blocks: Sequence[Block] = ()
    """Everything found, also what touches nobody or only tenants that have their invoice."""
    zero: Sequence[str] = ()
    """Tenants whose month comes to 0, and who have no document."""

    @property
    def blocked(self) -> dict[str, list[Block]]:
        """Who has no invoice because of what."""
        return blocked(self.blocks, [invoice.tenant for invoice in self.invoices])


def refusals(state: MonthState, now_ns: int, grace_ns: int = 0, *, leave_open: bool = False) -> list[str]:
    """Why the month can be closed for nobody yet: it is not over, late records are awaited `grace_ns` after its end in UTC, or
    an earlier one is open, unless to `leave_open`."""
    open_until = BillingMonth(state.month).end_ns + grace_ns
    if now_ns < state.end_ns:
        return [
            f"the month is not over: its last tenant's time zone ends it at {to_datetime(state.end_ns).isoformat()}"
        ]
    if now_ns < open_until:
        return [
            f"grace: late records are awaited until {to_datetime(open_until).isoformat()}; close without grace to issue now"
        ]
    if state.open_before and not leave_open:
        return [
            f"{', '.join(state.open_before)} {'are' if len(state.open_before) > 1 else 'is'} open: what was used then is on no "
            "document; close the oldest first, or leave it open (--leave-open) and close it later"
        ]
    return []


def open_before(month: str, stands: Mapping[str, str]) -> list[str]:
    """Months before `month` that nobody closed, from the first that was, or without any from the first that is known;
    `stands` says how each known one stands.

    One of which nothing is known counts, when an earlier one is: minimums and fees are owed for it.
    """
    found, one = [], min((known for known, how in stands.items() if how), default=min(stands, default=month))
    while one < month:
        found += [] if stands.get(one) else [one]
        one = month_after(one)
    return found


def overdue_ns(oldest_open: str, now_ns: int) -> int:
    """How long the oldest month that is not closed (none: an empty text) should have been; 0 when that is not yet due."""
    if not oldest_open:
        return 0
    return max(0, now_ns - BillingMonth(oldest_open).end_ns - CLOSE_WITHIN_NS)


def free_sequence(taken: Iterable[str], series: str, year: int) -> int:
    """First free number of a series and year, given the numbers issued so far: one above the highest."""
    prefix = f"{series}-{year}-"
    ranks = (number.removeprefix(prefix) for number in taken if number.startswith(prefix))
    return max((int(rank) for rank in ranks if rank.isdecimal()), default=0) + 1


def series_fault(newest: Iterable[tuple[str, str]], kind: str, series: str, year: int) -> str | None:
    """Why documents of that kind cannot be numbered in this series and year; None when they can.

    `newest` is the last number of each series and kind of document, in the order of issue.
    """
    before = None
    for other, number in newest:
        its, of_year, _ = number.rsplit("-", 2)
        if other != kind and its == series:
            return f"series {series} numbers documents of another kind, {number} is one; give each kind its own"
        if other == kind and of_year == str(year):
            before = its, number
    if before is None or before[0] == series:
        return None
    return f"documents of {year} are numbered up to {before[1]}, series {series} would be a second one; keep {before[0]} until the year is over"


def numbered(drafts: Iterable[Invoice], series: str, first: int, issued_on: date) -> list[Invoice]:
    """The drafts as issued invoices: numbers from `first` on by rank in the order of tenant ids, so without gaps.

    A pure function: two that close the same month from the same ledger make the same documents, to the byte.
    """
    ranked = sorted(drafts, key=lambda draft: draft.tenant)
    return [issue_invoice(draft, series, first + rank, issued_on) for rank, draft in enumerate(ranked)]


def check_tiling(draft: Invoice, before: Invoice | None, after: Invoice | None) -> None:
    """InvoiceInvalid unless the draft begins when the tenant's issued month before ends, and ends when the one after begins."""
    for one, other in ((before, draft), (draft, after)):
        if one is not None and other is not None and one.end != other.start:
            kind = "twice" if one.end > other.start else "never"
            raise InvoiceInvalid(
                f"could not draft {draft.month} of {draft.tenant}: {one.month} ends at {one.end.isoformat()} and {other.month} begins at "
                f"{other.start.isoformat()}, so the time between would be billed {kind}"
            )


def charges_something(draft: Invoice, *, zero: bool = False) -> bool:
    """Whether a document is due: not for one that comes to 0, unless `zero` asks for those with a fraction of a cent, or lines that cancel out."""
    return any(line.exact or line.amount for line in draft.lines) if zero else bool(draft.gross)

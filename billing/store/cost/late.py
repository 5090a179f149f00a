"""Months of which facts came after they were derived, whichever way they came."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from billing.exact.periods import hour_start
from billing.store.clickhouse import Ledger
from billing.store.finance import month_window
from catalog.model import Catalog
from catalog.months import month_after, month_before, month_of


class LateMonth(NamedTuple):
    """A month that is not derived from all that is known of it: in how many hours something new lies, and when the last of it came."""

    month: str
    hours: int
    learned_at: datetime


def remember_hours(ledger: Ledger, instants: Iterable[int], now: datetime) -> None:
    """Say that facts of these instants (UTC ns) were taken in at `now`."""
    ledger.insert("fact_hours", [{"hour_ns": hour, "taken_at": now} for hour in sorted(set(map(hour_start, instants)))])


def late_months(ledger: Ledger, last: str, catalog: Catalog) -> list[LateMonth]:
    """Months up to `last`, the newest first, of which something was learned after they were derived as a whole, or that never were.

    `catalog` has its tenants as they held. As a whole, because one request changes how its whole month shares cold starts.
    """
    rows = ledger.read("hours_with_facts", {"end_ns": month_window(last, catalog)[1]})
    hours, found = [row["hour_ns"] for row in rows], list[LateMonth]()
    # A month begins up to a day earlier in some zone than in UTC, so the first hour may be the next month's, or the one's before.
    month = month_before(month_of(hours[0], "UTC")) if hours else month_after(last)
    while month <= last:
        start_ns, end_ns = month_window(month, catalog)
        its = rows[bisect_left(hours, start_ns) : bisect_left(hours, end_ns)]
        made = ledger.read("derivation_behind", {"start_ns": start_ns, "end_ns": end_ns})[0]
        late = [row["learned_at"] for row in its if not made["derivations"] or row["learned_at"] > made["derived_at"]]
        if late:
            found.insert(0, LateMonth(month, len(late), max(late)))
        month = month_after(month)
    return found

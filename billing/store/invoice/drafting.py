"""One tenant's month as the ledger knows it now, drafted. Nothing is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from billing.cost.attribution import IdleTime, share_idle
from billing.errors import BookMissing
from billing.exact.periods import BillingMonth, hour_start, to_ns
from billing.invoice.invoice import Invoice, Reconciliation, draft_invoice
from billing.invoice.lines import Line
from billing.invoice.prices import book_as_of
from billing.invoice.rating import rate_tenant
from billing.store.clickhouse import Ledger
from billing.store.cost.residence import residence_weights
from billing.store.cost.tenant_cost import tenant_month
from catalog.model import Catalog, PriceBook, Tenant
from catalog.months import to_datetime
from catalog.owners import TimeOwner

_DEFAULT_METHOD: Final = "engine-step/1"

IdleShares = dict[str, tuple[IdleTime, ...]]


@dataclass(frozen=True, slots=True)
class Desk:
    """What all drafts of one run share: the ledger, the catalog, and the instant up to which it is known."""

    ledger: Ledger
    catalog: Catalog
    now: datetime

    def book(self, period: BillingMonth) -> PriceBook:
        """The price book that held at the end of the period, or now, as it is known now."""
        return book_as_of(self.catalog.price_books, min(self.now, period.end - timedelta(microseconds=1)), self.now)

    def tenant_at(self, tenant: str, known_at: datetime) -> Tenant | None:
        """The tenant as the ledger knew it then (its plan, above all), else as the catalog declares it now."""
        found = self.ledger.read("tenant_known", {"tenant": tenant, "known_ns": to_ns(known_at)})
        return Tenant.model_validate_json(found[0]["document"]) if found else self.catalog.tenant(tenant)

    def draft(
        self,
        tenant: Tenant,
        month: str,
        idle: Sequence[IdleTime],
        previous: Invoice | None = None,
        corrections: Sequence[Line] = (),
    ) -> Invoice:
        """The draft of a tenant's month; one without lines when nothing was used and nothing is owed.

        Raises what rating and drafting raise: NotConserved, BookMissing, PayerMissing, ExchangeMissing, InvoiceInvalid.
        """
        period = BillingMonth(month, tenant.time_zone)
        rows = tenant_month(self.ledger, tenant.id, period)
        for hour_ns in sorted({hour_start(row.quarter.start_ns) for row in rows}):
            book_as_of(self.catalog.price_books, to_datetime(hour_ns), self.now)
        window = {"start_ns": period.start_ns, "end_ns": period.end_ns}
        book = self.book(period)
        provenance = self.ledger.read("tenant_provenance", {"tenant": tenant.id, **window})[0]
        return draft_invoice(
            rate_tenant(tenant, rows, book, idle),
            tenant,
            self.catalog.seller,
            book,
            period,
            cutoff=self.now,
            method=", ".join(sorted(provenance["methods"])) or _DEFAULT_METHOD,
            profiles=provenance["profiles"],
            reconciliation=self._reconciliation(tenant.id, window),
            previous=previous,
            corrections=corrections,
        )

    def idle_shares(self, month: str) -> IdleShares:
        """Each tenant's share of the month's idle time, by the price book's policy; none where no book says who carries it."""
        period = BillingMonth(month)
        try:
            policy = self.book(period).idle
        except BookMissing:
            return {}
        window = {"start_ns": period.start_ns, "end_ns": period.end_ns}
        rows = self.ledger.read("idle_window", window)
        idle = [IdleTime(row["gpu_type"], row["price"], row["hours_sum"]) for row in rows]
        weights = Counter[str]()
        if policy == "usage":
            measured = self.ledger.read("measured_window", window)
            weights.update({row["tenant"]: row["gpu_ns"] for row in measured if self.catalog.tenant(row["tenant"])})
        elif policy == "residency":
            weights = residence_weights(self.ledger, self.catalog, **window)
            del weights[""]
        return share_idle(idle, weights, policy)

    def _reconciliation(self, tenant: str, window: dict[str, int]) -> Reconciliation:
        owned = self.ledger.read("owners_window", window)[0]
        measured = self.ledger.read("measured_window", window)
        mine = sum(row["gpu_ns"] for row in measured if row["tenant"] == tenant)
        others = owned[TimeOwner.TENANTS] - mine
        return Reconciliation(
            mine, others, *(owned[name] for name in (*TimeOwner, "rented") if name != TimeOwner.TENANTS)
        )

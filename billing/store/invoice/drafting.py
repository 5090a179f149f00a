"""One tenant's month as the ledger knows it now, drafted. Nothing is written."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from itertools import pairwise
from typing import Final
from zoneinfo import ZoneInfo

from billing.cost.attribution import IdleTime, share_idle
from billing.exact.periods import BillingMonth, hour_start, to_ns
from billing.invoice.invoice import Invoice, Reconciliation, draft_invoice
from billing.invoice.lines import Line
from billing.invoice.prices import book_as_of
from billing.invoice.rating import Held, rate_tenant
from billing.store.catalog_history import KnownCatalog, known_catalog
from billing.store.clickhouse import Ledger
from billing.store.cost.residence import residence_weights
from billing.store.cost.tenant_cost import tenant_month
from catalog import tariff
from catalog.model import Catalog, PriceBook, Tenant
from catalog.months import to_datetime
from catalog.owners import TimeOwner
from catalog.prices import IdlePolicy

_DEFAULT_METHOD: Final = "engine-step/1"

IdleShares = dict[str, tuple[IdleTime, ...]]


@dataclass(frozen=True, slots=True)
class Desk:
    """What all drafts of one run share: the ledger, the catalog as it held, and the instant up to which it is known."""

    ledger: Ledger
    known: KnownCatalog
    now: datetime

    @classmethod
    def at(cls, ledger: Ledger, catalog: Catalog, now: datetime) -> Desk:
        """With what the ledger and the catalog say at that instant."""
        return cls(ledger, known_catalog(ledger, catalog, now), now)

    @property
    def catalog(self) -> Catalog:
        """The catalog as it held."""
        return self.known.catalog

    def book(self, period: BillingMonth) -> PriceBook:
        """The price book that held at the end of the period, or now, as it is known now."""
        return book_as_of(self.catalog.price_books, min(self.now, period.end - timedelta(microseconds=1)), self.now)

    def held(self, tenant: Tenant, period: BillingMonth) -> Held:
        """The books and the tenant's plans of the period."""

        @cache
        def book(hour_ns: int) -> PriceBook:
            return book_as_of(self.catalog.price_books, to_datetime(hour_ns), self.now)

        plans = tariff.plans(tenant, period.start_ns, period.end_ns)
        zone = ZoneInfo(period.zone)
        return Held(
            lambda at_ns: book(hour_start(at_ns)),
            [(to_datetime(since_ns).astimezone(zone), plan) for since_ns, plan in plans],
        )

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
        period = BillingMonth.of(tenant, month)
        held, tenant = self.held(tenant, period), tariff.terms_at(tenant, period.end_ns - 1)
        window = {"start_ns": period.start_ns, "end_ns": period.end_ns}
        rows = tenant_month(self.ledger, tenant.id, **window)
        book = self.book(period)
        provenance = self.ledger.read("tenant_provenance", {"tenant": tenant.id, **window})[0]
        return draft_invoice(
            rate_tenant(tenant, rows, book, idle, held),
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
        """Each tenant's share of the month's idle time, by the policy of the price book that held at the time; none where none did."""
        period = BillingMonth(month)
        shares: defaultdict[str, tuple[IdleTime, ...]] = defaultdict(tuple)
        changes = [
            to_ns(at) for book in self.catalog.price_books if (at := book.effective_from) and period.holds(to_ns(at))
        ]
        policies: list[tuple[int, IdlePolicy]] = []
        for at_ns in sorted({period.start_ns, *changes}):
            book = tariff.book_held(self.catalog.price_books, to_datetime(at_ns), self.now)
            policy = "provider" if book is None else book.idle
            if not policies or policies[-1][1] != policy:
                policies.append((at_ns, policy))
        for (start_ns, policy), (end_ns, _) in pairwise((*policies, (period.end_ns, policies[-1][1]))):
            for tenant, parts in self._idle(start_ns, end_ns, policy).items():
                shares[tenant] += parts if len(policies) == 1 else tuple(replace(part, policy=policy) for part in parts)
        return dict(shares)

    def _idle(self, start_ns: int, end_ns: int, policy: IdlePolicy) -> IdleShares:
        window = {"start_ns": start_ns, "end_ns": end_ns}
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

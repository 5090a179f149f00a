"""Two tenants' October 2026 on one engine of two GPUs: real attribution, so that every number reconciles."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from billing.cost.attribution import EngineHourCost, price_engine_hour, share_cold
from billing.cost.facts import COLD, ColdLoad, EngineMinute, TenantQuarter
from billing.exact.periods import BillingMonth
from billing.invoice.invoice import Invoice, Reconciliation, draft_invoice, issue_invoice
from billing.invoice.rating import rate_tenant
from catalog.durations import QUARTER_NS
from catalog.model import GpuPrice, PriceBook, Seller, Tenant
from catalog.owners import NO_TENANTS

MONTH = BillingMonth("2026-10", "Europe/Berlin")
CUTOFF = datetime(2026, 11, 3, 6, tzinfo=UTC)


@pytest.fixture(scope="session")
def book() -> PriceBook:
    price = GpuPrice(gpu_type="h200", start=datetime(2026, 1, 1, tzinfo=UTC), per_hour=Decimal("360"))
    return PriceBook(version="2026-h2", currency="EUR", note="Example prices.", gpu_hours=(price,))


@pytest.fixture(scope="session")
def seller() -> Seller:
    return Seller(
        name="Example GPU Cloud GmbH",
        address=("Rechnerweg 7", "80331 Muenchen", "DE"),
        tax_id="DE800000000",
        email="billing@example.com",
        iban="DE02120300000000202051",
        show_other_customers=True,
    )


@pytest.fixture(scope="session")
def clinic() -> Tenant:
    return Tenant.model_validate(
        {
            "id": "clinic",
            "name": "Lindenhof Clinic",
            "address": ("Lindenallee 4", "10115 Berlin", "DE"),
            "tax_id": "DE811111111",
            "tax_rate": "0.19",
            "time_zone": "Europe/Berlin",
            "slo": {"p99_seconds": "1.5"},
            "plan": {"kind": "cost_plus", "margin": "0.25"},
        }
    )


@pytest.fixture(scope="session")
def shop() -> Tenant:
    return Tenant.model_validate(
        {
            "id": "shop",
            "name": "Papaya Shop BV",
            "address": ("Herengracht 10", "1015 BK Amsterdam", "NL"),
            "tax_id": "NL001234567B01",
            "tax_rate": "0.21",
            "time_zone": "Europe/Berlin",
            "slo": {"p99_seconds": "2.5"},
            "plan": {"kind": "per_token", "input": "0.60", "cached_input": "0.06", "output": "2.40", "minimum": "25"},
        }
    )


@pytest.fixture(scope="session")
def engine_hours() -> list[EngineHourCost]:
    """Two hours, in each of which both tenants work in two quarters; one adapter load; the second hour starts late."""
    first = MONTH.start_ns
    quarters = []
    for hour in (0, 1):
        for index in (0, 2):
            at = first + (4 * hour + index) * QUARTER_NS
            quarters += [
                _row(
                    "clinic",
                    "icd10-coder",
                    at,
                    101_234_567_891,
                    17_345_678_903,
                    31_000_000_007,
                    5_000_000_011,
                    1200,
                    900_001,
                ),
                _row("clinic", "base", at, 60_000_000_001, 0, 2_000_000_003, 0, 300, 120_000),
                _row(
                    "shop",
                    "brand-voice",
                    at,
                    88_888_888_889,
                    22_222_222_223,
                    9_000_000_001,
                    1_000_000_003,
                    1500,
                    777_777,
                ),
            ]
        quarters.append(
            _row("clinic", "icd10-coder", first + 4 * hour * QUARTER_NS, 1_000_000_001, 0, 0, 0, 7, 0, "client_abort")
        )
        quarters.append(
            _row("clinic", "icd10-coder", first + 4 * hour * QUARTER_NS, 3_000_000_007, 0, 0, 0, 2, 0, "server_error")
        )
    cold = share_cold(
        [ColdLoad("e0", "icd10-coder", first, 1_500_000_019), ColdLoad("e0", "brand-voice", first, 2_000_000_011)],
        {("icd10-coder", "clinic"): 4818, ("brand-voice", "shop"): 6000},
    )
    hours = []
    for hour in (0, 1):
        rows = [r for r in [*quarters, *cold] if (r.start_ns - first) // (4 * QUARTER_NS) == hour]
        minutes = [
            _minute(rows, first + (4 * hour + index) * QUARTER_NS, down_ns=hour * 60_000_000_000) for index in range(4)
        ]
        hours.append(price_engine_hour(minutes, rows, Decimal("360")))
    return hours


def _row(
    tenant: str,
    adapter: str,
    at: int,
    base: int,
    lora: int,
    kv_base: int,
    kv_lora: int,
    requests: int,
    out: int,
    status: str = "ok",
) -> TenantQuarter:
    return TenantQuarter(
        tenant, adapter, "e0", status, at, base, lora, kv_base, kv_lora, 0, requests, 3 * out + 11 * requests, out // 2, out
    )  # fmt: skip


def _minute(rows: list[TenantQuarter], at: int, down_ns: int) -> EngineMinute:
    here = [row for row in rows if row.start_ns == at]
    parts = {
        "tenants_ns": sum(row.base_ns + row.adapter_ns for row in here),
        "cold_ns": sum(row.cold_ns for row in here),
        "recompute_ns": 4_000_000_003,
        "system_ns": 6_000_000_001,
        "unattributed_ns": 100_000_007,
    }
    wall_ns = QUARTER_NS - down_ns
    return EngineMinute(
        "e0", at, wall_ns, wall_ns - sum(parts.values()), **parts, down_ns=down_ns, gpu_type="h200", gpu_count=2
    )


@pytest.fixture(scope="session")
def draft(book: PriceBook, seller: Seller, engine_hours: list[EngineHourCost]) -> Callable[..., Invoice]:
    """Drafts a tenant's October; keyword arguments go to `draft_invoice`."""

    def make(tenant: Tenant, **options: Any) -> Invoice:
        rows = [row for hour in engine_hours for row in hour.tenants if row.quarter.tenant == tenant.id]
        reconciliation = reconcile(tenant.id, engine_hours)
        arguments: dict[str, Any] = {
            "cutoff": CUTOFF,
            "method": "engine-step/1",
            "profiles": ["0123456789ab"],
            "reconciliation": reconciliation,
        }
        return draft_invoice(rate_tenant(tenant, rows, book), tenant, seller, book, MONTH, **arguments | options)

    return make


def reconcile(tenant: str, hours: list[EngineHourCost]) -> Reconciliation:
    rows = [row for hour in hours for row in hour.tenants]
    executed = {
        own: sum(
            (r.quarter.base_ns + r.quarter.adapter_ns) * r.gpu_count
            for r in rows
            if (r.quarter.tenant == tenant) is own
        )
        for own in (True, False)
    }
    owners = {owner: sum(hour.owner(owner).ns * hour.gpu_count for hour in hours) for owner in NO_TENANTS}
    cold = sum(r.quarter.cold_ns * r.gpu_count for r in rows if r.quarter.status == COLD)
    rented = sum(hour.rented_ns * hour.gpu_count for hour in hours)
    return Reconciliation(executed[True], executed[False], cold, **owners, rented=rented)


@pytest.fixture(scope="session")
def cost_plus(draft: Callable[..., Invoice], clinic: Tenant) -> Invoice:
    """The clinic's October, issued."""
    return issue_invoice(draft(clinic), "LL", 7, date(2026, 11, 4))


@pytest.fixture(scope="session")
def per_token(draft: Callable[..., Invoice], shop: Tenant) -> Invoice:
    """The shop's October, a draft."""
    return draft(shop)

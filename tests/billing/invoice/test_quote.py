"""What one request costs and is charged: by the terms of its instants, with what decided it, and never 0 for what is not known."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from billing.errors import PriceMissing, RowsInvalid
from billing.exact.periods import to_ns
from billing.invoice.quote import quote
from catalog.load import load
from catalog.model import Catalog, PerToken
from catalog.tenants import DatedTerms
from telemetry.usage import Slice, Status, UsageRecord

D = Decimal
HOUR = 3_600_000_000_000
NOW = datetime(2026, 12, 1, tzinfo=UTC)
T0 = to_ns(datetime(2026, 10, 15, 23, 50, tzinfo=UTC))
CATALOG = load(Path(__file__).parents[1] / "golden_month" / "catalog.yaml")
QUARTER = to_ns(datetime(2026, 10, 15, 23, 45, tzinfo=UTC))
RECORD = UsageRecord(
    emitter="f", seq=0, request_id="r0", tenant="clinic", arrival_ns=T0, finished_ns=T0 + HOUR // 2, status=Status.OK,
    slices=(Slice(QUARTER, HOUR // 8, 0, HOUR), Slice(QUARTER + HOUR // 4, 0, HOUR // 8, 0)),
    input_tokens=1_000_000, cached_tokens=200_000, output_tokens_delivered=500_000, gpu_type="h200", gpu_count=2,
)  # fmt: skip


def with_tenant(name: str, **changes: Any) -> Catalog:
    tenants = (one.model_copy(update=changes) if one.id == name else one for one in CATALOG.tenants)
    return CATALOG.model_copy(update={"tenants": tuple(tenants)})


def test_each_quarter_hour_has_the_price_of_its_instant_and_work_done_twice_is_not_charged() -> None:
    """0.25 GPU-hours at 3.60 before midnight and 0.25 at 4.20 after it, margin 25 %."""
    found = quote(RECORD, CATALOG, NOW)
    assert [(part.price, part.gpu_hours, part.cost) for part in found.parts] == [
        (D("3.6"), D("0.25"), D("0.9")),
        (D("4.2"), D("0.25"), D("1.05")),
        (None, D(0), D(0)),
    ]
    assert (found.cost, found.amount, found.unknown) == (D("1.95"), D("2.4375"), ())
    assert found.terms["GPU-hour of h200, 2026-10-16 00 UTC"] == "4.2 since 2026-10-16T00:00:00+00:00"
    assert (found.month, found.terms["billing month"]) == ("2026-10", "2026-10 in Europe/Berlin")
    later = quote(RECORD, CATALOG, NOW, T0 + HOUR)
    assert (later.cost, later.amount) == (D("2.1"), D("2.625"))


def test_tokens_are_charged_by_the_plan_that_held_when_the_request_finished() -> None:
    plan = {"kind": "per_token", "input": "1000", "cached_input": "100", "output": "2000"}
    dated = DatedTerms.model_validate({"effective_from": date(2026, 10, 16), "plan": PerToken.model_validate(plan)})
    shop = with_tenant("shop", terms=(dated,))
    record = replace(RECORD, tenant="shop", slices=(), finished_ns=T0)
    before, after = quote(record, shop, NOW, T0 - 2 * HOUR), quote(record, shop, NOW)
    assert before.amount == D("0.61") * D("0.8") + D("0.07") * D("0.2") + D("2.43") * D("0.5")
    assert after.amount == D(1820)
    assert before.terms["tenant's terms"] == "those since ever"
    assert after.terms["tenant's terms"] == "those since 2026-10-15T22:00:00+00:00"
    assert "discount volume: 0.15 of usage above 1" in after.beside


def test_what_is_not_known_has_no_price_and_what_the_provider_pays_is_nothing() -> None:
    silent = quote(replace(RECORD, slices=None), CATALOG, NOW)
    assert (silent.cost, silent.amount) == (None, None)
    assert silent.unknown == ("slices are null: the plan charges engine time, and nobody measured it",)
    shop = replace(RECORD, tenant="shop", output_tokens_delivered=None)
    assert quote(shop, CATALOG, NOW).unknown == ("output_tokens_delivered is null: the plan charges tokens",)
    failed = quote(replace(shop, status=Status.SERVER_ERROR), CATALOG, NOW)
    assert (failed.amount, failed.cost, failed.unknown) == (D(0), D("1.95"), ())


def test_who_or_what_is_not_known_is_refused() -> None:
    with pytest.raises(RowsInvalid, match="tenant 'nobody' is not in the catalog"):
        quote(replace(RECORD, tenant="nobody"), CATALOG, NOW)
    with pytest.raises(RowsInvalid, match="neither gpu_type nor a known engine"):
        quote(replace(RECORD, gpu_type=None), CATALOG, NOW)
    with pytest.raises(PriceMissing):
        quote(RECORD, CATALOG, NOW, to_ns(datetime(2025, 1, 1, tzinfo=UTC)))


def test_money_of_another_currency_is_converted_at_the_months_rate_where_there_is_one() -> None:
    forge = replace(RECORD, tenant="forge")
    assert "conversion to USD: 1 EUR = 1.0842 USD of 2026-10-30" in quote(forge, CATALOG, NOW).beside
    unknown = quote(forge, CATALOG, NOW, T0 + 60 * 24 * HOUR)
    assert "conversion to USD: the last rate of the month, not known yet" in unknown.beside

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from billing.cost.attribution import EngineHourCost, TenantCost
from billing.errors import ExportInvalid
from billing.exact.money import product, total
from billing.exact.periods import BillingMonth
from billing.focus.charges import credit_charges, invoice_charges
from billing.focus.model import ChargeCategory, ChargeRow, Document
from billing.invoice.credit import draft_credit_note, issue_credit_note, spread
from billing.invoice.invoice import Invoice, Reconciliation, draft_invoice, issue_invoice
from billing.invoice.lines import Corrects, Line
from billing.invoice.plans import ChargeKind
from billing.invoice.rating import rate_tenant
from catalog.model import FxRate, PriceBook, Tenant

Costs = Callable[[str], list[TenantCost]]


@pytest.fixture
def costs(engine_hours: list[EngineHourCost]) -> Costs:
    return lambda tenant: [row for hour in engine_hours for row in hour.tenants if row.quarter.tenant == tenant]


def whole_of(invoice: Invoice) -> Reconciliation:
    assert isinstance(invoice.reconciliation, Reconciliation)
    return invoice.reconciliation


def sums(document: Document) -> dict[str, Decimal]:
    found: dict[str, Decimal] = {}
    for row in document.rows:
        found[row.detail] = total((found.get(row.detail, Decimal(0)), row.cost))
    return found


def by_item(rows: Sequence[ChargeRow]) -> Counter[str]:
    return Counter(row.item for row in rows)


def test_rows_of_a_cost_plus_invoice_are_its_lines_to_the_cent(cost_plus: Invoice, costs: Costs) -> None:
    document = invoice_charges(cost_plus, costs("clinic"), "tiny-llama")
    assert sums(document) == {
        **{f"LL-2026-0007/{line.position}": line.amount for line in cost_plus.lines},
        "LL-2026-0007/tax-1": cost_plus.tax,
    }
    assert total(row.cost for row in document.rows) == cost_plus.due
    assert by_item(document.rows) == {
        "t_b": 4,
        "t_a": 2,
        "t_kv": 4,
        "t_cold": 1,
        "margin": 1,
        "adjustment": 5,
        "tax": 1,
    }
    for row in document.rows:
        assert row.category is {"t_kv": ChargeCategory.CREDIT, "adjustment": ChargeCategory.ADJUSTMENT}.get(
            row.item, ChargeCategory.TAX if row.item == "tax" else ChargeCategory.USAGE
        )
        if row.price:
            assert product(row.price.quantity, row.price.unit_price) == row.cost


def test_time_is_priced_as_if_nothing_was_cached_and_consumed_as_measured(cost_plus: Invoice, costs: Costs) -> None:
    rows = invoice_charges(cost_plus, costs("clinic"), "tiny-llama").rows
    first = next(row for row in rows if row.item == "t_b" and row.resource == "icd10-coder")
    assert first.price is not None
    assert (first.start, first.end) == (
        datetime(2026, 9, 30, 22, tzinfo=UTC),
        datetime(2026, 9, 30, 23, tzinfo=UTC),
    )
    paid = [r for r in costs("clinic") if r.quarter.status != "server_error"]
    assert total(r.consumed or Decimal(0) for r in rows if r.item == "t_b") == sum(
        r.quarter.base_ns * r.gpu_count for r in paid
    ) * Decimal("1e-9")
    assert (first.consumed or 0) < first.price.quantity * 3600
    assert {row.resource for row in rows if row.resource} == {"icd10-coder", "tiny-llama"}


def test_tokens_are_millions_priced_and_tokens_consumed(per_token: Invoice, costs: Costs) -> None:
    document = invoice_charges(per_token, costs("shop"), "tiny-llama")
    output = [row for row in document.rows if row.item == "output"]
    assert sum(row.consumed or 0 for row in output) == per_token.output_tokens
    assert {row.price.unit for row in output if row.price} == {"1000000 Tokens"}
    assert document.bill.invoice == "draft-shop-2026-10"
    minimum = next(row for row in document.rows if row.item == "minimum")
    assert (minimum.recurring, minimum.price and minimum.price.unit) == (True, "Months")
    assert total(row.cost for row in document.rows) == per_token.due


def test_when_the_ledger_has_learned_more_the_rows_are_the_lines_and_sum_the_same(
    cost_plus: Invoice, costs: Costs
) -> None:
    later = costs("clinic")[1:]
    hourly = invoice_charges(cost_plus, costs("clinic"), "tiny-llama")
    coarse = invoice_charges(cost_plus, later, "tiny-llama")
    assert sums(coarse) == sums(hourly)
    assert by_item(coarse.rows)["t_b"] == 1
    assert {(row.start, row.end) for row in coarse.rows} == {(cost_plus.start, cost_plus.end)}
    consumed = {row.item: row.consumed for row in coarse.rows if row.item in ("t_b", "t_cold")}
    assert all(used and used > 0 for used in consumed.values())


def test_a_converted_invoice_keeps_prices_and_their_currency_and_sums_in_its_own(
    draft: Callable[..., Invoice], book: PriceBook, clinic: Tenant, costs: Costs, seller: Any, cost_plus: Invoice
) -> None:
    fx = FxRate(currency="JPY", day=date(2026, 10, 30), rate=Decimal("163.12345678"), source="ECB")
    dated, tenant = book.model_copy(update={"fx": (fx,)}), clinic.model_copy(update={"currency": "JPY"})
    month = BillingMonth("2026-10", "Europe/Berlin")
    invoice = draft_invoice(
        rate_tenant(tenant, costs("clinic"), dated), tenant, seller, dated, month,
        cutoff=cost_plus.cutoff, method="engine-step/1", profiles=(), reconciliation=whole_of(cost_plus),
    )  # fmt: skip
    document = invoice_charges(issue_invoice(invoice, "LL", 1, date(2026, 11, 4)), costs("clinic"), "tiny-llama")
    assert total(row.cost for row in document.rows) == invoice.due
    priced = next(row for row in document.rows if row.item == "t_b")
    assert priced.price is not None
    assert (priced.pricing_currency, priced.price.pricing_price) == ("EUR", Decimal(360))
    assert priced.price.unit_price == 360 * fx.rate
    assert priced.cost == product(priced.price.quantity, priced.price.unit_price)
    assert product(priced.price.quantity, Decimal(360)) == priced.pricing_cost


def test_discount_and_commitment_are_credits_and_fees(
    book: PriceBook, clinic: Tenant, costs: Costs, seller: Any, cost_plus: Invoice
) -> None:
    tenant = Tenant.model_validate(
        clinic.model_dump() | {"discounts": [{"id": "ten", "fraction": "0.1"}], "commitment": {"fee": "100", "overage": "1.2"}}
    )  # fmt: skip
    invoice = draft_invoice(
        rate_tenant(tenant, costs("clinic"), book), tenant, seller, book, BillingMonth("2026-10", "Europe/Berlin"),
        cutoff=cost_plus.cutoff, method="engine-step/1", profiles=(), reconciliation=whole_of(cost_plus),
    )  # fmt: skip
    document = invoice_charges(invoice, costs("clinic"), "tiny-llama")
    assert total(row.cost for row in document.rows) == invoice.due
    kinds = {row.item: row.category for row in document.rows}
    assert kinds["discount"] is kinds["covered"] is ChargeCategory.CREDIT
    assert kinds["commitment"] is kinds["overage"] is ChargeCategory.USAGE


def test_a_correction_keeps_the_month_it_corrects_as_its_charge_period(
    draft: Callable[..., Invoice], clinic: Tenant, costs: Costs, cost_plus: Invoice
) -> None:
    line: Line = replace(
        cost_plus.lines[0], kind=ChargeKind.CORRECTION, amount=Decimal("1.05"),
        corrects=Corrects("LL-2026-0001", date(2026, 10, 4), "2026-09", "EUR", 1, ChargeKind.BASE),
    )  # fmt: skip
    document = invoice_charges(draft(clinic, corrections=[line]), costs("clinic"), "tiny-llama")
    row = next(row for row in document.rows if row.correction)
    september = BillingMonth("2026-09", "Europe/Berlin")
    assert (row.start, row.end, row.cost, row.price) == (september.start, september.end, Decimal("1.05"), None)
    assert document.bill.start == BillingMonth("2026-10", "Europe/Berlin").start


def test_rows_that_miss_their_line_by_more_than_rounding_are_refused(cost_plus: Invoice, costs: Costs) -> None:
    wrong = replace(cost_plus, lines=(replace(cost_plus.lines[0], amount=Decimal("155.80")), *cost_plus.lines[1:]))
    with pytest.raises(ExportInvalid, match=r"invoice LL-2026-0007: rows of line 1 miss 0\.0123"):
        invoice_charges(wrong, costs("clinic"), "tiny-llama")


def test_a_credit_note_is_negative_corrections_of_its_invoice(cost_plus: Invoice) -> None:
    draft = draft_credit_note(cost_plus, spread(cost_plus, Decimal("20")), "dispute", cutoff=cost_plus.cutoff)
    with pytest.raises(ExportInvalid, match="it is a draft"):
        credit_charges(draft)
    document = credit_charges(issue_credit_note(draft, "CN", 1, date(2026, 12, 1)))
    assert (document.bill.invoice, document.bill.reference) == ("CN-2026-0001", "LL-2026-0007")
    assert (document.bill.billing_month, document.rows[0].start) == ("2026-12", cost_plus.start)
    assert total(row.cost for row in document.rows) == Decimal("-23.80")
    assert all(row.correction and row.price is None for row in document.rows)

"""An invoice adds up, is numbered when issued, and never changes after."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from billing.cost.facts import NotConserved
from billing.errors import InvoiceInvalid
from billing.exact.money import round_places, total
from billing.exact.periods import BillingMonth
from billing.invoice.invoice import Invoice, Party, Reconciliation, draft_invoice, issue_invoice
from billing.invoice.prices import Exchange
from billing.invoice.rating import rate_tenant
from catalog.model import PriceBook, Seller, Tenant

D = Decimal


def test_a_draft_has_no_number_and_an_issued_invoice_has_all(per_token: Invoice, cost_plus: Invoice) -> None:
    assert (per_token.number, per_token.issued_on, per_token.due_on, per_token.content_hash) == (None,) * 4
    assert (cost_plus.number, cost_plus.issued_on, cost_plus.due_on) == (
        "LL-2026-0007",
        date(2026, 11, 4),
        date(2026, 12, 4),
    )
    assert len(cost_plus.content_hash or "") == 64


def test_totals_are_exact_sums_of_what_is_shown(cost_plus: Invoice, per_token: Invoice) -> None:
    for invoice in (cost_plus, per_token):
        assert invoice.net == total(line.amount for line in invoice.lines)
        assert invoice.gross == invoice.net + sum(group.amount for group in invoice.taxes) == invoice.due


def test_issuing_changes_nothing_but_number_dates_and_hash(draft: Callable[..., Invoice], clinic: Tenant) -> None:
    before = draft(clinic)
    issued = issue_invoice(before, "LL", 12345, date(2027, 1, 2))
    assert issued.number == "LL-2027-12345"
    undone = replace(issued, state="draft", number=None, issued_on=None, due_on=None, content_hash=None)
    assert undone == before
    with pytest.raises(FrozenInstanceError):
        issued.net = D(0)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"net": D("1.00")}, "net amount is 1.00, its parts sum to"),
        ({"gross": D("1.00"), "due": D("1.00")}, "gross amount is 1.00"),
        ({"due": D("0.00")}, "amount due is 0.00"),
        ({"tax": D("34.11"), "gross": D("213.57"), "due": D("213.57")}, "tax is 34.11, its parts sum to 34.10"),
        ({"tax_in_price_currency": D("34.10")}, r"tax in EUR is 34\.10, its parts sum to None"),
        ({"issued_on": None}, "belong to issued invoices"),
        ({"due_on": None}, "belong to issued invoices"),
        ({"content_hash": None}, "belong to issued invoices"),
        ({"notes": ()}, "changed after issue"),
        ({"number": "LL-2026-0008"}, "changed after issue"),
        ({"number": None}, "belong to issued invoices"),
        ({"state": "draft"}, "belong to issued invoices"),
    ],
)
def test_a_changed_invoice_is_found_out(cost_plus: Invoice, change: dict[str, object], says: str) -> None:
    cost_plus.check()
    with pytest.raises(InvoiceInvalid, match=says):
        replace(cost_plus, **change).check()  # type: ignore[arg-type]


def test_tax_groups_follow_from_the_lines_and_tax_abroad_from_its_rate(
    draft: Callable[..., Invoice], clinic: Tenant
) -> None:
    invoice = draft(clinic)
    (group,) = invoice.taxes
    zero = replace(group, rate=D(0), base=D(0), amount=D(0))
    for groups in ((group, zero), (replace(group, base=group.base + 1),), (replace(group, rate=D("0.2")),)):
        with pytest.raises(InvoiceInvalid, match="tax groups do not follow from its lines"):
            replace(invoice, taxes=groups).check()
    rate = Exchange("USD", "EUR", D("0.9"), date(2026, 10, 30), "ECB")
    abroad = replace(invoice, price_currency="USD", exchange=rate, tax_in_price_currency=D("37.89"))
    abroad.check()
    with pytest.raises(InvoiceInvalid, match=r"tax in USD is 34\.10, its parts sum to 37\.89"):
        replace(abroad, tax_in_price_currency=D("34.10")).check()


def test_an_invoice_can_be_issued_on_the_last_day_of_its_month_and_is_due_so_many_days_later(
    per_token: Invoice,
) -> None:
    issued = issue_invoice(per_token, "LL", 1, date(2026, 10, 31))
    assert (issued.number, issued.issued_on, issued.due_on) == ("LL-2026-0001", date(2026, 10, 31), date(2026, 11, 30))
    issued.check()


def test_the_heading_says_whose_month_it_is(
    cost_plus: Invoice, clinic: Tenant, seller: Seller, book: PriceBook
) -> None:
    assert (cost_plus.seller, cost_plus.buyer) == (
        Party(seller.name, seller.address, seller.tax_id, seller.email, seller.iban),
        Party(clinic.name, clinic.address, clinic.tax_id),
    )
    assert (cost_plus.tenant, cost_plus.month, cost_plus.time_zone) == ("clinic", "2026-10", "Europe/Berlin")
    assert (cost_plus.start, cost_plus.end) == (
        datetime(2026, 9, 30, 22, tzinfo=UTC), datetime(2026, 10, 31, 23, tzinfo=UTC),
    )  # fmt: skip
    assert (cost_plus.first_day, cost_plus.last_day) == (date(2026, 10, 1), date(2026, 10, 31))
    assert (cost_plus.currency, cost_plus.price_currency, cost_plus.exchange) == ("EUR", "EUR", None)
    assert (cost_plus.price_book, cost_plus.price_note, cost_plus.method) == (book.version, book.note, "engine-step/1")
    assert (cost_plus.profiles, cost_plus.cutoff) == (("0123456789ab",), datetime(2026, 11, 3, 6, tzinfo=UTC))
    assert (cost_plus.tax_treatment, cost_plus.tax_note, cost_plus.purchase_order) == ("standard", None, None)
    cost, tokens = cost_plus.statement.measured.cost, cost_plus.output_tokens
    assert cost_plus.unit_cost == round_places(cost * 1_000_000 / tokens, 6)
    assert cost_plus.unit_price == round_places(cost_plus.net * 1_000_000 / tokens, 6)
    assert cost_plus.lora_share == round_places(cost_plus.statement.t_a.cost / cost, 4)


@pytest.mark.parametrize(
    ("tenant", "said"),
    [
        ({}, None),
        ({"tax_rate": D(0)}, "No tax is charged on this invoice."),
        ({"tax_rate": D(0), "tax_treatment": "exempt"}, "Exempt from tax."),
        ({"tax_rate": D(0), "tax_treatment": "exempt", "tax_note": "Paragraph 4"}, "Paragraph 4"),
    ],
)
def test_why_no_tax_is_charged_is_said(
    draft: Callable[..., Invoice], clinic: Tenant, tenant: dict[str, object], said: str | None
) -> None:
    invoice = draft(clinic.model_copy(update=tenant))
    assert invoice.tax_note == said
    assert (said in invoice.notes) is (said is not None)


def test_an_invoice_is_issued_once_and_only_for_a_month_that_is_over(cost_plus: Invoice, per_token: Invoice) -> None:
    with pytest.raises(InvoiceInvalid, match="correct it with a credit note"):
        issue_invoice(cost_plus, "LL", 8, date(2026, 11, 5))
    with pytest.raises(InvoiceInvalid, match="the month ends on 2026-10-31"):
        issue_invoice(per_token, "LL", 8, date(2026, 10, 30))
    with pytest.raises(InvoiceInvalid, match="numbers start at 1"):
        issue_invoice(per_token, "LL", 0, date(2026, 11, 5))


def test_the_reconciliation_must_add_up_and_agree_with_the_rows(draft: Callable[..., Invoice], clinic: Tenant) -> None:
    sound = draft(clinic).reconciliation
    assert isinstance(sound, Reconciliation)
    with pytest.raises(NotConserved, match="rented GPU time"):
        draft(clinic, reconciliation=replace(sound, idle=sound.idle - 1))
    shifted = replace(sound, this_tenant=sound.this_tenant - 1, other_tenants=sound.other_tenants + 1)
    with pytest.raises(NotConserved, match="measured time of tenant clinic") as caught:
        draft(clinic, reconciliation=shifted)
    assert caught.value.missing_ns == 1


def test_what_other_customers_used_is_on_an_invoice_only_where_the_provider_shows_it(
    draft: Callable[..., Invoice], clinic: Tenant, book: PriceBook, seller: Seller, cost_plus: Invoice
) -> None:
    whole = draft(clinic).reconciliation
    assert isinstance(whole, Reconciliation)
    rated = rate_tenant(clinic, [], book)
    nothing = replace(whole, this_tenant=0, other_tenants=whole.other_tenants + whole.this_tenant)
    reticent = seller.model_copy(update={"show_other_customers": False})
    terms: dict[str, Any] = {"cutoff": cost_plus.cutoff, "method": "m", "profiles": (), "reconciliation": nothing}
    found = draft_invoice(rated, clinic, reticent, book, BillingMonth("2026-10"), **terms).reconciliation
    assert found == nothing.summed()


def test_the_month_before_stands_beside_this_one(
    draft: Callable[..., Invoice], clinic: Tenant, cost_plus: Invoice, per_token: Invoice
) -> None:
    previous = draft(clinic, previous=cost_plus).previous
    assert previous is not None
    assert (previous.number, previous.net, previous.unit_price) == ("LL-2026-0007", cost_plus.net, cost_plus.unit_price)
    with pytest.raises(InvoiceInvalid, match="with an invoice of shop"):
        draft(clinic, previous=per_token)
    assert draft(clinic, previous=replace(cost_plus, currency="USD")).previous is None


def test_a_month_without_use_is_an_invoice_of_zero_with_unknown_unit_prices(
    clinic: Tenant, book: PriceBook, seller: Seller, cost_plus: Invoice
) -> None:
    assert isinstance(cost_plus.reconciliation, Reconciliation)
    nothing = replace(cost_plus.reconciliation, this_tenant=0, other_tenants=0, cold=0)
    rented = sum(getattr(nothing, name) for name in ("recompute", "system", "idle", "unattributed", "down"))
    invoice = draft_invoice(
        rate_tenant(clinic, [], book),
        clinic,
        seller,
        book,
        BillingMonth("2026-11", "Europe/Berlin"),
        cutoff=cost_plus.cutoff,
        method="engine-step/1",
        profiles=[],
        reconciliation=replace(nothing, rented=rented),
    )
    assert (invoice.due, invoice.unit_cost, invoice.unit_price, invoice.lora_share) == (D(0), None, None, None)


def test_rows_rated_for_someone_else_are_refused(
    clinic: Tenant, shop: Tenant, book: PriceBook, seller: Seller, cost_plus: Invoice
) -> None:
    rated = rate_tenant(shop, [], book)
    whole = cost_plus.reconciliation
    assert isinstance(whole, Reconciliation)
    nothing = replace(whole, this_tenant=0, rented=whole.rented - whole.this_tenant)
    with pytest.raises(InvoiceInvalid, match="it was rated for shop"):
        draft_invoice(
            rated,
            clinic,
            seller,
            book,
            BillingMonth("2026-10"),
            cutoff=cost_plus.cutoff,
            method="engine-step/1",
            profiles=[],
            reconciliation=nothing,
        )


def test_no_other_tenant_is_named(cost_plus: Invoice) -> None:
    assert not any(name in repr(cost_plus) for name in ("shop", "Papaya", "brand-voice"))

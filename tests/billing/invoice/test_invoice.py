"""An invoice adds up, is numbered when issued, and never changes after."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from billing.cost.facts import NotConserved
from billing.errors import InvoiceInvalid
from billing.exact.money import total
from billing.exact.periods import BillingMonth
from billing.invoice.invoice import Invoice, Reconciliation, draft_invoice, issue_invoice
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

"""Every document balances, and the ledger of documents cannot be changed without a trace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from decimal import Decimal

import pytest

from billing.close.postings import (
    FIRST,
    RECEIVABLE,
    REVENUE,
    TAX,
    balance,
    credit_note_postings,
    invoice_postings,
    owed,
    posting_faults,
)
from billing.errors import PostingInvalid
from billing.exact.money import total
from billing.invoice.corrections import correction_lines, difference
from billing.invoice.credit import draft_credit_note, issue_credit_note, whole
from billing.invoice.invoice import Invoice, issue_invoice
from catalog.model import Tenant

D = Decimal


def test_an_invoice_is_owed_in_full_and_is_revenue_by_line_and_tax_by_rate(cost_plus: Invoice) -> None:
    postings = invoice_postings(cost_plus, FIRST)
    assert [(p.entry, p.account, p.line, str(p.debit), str(p.credit)) for p in postings] == [
        (1, RECEIVABLE, None, "213.56", "0.00"),
        (2, REVENUE, 1, "0.00", "155.79"),
        (3, REVENUE, 2, "0.00", "17.88"),
        (4, REVENUE, 3, "30.40", "0.00"),
        (5, REVENUE, 4, "0.00", "0.30"),
        (6, REVENUE, 5, "0.00", "35.89"),
        (7, TAX, None, "0.00", "34.10"),
    ]
    assert (balance(postings), owed(postings)) == ({"EUR": D(0)}, {"EUR": D("213.56")})
    assert {p.invoice for p in postings} == {"LL-2026-0007"}


# public report getlago/lago-api#5653: voids and credits interacted, and did not net to nothing
def test_a_voided_invoice_nets_to_nothing_by_account_and_item(cost_plus: Invoice) -> None:
    draft = draft_credit_note(cost_plus, whole(cost_plus), "void", cutoff=cost_plus.cutoff)
    note = issue_credit_note(draft, "CN", 1, date(2026, 11, 20))
    ledger = [*invoice_postings(cost_plus, FIRST)]
    ledger += credit_note_postings(note, ledger[-1].hash)
    for key in {(p.account, p.item, p.rate) for p in ledger}:
        assert total(p.amount for p in ledger if (p.account, p.item, p.rate) == key) == 0
    assert owed(ledger) == {"EUR": 0}
    assert owed(ledger, note.number) == {"EUR": -cost_plus.gross}


def test_a_correction_is_booked_for_the_month_and_invoice_that_it_corrects(
    cost_plus: Invoice, draft: Callable[..., Invoice], clinic: Tenant
) -> None:
    base, *rest = cost_plus.lines
    known = replace(draft(clinic), lines=(replace(base, amount=base.amount + 1), *rest))
    lines = correction_lines(difference(cost_plus, known))
    carrying = issue_invoice(replace(draft(clinic, corrections=lines), month="2026-11"), "LL", 8, date(2026, 12, 1))
    *_, correction, _ = invoice_postings(carrying, FIRST)
    assert (correction.document, correction.invoice, correction.billing_month, correction.credit) == (
        "LL-2026-0008",
        "LL-2026-0007",
        "2026-10",
        D("1.00"),
    )


def test_decimals_of_a_store_do_not_break_the_chain_and_a_changed_cent_does(cost_plus: Invoice) -> None:
    postings = invoice_postings(cost_plus, FIRST)
    stored = [replace(p, debit=p.debit.quantize(D("1e-18")), credit=p.credit.quantize(D("1e-18"))) for p in postings]
    assert posting_faults(postings, stored) == []
    changed = replace(stored[1], credit=stored[1].credit + D("0.01"))
    assert posting_faults(postings, [stored[0], changed, *stored[2:]]) == ["posting 2 says credit 155.8, not 155.79"]
    assert posting_faults(postings, stored[:-1]) == ["posting 7 is missing"]
    assert posting_faults(postings, [*stored, stored[0]]) == ["posting 1 is there twice"]
    assert posting_faults(postings[:-1], stored) == ["posting 7 does not follow from the document"]
    unlinked = [replace(stored[0], previous_hash="0" * 64), *stored[1:]]
    assert posting_faults(postings, unlinked) == ["posting 1 is not linked to the posting before it"]


def test_a_draft_is_not_posted(per_token: Invoice, cost_plus: Invoice) -> None:
    with pytest.raises(PostingInvalid, match="could not post shop's 2026-10: it is not issued"):
        invoice_postings(per_token, FIRST)
    draft = draft_credit_note(cost_plus, whole(cost_plus), "void", cutoff=cost_plus.cutoff)
    with pytest.raises(PostingInvalid, match="could not post the credit note on LL-2026-0007"):
        credit_note_postings(draft, FIRST)

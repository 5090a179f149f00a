"""Every document balances, and the ledger of documents cannot be changed without a trace."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from billing.close.acceptance import accept
from billing.close.blocks import Block, Kind
from billing.close.postings import (
    CARRIED,
    FIRST,
    RECEIVABLE,
    REVENUE,
    TAX,
    UNBILLED,
    acceptance_postings,
    balance,
    credit_note_postings,
    document_postings,
    invoice_postings,
    owed,
    posting_faults,
)
from billing.cost.facts import PROVIDER
from billing.errors import PostingInvalid
from billing.exact.money import total
from billing.invoice.corrections import correction_lines, difference
from billing.invoice.credit import CreditNote, draft_credit_note, issue_credit_note, whole
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


def voided(invoice: Invoice) -> CreditNote:
    draft = draft_credit_note(invoice, whole(invoice), "void", cutoff=invoice.cutoff)
    return issue_credit_note(draft, "CN", 1, date(2026, 11, 20))


def test_a_credit_note_takes_off_its_invoice_line_by_line_and_names_it(cost_plus: Invoice) -> None:
    postings = credit_note_postings(voided(cost_plus), FIRST)
    assert [(p.entry, p.account, p.line, p.item, p.rate, str(p.debit), str(p.credit)) for p in postings] == [
        (1, RECEIVABLE, None, None, None, "0.00", "213.56"),
        (2, REVENUE, 1, "t_b", None, "155.79", "0.00"),
        (3, REVENUE, 2, "t_a", None, "17.88", "0.00"),
        (4, REVENUE, 3, "t_kv", None, "0.00", "30.40"),
        (5, REVENUE, 4, "t_cold", None, "0.30", "0.00"),
        (6, REVENUE, 5, "margin", None, "35.89", "0.00"),
        (7, TAX, None, None, D("0.19"), "34.10", "0.00"),
    ]
    assert {(p.document, p.invoice, p.kind, p.tenant, p.billing_month, p.booked_on, p.currency) for p in postings} == {
        ("CN-2026-0001", "LL-2026-0007", "credit_note", "clinic", "2026-10", date(2026, 11, 20), "EUR")
    }


def test_an_accepted_gap_is_carried_and_unbilled_also_for_nothing() -> None:
    gap = Block(Kind.RECORDS, ("attempts gw-1", "3", "4"), "2 missing", ("bank",), records=2, cost=D("0.5"))
    accepted = accept(gap, "2026-10", "EUR", "lost disk", "ops", datetime(2026, 11, 4, tzinfo=UTC))
    for cost, stated in ((D("0.5"), "0.50"), (D(0), "0.00")):
        postings = acceptance_postings(replace(accepted, cost=cost), "ab")
        assert [(p.entry, p.account, str(p.debit), str(p.credit), p.item) for p in postings] == [
            (1, CARRIED, stated, "0.00", "records"),
            (2, UNBILLED, "0.00", stated, "records"),
        ]
        assert {(p.document, p.kind, p.tenant, p.billing_month, p.booked_on, p.invoice) for p in postings} == {
            (accepted.number, "acceptance", PROVIDER, "2026-10", date(2026, 11, 4), "")
        }
        assert document_postings(replace(accepted, cost=cost), "ab") == postings


def test_each_posting_is_chained_to_the_one_before_by_what_it_says(cost_plus: Invoice) -> None:
    postings = invoice_postings(cost_plus, "ab")
    assert [p.previous_hash for p in postings] == ["ab", *(p.hash for p in postings[:-1])]
    for posting in postings:
        fields = {name: str(getattr(posting, name)) for name in ("debit", "credit", "booked_on")} | {
            name: getattr(posting, name)
            for name in ("document", "entry", "kind", "account", "line", "item", "tenant", "billing_month", "invoice", "currency", "previous_hash")
        }  # fmt: skip
        said = fields | {"hash": "", "rate": None if posting.rate is None else str(posting.rate)}
        text = json.dumps(said, sort_keys=True, separators=(",", ":"))
        assert posting.hash == hashlib.sha256(f"{posting.previous_hash}\n{text}".encode()).hexdigest()
    (group,) = cost_plus.taxes
    longer = replace(cost_plus, taxes=(replace(group, rate=D("0.1900")),), gross=cost_plus.gross.quantize(D("1e-9")))
    assert [p.hash for p in invoice_postings(longer, "ab")] == [p.hash for p in postings]


def test_what_is_nothing_has_no_posting_and_what_does_not_balance_is_refused(cost_plus: Invoice) -> None:
    first, *rest = cost_plus.lines
    free = replace(first, amount=D(0))
    (group,) = cost_plus.taxes
    less = cost_plus.gross - first.amount
    postings = invoice_postings(replace(cost_plus, lines=(free, *rest), gross=less), FIRST)
    assert [(p.entry, p.line) for p in postings] == [(1, None), (2, 2), (3, 3), (4, 4), (5, 5), (6, None)]
    nothing = replace(cost_plus, lines=(free,), taxes=(replace(group, amount=D(0)),), gross=D(0))
    assert invoice_postings(nothing, FIRST) == ()
    with pytest.raises(PostingInvalid, match=r"debits and credits differ by {'EUR': Decimal\('0.01'\)}"):
        invoice_postings(replace(cost_plus, gross=cost_plus.gross + D("0.01")), FIRST)
    note = voided(cost_plus)
    untaxed = replace(note, taxes=(replace(group, amount=D(0)),), gross=note.net)
    assert [p.account for p in credit_note_postings(untaxed, FIRST)] == [RECEIVABLE, *[REVENUE] * 5]


def test_sums_and_faults_come_in_order(cost_plus: Invoice) -> None:
    postings = invoice_postings(cost_plus, FIRST)
    abroad = [replace(p, currency="CHF") for p in postings[:2]]
    assert list(balance([*postings, *abroad]).items()) == [("CHF", D("57.77")), ("EUR", D(0))]
    assert posting_faults(postings[:1], [replace(postings[1], entry=8)]) == [
        "posting 1 is missing",
        "posting 8 does not follow from the document",
    ]


# public report getlago/lago-api#5653: voids and credits interacted, and did not net to nothing
def test_a_voided_invoice_nets_to_nothing_by_account_and_item(cost_plus: Invoice) -> None:
    note = voided(cost_plus)
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


@pytest.mark.parametrize("gone", [{"number": None}, {"issued_on": None}, {"number": None, "issued_on": None}])
def test_a_draft_is_not_posted(per_token: Invoice, cost_plus: Invoice, gone: dict[str, None]) -> None:
    with pytest.raises(PostingInvalid, match="could not post shop's 2026-10: it is not issued"):
        invoice_postings(per_token, FIRST)
    with pytest.raises(PostingInvalid, match="could not post clinic's 2026-10: it is not issued"):
        invoice_postings(replace(cost_plus, **gone), FIRST)  # type: ignore[arg-type]
    with pytest.raises(PostingInvalid, match="could not post the credit note on LL-2026-0007"):
        credit_note_postings(replace(voided(cost_plus), **gone), FIRST)  # type: ignore[arg-type]
    draft = draft_credit_note(cost_plus, whole(cost_plus), "void", cutoff=cost_plus.cutoff)
    with pytest.raises(PostingInvalid, match="could not post the credit note on LL-2026-0007"):
        credit_note_postings(draft, FIRST)

"""Credit notes: their own numbers, the invoice's prices and rates, and never more back than was charged."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.errors import CreditInvalid
from billing.exact.money import total
from billing.invoice.credit import (
    Credited,
    CreditNote,
    check_credited,
    draft_credit_note,
    issue_credit_note,
    spread,
    whole,
)
from billing.invoice.invoice import Invoice, issue_invoice
from billing.invoice.lines import tax_groups

D = Decimal
DAY = date(2026, 11, 20)


def credit(invoice: Invoice, lines: dict[int, Credited], earlier: list[CreditNote], rank: int = 1) -> CreditNote:
    draft = draft_credit_note(invoice, lines, "goodwill", earlier=earlier, cutoff=invoice.cutoff)
    return issue_credit_note(draft, "CN", rank, DAY)


def test_a_note_is_numbered_in_its_own_series_and_names_its_invoice(cost_plus: Invoice) -> None:
    draft = draft_credit_note(cost_plus, spread(cost_plus, D("20"), []), "dispute", cutoff=cost_plus.cutoff)
    assert (draft.number, draft.issued_on, draft.content_hash) == (None, None, None)
    note = issue_credit_note(draft, "CN", 3, DAY)
    assert (note.number, note.invoice, note.invoice_issued_on, note.invoice_hash) == (
        "CN-2026-0003", "LL-2026-0007", date(2026, 11, 4), cost_plus.content_hash,
    )  # fmt: skip
    assert (note.net, note.tax, note.gross) == (D("20.00"), D("3.80"), D("23.80"))
    assert note.remaining_gross == cost_plus.gross - D("23.80")
    with pytest.raises(FrozenInstanceError):
        note.gross = D(1)  # type: ignore[misc]


# public report getlago/lago-api#2643: tax of credit notes line by line exceeded the tax of the invoice by a cent
def test_four_notes_give_back_the_tax_of_the_invoice_and_no_cent_more(cost_plus: Invoice) -> None:
    amounts = ("68.33", "68.33", "57.50", "85.00")
    lines = tuple(
        replace(
            cost_plus.lines[0], position=n, exact=D(a), amount=D(a), quantity=D(a), unit_price=D(1), tax_rate=D("0.2")
        )
        for n, a in enumerate(amounts, start=1)
    )
    taxes = tax_groups(lines, "EUR")
    draft = replace(
        cost_plus, state="draft", number=None, issued_on=None, due_on=None, content_hash=None, lines=lines, taxes=taxes,
        net=D("279.16"), tax=D("55.83"), gross=D("334.99"), due=D("334.99"),
    )  # fmt: skip
    invoice = issue_invoice(draft, "LL", 1, date(2026, 11, 4))
    notes: list[CreditNote] = []
    for line in lines:
        notes.append(credit(invoice, {line.position: Credited(line.amount)}, notes, line.position))
    assert [str(note.tax) for note in notes] == ["13.66", "13.67", "11.50", "17.00"]
    assert (total(n.gross for n in notes), notes[-1].remaining_gross) == (invoice.gross, D("0.00"))


@given(st.lists(st.integers(1, 30_000), max_size=8), st.sampled_from(["0", "0.077", "0.19", "0.2"]))
def test_whatever_was_credited_before_the_rest_voids_the_invoice_exactly(
    cost_plus: Invoice, cents: list[int], rate: str
) -> None:
    lines = tuple(replace(line, tax_rate=D(rate)) for line in cost_plus.lines)
    taxes = tax_groups(lines, "EUR")
    tax = total(group.amount for group in taxes)
    open_ = replace(cost_plus, state="draft", number=None, issued_on=None, due_on=None, content_hash=None, lines=lines)
    gross = cost_plus.net + tax
    invoice = issue_invoice(replace(open_, taxes=taxes, tax=tax, gross=gross, due=gross), "LL", 1, date(2026, 11, 4))
    notes: list[CreditNote] = []
    for amount in cents:
        left = invoice.net - total(note.net for note in notes)
        if D(amount).scaleb(-2) < left:
            notes.append(credit(invoice, spread(invoice, D(amount).scaleb(-2), notes), notes))
            assert total(n.gross for n in notes) + notes[-1].remaining_gross == invoice.gross
    notes.append(credit(invoice, whole(invoice, notes), notes))
    check_credited(invoice, notes)
    assert notes[-1].remaining_gross == 0
    assert [total(getattr(n, name) for n in notes) for name in ("net", "tax", "gross")] == [
        invoice.net, invoice.tax, invoice.gross,
    ]  # fmt: skip


def test_more_than_was_charged_is_refused_per_line_and_in_sum(cost_plus: Invoice) -> None:
    base = cost_plus.lines[0].amount
    with pytest.raises(CreditInvalid, match=rf"line 1 charged {base}, {base + 1} would be credited"):
        credit(cost_plus, {1: Credited(base + 1)}, [])
    with pytest.raises(CreditInvalid, match=r"line 3 charged -30\.40, 5 would be credited"):
        credit(cost_plus, {1: Credited(D(9)), 3: Credited(D(5))}, [])
    charging = {line.position: Credited(line.amount) for line in cost_plus.lines if line.amount > 0}
    with pytest.raises(CreditInvalid, match=r"its net amount is 179\.46, 209\.86 would be credited"):
        credit(cost_plus, charging, [])
    with pytest.raises(CreditInvalid, match=r"179\.46 net is left"):
        spread(cost_plus, D("179.47"), [])
    first = credit(cost_plus, whole(cost_plus), [])
    with pytest.raises(CreditInvalid, match=r"0\.00 net is left"):
        spread(cost_plus, D("0.01"), [first])


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ({99: Credited(D(1))}, "it has no line 99"),
        ({1: Credited(D("0.001"))}, "parts of a minor unit"),
        ({3: Credited(D(-1))}, "it takes nothing off"),
        ({}, "it takes nothing off"),
    ],
)
def test_what_is_no_credit_is_refused(cost_plus: Invoice, lines: dict[int, Credited], says: str) -> None:
    with pytest.raises(CreditInvalid, match=says):
        credit(cost_plus, lines, [])


def test_a_draft_cannot_be_credited_nor_a_note_be_issued_twice_or_before_its_invoice(
    cost_plus: Invoice, per_token: Invoice
) -> None:
    with pytest.raises(CreditInvalid, match="only an issued invoice"):
        credit(per_token, {1: Credited(D(1))}, [])
    note = credit(cost_plus, spread(cost_plus, D(1)), [])
    with pytest.raises(CreditInvalid, match="it is issued already"):
        issue_credit_note(note, "CN", 2, DAY)
    draft = replace(note, state="draft", number=None, issued_on=None, content_hash=None)
    with pytest.raises(CreditInvalid, match="the invoice is of 2026-11-04"):
        issue_credit_note(draft, "CN", 2, date(2026, 11, 3))


def test_a_changed_note_and_one_of_another_invoice_are_found_out(cost_plus: Invoice) -> None:
    note = credit(cost_plus, spread(cost_plus, D(1)), [])
    with pytest.raises(CreditInvalid, match="changed after issue"):
        replace(note, explanation="more").check()
    with pytest.raises(CreditInvalid, match="gross amount is"):
        replace(note, gross=D(2)).check()
    with pytest.raises(CreditInvalid, match="refers to another document"):
        check_credited(cost_plus, [replace(note, invoice_hash="0" * 64)])

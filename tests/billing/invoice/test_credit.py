"""Credit notes: their own numbers, the invoice's prices and rates, and never more back than was charged."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, replace
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.errors import CreditInvalid
from billing.exact.money import round_currency, total
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
from billing.invoice.lines import Line, tax_groups
from billing.invoice.prices import Exchange

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


def issued_with(invoice: Invoice, lines: list[Line], **said: Any) -> Invoice:
    """The invoice issued anew with other lines, its sums made to agree."""
    placed = tuple(replace(line, position=rank) for rank, line in enumerate(lines, start=1))
    taxes = tax_groups(placed, invoice.currency)
    net, tax = total(line.amount for line in placed), total(group.amount for group in taxes)
    open_: dict[str, Any] = {"state": "draft", "number": None, "issued_on": None, "due_on": None, "content_hash": None}
    sums: dict[str, Any] = {
        "lines": placed,
        "taxes": taxes,
        "net": net,
        "tax": tax,
        "gross": net + tax,
        "due": net + tax,
    }
    return issue_invoice(replace(invoice, **open_, **sums, **said), "LL", 1, date(2026, 11, 4))


def test_a_note_says_of_its_invoice_what_that_says_of_itself(cost_plus: Invoice) -> None:
    lines = [replace(line, gpu_type=gpu, note=note) for line, gpu, note in zip(
        cost_plus.lines, ("h200", "h200", None, None, None), ("a", "5 % of cost", "b", None, None), strict=True)]  # fmt: skip
    rate = Exchange("USD", "EUR", D("0.9"), date(2026, 10, 30), "ECB")
    invoice = issued_with(
        cost_plus, lines, purchase_order="PO-1", tax_note="taxed", price_currency="USD", exchange=rate
    )
    draft = draft_credit_note(
        invoice, whole(invoice), "dispute", cutoff=invoice.cutoff, explanation="as agreed", ledger_hash="ab"
    )
    note = issue_credit_note(draft, "CN", 1, date(2026, 11, 4))
    note.check()
    same = {field.name for field in fields(CreditNote)} & {field.name for field in fields(Invoice)}
    own = {"schema", "number", "lines", "tax_in_price_currency", "ledger_hash", "content_hash"}
    assert {name: getattr(note, name) for name in same - own} == {name: getattr(invoice, name) for name in same - own}
    assert (note.explanation, note.ledger_hash, note.agreed) == ("as agreed", "ab", False)
    assert replace(note, ledger_hash=None).agreed
    assert note.tax_in_price_currency == round_currency(invoice.tax / D("0.9"), "USD")
    for rank, (line, theirs) in enumerate(zip(note.lines, invoice.lines, strict=True), start=1):
        shared = ("position", "kind", "description", "amount", "quantity", "unit", "unit_price", "price_currency", "exchange_rate", "tax_rate")  # fmt: skip
        assert [getattr(line, name) for name in shared] == [getattr(theirs, name) for name in shared]
        assert (line.position, line.line, line.charged, line.credited_before) == (rank, rank, theirs.amount, D(0))
    assert [line.note for line in note.lines] == ["a, h200", "h200", "b", None, None]


def test_lines_are_those_that_are_credited_in_their_order_and_know_what_went_before(cost_plus: Invoice) -> None:
    first = credit(cost_plus, {2: Credited(D("1.25")), 1: Credited(D(2)), 5: Credited(D(0))}, [])
    second = credit(cost_plus, {1: Credited(D(3))}, [first], 2)
    assert [(line.position, line.line, line.credited_before) for line in first.lines] == [(1, 1, D(0)), (2, 2, D(0))]
    assert [(line.position, line.line, line.credited_before) for line in second.lines] == [(1, 1, D(2))]
    assert (second.credited_gross, second.remaining_gross) == (
        first.gross,
        cost_plus.gross - first.gross - second.gross,
    )
    left = whole(cost_plus, [first, second])
    assert {position: what.amount for position, what in left.items()} == {
        1: cost_plus.lines[0].amount - 5, 2: cost_plus.lines[1].amount - D("1.25"),
        3: cost_plus.lines[2].amount, 4: cost_plus.lines[3].amount, 5: cost_plus.lines[4].amount,
    }  # fmt: skip
    quantities = {position: what.quantity for position, what in left.items()}
    assert quantities == {1: None, 2: None} | {n: cost_plus.lines[n - 1].quantity for n in (3, 4, 5)}


def test_each_rate_gives_its_own_tax_back(cost_plus: Invoice) -> None:
    rates = ("0.19", "0.07", "0", "0.07", "0.19")
    amounts = ("100.00", "10.10", "5.00", "0.07", "3.33")
    lines = [
        replace(line, tax_rate=D(rate), quantity=D(a), unit_price=D(1), exact=D(a), amount=D(a))
        for line, rate, a in zip(cost_plus.lines, rates, amounts, strict=True)
    ]
    invoice = issued_with(cost_plus, lines)
    assert [(group.rate, group.base, group.amount) for group in invoice.taxes] == [
        (D(0), D("5.00"), D("0.00")), (D("0.07"), D("10.17"), D("0.71")), (D("0.19"), D("103.33"), D("19.63")),
    ]  # fmt: skip
    first = credit(invoice, {2: Credited(D("10.10")), 5: Credited(D("1.00"))}, [])
    assert [(group.rate, group.base, group.amount) for group in first.taxes] == [
        (D("0.07"), D("10.10"), D("0.71")), (D("0.19"), D("1.00"), D("0.19")),
    ]  # fmt: skip
    assert (first.net, first.tax, first.gross) == (D("11.10"), D("0.90"), D("12.00"))
    rest = credit(invoice, whole(invoice, [first]), [first], 2)
    assert [(group.rate, group.amount) for group in rest.taxes] == [
        (D(0), D("0.00")), (D("0.07"), D("0.00")), (D("0.19"), D("19.44")),
    ]  # fmt: skip
    assert rest.remaining_gross == 0


def test_notes_take_off_no_more_tax_and_gross_than_was_charged(cost_plus: Invoice) -> None:
    note = credit(cost_plus, whole(cost_plus), [])
    check_credited(cost_plus, [note])
    for name in ("net", "tax", "gross"):
        limit = getattr(cost_plus, name)
        more: dict[str, Any] = {name: limit + D("0.01")}
        with pytest.raises(CreditInvalid, match=f"its {name} amount is {limit}, {limit + D('0.01')} would be credited"):
            check_credited(cost_plus, [replace(note, lines=(), **more)])


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
    with pytest.raises(CreditInvalid, match=r"line 1 charged 155\.79, -0\.50 would be credited"):
        credit(cost_plus, {1: Credited(D("-0.50")), 2: Credited(D(9))}, [])
    assert spread(cost_plus, D("0.01"), []) == {1: Credited(D("0.01"))}
    charging = {line.position: Credited(line.amount) for line in cost_plus.lines if line.amount > 0}
    with pytest.raises(CreditInvalid, match=r"its net amount is 179\.46, 209\.86 would be credited"):
        credit(cost_plus, charging, [])
    for asked in ("179.47", "0", "-1"):
        with pytest.raises(CreditInvalid, match=rf"could not credit {asked} of .*: 179\.46 net is left"):
            spread(cost_plus, D(asked), [])
    assert total(part.amount for part in spread(cost_plus, cost_plus.net, []).values()) == cost_plus.net
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
    for unissued in (
        per_token, replace(cost_plus, state="draft"), replace(cost_plus, number=None),
        replace(cost_plus, issued_on=None), replace(cost_plus, content_hash=None),
    ):  # fmt: skip
        with pytest.raises(CreditInvalid, match="only an issued invoice"):
            credit(unissued, {1: Credited(D(1))}, [])
    note = credit(cost_plus, spread(cost_plus, D(1)), [])
    with pytest.raises(CreditInvalid, match="it is issued already"):
        issue_credit_note(note, "CN", 2, DAY)
    draft = replace(note, state="draft", number=None, issued_on=None, content_hash=None)
    with pytest.raises(CreditInvalid, match="the invoice is of 2026-11-04"):
        issue_credit_note(draft, "CN", 2, date(2026, 11, 3))
    with pytest.raises(CreditInvalid, match=r"\(draft\) on LL-2026-0007 as 0 on .*numbers start at 1"):
        issue_credit_note(draft, "CN", 0, DAY)
    assert issue_credit_note(draft, "CN", 1, date(2026, 11, 4)).issued_on == cost_plus.issued_on


def test_a_changed_note_and_one_of_another_invoice_are_found_out(cost_plus: Invoice) -> None:
    note = credit(cost_plus, spread(cost_plus, D(1)), [])
    with pytest.raises(CreditInvalid, match="changed after issue"):
        replace(note, explanation="more").check()
    with pytest.raises(CreditInvalid, match="gross amount is"):
        replace(note, gross=D(2)).check()
    note.check()
    with pytest.raises(CreditInvalid, match=r"tax in EUR is 0\.19, its parts come to None"):
        replace(note, tax_in_price_currency=D("0.19")).check()
    wrong: list[dict[str, Any]] = [{"net": D(2)}, {"tax": D(2)}, {"remaining_gross": D(2)}]
    for change in wrong:
        with pytest.raises(CreditInvalid, match=r"could not accept credit note CN-2026-0001: .* its parts come to"):
            replace(note, **change).check()
    half: list[dict[str, Any]] = [{"number": None}, {"issued_on": None}, {"content_hash": None}, {"state": "draft"}]
    for gone in half:
        with pytest.raises(CreditInvalid, match="belong to issued credit notes"):
            replace(note, **gone).check()
    with pytest.raises(CreditInvalid, match="refers to another document"):
        credit(cost_plus, {3: Credited(D(-1))}, [replace(note, invoice_hash="0" * 64)])
    with pytest.raises(CreditInvalid, match="credit note CN-2026-0001 refers to another document"):
        check_credited(cost_plus, [replace(note, invoice="LL-2026-0008")])
    with pytest.raises(CreditInvalid, match="refers to another document"):
        check_credited(cost_plus, [replace(note, invoice_hash="0" * 64)])

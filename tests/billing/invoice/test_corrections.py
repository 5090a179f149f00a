"""What is learned after issue: credited when it lowers, corrected on the next invoice when it raises, exact either way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.errors import InvoiceInvalid
from billing.exact.money import total
from billing.invoice.corrections import correction_lines, difference, proposed_credit_notes
from billing.invoice.credit import CreditNote, Reason, check_credited, draft_credit_note, issue_credit_note, spread
from billing.invoice.invoice import Invoice, issue_invoice
from billing.invoice.lines import Line, tax_groups
from billing.invoice.plans import ChargeKind
from catalog.model import Tenant

D = Decimal


def with_lines(draft: Invoice, lines: Sequence[Line], at: datetime | None = None) -> Invoice:
    """The draft with other lines, its sums made to agree."""
    placed = tuple(replace(line, position=rank) for rank, line in enumerate(lines, start=1))
    taxes = tax_groups(placed, draft.currency)
    net, tax = total(line.amount for line in placed), total(group.amount for group in taxes)
    return replace(
        draft, lines=placed, taxes=taxes, net=net, tax=tax, gross=net + tax, due=net + tax, cutoff=at or draft.cutoff
    )


def charge(kind: ChargeKind, cents: int, template: Line) -> Line:
    amount = D(cents).scaleb(-2)
    return replace(template, kind=kind, quantity=amount, unit_price=D(1), exact=amount, amount=amount)


KINDS = (ChargeKind.BASE, ChargeKind.LORA, ChargeKind.COLD, ChargeKind.MARGIN)
CENTS = st.integers(0, 20_000)


@st.composite
def months(draw: st.DrawFn) -> list[tuple[ChargeKind, int]]:
    """The lines of a month as kinds and cents: some may be missing, the cache credit may be there, the sum is not negative."""
    cents = [(kind, draw(CENTS)) for kind in KINDS if draw(st.booleans())]
    if credit := draw(st.integers(0, sum(amount for _, amount in cents))):
        cents.append((ChargeKind.CACHE, -credit))
    return cents


@given(st.lists(months(), min_size=2, max_size=6), st.sampled_from(["0", "0.19", "0.2", "0.077"]))
def test_after_any_history_what_stands_is_what_is_known_to_the_cent(
    per_token: Invoice, history: list[list[tuple[ChargeKind, int]]], rate: str
) -> None:
    template = replace(per_token.lines[0], tax_rate=D(rate))
    first, *later_facts = (
        with_lines(per_token, [charge(kind, cents, template) for kind, cents in month]) for month in history
    )
    original = issue_invoice(first, "LL", 1, date(2026, 11, 4))
    later: list[Invoice] = []
    notes: list[CreditNote] = []
    for round_, known in enumerate(later_facts, start=2):
        at = per_token.cutoff + timedelta(days=round_)
        found = difference(original, replace(known, cutoff=at), later, notes)
        fresh = [
            issue_credit_note(draft, "CN", round_, date(2026, 12, 1))
            for draft in proposed_credit_notes(found, "usage_corrected")
        ]
        notes += fresh
        raised = correction_lines(found)
        assert {"none": (0, 0), "credit": (bool(fresh), 0), "correction": (0, bool(raised))}[found.outcome] == (
            bool(fresh),
            bool(raised),
        )
        assert total(line.amount for line in raised) == max(found.net, found.nothing).value
        if raised:
            later.append(issue_invoice(with_lines(per_token, raised), "LL", round_, date(2026, 12, 1)))
        for invoice in (original, *later):
            check_credited(invoice, [note for note in notes if note.invoice == invoice.number])
        stands = total(i.gross for i in (original, *later)) - total(note.gross for note in notes)
        if not later:
            assert stands == known.gross
        assert not difference(original, known, later, notes).net


GIFTS = st.tuples(st.sampled_from(["goodwill", "dispute"]), st.integers(1, 9_000))


@given(st.lists(st.tuples(months(), st.none() | GIFTS), min_size=2, max_size=6))
def test_what_was_agreed_is_neither_charged_again_nor_given_twice(
    per_token: Invoice, history: list[tuple[list[tuple[ChargeKind, int]], tuple[Reason, int] | None]]
) -> None:
    template = replace(per_token.lines[0], tax_rate=D("0.19"))
    month = [(charge(ChargeKind.BASE, 10_000, template), None)]
    original = issue_invoice(with_lines(per_token, [line for line, _ in month]), "LL", 1, date(2026, 11, 4))
    later: list[Invoice] = []
    notes: list[CreditNote] = []
    given_: dict[Reason, Decimal] = {"goodwill": D(0), "dispute": D(0)}
    for round_, (facts, gift) in enumerate(history, start=2):
        known = with_lines(per_token, [charge(kind, cents, template) for kind, cents in facts])
        found = difference(original, known, later, notes)
        drafts = list(proposed_credit_notes(found, "usage_corrected"))
        if raised := correction_lines(found):
            later.append(issue_invoice(with_lines(per_token, raised), "LL", round_, date(2026, 12, 1)))
        left = original.net - total(n.net for n in (*notes, *drafts) if n.invoice == original.number)
        if gift and (net := min(D(gift[1]).scaleb(-2), left)):
            own = [note for note in (*notes, *drafts) if note.invoice == original.number]
            given_[gift[0]] += net
            drafts.append(
                draft_credit_note(original, spread(original, net, own), gift[0], earlier=own, cutoff=known.cutoff)
            )
        notes += [issue_credit_note(draft, "CN", round_, date(2026, 12, 1)) for draft in drafts]
        for invoice in (original, *later):
            check_credited(invoice, [note for note in notes if note.invoice == invoice.number])
        again = difference(original, known, later, notes)
        assert (again.outcome, again.net) == ("none", again.nothing)
        stands = total(i.net for i in (original, *later)) - total(note.net for note in notes)
        assert max(known.net - total(given_.values()), D(0)) <= stands <= known.net
        if not given_["dispute"]:
            assert stands == max(known.net - given_["goodwill"], D(0))


def test_late_usage_is_a_correction_on_the_next_invoice_at_the_prices_of_its_month(
    cost_plus: Invoice, draft: Callable[..., Invoice], clinic: Tenant
) -> None:
    base, *rest = cost_plus.lines
    more = replace(
        base, quantity=base.quantity + D("0.01"), exact=base.exact + D("3.6"), amount=base.amount + D("3.60")
    )
    found = difference(cost_plus, with_lines(draft(clinic), [more, *rest]))
    (line,) = correction_lines(found)
    assert (line.kind, line.quantity, line.unit_price, line.exact, line.amount) == (
        ChargeKind.CORRECTION, D("0.01"), D(360), D("3.6"), D("3.60"),
    )  # fmt: skip
    assert line.corrects is not None
    assert (line.corrects.number, line.corrects.line, line.corrects.item) == ("LL-2026-0007", 1, ChargeKind.BASE)
    following = draft(clinic, corrections=[line])
    assert following.net == cost_plus.net + D("3.60")
    assert following.lines[-1].position == len(cost_plus.lines) + 1
    assert following.unit_price == cost_plus.unit_price
    assert any("earlier months" in note for note in following.notes)


def test_a_top_up_that_shrinks_as_usage_grows_calls_for_nothing(per_token: Invoice) -> None:
    template = per_token.lines[0]
    original = with_lines(
        per_token, [charge(ChargeKind.INPUT, 1000, template), charge(ChargeKind.MINIMUM, 1500, template)]
    )
    known = with_lines(
        per_token, [charge(ChargeKind.INPUT, 1400, template), charge(ChargeKind.MINIMUM, 1100, template)]
    )
    found = difference(issue_invoice(original, "LL", 1, date(2026, 11, 4)), known)
    assert (found.outcome, correction_lines(found), proposed_credit_notes(found, "usage_corrected")) == ("none", (), ())
    assert [change.amount.value for change in found.changes] == [D("4.00"), D("-4.00")]


def test_a_wrong_price_credits_the_difference_of_the_line_not_the_line(
    cost_plus: Invoice, draft: Callable[..., Invoice], clinic: Tenant
) -> None:
    cheaper = [
        replace(line, unit_price=D(300), exact=line.quantity * 300, amount=round(line.quantity * 300, 2))
        if line.unit == "GPU-hour"
        else line
        for line in cost_plus.lines
    ]
    (note,) = proposed_credit_notes(difference(cost_plus, with_lines(draft(clinic), cheaper)), "price_corrected")
    assert len(note.lines) == sum(line.unit == "GPU-hour" for line in cost_plus.lines)
    assert {line.unit_price for line in note.lines} == {D(360)}
    assert {line.quantity for line in note.lines} == {None}
    assert note.remaining_gross == with_lines(draft(clinic), cheaper).gross


def test_corrections_of_an_earlier_month_do_not_enter_the_comparison(
    cost_plus: Invoice, draft: Callable[..., Invoice], clinic: Tenant
) -> None:
    base, *rest = cost_plus.lines
    more = with_lines(draft(clinic), [replace(base, amount=base.amount + 1), *rest])
    raised = correction_lines(difference(cost_plus, more))
    carrying = issue_invoice(draft(clinic, corrections=raised), "LL", 8, date(2026, 12, 1))
    assert difference(carrying, draft(clinic)).outcome == "none"


def test_two_different_months_are_not_compared(
    cost_plus: Invoice, per_token: Invoice, draft: Callable[..., Invoice], clinic: Tenant
) -> None:
    with pytest.raises(InvoiceInvalid, match="not the same"):
        difference(cost_plus, per_token)
    with pytest.raises(InvoiceInvalid, match="it was not issued"):
        difference(per_token, per_token)
    with pytest.raises(InvoiceInvalid, match="corrects no invoice in that currency"):
        draft(clinic, corrections=[cost_plus.lines[0]])
    assert cost_plus.cutoff == datetime(2026, 11, 3, 6, tzinfo=UTC)


def base_month(draft: Invoice, cents: int, rate: str = "0.19", day: int = 1) -> Invoice:
    """The draft as a month of one line, known some days after the original."""
    template = replace(draft.lines[0], tax_rate=D(rate))
    return with_lines(draft, [charge(ChargeKind.BASE, cents, template)], draft.cutoff + timedelta(days=day))


def corrected(original: Invoice, known: Invoice, later: Sequence[Invoice], number: int, day: date) -> Invoice:
    """The invoice that carries what raises the original to what is known."""
    return issue_invoice(with_lines(known, correction_lines(difference(original, known, later))), "LL", number, day)


def test_a_correction_is_taxed_as_its_month_was_and_not_as_today(per_token: Invoice) -> None:
    original = issue_invoice(base_month(per_token, 10_000), "LL", 1, date(2026, 11, 4))
    (line,) = correction_lines(difference(original, base_month(per_token, 12_500, rate="0.21")))
    assert (line.amount, line.tax_rate, line.note) == (D("25.00"), D("0.19"), "2026-10, invoice LL-2026-0001")
    template = replace(per_token.lines[0], tax_rate=D("0.21"))
    lines = [charge(kind, cents, template) for kind, cents in ((ChargeKind.BASE, 10_000), (ChargeKind.LORA, 300))]
    (new,) = correction_lines(difference(original, with_lines(per_token, lines)))
    assert (new.amount, new.tax_rate, new.quantity, new.unit_price) == (D("3.00"), D("0.19"), D("3"), D(1))
    assert new.corrects is not None
    assert (new.corrects.line, new.corrects.item, new.corrects.number) == (None, ChargeKind.LORA, "LL-2026-0001")


@pytest.mark.parametrize("days", [(1, 2), (1, 1)], ids=["by day", "of one day by number"])
@pytest.mark.parametrize("turned", [False, True])
def test_the_newest_correction_is_credited_first_however_they_are_given(
    per_token: Invoice, turned: bool, days: tuple[int, int]
) -> None:
    original = issue_invoice(base_month(per_token, 10_000), "LL", 1, date(2026, 11, 4))
    first = corrected(original, base_month(per_token, 12_000), [], 2, date(2026, 12, days[0]))
    second = corrected(original, base_month(per_token, 15_000), [first], 3, date(2026, 12, days[1]))
    later = [second, first] if turned else [first, second]
    found = difference(original, base_month(per_token, 11_500), later)
    notes = proposed_credit_notes(found, "usage_corrected")
    assert [(note.invoice, note.net) for note in notes] == [("LL-2026-0003", D("30.00")), ("LL-2026-0002", D("5.00"))]
    assert [stake.number for stake in found.changes[0].stakes] == ["LL-2026-0001", "LL-2026-0002", "LL-2026-0003"]
    assert found.changes[0].standing.value == D("150.00")


def test_a_correction_of_another_invoice_says_nothing_of_this_one(per_token: Invoice) -> None:
    original = issue_invoice(base_month(per_token, 10_000), "LL", 1, date(2026, 11, 4))
    other = issue_invoice(base_month(per_token, 10_000), "LL", 9, date(2026, 11, 4))
    carrying = corrected(other, base_month(per_token, 12_000), [], 10, date(2026, 12, 1))
    found = difference(original, base_month(per_token, 10_000), [carrying])
    assert (found.outcome, [stake.number for stake in found.changes[0].stakes]) == ("none", ["LL-2026-0001"])
    both = corrected(original, base_month(per_token, 12_000), [], 11, date(2026, 12, 1))
    assert difference(original, base_month(per_token, 12_000), [carrying, both]).outcome == "none"


def test_what_facts_took_off_may_be_charged_again_and_what_was_agreed_may_not(per_token: Invoice) -> None:
    original = issue_invoice(base_month(per_token, 10_000), "LL", 1, date(2026, 11, 4))
    (draft,) = proposed_credit_notes(difference(original, base_month(per_token, 8_000)), "usage_corrected", "recount")
    fact = issue_credit_note(draft, "CN", 1, date(2026, 12, 1))
    assert (fact.net, fact.agreed, fact.explanation, fact.lines[0].quantity) == (D("20.00"), False, "recount", D("20"))
    gift = draft_credit_note(
        original, spread(original, D("7.00"), [fact]), "goodwill", earlier=[fact], cutoff=original.cutoff
    )
    notes = [fact, issue_credit_note(gift, "CN", 2, date(2026, 12, 1))]
    (change,) = difference(original, base_month(per_token, 10_000), [], notes).changes
    (stake,) = change.stakes
    assert (stake.credited.value, stake.agreed.value, stake.amount.value) == (D("27.00"), D("7.00"), D("73.00"))
    assert (change.agreed.value, change.amount.value, change.quantity) == (D("7.00"), D("20.00"), None)
    assert difference(original, base_month(per_token, 10_000), [], notes).net.value == D("20.00")
    (only,) = difference(original, base_month(per_token, 11_000), [], [replace(notes[1], lines=gift.lines)]).changes
    assert only.quantity == D("10")


def test_an_agreed_credit_because_something_was_wrong_counts_against_what_facts_take_off_and_a_gift_does_not(
    per_token: Invoice,
) -> None:
    original = issue_invoice(base_month(per_token, 10_000), "LL", 1, date(2026, 11, 4))
    nets: dict[Reason, str] = {"dispute": "-20.00", "goodwill": "-30.00", "void": "-30.00", "duplicate": "-20.00"}
    for reason, net in nets.items():
        draft = draft_credit_note(original, spread(original, D("10.00"), []), reason, cutoff=original.cutoff)
        note = issue_credit_note(draft, "CN", 1, date(2026, 12, 1))
        assert difference(original, base_month(per_token, 7_000), [], [note]).net.value == D(net)
    draft = draft_credit_note(original, spread(original, D("60.00"), []), "goodwill", cutoff=original.cutoff)
    note = issue_credit_note(draft, "CN", 1, date(2026, 12, 1))
    assert difference(original, base_month(per_token, 3_000), [], [note]).net.value == D("-40.00")


def test_months_that_differ_in_tenant_month_currency_or_zone_are_not_compared(per_token: Invoice) -> None:
    original = issue_invoice(base_month(per_token, 10_000), "LL", 1, date(2026, 11, 4))
    for other in ({"tenant": "x"}, {"month": "2026-11"}, {"currency": "CHF"}, {"time_zone": "UTC"}):
        with pytest.raises(InvoiceInvalid, match="not the same"):
            difference(original, replace(base_month(per_token, 1), **other))  # type: ignore[arg-type]
    for unissued in (replace(original, state="draft"), replace(original, number=None)):
        with pytest.raises(InvoiceInvalid, match="it was not issued"):
            difference(unissued, base_month(per_token, 1))

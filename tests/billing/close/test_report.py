"""The close report: sums of its documents, who waits, what changed, and a fingerprint that lasts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

from billing.close.blocks import Block, Kind
from billing.close.report import Bill, Change, CloseReport, Late, bill, changes, late_corrections
from billing.invoice.corrections import correction_lines, difference
from billing.invoice.invoice import Invoice
from catalog.model import Tenant

D = Decimal
AT = datetime(2026, 12, 4, tzinfo=UTC)
REPORT = CloseReport(
    month="2026-11", as_of=AT, status="open", closed_at=None, last_month=None, last_close=None, currency="EUR",
    rented_ns=10, missing_ns=0, missing_cost=D(0), unmeasured_attempts=0,
    bills=(), changes=(), findings=(), late=(), gone=(), accepted=(),
)  # fmt: skip


def test_a_document_is_a_line_and_what_it_raises_is_late(
    cost_plus: Invoice, draft: Callable[..., Invoice], clinic: Tenant
) -> None:
    base, *rest = cost_plus.lines
    known = replace(draft(clinic), lines=(replace(base, amount=base.amount + 1), *rest))
    raised = draft(clinic, corrections=correction_lines(difference(cost_plus, known)), previous=cost_plus)
    found = bill(raised)
    assert (found.number, found.net, found.corrections, found.before) == (None, D("180.46"), D("1.00"), D("179.46"))
    assert (found.cost, found.price_currency) == (cost_plus.statement.measured.cost, "EUR")
    late = Late("correction", "clinic", "LL-2026-0007", "2026-10", None, "EUR", D("1.00"))
    assert list(late_corrections([raised, cost_plus])) == [late]


def test_changes_name_each_term_by_its_path_and_who_came_and_went() -> None:
    before = {"a": {"plan": {"kind": "cost_plus", "margin": "0.25"}, "tax_note": None}, "b": {}}
    after = {"a": {"plan": {"kind": "cost_plus", "margin": "0.30"}, "tax_note": "Exempt.", "terms": [1]}, "c": {}}
    assert list(changes("tenant", before, after)) == [
        Change("tenant a", "plan.margin", "0.25", "0.30"),
        Change("tenant a", "tax_note", None, "Exempt."),
        Change("tenant a", "terms", None, "[1]"),
        Change("tenant b", "", "was there", None),
        Change("tenant c", "", None, "is there"),
    ]
    assert list(changes("tenant", before, before)) == []


def test_who_has_an_invoice_does_not_wait_and_drafts_count_in_the_sums() -> None:
    one = Bill("a", "LL-1", "EUR", D("10"), D("1.90"), D("11.90"), D(0), None, D("8"), "EUR")
    bills = (one, replace(one, tenant="b", number=None), replace(one, tenant="c", currency="USD"))
    block = Block(Kind.OPEN, ("x",), "1 attempt", ("a", "b"))
    report = replace(REPORT, bills=bills, findings=(block,))
    assert report.sums == {"EUR": (D("20"), D("23.80")), "USD": (D("10"), D("11.90"))}
    assert report.waiting == {"b": [block]}
    told = report.told()
    assert (told["waiting"], told["findings"][0]["kind"]) == ({"b": [block.id]}, "open")


def test_the_fingerprint_is_of_what_was_found_not_of_when() -> None:
    first = REPORT.told()
    again = replace(REPORT, as_of=AT.replace(day=5)).told()
    assert first["as_of"] != again["as_of"]
    assert first["hash"] == again["hash"] != replace(REPORT, missing_ns=1).told()["hash"]

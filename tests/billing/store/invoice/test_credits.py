"""As issued and as now known: what fell is credited, what rose is corrected on the next invoice, and the ledger says the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from billing.close.postings import owed
from billing.errors import CreditInvalid
from billing.exact.canonical import written
from billing.invoice.credit import Reason
from billing.invoice.explain import explain_request
from billing.invoice.plans import ChargeKind
from billing.store.clickhouse import Ledger
from billing.store.cost.engine_time import write_engine_time
from billing.store.cost.tenant_cost import write_tenant_cost
from billing.store.errors import DocumentMissing
from billing.store.finance import month_window
from billing.store.intake.ingest import ingest
from billing.store.intake.usage import book_lost, book_spans
from billing.store.invoice.credits import Agreed, compare, issue_agreed, issue_proposed, propose
from billing.store.invoice.explain import explain
from billing.store.invoice.invoices import issue_month, issued
from billing.store.invoice.settling import postings
from billing.store.invoice.verify import verify
from catalog.model import Catalog
from telemetry.engine_time import SessionEvent

S = 1_000_000_000
D = Decimal
DECEMBER = datetime(2026, 12, 5, tzinfo=UTC)


def derive(ledger: Ledger, traffic: Any, catalog: Catalog, where: Path, now: datetime, *months: str) -> None:
    ingest(ledger, [traffic.write(where, f"{len(traffic.lines)}.jsonl")], catalog, now)
    for month in months:
        window = month_window(month, catalog)
        book_spans(ledger, *window, catalog, now)
        book_lost(ledger, [], catalog, now)
        write_engine_time(ledger, *window, catalog, now)
        write_tenant_cost(ledger, *window, catalog, now)


def repriced(catalog: Catalog, factor: str) -> Catalog:
    """Another version of the price book, for the same time, with every GPU-hour at `factor` times its price."""
    hours = tuple(
        price.model_copy(update={"per_hour": price.per_hour * D(factor)}) for price in catalog.prices.gpu_hours
    )
    book = catalog.prices.model_copy(update={"gpu_hours": hours, "version": f"times-{factor}"})
    return catalog.model_copy(update={"prices": book})


@pytest.fixture
def october(
    ledger: Ledger, traffic: Any, example: Catalog, ns: Callable[..., int], now: datetime, tmp_path: Path
) -> Ledger:
    """October, closed: two tenants that pay by cost, one of them with attempts of two kinds."""
    t0 = ns(2026, 10, 5, 10)
    traffic.session(SessionEvent.STARTED, t0)
    traffic.serve("clinic", t0, 700_000_000, 50_000_000, adapter="icd10-coder", cold_ns=30_000_000, saved=(50, 5))
    traffic.serve("clinic", t0 + S, 333_333_333)
    traffic.serve("bank", t0 + 2 * S, 400_000_001)
    traffic.session(SessionEvent.STOPPED, t0 + 60 * S)
    derive(ledger, traffic, example, tmp_path, now, "2026-10")
    issue_month(ledger, "2026-10", example, now)
    return ledger


def standing(ledger: Ledger, month: str = "2026-10") -> dict[str, Decimal]:
    rows = ledger.ask(f"SELECT tenant, standing FROM finance_standing WHERE billing_month = '{month}'").rows
    return dict(rows)


def check_books(ledger: Ledger) -> None:
    assert verify(ledger, files=True).faults == []
    gross = ledger.ask("SELECT sum(gross) FROM invoices WHERE status = 'issued'").rows[0][0]
    credited = ledger.ask("SELECT sum(gross) FROM credit_notes").rows[0][0]
    assert owed(postings(ledger)) == {"EUR": gross - credited}


def test_a_price_that_was_too_high_is_proposed_credited_once_and_stands_in_the_ledger(
    october: Ledger, example: Catalog, now: datetime
) -> None:
    before = [written(invoice) for invoice in issued(october, "2026-10")]
    assert compare(october, "LL-2026-0001", example, now).outcome == "none"
    cheaper = repriced(example, "0.5")
    write_tenant_cost(october, *month_window("2026-10", cheaper), cheaper, DECEMBER)

    found = compare(october, "LL-2026-0001", cheaper, DECEMBER)
    assert (found.outcome, found.original.net, found.known.net) == ("credit", D("0.50"), D("0.25"))
    assert [note.number for note in propose(october, "LL-2026-0001", cheaper, DECEMBER, "price_corrected")] == [None]
    assert october.ask("SELECT count() FROM credit_notes").rows == [(0,)]

    (note,) = issue_proposed(october, "LL-2026-0001", cheaper, DECEMBER, "price_corrected", "The old price was wrong.")
    assert (note.number, note.net, note.invoice, note.price_book) == ("CN-2026-0001", D("0.25"), "LL-2026-0001", example.prices.version)  # fmt: skip
    assert issue_proposed(october, "LL-2026-0001", cheaper, DECEMBER, "price_corrected") == []
    assert [written(invoice) for invoice in issued(october, "2026-10")] == before
    assert standing(october)["bank"] == D("0.25") == compare(october, "LL-2026-0001", cheaper, DECEMBER).known.net
    assert october.ask("SELECT number, invoice, reason, net FROM credit_notes").rows == [("CN-2026-0001", "LL-2026-0001", "price_corrected", D("0.25"))]  # fmt: skip
    assert october.ask("SELECT invoice_line, sum(amount) FROM credit_note_lines GROUP BY 1 HAVING sum(amount) != 0").rows != []  # fmt: skip
    check_books(october)


def test_late_usage_is_a_correction_on_the_next_invoice_and_only_once(
    october: Ledger, traffic: Any, example: Catalog, ns: Callable[..., int], tmp_path: Path
) -> None:
    late, november = ns(2026, 10, 9, 10), ns(2026, 11, 3, 10)
    for t0, name, ns_spent in ((late, "late", 200_000_000), (november, "next", 100_000_000)):
        traffic.session(SessionEvent.STARTED, t0, name)
        traffic.serve("bank", t0, ns_spent)
        traffic.session(SessionEvent.STOPPED, t0 + 60 * S, name)
    derive(october, traffic, example, tmp_path, DECEMBER, "2026-10", "2026-11")
    found = compare(october, "LL-2026-0001", example, DECEMBER)
    assert (found.outcome, found.net.value) == ("correction", D("0.25"))
    assert issue_proposed(october, "LL-2026-0001", example, DECEMBER, "usage_corrected") == []

    (invoice,) = issue_month(october, "2026-11", example, DECEMBER)
    corrections = [line for line in invoice.lines if line.kind is ChargeKind.CORRECTION]
    assert sum(line.amount for line in corrections) == D("0.25")
    assert {line.corrects.number for line in corrections if line.corrects} == {"LL-2026-0001"}
    assert compare(october, "LL-2026-0001", example, DECEMBER).outcome == "none"
    assert standing(october)["bank"] == D("0.75")
    assert standing(october, "2026-11") == {"bank": invoice.net - D("0.25")}
    assert issue_month(october, "2026-11", example, DECEMBER) == [invoice]
    check_books(october)


def test_a_plan_that_changed_since_does_not_reach_back(october: Ledger, example: Catalog) -> None:
    plans = {tenant.id: tenant.plan for tenant in example.tenants}
    dearer = tuple(
        tenant.model_copy(update={"plan": plans["freeride"]}) if tenant.id == "bank" else tenant
        for tenant in example.tenants
    )
    changed = example.model_copy(update={"tenants": dearer})
    assert compare(october, "LL-2026-0001", changed, DECEMBER).outcome == "none"


def test_an_agreed_credit_is_given_once_and_never_more_than_was_charged(
    october: Ledger, example: Catalog, now: datetime
) -> None:
    what = Agreed(D("0.20"), "goodwill", "Sorry for Tuesday.")
    (note,) = issue_agreed(october, "LL-2026-0001", what, example, now)
    assert (note.number, note.net) == ("CN-2026-0001", D("0.20"))
    assert issue_agreed(october, "LL-2026-0001", what, example, now) == []
    with pytest.raises(CreditInvalid, match="is left"):
        issue_agreed(october, "LL-2026-0001", Agreed(D("0.31"), "goodwill"), example, now)
    (rest,) = issue_agreed(october, "LL-2026-0001", Agreed(None, "void"), example, now)
    assert (rest.number, rest.remaining_gross, standing(october)["bank"]) == ("CN-2026-0002", D(0), D(0))
    with pytest.raises(CreditInvalid, match="it is a credit note"):
        issue_agreed(october, "CN-2026-0001", what, example, now)
    with pytest.raises(DocumentMissing, match="no issued document has that number"):
        compare(october, "LL-2026-0099", example, now)
    check_books(october)


def test_late_usage_after_an_agreed_credit_is_charged_and_the_credit_is_not_taken_back(
    october: Ledger, traffic: Any, example: Catalog, now: datetime, ns: Callable[..., int], tmp_path: Path
) -> None:
    issue_agreed(october, "LL-2026-0001", Agreed(D("0.20"), "goodwill"), example, now)
    assert compare(october, "LL-2026-0001", example, now).outcome == "none"
    for t0, name, ns_spent in ((ns(2026, 10, 9, 10), "late", 200_000_000), (ns(2026, 11, 3, 10), "next", 100_000_000)):
        traffic.session(SessionEvent.STARTED, t0, name)
        traffic.serve("bank", t0, ns_spent)
        traffic.session(SessionEvent.STOPPED, t0 + 60 * S, name)
    derive(october, traffic, example, tmp_path, DECEMBER, "2026-10", "2026-11")
    assert compare(october, "LL-2026-0001", example, DECEMBER).net.value == D("0.25")
    (invoice,) = issue_month(october, "2026-11", example, DECEMBER)
    assert sum(line.amount for line in invoice.lines if line.kind is ChargeKind.CORRECTION) == D("0.25")
    assert standing(october)["bank"] == D("0.55")
    assert compare(october, "LL-2026-0001", example, DECEMBER).outcome == "none"
    check_books(october)


@pytest.mark.parametrize(
    ("reason", "credited", "stands"),
    [("goodwill", ["0.25"], "0.05"), ("dispute", ["0.05"], "0.25"), ("void", [], "0.00")],
)
def test_facts_that_fall_after_an_agreed_credit_give_nothing_twice(
    october: Ledger, example: Catalog, now: datetime, reason: Reason, credited: list[str], stands: str
) -> None:
    """The invoice charged 0.50 and is worth 0.25. Goodwill comes on top; what a dispute gave back already counts first."""
    issue_agreed(october, "LL-2026-0001", Agreed(None if reason == "void" else D("0.20"), reason), example, now)
    cheaper = repriced(example, "0.5")
    write_tenant_cost(october, *month_window("2026-10", cheaper), cheaper, DECEMBER)
    notes = issue_proposed(october, "LL-2026-0001", cheaper, DECEMBER, "price_corrected")
    assert [str(note.net) for note in notes] == credited
    assert standing(october)["bank"] == D(stands)
    assert issue_proposed(october, "LL-2026-0001", cheaper, DECEMBER, "price_corrected") == []
    check_books(october)


def test_a_request_is_credited_on_its_own_lines_and_all_of_them_void_the_invoice(
    october: Ledger, example: Catalog, now: datetime
) -> None:
    first, second = (
        row[0] for row in october.ask("SELECT request_id FROM usage WHERE tenant = 'clinic' ORDER BY seq").rows
    )
    (clinic,) = [invoice for invoice in issued(october, "2026-10") if invoice.tenant == "clinic"]
    number = str(clinic.number)
    what = Agreed(None, "dispute", "It failed.", first)
    (note,) = issue_agreed(october, number, what, example, now)
    assert {line.kind for line in note.lines} == {ChargeKind.BASE, ChargeKind.LORA, ChargeKind.COLD, ChargeKind.MARGIN}
    assert all(line.quantity is not None for line in note.lines)
    assert note.explanation == f"It failed. Request {first}."
    assert issue_agreed(october, number, what, example, now) == []
    (rest,) = issue_agreed(october, number, replace(what, request=second), example, now)
    assert note.net + rest.net <= clinic.net
    assert rest.remaining_gross <= D("0.02")
    with pytest.raises(CreditInvalid, match=f"request nothing: it is on no line of invoice {number}"):
        issue_agreed(october, number, replace(what, request="nothing"), example, now)
    check_books(october)


def test_every_cent_opens_to_the_tenants_own_requests_and_back(october: Ledger) -> None:
    (clinic,) = [invoice for invoice in issued(october, "2026-10") if invoice.tenant == "clinic"]
    lines = explain(october, clinic)
    assert sum(share.amount for one in lines for share in one.shares) + sum(one.rounding for one in lines) == clinic.net
    own = {row[0] for row in october.ask("SELECT request_id FROM usage WHERE tenant = 'clinic'").rows}
    assert {share.attempt.request_id for one in lines for share in one.shares if share.attempt} == own
    assert all(share.attempt for one in lines for share in one.shares)
    with_adapter, without = sorted(own)
    kinds = {line.kind for line, _ in explain_request(lines, with_adapter)}
    assert kinds == {ChargeKind.BASE, ChargeKind.LORA, ChargeKind.CACHE, ChargeKind.COLD, ChargeKind.MARGIN}
    assert ChargeKind.LORA not in {line.kind for line, _ in explain_request(lines, without)}
    (other,) = october.ask("SELECT request_id FROM usage WHERE tenant = 'bank'").rows[0]
    assert explain_request(lines, other) == []

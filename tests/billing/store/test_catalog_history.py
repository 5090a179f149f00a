"""What was true when: terms, zones and tables have dates, and what has none holds from when the ledger knew it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from billing.close.month import Closed
from billing.exact.periods import BillingMonth, to_ns
from billing.invoice.invoice import Invoice
from billing.store.catalog_history import known_catalog, remember_catalog
from billing.store.clickhouse import Ledger
from billing.store.cost.tenant_cost import write_tenant_cost
from billing.store.finance import month_window
from billing.store.intake.ingest import ingest
from billing.store.invoice.corrections import as_known
from billing.store.invoice.drafting import Desk
from billing.store.invoice.explain import explain
from billing.store.invoice.invoices import close_month
from billing.store.invoice.verify import check_books
from catalog.model import Catalog, PriceBook, Tenant

MILLION = 1_000_000
ACME: dict[str, Any] = {
    "id": "acme",
    "name": "Acme GmbH",
    "tax_rate": "0.19",
    "slo": {"p99_seconds": "2"},
    "plan": {"kind": "per_token", "input": "1000", "cached_input": "100", "output": "10000"},
}
DOUBLE = {"kind": "per_token", "input": "2000", "cached_input": "200", "output": "20000"}


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@dataclass
class Books:
    ledger: Ledger
    example: Catalog
    directory: Path
    lines: int = 0
    months: list[str] = field(default_factory=lambda: ["2026-10", "2026-11"])

    def catalog(self, *tenants: dict[str, Any], **changes: Any) -> Catalog:
        """The example's catalog with these tenants alone, checked one by one."""
        own = {"tenants": tuple(Tenant.model_validate(tenant) for tenant in tenants), "adapters": (), **changes}
        return self.example.model_copy(update=own)

    def use(self, catalog: Catalog, now: str, *instants: str, status: str = "ok", tenant: str = "acme") -> None:
        """A million input tokens finished at each instant, ingested at `now`; all months derived."""
        path = self.directory / f"{self.lines}.jsonl"
        path.write_text("".join(self.line(at(one), status, tenant) for one in instants))
        ingest(self.ledger, [path], catalog, at(now))
        self.derive(catalog, now)

    def line(self, finished: datetime, status: str, tenant: str) -> str:
        seq, self.lines = self.lines, self.lines + 1
        record = {
            "schema": "loraledger.usage/1", "emitter": "f", "seq": seq, "request_id": f"r{seq}", "tenant": tenant,
            "arrival_ns": to_ns(finished) - 1, "finished_ns": to_ns(finished), "status": status, "input_tokens": MILLION,
            "cached_tokens": 0, "output_tokens_computed": 0, "output_tokens_delivered": 0, "slices": [],
        }  # fmt: skip
        return json.dumps(record) + "\n"

    def derive(self, catalog: Catalog, now: str) -> None:
        known = known_catalog(self.ledger, catalog, at(now)).catalog
        for month in self.months:
            write_tenant_cost(self.ledger, *month_window(month, known), catalog, at(now))

    def close(self, month: str, catalog: Catalog, now: str) -> Closed:
        check_books(self.ledger)
        return close_month(self.ledger, month, catalog, at(now))

    def net(self, month: str, catalog: Catalog, now: str) -> Decimal:
        (invoice,) = self.close(month, catalog, now).invoices
        return invoice.net

    def view(self) -> dict[str, Decimal]:
        rows = self.ledger.ask("SELECT billing_month, revenue FROM finance_tenant_month ORDER BY billing_month").rows
        return {month: revenue.normalize() for month, revenue in rows}


@pytest.fixture
def books(ledger: Ledger, example: Catalog, tmp_path: Path) -> Books:
    return Books(ledger, example, tmp_path)


def lines(invoice: Invoice) -> Sequence[tuple[str, Decimal, Decimal, str | None]]:
    return [(line.kind.value, line.quantity, line.amount, line.note) for line in invoice.lines if line.amount]


def test_a_plan_edited_in_november_does_not_change_october(books: Books) -> None:
    before, after = books.catalog(ACME), books.catalog({**ACME, "plan": DOUBLE})
    books.use(before, "2026-10-20T00:00", "2026-10-15T10:00")
    books.derive(after, "2026-11-04T06:00")
    (invoice,) = books.close("2026-10", after, "2026-11-04T06:00").invoices
    assert (invoice.net, invoice.gross) == (Decimal("1000.00"), Decimal("1190.00"))
    assert books.view() == {"2026-10": Decimal(1000)}
    books.use(after, "2026-11-20T00:00", "2026-11-15T10:00")
    assert books.net("2026-11", after, "2026-12-04T06:00") == Decimal("2000.00")


def test_a_dated_price_is_rated_by_instant(books: Books) -> None:
    terms = [{"effective_from": "2026-10-16", "plan": DOUBLE}]
    catalog = books.catalog({**ACME, "time_zone": "Asia/Kolkata", "terms": terms})
    books.use(catalog, "2026-10-20T00:00", "2026-10-15T18:29:59", "2026-10-15T18:30:00", "2026-10-16T10:00")
    (invoice,) = books.close("2026-10", catalog, "2026-11-04T06:00").invoices
    assert lines(invoice) == [
        ("input", Decimal(1), Decimal("1000.00"), "from 2026-10-01"),
        ("input", Decimal(2), Decimal("4000.00"), "from 2026-10-16"),
    ]
    assert books.view() == {"2026-10": Decimal(5000)}
    opened = explain(books.ledger, invoice)
    assert [len(one.shares) for one in opened if one.line.amount] == [1, 2]
    assert as_known(Desk.at(books.ledger, catalog, at("2026-11-05T00:00")), invoice).outcome == "none"


def test_terms_of_the_whole_month_are_those_of_its_end(books: Books) -> None:
    terms = [
        {
            "effective_from": "2026-10-20",
            "tax_rate": "0.07",
            "plan": {**ACME["plan"], "minimum": "5000"},
            "name": "Acme SE",
        }
    ]
    catalog = books.catalog({**ACME, "terms": terms})
    books.use(catalog, "2026-10-20T00:00", "2026-10-15T10:00")
    (invoice,) = books.close("2026-10", catalog, "2026-11-04T06:00").invoices
    assert lines(invoice) == [
        ("input", Decimal(1), Decimal("1000.00"), None),
        ("minimum", Decimal(1), Decimal("4000.00"), None),
    ]
    assert (invoice.net, invoice.tax, invoice.buyer.name) == (Decimal("5000.00"), Decimal("350.00"), "Acme SE")


def test_the_past_is_changed_only_when_it_is_said_and_then_by_a_correction(books: Books) -> None:
    before = books.catalog(ACME)
    after = books.catalog({**ACME, "terms": [{"effective_from": "2026-10-01", "plan": DOUBLE}]})
    books.use(before, "2026-10-20T00:00", "2026-10-15T10:00")
    assert books.net("2026-10", before, "2026-11-04T06:00") == Decimal("1000.00")
    books.use(after, "2026-11-20T00:00", "2026-11-15T10:00")
    held = books.close("2026-11", after, "2026-12-04T06:00")
    assert not held.invoices
    assert "plan changes from 2026-10-01T00:00:00+00:00 on, which is past" in held.blocked["acme"][0].what
    remember_catalog(books.ledger, after, at("2026-12-04T07:00"), restate=True)
    books.derive(after, "2026-12-04T07:00")
    (invoice,) = books.close("2026-11", after, "2026-12-04T07:00").invoices
    assert [(line.kind.value, line.amount) for line in invoice.lines if line.amount] == [
        ("input", Decimal("2000.00")),
        ("correction", Decimal("1000.00")),
    ]
    assert books.view() == {"2026-10": Decimal(2000), "2026-11": Decimal(2000)}


@pytest.mark.parametrize(("zone", "other"), [("UTC", "Asia/Kolkata"), ("Asia/Kolkata", "UTC")])
@pytest.mark.parametrize("dated", [None, "2026-11-10"])
def test_a_zone_holds_from_the_next_month_on_and_months_tile(
    books: Books, zone: str, other: str, dated: str | None
) -> None:
    tenant = {**ACME, "time_zone": zone}
    before = books.catalog(tenant)
    changed = (
        {**tenant, "terms": [{"effective_from": dated, "time_zone": other}]}
        if dated
        else {**tenant, "time_zone": other}
    )
    after = books.catalog(changed)
    evening, months = "2026-10-31T20:00", ("2026-10", "2026-11", "2026-12")
    books.months = list(months)
    books.use(before, "2026-11-02T00:00", evening, "2026-10-15T10:00")
    bills = [*books.close("2026-10", before, "2026-11-04T06:00").invoices]
    books.use(after, "2026-11-05T00:00")
    books.use(after, "2026-12-01T00:00", "2026-11-15T10:00", "2026-11-30T20:00")
    bills += books.close("2026-11", after, "2026-12-04T06:00").invoices
    books.use(after, "2026-12-31T23:00", "2026-12-02T10:00")
    bills += books.close("2026-12", after, "2027-01-04T06:00").invoices
    assert sum(bill.net for bill in bills) == Decimal(5000)
    assert all(one.end == next_.start for one, next_ in pairwise(bills))
    assert [BillingMonth.of(known_catalog(books.ledger, after, at("2027-01-05T00:00")).catalog.tenants[0], m).zone for m in months] == [
        zone, zone, other,
    ]  # fmt: skip


def test_a_month_that_would_bill_a_time_twice_is_not_closed(books: Books) -> None:
    """As when months were closed before zones had dates."""
    before, after = books.catalog(ACME), books.catalog({**ACME, "time_zone": "Asia/Kolkata"})
    books.use(before, "2026-10-20T00:00", "2026-10-15T10:00")
    books.close("2026-10", before, "2026-11-04T06:00")
    books.ledger.execute("TRUNCATE TABLE tenants", "the history")
    books.use(after, "2026-11-20T00:00", "2026-11-15T10:00")
    held = books.close("2026-11", after, "2026-12-04T06:00")
    assert not held.invoices
    assert "would be billed twice" in held.blocked["acme"][0].what


def test_a_tenant_that_left_the_catalog_is_billed_for_what_it_used(books: Books) -> None:
    minimum = {**ACME, "plan": {**ACME["plan"], "minimum": "10"}}
    before, after = books.catalog(minimum), books.catalog()
    books.use(before, "2026-10-20T00:00", "2026-10-15T10:00")
    books.derive(after, "2026-11-04T06:00")
    assert books.net("2026-10", after, "2026-11-04T06:00") == Decimal("1000.00")
    assert not books.close("2026-11", after, "2026-12-04T06:00").invoices


def test_who_pays_is_asked_of_the_book_of_the_hour(books: Books) -> None:
    book = books.example.prices
    strict = book.model_copy(
        update={
            "version": "strict",
            "effective_from": at("2026-10-16T00:00"),
            "charged": {**book.charged, "timeout": "tenant"},
        }
    )
    catalog = books.catalog(ACME, prices=PriceBook.model_validate(strict.model_dump()), earlier_prices=(book,))
    books.use(catalog, "2026-10-20T00:00", "2026-10-15T23:59", "2026-10-16T00:00", status="timeout")
    (invoice,) = books.close("2026-10", catalog, "2026-11-04T06:00").invoices
    assert invoice.net == Decimal("1000.00")
    assert [(one.payer, one.requests) for one in invoice.statuses] == [("provider", 1), ("tenant", 1)]
    assert books.view() == {"2026-10": Decimal(1000)}
    (line,) = [one for one in explain(books.ledger, invoice) if one.line.amount]
    assert [share.attempt and share.attempt.request_id for share in line.shares] == ["r1"]


def test_the_knowledge_of_a_later_hour_is_not_needed_to_draft_again(books: Books) -> None:
    """Closing twice changes nothing, whatever the catalog says meanwhile."""
    before = books.catalog(ACME)
    books.use(before, "2026-10-20T00:00", "2026-10-15T10:00")
    first = books.close("2026-10", before, "2026-11-04T06:00").invoices
    changed = books.catalog({**ACME, "plan": DOUBLE, "address": ("Elsewhere 1", "DE"), "tax_rate": "0.2"})
    later = at("2026-11-05T00:00")
    assert as_known(Desk.at(books.ledger, changed, later), first[0]).outcome == "none"
    assert close_month(books.ledger, "2026-10", changed, later + timedelta(hours=1)).invoices == first

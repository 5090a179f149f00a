from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from billing.exact.canonical import written
from billing.store.clickhouse import Ledger
from billing.store.cost.engine_time import write_engine_time
from billing.store.cost.tenant_cost import write_tenant_cost
from billing.store.errors import CloseRefused
from billing.store.finance import month_window
from billing.store.intake.ingest import ingest
from billing.store.intake.usage import book_lost, book_spans
from billing.store.invoice.explain import explain
from billing.store.invoice.invoices import drafts, issue_month, write_drafts
from billing.store.invoice.verify import verify
from catalog.load import parse
from catalog.model import Catalog
from telemetry.engine_time import SessionEvent

S = 1_000_000_000
MONTH = "2026-10"


def derive(ledger: Ledger, traffic: Any, catalog: Catalog, directory: Path, now: datetime, month: str = MONTH) -> None:
    ingest(ledger, [traffic.write(directory, f"{len(traffic.lines)}.jsonl")], catalog, now)
    window = month_window(month, catalog)
    book_spans(ledger, *window, catalog, now)
    book_lost(ledger, [], catalog, now)
    write_engine_time(ledger, *window, catalog, now)
    write_tenant_cost(ledger, *window, catalog, now)


@pytest.fixture
def october(
    ledger: Ledger, traffic: Any, example: Catalog, ns: Callable[..., int], now: datetime, tmp_path: Path
) -> Ledger:
    t0 = ns(2026, 10, 5, 10)
    traffic.session(SessionEvent.STARTED, t0)
    traffic.serve("clinic", t0, 700_000_000, 50_000_000, adapter="icd10-coder", cold_ns=30_000_000, saved=(50, 5))
    traffic.serve("campus", t0 + S, 400_000_001)
    traffic.serve("freeride", t0 + 2 * S, 900_000_001, adapter="brand-voice")
    traffic.session(SessionEvent.STOPPED, t0 + 60 * S)
    derive(ledger, traffic, example, tmp_path, now)
    return ledger


def test_drafts_have_no_number_and_are_replaced_each_time(october: Ledger, example: Catalog, now: datetime) -> None:
    first = [paper.document for paper in write_drafts(october, MONTH, example, now).papers]
    write_drafts(october, MONTH, example, now + timedelta(seconds=1))
    assert [(draft.tenant, draft.number) for draft in first] == [("campus", None), ("clinic", None), ("freeride", None)]
    rows = october.ask("SELECT tenant, status, number, hash, currency FROM invoices ORDER BY tenant").rows
    assert rows == [(tenant, "draft", "", "", "EUR") for tenant in ("campus", "clinic", "freeride")]
    lines = october.ask("SELECT tenant, sum(amount) FROM invoice_lines GROUP BY tenant ORDER BY tenant").rows
    assert lines == october.ask("SELECT tenant, net FROM invoices ORDER BY tenant").rows


def test_a_closed_month_is_numbered_without_gaps_chained_and_never_changes(
    october: Ledger, traffic: Any, example: Catalog, ns: Callable[..., int], now: datetime, tmp_path: Path
) -> None:
    write_drafts(october, MONTH, example, now)
    made = issue_month(october, MONTH, example, now)
    assert [invoice.number for invoice in made] == ["LL-2026-0001", "LL-2026-0002", "LL-2026-0003"]
    assert october.ask("SELECT count(), countIf(status = 'draft') FROM invoices").rows == [(3, 0)]
    assert verify(october, files=True).faults == []
    rows = october.ask("SELECT * FROM invoices ORDER BY number").rows

    again = issue_month(october, MONTH, example, now + timedelta(days=1))
    assert [written(invoice) for invoice in again] == [written(invoice) for invoice in made]
    assert october.ask("SELECT * FROM invoices ORDER BY number").rows == rows

    traffic.session(SessionEvent.STARTED, ns(2026, 11, 3, 10))
    traffic.serve("bank", ns(2026, 11, 3, 10), 5_000_000, adapter="ledger-lingo")
    traffic.serve("campus", ns(2026, 11, 3, 10) + S, 5_000_000)
    traffic.session(SessionEvent.STOPPED, ns(2026, 11, 3, 11))
    december = datetime(2026, 12, 5, tzinfo=now.tzinfo)
    derive(october, traffic, example, tmp_path, december, "2026-11")
    later = issue_month(october, "2026-11", example, december)
    assert [(invoice.tenant, invoice.number) for invoice in later] == [
        ("bank", "LL-2026-0004"),
        ("campus", "LL-2026-0005"),
    ]
    assert later[1].previous is not None
    assert later[1].previous.number == "LL-2026-0001"
    assert verify(october, files=True).faults == []
    assert october.ask("SELECT billing_month, status, documents FROM billing_periods ORDER BY 1").rows == [
        ("2026-10", "closed", 3),
        ("2026-11", "closed", 2),
    ]


def test_a_month_that_is_not_over_is_refused(october: Ledger, example: Catalog) -> None:
    halfway = datetime.fromisoformat("2026-10-20T00:00:00+00:00")
    with pytest.raises(CloseRefused, match="could not close 2026-10:\n  the month is not over"):
        issue_month(october, MONTH, example, halfway)


@pytest.mark.parametrize("policy", ["usage", "residency"])
def test_idle_time_is_shared_as_the_price_book_says(
    ledger: Ledger, traffic: Any, example: Catalog, ns: Callable[..., int], now: datetime, tmp_path: Path, policy: str
) -> None:
    catalog = parse(example.model_dump_json().replace('"idle":"provider"', f'"idle":"{policy}"'), "test")
    t0 = ns(2026, 10, 5, 10)
    traffic.session(SessionEvent.STARTED, t0)
    traffic.serve("clinic", t0, 300_000_000, adapter="icd10-coder")
    traffic.serve("campus", t0 + S, 100_000_000)
    traffic.idle(t0 + 2 * S, t0 + 4 * S)
    traffic.session(SessionEvent.STOPPED, t0 + 4 * S)
    derive(ledger, traffic, catalog, tmp_path, now)
    shares = {
        draft.tenant: sum(part.gpu_hours for part in draft.idle)
        for draft in drafts(ledger, MONTH, catalog, now).invoices
    }
    if policy == "usage":
        assert shares["clinic"] == 3 * shares["campus"] != 0
    else:
        assert shares["campus"] == 0 != shares["clinic"]


def test_idle_time_is_shared_by_the_policy_of_its_own_time(
    ledger: Ledger, traffic: Any, example: Catalog, ns: Callable[..., int], now: datetime, tmp_path: Path
) -> None:
    """Shared by use until the 6th, by the provider from then on: the second hour of idle time is on no draft."""
    shared = example.prices.model_copy(update={"idle": "usage"})
    sixth = datetime.fromisoformat("2026-10-06T00:00:00+00:00")
    held = {
        "prices": example.prices.model_copy(update={"version": "new", "effective_from": sixth}),
        "earlier_prices": (shared,),
    }
    catalog = example.model_copy(update=held)
    for run, day in (("one", 5), ("two", 6)):
        t0 = ns(2026, 10, day, 10)
        traffic.meter, traffic.windows, traffic.sessions = run, 0, 0
        traffic.session(SessionEvent.STARTED, t0, run)
        traffic.serve("clinic", t0, 300_000_000, adapter="icd10-coder")
        traffic.idle(t0 + S, t0 + 37 * S)
        traffic.session(SessionEvent.STOPPED, t0 + 37 * S, run)
    derive(ledger, traffic, catalog, tmp_path, now)
    (clinic,) = drafts(ledger, MONTH, catalog, now).invoices
    assert [(part.gpu_hours, part.policy) for part in clinic.idle] == [(Decimal("0.010194444445"), "usage")]
    assert [(line.amount, line.note) for line in clinic.lines if line.kind == "idle"] == [
        (Decimal("36.70"), "by measured time")
    ]
    (opened,) = [one for one in explain(ledger, clinic) if one.line.kind == "idle"]
    assert all(share.attempt is not None for share in opened.shares)

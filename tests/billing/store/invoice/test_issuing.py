"""Numbers without gaps and one result, whoever closes at the same time: two processes at one server, and losing on purpose."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from billing.exact.canonical import written
from billing.invoice.invoice import Invoice
from billing.store.clickhouse import Ledger
from billing.store.cost.engine_time import write_engine_time
from billing.store.cost.tenant_cost import write_tenant_cost
from billing.store.errors import IssueLost
from billing.store.finance import month_window
from billing.store.intake.ingest import ingest
from billing.store.intake.usage import book_spans
from billing.store.invoice.invoices import issue_month, issued
from billing.store.invoice.issuing import issue
from billing.store.invoice.verify import verify
from billing.store.migrate import migrate
from catalog.model import Catalog
from telemetry.engine_time import SessionEvent

S = 1_000_000_000
MONTHS = ("2026-09", "2026-10")
TENANTS = ("bank", "campus", "clinic", "freeride")
CLOSER = """
import sys, time
from datetime import datetime, timedelta
from pathlib import Path
from billing.store.clickhouse import Ledger
from billing.store.invoice.invoices import issue_month
from catalog.load import load
dsn, start, months, late = sys.argv[1], Path(sys.argv[2]), sys.argv[3].split(","), int(sys.argv[4])
with Ledger.open(dsn) as ledger:
    catalog, now = load(Path(sys.argv[5])), datetime.fromisoformat("2026-11-10T08:00:00+00:00") + timedelta(seconds=late)
    print("ready", flush=True)
    while not start.exists():
        time.sleep(0.005)
    for month in months:
        print(*(invoice.number for invoice in issue_month(ledger, month, catalog, now, leave_open=True)), flush=True)
"""


def fill(ledger: Ledger, traffic: Any, catalog: Catalog, ns: Callable[..., int], now: datetime, where: Path) -> None:
    """Two months in which four tenants each used something."""
    for month in (9, 10):
        t0 = ns(2026, month, 5, 10)
        traffic.session(SessionEvent.STARTED, t0, f"run-{month}")
        for rank, tenant in enumerate(TENANTS):
            traffic.serve(tenant, t0 + rank * S, 400_000_001 + rank)
        traffic.session(SessionEvent.STOPPED, t0 + 60 * S, f"run-{month}")
    ingest(ledger, [traffic.write(where)], catalog, now)
    for month_text in MONTHS:
        window = month_window(month_text, catalog)
        book_spans(ledger, *window, catalog, now)
        write_engine_time(ledger, *window, catalog, now)
        write_tenant_cost(ledger, *window, catalog, now)


def check_whole(ledger: Ledger, documents: Sequence[Invoice]) -> None:
    numbers = [invoice.number for invoice in documents]
    assert sorted(map(str, numbers)) == [f"LL-2026-{rank:04d}" for rank in range(1, len(TENANTS) * len(MONTHS) + 1)]
    assert verify(ledger, files=True).faults == []
    assert ledger.ask("SELECT count(), uniqExact(number), countIf(status = 'draft') FROM invoices").rows == [(8, 8, 0)]
    assert ledger.ask("SELECT count() FROM (SELECT i.net, sum(l.amount) AS lines FROM invoices AS i JOIN invoice_lines AS l USING (number) GROUP BY number, i.net HAVING i.net != lines)").rows == [(0,)]  # fmt: skip
    assert ledger.ask("SELECT billing_month, documents FROM billing_periods ORDER BY 1").rows == [("2026-09", 4), ("2026-10", 4)]  # fmt: skip
    assert ledger.ask("SELECT sum(debit) - sum(credit), sumIf(debit, account = 'receivable') - (SELECT sum(gross) FROM invoices) FROM postings").rows == [(0, 0)]  # fmt: skip


def test_two_processes_that_close_the_same_months_make_one_gapless_series(
    server: Any, traffic: Any, example: Catalog, ns: Callable[..., int], now: datetime, tmp_path: Path
) -> None:
    catalog = Path(__file__).parents[4] / "examples" / "catalog.yaml"
    with Ledger.open(server.dsn) as ledger:
        migrate(ledger, now)
        fill(ledger, traffic, example, ns, now, tmp_path / "spool")
    closers = [
        subprocess.Popen(
            [sys.executable, "-c", CLOSER, server.dsn, str(tmp_path / "start"), months, str(late), str(catalog)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for late, months in enumerate(("2026-09,2026-10", "2026-09,2026-10", "2026-10,2026-09"))
    ]
    for closer in closers:
        assert closer.stdout is not None
        assert closer.stdout.readline() == "ready\n"
    (tmp_path / "start").touch()
    said = [closer.communicate(timeout=300)[0].split("\n") for closer in closers]
    assert [closer.returncode for closer in closers] == [0, 0, 0]
    assert said[0] == said[1] == [said[2][1], said[2][0], ""]
    with Ledger.open(server.dsn) as ledger:
        check_whole(ledger, [invoice for month in MONTHS for invoice in issued(ledger, month)])


class Rival(Ledger):
    """Before its own block reaches the chain, another closer, a second later by the clock, closes a month in full."""

    month = ""
    now: datetime
    catalog: Catalog

    def insert(self, table: str, *arguments: Any, once: str | None = None) -> int:
        if table == "issued_documents" and self.month:
            month, self.month = self.month, ""
            issue_month(self, month, self.catalog, self.now + timedelta(seconds=1), leave_open=True)
        return super().insert(table, *arguments, once=once)


@pytest.mark.parametrize("rival", MONTHS)
def test_who_comes_second_takes_what_is_left(
    ledger: Ledger, traffic: Any, example: Catalog, ns: Callable[..., int], now: datetime, tmp_path: Path, rival: str
) -> None:
    fill(ledger, traffic, example, ns, now, tmp_path / "spool")
    ledger.__class__ = Rival
    assert isinstance(ledger, Rival)
    ledger.month, ledger.now, ledger.catalog = rival, now, example
    october = issue_month(ledger, "2026-10", example, now, leave_open=True)
    assert [invoice.number for invoice in october] == [f"LL-2026-000{n}" for n in ((5, 6, 7, 8) if rival == "2026-09" else (1, 2, 3, 4))]  # fmt: skip
    assert {invoice.cutoff - now for invoice in october} == {timedelta(seconds=0 if rival == "2026-09" else 1)}
    september = issue_month(ledger, "2026-09", example, now, leave_open=True)
    check_whole(ledger, [*september, *october])
    before = [written(invoice) for invoice in october]
    assert [written(invoice) for invoice in issue_month(ledger, "2026-10", example, now, leave_open=True)] == before


def test_a_chain_whose_next_place_was_emptied_is_said(
    ledger: Ledger, traffic: Any, example: Catalog, ns: Callable[..., int], now: datetime, tmp_path: Path
) -> None:
    fill(ledger, traffic, example, ns, now, tmp_path / "spool")
    (first, *_) = issue_month(ledger, "2026-10", example, now, leave_open=True)
    ledger.execute("ALTER TABLE issued_documents DELETE WHERE 1 SETTINGS mutations_sync = 1", "emptying")
    with pytest.raises(IssueLost, match="was not truncated"):
        issue(ledger, lambda: [first], now)

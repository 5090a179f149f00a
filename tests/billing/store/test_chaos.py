"""A process that dies between any two writes of ingest, rate, close and issue: after a restart nothing shows that it died."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from billing.documents.json_file import read_credit_note
from billing.documents.pdf import document_pdf
from billing.store.catalog_history import remember_catalog
from billing.store.clickhouse import Ledger
from billing.store.cost.engine_time import engine_lives, write_cold_starts, write_engine_time
from billing.store.cost.tenant_cost import write_tenant_cost
from billing.store.finance import month_window
from billing.store.focus import write_charges
from billing.store.intake.ingest import ingest
from billing.store.intake.usage import book_lost, book_spans
from billing.store.invoice.credits import Agreed, issue_agreed
from billing.store.invoice.invoices import issue_month, write_drafts
from billing.store.invoice.issuing import chain_after
from billing.store.invoice.verify import verify
from catalog.model import Catalog
from telemetry.engine_time import SessionEvent
from telemetry.usage import Status

S = 1_000_000_000
MONTH = "2026-10"
WRITES = 33
"""How many writes a whole life has; the undisturbed run counts them."""
TABLES = (
    "otel_traces", "ledger_events", "usage", "quarantine", "ingested_files", "engine_time", "cold_starts", "tenant_cost", "engine_cost",
    "invoices", "invoice_lines", "billing_periods", "credit_notes", "postings", "focus_charges", "issued_documents", "document_file_versions", "billing_blocks",
    "prices", "tenants", "adapters",
)  # fmt: skip


class Killed(BaseException):
    """The process is gone: nothing catches it, and nothing is written after it."""


class Mortal(Ledger):
    """Dies at its write number `last`, before anything of it is sent; what was written before stays."""

    last: int
    written: int

    def insert(self, table: str, rows: Any, *, once: str | None = None) -> int:
        block = list(rows)
        if not block:
            return 0
        if self.written >= self.last:
            raise Killed(table)
        self.written += 1
        return super().insert(table, block, once=once)

    def execute(self, statement: str, what: str) -> None:
        raise AssertionError(f"{what}: no life writes but by inserts")


@pytest.fixture
def spool(traffic: Any, ns: Callable[..., int], tmp_path: Path) -> Path:
    """October for three tenants with a cold load, a lost attempt, and lines that go to quarantine, in two files."""
    t0 = ns(2026, 10, 5, 10)
    traffic.session(SessionEvent.STARTED, t0)
    traffic.serve("clinic", t0, 700_000_000, 50_000_000, adapter="icd10-coder", cold_ns=30_000_000, saved=(50, 5))
    traffic.serve("campus", t0 + S, 400_000_001)
    traffic.write(tmp_path / "spool", "spool-1.jsonl")
    traffic.lines.clear()
    traffic.serve("freeride", t0 + 2 * S, 900_000_001, adapter="brand-voice")
    traffic.open("bank", t0 + 3 * S, "ledger-lingo")
    traffic.session(SessionEvent.STOPPED, t0 + 60 * S)
    path: Path = traffic.write(tmp_path / "spool", "spool-2.jsonl")
    later = traffic.open("campus", ns(2026, 11, 9, 9), engine=None)
    traffic.lines.clear()
    traffic.close(replace(later, tenant="ghost", status=Status.REJECTED, finished_ns=later.arrival_ns + 1, slices=()))
    path.write_text(path.read_text() + traffic.lines[0] + "\n")
    return path.parent


def live(ledger: Ledger, spool: Path, catalog: Catalog, now: datetime) -> None:
    """One whole life: take, derive, draft, close, keep the charges, give a cent back."""
    window = month_window(MONTH, catalog)
    remember_catalog(ledger, catalog, now)
    ingest(ledger, [spool], catalog, now)
    book_spans(ledger, *window, catalog, now)
    book_lost(ledger, engine_lives(ledger, *window, catalog), catalog, now)
    write_engine_time(ledger, *window, catalog, now)
    write_cold_starts(ledger, *window, now)
    write_tenant_cost(ledger, *window, catalog, now)
    write_drafts(ledger, MONTH, catalog, now)
    (first, *_) = issue_month(ledger, MONTH, catalog, now)
    write_charges(ledger, MONTH, catalog, now)
    assert first.number
    issue_agreed(ledger, first.number, Agreed(Decimal("0.01"), "goodwill", "a cent for the trouble"), catalog, now)


@contextmanager
def mortal(directory: Path, last: int) -> Iterator[Mortal]:
    """A new life on a ledger's directory."""
    with Ledger.open(f"chdb://{directory}") as opened:
        opened.__class__ = Mortal
        assert isinstance(opened, Mortal)
        opened.last, opened.written = last, 0
        yield opened


def traces(ledger: Ledger) -> dict[str, object]:
    """All that anybody can see: every table, and the documents as files."""
    rows: dict[str, object] = {table: ledger.ask(f"SELECT * FROM {table} ORDER BY ALL").rows for table in TABLES}
    documents = {
        one.number: document_pdf(one.invoice() if one.kind == "invoice" else read_credit_note(one.document.encode()))
        for one in chain_after(ledger, 0)
    }
    return rows | {"pdf": documents, "broken": verify(ledger, files=True).faults}


@pytest.fixture
def undisturbed(
    tmp_path: Path, empty_ledger: Path, spool: Path, example: Catalog, now: datetime
) -> tuple[dict[str, object], int]:
    """What one life without a kill leaves, and how many writes it took."""
    shutil.copytree(empty_ledger, tmp_path / "undisturbed", symlinks=True)
    with mortal(tmp_path / "undisturbed", 10_000) as ledger:
        live(ledger, spool, example, now)
        return traces(ledger), ledger.written


@pytest.mark.parametrize("between", [pytest.param(1, marks=pytest.mark.nightly), 4])
def test_lives_that_are_killed_after_every_few_writes_end_as_one_that_was_not(
    tmp_path: Path, empty_ledger: Path, spool: Path, example: Catalog, now: datetime,
    undisturbed: tuple[dict[str, object], int], between: int,
) -> None:  # fmt: skip
    expected, writes = undisturbed
    assert sorted(expected["pdf"]) == ["CN-2026-0001", "LL-2026-0001", "LL-2026-0002", "LL-2026-0003"]  # type: ignore[call-overload]
    assert expected["broken"] == []
    assert writes == WRITES
    shutil.copytree(empty_ledger, tmp_path / "killed", symlinks=True)
    died_at = []
    for _ in itertools.count():
        with mortal(tmp_path / "killed", between) as ledger:
            try:
                live(ledger, spool, example, now)
            except Killed as killed:
                died_at.append(str(killed))
                continue
            assert traces(ledger) == expected
            break
    assert len(died_at) >= (writes - 1) // between


@pytest.mark.nightly
@pytest.mark.parametrize("last", range(WRITES))
def test_a_life_that_is_killed_once_at_any_write_ends_as_one_that_was_not(
    tmp_path: Path, empty_ledger: Path, spool: Path, example: Catalog, now: datetime,
    undisturbed: tuple[dict[str, object], int], last: int,
) -> None:  # fmt: skip
    expected, _ = undisturbed
    shutil.copytree(empty_ledger, tmp_path / "killed", symlinks=True)
    with mortal(tmp_path / "killed", last) as ledger, pytest.raises(Killed):
        live(ledger, spool, example, now)
    with mortal(tmp_path / "killed", 10_000) as ledger:
        live(ledger, spool, example, now)
        assert traces(ledger) == expected

"""From the raw lines of the golden month to every document, at fixed instants, on the real engine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest

from billing.documents.press import Paper, Press
from billing.invoice.credit import CreditNote
from billing.invoice.invoice import Invoice
from billing.store.catalog_history import remember_catalog
from billing.store.clickhouse import Ledger
from billing.store.cost.engine_time import write_cold_starts, write_engine_time
from billing.store.cost.tenant_cost import write_tenant_cost
from billing.store.finance import month_state, month_window
from billing.store.focus import Dataset, Version, focus_file, write_charges
from billing.store.intake.ingest import IngestReport, ingest
from billing.store.intake.quarantine import Waiting, listed, release
from billing.store.intake.usage import book_lost, book_spans
from billing.store.invoice.credits import Agreed, issue_agreed
from billing.store.invoice.invoices import issue_month
from billing.store.invoice.printing import kept_files
from catalog.load import load
from catalog.model import Catalog
from pipelines.documents import write_credit_notes, write_documents

HERE: Final = Path(__file__).parent
WRITE: Final = "GOLDEN_MONTH"
CLOSED, LATER, NEXT = (datetime(2026, *at, tzinfo=UTC) for at in ((11, 4, 6), (11, 20, 9), (12, 4, 6)))
TENANT_FACING: Final[tuple[tuple[Dataset, Version], ...]] = (
    ("cost-and-usage", "1.4"), ("cost-and-usage", "1.2"), ("invoice-detail", "1.4"), ("billing-period", "1.4"),
)  # fmt: skip


@dataclass
class Golden:
    """The ledger after all of it, and what came out on the way. `documents` are bytes by name."""

    ledger: Ledger
    catalog: Catalog
    documents: dict[str, bytes] = field(default_factory=dict)
    reports: dict[str, IngestReport] = field(default_factory=dict)
    waited: list[Waiting] = field(default_factory=list)
    found: list[str] = field(default_factory=list)
    october: list[Invoice] = field(default_factory=list)
    november: list[Invoice] = field(default_factory=list)
    disputed: CreditNote | None = None
    focus_at_close: dict[str, bytes] = field(default_factory=dict)

    def take(self, now: datetime, files: Sequence[str], month: str) -> None:
        """Ingest spool files and derive a month up to its cost."""
        for file in files:
            self.reports[file] = ingest(self.ledger, [HERE / "spool" / f"{file}.jsonl"], self.catalog, now)
        window = month_window(month, self.catalog)
        remember_catalog(self.ledger, self.catalog, now)
        book_spans(self.ledger, *window, self.catalog, now)
        book_lost(self.ledger, [], self.catalog, now)
        write_engine_time(self.ledger, *window, self.catalog, now)
        write_cold_starts(self.ledger, *window, now)
        write_tenant_cost(self.ledger, *window, self.catalog, now)

    def close(self, month: str, now: datetime) -> list[Invoice]:
        invoices = issue_month(self.ledger, month, self.catalog, now)
        write_charges(self.ledger, month, self.catalog, now)
        return invoices

    def focus(self, month: str) -> dict[str, bytes]:
        """What tenants may see of a month."""
        return {
            f"{month}/focus/{dataset}-{version}.csv": focus_file(self.ledger, dataset, version, month, "", "csv")
            for dataset, version in TENANT_FACING
        }

    def dispute(self) -> CreditNote:
        """The customer says that a request was never answered: all that it cost comes back, by agreement."""
        (invoice,) = (one for one in self.october if one.tenant == "forge")
        why = "Request req-f3 was charged, and its answer never reached you."
        agreed = Agreed(None, "dispute", why, "req-f3")
        (note,) = issue_agreed(self.ledger, str(invoice.number), agreed, self.catalog, LATER)
        return note


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory, empty_ledger: Path) -> Iterator[Golden]:
    """October closed, disputed and corrected, November closed; with GOLDEN_MONTH=write the committed files are written anew."""
    if os.environ.get(WRITE) == "write":
        generated(HERE / "spool")
    root = tmp_path_factory.mktemp("golden")
    shutil.copytree(empty_ledger, root / "ledger", symlinks=True)
    with Ledger.open(f"chdb://{root / 'ledger'}") as ledger:
        month = Golden(ledger, load(HERE / "catalog.yaml"))
        play(month)
        month.documents |= papers(month, root / "papers") | month.focus("2026-10") | month.focus("2026-11")
        for text in ("2026-10", "2026-11"):
            split = focus_file(ledger, "gpu-split", "1.4", text, "", "csv")
            month.documents[f"{text}/finance/gpu-split-1.4.csv"] = split
        yield month


def play(month: Golden) -> None:
    month.take(CLOSED, ("october", "october-again"), "2026-10")
    month.found = [block.what for block in month_state(month.ledger, "2026-10", month.catalog, CLOSED).blocks]
    month.waited = listed(month.ledger)
    release(month.ledger, [entry.id for entry in month.waited], "Torn by a crash; the whole line follows.", CLOSED)
    month.october = month.close("2026-10", CLOSED)
    month.focus_at_close = month.focus("2026-10")
    month.take(LATER, ("late",), "2026-10")
    month.disputed = month.dispute()
    month.take(NEXT, ("november",), "2026-11")
    month.november = month.close("2026-11", NEXT)


def papers(month: Golden, out: Path) -> dict[str, bytes]:
    """Invoices and the credit note as files, in every form."""
    assert month.disputed is not None
    for text, invoices in (("2026-10", month.october), ("2026-11", month.november)):
        kept = [Paper(invoice, kept_files(month.ledger, invoice, Press())) for invoice in invoices]
        write_documents(out, text, kept, lambda _: None)
    write_credit_notes(out, [Paper(month.disputed, kept_files(month.ledger, month.disputed, Press()))])
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*.*"))}


def generated(target: Path) -> Path:
    """The raw lines as the generator writes them today."""
    subprocess.run([sys.executable, str(HERE / "generate.py"), str(target)], check=True)
    return target

"""Documents as files: what is written is what counts, and a draft that counts no more is gone."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from billing.documents.json_file import read_invoice
from billing.documents.press import Paper, Press
from billing.invoice.invoice import Invoice, issue_invoice
from pipelines.documents import write_documents

GOLDEN = Path(__file__).parents[1] / "billing" / "documents" / "golden" / "per_token.json"


@pytest.fixture(scope="module")
def draft() -> Invoice:
    """The shop's October, a draft."""
    return read_invoice(GOLDEN.read_bytes())


def papers(*invoices: Invoice) -> list[Paper]:
    return [Paper(invoice, Press().files(invoice)) for invoice in invoices]


def names(out: Path) -> list[str]:
    return sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())


def test_drafts_of_who_is_charged_nothing_any_more_go_and_issued_documents_stay(draft: Invoice, tmp_path: Path) -> None:
    other = replace(draft, tenant="shop-draft")
    issued = issue_invoice(replace(draft, tenant="clinic"), "LL", 1, date(2026, 11, 4))
    told: list[int] = []
    write_documents(tmp_path, "2026-10", papers(draft, other, issued), told.append)
    assert told == [1, 2, 3]
    (tmp_path / "2026-09").mkdir()
    (tmp_path / "2026-09" / "shop-draft.pdf").write_bytes(b"another month's")
    forms = ("csv", "json", "pdf")
    kept = [f"2026-10/clinic-LL-2026-0001.{form}" for form in forms]

    write_documents(tmp_path, "2026-10", papers(other), told.append)
    assert names(tmp_path) == ["2026-09/shop-draft.pdf", *kept, *(f"2026-10/shop-draft-draft.{form}" for form in forms)]
    write_documents(tmp_path, "2026-10", [], told.append)
    assert names(tmp_path) == ["2026-09/shop-draft.pdf", *kept]
    assert write_documents(tmp_path, "2026-11", [], told.append) == ([], [])


def test_a_document_that_cannot_be_written_stops_no_other_and_is_written_by_the_next_run(
    draft: Invoice, tmp_path: Path
) -> None:
    first, second = papers(issue_invoice(draft, "LL", 1, date(2026, 11, 4)), replace(draft, tenant="clinic"))
    blocked = tmp_path / "2026-10" / f".{first.document.tenant}-LL-2026-0001.csv.new"
    blocked.mkdir(parents=True)
    written = write_documents(tmp_path, "2026-10", [first, second], lambda _: None)
    (failure,) = written.failures
    assert str(blocked) in failure
    assert "run the command again" in failure
    assert {path.name for path in written.paths} >= {f"clinic-draft.{form}" for form in ("pdf", "csv", "json")}
    blocked.rmdir()
    again = write_documents(tmp_path, "2026-10", [first, second], lambda _: None)
    assert again.failures == []
    assert {path.suffix[1:]: path.read_bytes() for path in again.paths[:3]} == first.files

"""Credit notes on paper, as CSV and as JSON."""

from __future__ import annotations

import csv
import io
from datetime import date
from decimal import Decimal

import pytest
from pypdf import PdfReader

from billing.documents.credit_view import credit_note_view
from billing.documents.csv_file import document_csv
from billing.documents.json_file import read_credit_note
from billing.documents.pdf import document_pdf
from billing.errors import CreditInvalid
from billing.exact.canonical import written
from billing.invoice.credit import CreditNote, Reason, draft_credit_note, issue_credit_note, spread, whole
from billing.invoice.invoice import Invoice

D = Decimal


@pytest.fixture(scope="module")
def notes(cost_plus: Invoice) -> list[CreditNote]:
    """Twenty euros, then everything else."""
    made: list[CreditNote] = []
    reasons: tuple[Reason, ...] = ("goodwill", "void")
    for rank, reason in enumerate(reasons, start=1):
        lines = whole(cost_plus, made) if made else spread(cost_plus, D(20))
        draft = draft_credit_note(
            cost_plus, lines, reason, earlier=made, cutoff=cost_plus.cutoff, explanation="=As agreed."
        )
        made.append(issue_credit_note(draft, "CN", rank, date(2026, 11, 20)))
    return made


def test_the_page_says_what_is_credited_on_which_invoice_and_what_stands(notes: list[CreditNote]) -> None:
    reader = PdfReader(io.BytesIO(document_pdf(notes[1])))
    text = " ".join(page.extract_text() for page in reader.pages)
    for words in (
        "CN-2026-0002",
        "On invoice LL-2026-0007",
        "EUR 189.76",
        "The invoice is withdrawn in full",
        "=As agreed.",
        "−23.80",
        "−30.40",
    ):
        assert words in text
    assert len(reader.pages) == 1
    assert reader.metadata is not None
    assert reader.metadata.get("/CreationDate") == "D:20261120000000Z"
    assert document_pdf(notes[1]) == document_pdf(notes[1])


def test_a_draft_is_watermarked_and_credits_nothing_yet(cost_plus: Invoice) -> None:
    draft = draft_credit_note(cost_plus, spread(cost_plus, D(20)), "dispute", cutoff=cost_plus.cutoff)
    view = credit_note_view(draft)
    assert (view["draft"], view["due"]["label"]) == (True, "Proposed credit")
    assert "DRAFT" in PdfReader(io.BytesIO(document_pdf(draft))).pages[0].extract_text()


def test_quantities_stand_only_where_they_make_the_amount(notes: list[CreditNote]) -> None:
    lines = credit_note_view(notes[1])["lines"]
    assert [(line["quantity"], line["amount"]) for line in lines][:3] == [
        ("", "140.94"), ("", "16.18"), ("−0.084444", "−30.40"),
    ]  # fmt: skip


def test_the_file_has_a_row_for_each_line_and_sum_and_runs_no_formula(notes: list[CreditNote]) -> None:
    rows = list(csv.DictReader(io.StringIO(document_csv(notes[0]).decode(), newline=""), strict=True))
    lines = [row for row in rows if row["record"] == "line"]
    assert sum(D(row["amount"]) for row in lines) == D("20.00")
    assert {row["invoice"] for row in rows} == {"LL-2026-0007"}
    amounts = {row["record"]: row["amount"] for row in rows if row["record"] != "line"}
    assert amounts == {"net": "20.00", "tax": "3.80", "gross": "23.80", "remaining": "189.76"}
    assert [row["line"] for row in lines] == ["1", "2", "4", "5"]


def test_what_was_written_reads_back_equal_and_a_changed_file_is_refused(notes: list[CreditNote]) -> None:
    for note in notes:
        assert read_credit_note(written(note)) == note
    with pytest.raises(CreditInvalid, match="changed after issue"):
        read_credit_note(written(notes[0]).replace(b"=As agreed.", b"=As agreed!"))
    with pytest.raises(CreditInvalid, match="invoice: Field required"):
        read_credit_note(written(notes[0]).replace(b'"invoice": "LL-2026-0007",', b""))

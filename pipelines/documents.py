"""Documents as files: `<out>/<month>/<tenant>-draft.*` or `<tenant>-<number>.*`, each as PDF, CSV and JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from billing.credit import CreditNote
from billing.documents.csv_file import credit_note_csv, invoice_csv
from billing.documents.json_file import credit_note_json, invoice_json
from billing.documents.pdf import credit_note_pdf, invoice_pdf
from billing.invoice import Invoice

_FORMS: Final[dict[str, Callable[[Invoice], bytes]]] = {"pdf": invoice_pdf, "csv": invoice_csv, "json": invoice_json}
_CREDIT_FORMS: Final[dict[str, Callable[[CreditNote], bytes]]] = {
    "pdf": credit_note_pdf,
    "csv": credit_note_csv,
    "json": credit_note_json,
}


def write_documents(out: Path, month: str, invoices: Sequence[Invoice], done: Callable[[int], None]) -> list[Path]:
    """Write all of a month's invoices in every form; the same invoice always gives the same bytes. Returns the paths.

    Draft files of the month that are none of these are removed: the tenant has an invoice now, or is charged nothing any
    more. Issued documents are never removed.
    """
    written = []
    for count, invoice in enumerate(invoices, 1):
        name = f"{invoice.tenant}-{invoice.number or 'draft'}"
        written += [_write(out / month / f"{name}.{extension}", form(invoice)) for extension, form in _FORMS.items()]
        done(count)
    for extension in _FORMS:
        for path in (out / month).glob(f"*-draft.{extension}"):
            if path not in written:
                path.unlink(missing_ok=True)
    return written


def write_credit_notes(out: Path, notes: Sequence[CreditNote]) -> list[Path]:
    """Write issued credit notes beside the invoices that they lower, in every form. Returns the paths."""
    return [
        _write(out / note.month / f"{note.tenant}-{note.number}.{extension}", form(note))
        for note in notes
        for extension, form in _CREDIT_FORMS.items()
    ]


def _write(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.new")
    unfinished.write_bytes(data)
    unfinished.replace(path)
    return path

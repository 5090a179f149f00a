"""Invoices as files: `<out>/<month>/<tenant>-draft.*` or `<tenant>-<number>.*`, each as PDF, CSV and JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from billing.documents.csv_file import invoice_csv
from billing.documents.json_file import invoice_json
from billing.documents.pdf import invoice_pdf
from billing.invoice import Invoice

_FORMS: Final[dict[str, Callable[[Invoice], bytes]]] = {"pdf": invoice_pdf, "csv": invoice_csv, "json": invoice_json}


def write_documents(out: Path, invoices: Sequence[Invoice], done: Callable[[int], None]) -> list[Path]:
    """Write every invoice in every form; the same invoice always gives the same bytes. Returns the paths.

    The draft files of a tenant whose invoice is written as issued are removed: the invoice is what counts now.
    """
    written = []
    for count, invoice in enumerate(invoices, 1):
        folder = out / invoice.month
        folder.mkdir(parents=True, exist_ok=True)
        for extension, form in _FORMS.items():
            path = folder / f"{invoice.tenant}-{invoice.number or 'draft'}.{extension}"
            unfinished = path.with_name(f".{path.name}.new")
            unfinished.write_bytes(form(invoice))
            unfinished.replace(path)
            written.append(path)
            if invoice.number:
                (folder / f"{invoice.tenant}-draft.{extension}").unlink(missing_ok=True)
        done(count)
    return written

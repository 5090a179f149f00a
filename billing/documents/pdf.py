"""An invoice as PDF/A: the same invoice always gives the same bytes, on any machine, at any time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, time
from importlib.resources import files
from pathlib import Path
from typing import Literal

import typst

from billing.documents.view import invoice_view
from billing.errors import DocumentFailed
from billing.invoice import Invoice

Paper = Literal["a4", "us-letter"]


def invoice_pdf(invoice: Invoice, paper: Paper = "a4", font_paths: Sequence[Path] = ()) -> bytes:
    """PDF/A-3b: a summary page, then detail; a draft has a watermark. Only fonts inside the typst wheel are used.

    Those cover Latin, Greek and Cyrillic; `font_paths` are directories of fonts for other scripts. The document's date
    is the issue date, or the cut-off of a draft, never the clock. DocumentFailed when a text cannot be shown.
    """
    dated = datetime.combine(invoice.issued_on, time(), UTC) if invoice.issued_on else invoice.cutoff.astimezone(UTC)
    view = invoice_view(invoice) | {
        "paper": paper,
        "date": {"year": dated.year, "month": dated.month, "day": dated.day},
    }
    try:
        return typst.compile(
            files("billing.documents").joinpath("invoice.typ").read_bytes(),
            format="pdf",
            sys_inputs={"invoice": json.dumps(view)},
            font_paths=typst.Fonts(include_system_fonts=False, font_paths=list(font_paths)),
            ignore_system_fonts=True,
            pdf_standards="a-3b",
            # A PDF's date has no fraction of a second.
            timestamp=dated.replace(microsecond=0),
        )
    except typst.TypstError as error:
        name = invoice.number or f"draft of {invoice.tenant}, {invoice.month}"
        advice = "; give a directory of fonts that can show it" if "could not be displayed" in error.message else ""
        raise DocumentFailed(f"could not write PDF of invoice {name}: {error.message}{advice}") from error

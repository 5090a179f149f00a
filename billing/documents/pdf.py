"""Invoices and credit notes as PDF/A: the same document always gives the same bytes, on any machine, at any time."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, Literal

import typst

from billing.documents.credit_view import credit_note_view
from billing.documents.facturx import Document, document_xml, xml_problems
from billing.documents.fonts import fonts
from billing.documents.text_faults import unshown
from billing.documents.view import invoice_view
from billing.documents.xmp import mark_factur_x
from billing.errors import DocumentFailed
from billing.invoice.invoice import Invoice

Paper = Literal["a4", "us-letter"]
_ATTACHED: Final = "This is also an e-invoice (Factur-X, profile EN 16931): factur-x.xml is attached to this file."


def document_pdf(document: Document, paper: Paper = "a4", font_paths: Sequence[Path] = ()) -> bytes:
    """PDF/A-3b: a summary page, then an invoice's detail; a draft has a watermark. Only fonts that come with the program are used.

    Those cover the common scripts (see `fonts`); `font_paths` are directories of fonts for others. The document's date
    is the issue date, or the cut-off of a draft, never the clock. An issued document is Factur-X: its EN 16931 XML is
    attached, unless `facturx.xml_problems` says what it lacks for that. DocumentFailed, with the field and the characters,
    when a text cannot be shown.
    """
    if isinstance(document, Invoice):
        name = f"invoice {document.number or f'draft of {document.tenant}, {document.month}'}"
        return _compile("invoice.typ", name, document, invoice_view(document), paper, font_paths)
    name = f"credit note {document.number or f'draft on {document.invoice}'}"
    return _compile("credit_note.typ", name, document, credit_note_view(document), paper, font_paths)


def _dated(issued_on: date | None, cutoff: datetime) -> datetime:
    """A PDF's date has no fraction of a second."""
    at = datetime.combine(issued_on, time(), UTC) if issued_on else cutoff.astimezone(UTC)
    return at.replace(microsecond=0)


def _compile(
    template: str, name: str, document: Document, view: dict[str, Any], paper: Paper, font_paths: Sequence[Path]
) -> bytes:
    dated = _dated(document.issued_on, document.cutoff)
    placed = view | {"paper": paper, "date": {"year": dated.year, "month": dated.month, "day": dated.day}}
    problems = xml_problems(document)
    xml = None if problems else document_xml(document).decode()
    if document.state == "issued":
        said = f"No e-invoice is attached: {'; '.join(problems)}." if problems else _ATTACHED
        where = "terms" if "terms" in view else "notes"
        placed[where] = [*view[where], said]
    folder = files("billing.documents")
    try:
        pdf = typst.compile(
            folder.joinpath("letterhead.typ").read_bytes() + folder.joinpath(template).read_bytes(),
            format="pdf",
            sys_inputs={"document": json.dumps(placed)} | ({"xml": xml} if xml else {}),
            font_paths=fonts(tuple(font_paths)),
            ignore_system_fonts=True,
            pdf_standards="a-3b",
            timestamp=dated,
        )
    except typst.TypstError as error:
        found = unshown(document, tuple(font_paths))
        raise DocumentFailed(f"could not write PDF of {name}: {'; '.join(found) or error.message}", found) from error
    _check(pdf, xml, name)
    return mark_factur_x(pdf) if xml else pdf


def _check(pdf: bytes, xml: str | None, name: str) -> None:
    """What was made opens again, is archivable and carries the e-invoice; DocumentFailed otherwise."""
    from pypdf import PdfReader  # only where documents are made
    from pypdf.errors import PyPdfError

    try:
        reader = PdfReader(io.BytesIO(pdf), strict=True)
        attached = [part for parts in reader.attachments.values() for part in parts]
        sound = len(reader.pages) > 0 and "/OutputIntents" in reader.root_object
    except PyPdfError as error:
        raise DocumentFailed(f"could not write PDF of {name}: it does not open again: {error}") from error
    if not sound or attached != ([xml.encode()] if xml else []):
        raise DocumentFailed(f"could not write PDF of {name}: it is not archivable, or its e-invoice is not in it")

"""Files of documents in the ledger: kept before the document is numbered, and handed out from there ever after, the same bytes."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from billing.close.blocks import Block, Kind
from billing.close.month import Closed
from billing.documents.facturx import Document
from billing.documents.press import FORMS, Files, Paper, Press
from billing.errors import DocumentFailed
from billing.exact.canonical import text_hash
from billing.store.clickhouse import Ledger
from billing.store.invoice.issuing import document_text


@dataclass(frozen=True, slots=True)
class Printed:
    """Documents as files, and by tenant why others are none."""

    papers: list[Paper]
    blocks: list[Block]


_BLOCK: Final = 25
"""Documents whose files go in one block: some megabytes."""


def keep_files(ledger: Ledger, papers: Sequence[Paper], now: datetime) -> int:
    """Store the files of numbered documents that are not there yet; how many files."""
    hashes = {text_hash(document_text(paper.document)): paper for paper in papers}
    asked = {"document_hashes": list(hashes)}
    known = {row["document_hash"] for row in ledger.read("document_files_known", asked)} if hashes else set()
    rows = [
        {
            "number": paper.document.number,
            "document_hash": digest,
            "form": form,
            "content": base64.b64encode(data).decode(),
            "content_hash": hashlib.sha256(data).hexdigest(),
            "made_at": now,
        }
        for digest, paper in hashes.items()
        if digest not in known
        for form, data in paper.files.items()
    ]
    step = _BLOCK * len(FORMS)
    return sum(ledger.insert("document_file_versions", rows[at : at + step]) for at in range(0, len(rows), step))


def file_faults(document: str, kept: Sequence[Mapping[str, str]]) -> list[str]:
    """What is wrong with the files kept for a document's text: rows of `document_hashes_of`, none for what was issued before
    files were kept. The JSON file is that text; PDF and CSV are held against the hash taken when they were made."""
    digest = text_hash(document)
    own = {row["form"]: row for row in kept if row["document_hash"] == digest}
    if kept and not own:
        return ["the kept files are of another text"]
    found = [f"the kept {form} is missing" for form in FORMS if own and form not in own]
    for form, row in sorted(own.items()):
        if row["found_hash"] != (digest if form == "json" else row["content_hash"]):
            found.append(f"the kept {form} is not the one that was made")
    return found


def printed(ledger: Ledger, closed: Closed, press: Press) -> Printed:
    """The files of a closed month's invoices, and beside what blocks others those that cannot be printed."""
    found = Printed([], list(closed.blocks))
    for invoice in closed.invoices:
        try:
            found.papers.append(Paper(invoice, kept_files(ledger, invoice, press)))
        except DocumentFailed as error:
            key = (invoice.tenant, closed.month)
            advice = "add the fonts with LORALEDGER_FONTS and close the month again"
            found.blocks.append(Block(Kind.DOCUMENT, key, str(error), (invoice.tenant,), advice=advice))
    return found


def kept_files(ledger: Ledger, document: Document, press: Press) -> Files:
    """The files of an issued document: those that were kept, or made now for one that was issued before files were.

    DocumentFailed when they have to be made and cannot.
    """
    asked = {"number": document.number or "", "document_hash": text_hash(document_text(document))}
    kept = {row["form"]: base64.b64decode(row["content"]) for row in ledger.read("document_files", asked)}
    return {form: kept[form] for form in FORMS} if kept.keys() >= set(FORMS) else press.files(document)

"""Makes every file of a document and looks at it before anybody relies on it: what cannot be made is known before a number is given."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from billing.documents.csv_file import document_csv
from billing.documents.facturx import Document
from billing.documents.pdf import document_pdf
from billing.documents.text_faults import unholdable
from billing.errors import DocumentFailed
from billing.exact.canonical import written

Files = dict[str, bytes]
"""The files of one document by extension: `pdf`, `csv` and `json`."""


class Paper(NamedTuple):
    """A document and its files."""

    document: Document
    files: Files


FORMS: Final = ("pdf", "csv", "json")


@dataclass(frozen=True, slots=True)
class Press:
    """`fonts` are folders of fonts beside those that come with the program."""

    fonts: tuple[Path, ...] = ()

    def files(self, document: Document) -> Files:
        """PDF (with its e-invoice), CSV and JSON; the same document gives the same bytes.

        DocumentFailed, naming the field, when a text can stand in no document or is in no font, or when what was made does
        not open again.
        """
        name = document.number or f"the draft of {document.tenant}, {document.month}"
        if found := unholdable(document):
            raise DocumentFailed(f"could not write {name}: {'; '.join(found)}", found)
        pdf = document_pdf(document, font_paths=self.fonts)
        return {"pdf": pdf, "csv": document_csv(document), "json": written(document)}

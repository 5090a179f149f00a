"""A PDF that carries the XML says so in its metadata, and stays the same bytes."""

from __future__ import annotations

import hashlib
import io
from dataclasses import replace
from datetime import UTC, datetime

import facturx
import pytest
from pypdf import PdfReader

from billing.documents.facturx import document_xml
from billing.documents.pdf import document_pdf
from billing.documents.xmp import mark_factur_x
from billing.errors import DocumentFailed
from billing.invoice.invoice import Invoice


def test_the_invoice_carries_its_xml_and_the_factur_x_library_finds_it(cost_plus: Invoice) -> None:
    pdf = document_pdf(cost_plus)
    name, xml = facturx.get_facturx_xml_from_pdf(pdf)
    assert (name, xml) == ("factur-x.xml", document_xml(cost_plus))
    (attachment,) = PdfReader(io.BytesIO(pdf)).attachment_list
    assert (attachment.name, attachment.associated_file_relationship) == ("factur-x.xml", "/Alternative")
    assert attachment.modification_date == datetime(2026, 11, 4, tzinfo=UTC)


def test_the_metadata_declare_the_profile_beside_what_was_there(cost_plus: Invoice) -> None:
    metadata = PdfReader(io.BytesIO(document_pdf(cost_plus))).xmp_metadata
    assert metadata is not None
    text = metadata.stream.get_data().decode()
    for part in (
        "<fx:ConformanceLevel>EN 16931</fx:ConformanceLevel>",
        "<fx:DocumentFileName>factur-x.xml</fx:DocumentFileName>",
        "<pdfaSchema:prefix>fx</pdfaSchema:prefix>",
        "<pdfaid:part>3</pdfaid:part>",
        "<xmp:ModifyDate>2026-11-04T00:00:00Z</xmp:ModifyDate>",
    ):
        assert text.count(part) == 1
    assert text.count("<pdfaExtension:schemas>") == 1


def test_with_the_xml_attached_the_bytes_are_still_the_same(cost_plus: Invoice) -> None:
    hashes = {hashlib.sha256(document_pdf(cost_plus)).hexdigest() for _ in range(3)}
    assert len(hashes) == 1


def test_a_draft_and_an_invoice_without_a_country_carry_none(cost_plus: Invoice, per_token: Invoice) -> None:
    homeless = replace(cost_plus, buyer=replace(cost_plus.buyer, address=("Lindenallee 4",)))
    for invoice in (per_token, homeless):
        assert "/AF" not in PdfReader(io.BytesIO(document_pdf(invoice))).root_object
    text = PdfReader(io.BytesIO(document_pdf(homeless))).pages[0].extract_text()
    assert "No e-invoice is attached: the last line of the buyer's address is not an ISO 3166 country code" in " ".join(
        text.split()
    )


def test_what_typst_did_not_write_is_refused() -> None:
    with pytest.raises(DocumentFailed, match="its metadata, or its end"):
        mark_factur_x(b"%PDF-1.7\n%%EOF\n")

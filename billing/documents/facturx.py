"""Invoices and credit notes as Factur-X: the EN 16931 data of the printed document, as Cross Industry Invoice XML."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from decimal import Decimal
from typing import Final

from billing.documents.facturx_lines import Item, credited_items, invoiced_items
from billing.errors import DocumentFailed
from billing.exact.money import minor_units, plain, total, trimmed
from billing.invoice.credit import CreditNote
from billing.invoice.invoice import Invoice, Party
from billing.invoice.lines import TaxGroup

Document = Invoice | CreditNote

GUIDELINE: Final = "urn:cen.eu:en16931:2017"
_SPACES: Final = {
    "xmlns:rsm": "urn:un:unece:uncefact:data:standard:CrossIndustryInvoice:100",
    "xmlns:ram": "urn:un:unece:uncefact:data:standard:ReusableAggregateBusinessInformationEntity:100",
    "xmlns:udt": "urn:un:unece:uncefact:data:standard:UnqualifiedDataType:100",
    "xmlns:qdt": "urn:un:unece:uncefact:data:standard:QualifiedDataType:100",
}
_EXEMPT: Final = {
    "reverse_charge": ("AE", "VATEX-EU-AE", "Reverse charge"),
    "export": ("G", "VATEX-EU-G", "Export outside the EU"),
    "exempt": ("E", None, "Exempt from tax"),
}
"""Tax category, code and reason where no tax is charged."""


def xml_problems(document: Document) -> list[str]:
    """What EN 16931 demands and the document does not have; empty when `document_xml` can write it."""
    found = []
    if document.state != "issued":
        found.append("a draft has no number")
    if not document.lines:
        found.append("there is no line")
    if minor_units(document.currency) > 2:
        found.append(f"{document.currency} amounts have more than two decimals")
    if not document.seller.tax_id:
        found.append("the seller has no tax id")
    for role, party in (("seller", document.seller), ("buyer", document.buyer)):
        if _country(party) is None:
            found.append(f"the last line of the {role}'s address is not an ISO 3166 country code")
    if document.tax_treatment == "reverse_charge" and not _is_vat(document.buyer.tax_id):
        found.append("reverse charge needs the buyer's VAT id")
    return found


def document_xml(document: Document) -> bytes:
    """UTF-8 XML of the profile EN 16931: type 380 for an invoice, 381 with positive amounts for a credit note.

    The same document gives the same bytes, valid against the profile's schema. DocumentFailed when `xml_problems` finds
    any, or the schema does.
    """
    if problems := xml_problems(document):
        raise DocumentFailed(f"could not write Factur-X of {document.number or document.tenant}: {'; '.join(problems)}")
    credit = isinstance(document, CreditNote)
    items = credited_items(document) if isinstance(document, CreditNote) else invoiced_items(document)
    assert document.issued_on is not None
    root = _node(
        "rsm:CrossIndustryInvoice",
        _node(
            "rsm:ExchangedDocumentContext",
            _node("ram:GuidelineSpecifiedDocumentContextParameter", _text("ram:ID", GUIDELINE)),
        ),
        _node(
            "rsm:ExchangedDocument",
            _text("ram:ID", document.number or ""),
            _text("ram:TypeCode", "381" if credit else "380"),
            _node("ram:IssueDateTime", _day("udt", document.issued_on)),
            *(_node("ram:IncludedNote", _text("ram:Content", note)) for note in _notes(document)),
        ),
        _node(
            "rsm:SupplyChainTradeTransaction",
            *(_item(item, document) for item in items),
            _agreement(document),
            _node(
                "ram:ApplicableHeaderTradeDelivery",
                _node(
                    "ram:ActualDeliverySupplyChainEvent",
                    _node("ram:OccurrenceDateTime", _day("udt", document.last_day)),
                ),
            ),
            _settlement(document),
        ),
    )
    for name, space in _SPACES.items():
        root.set(name, space)
    ET.indent(root, " ")
    written: bytes = ET.tostring(root, encoding="UTF-8", xml_declaration=True) + b"\n"
    _check_schema(written, document.number or "")
    return written


def _check_schema(xml: bytes, number: str) -> None:
    import facturx  # reading PDFs comes with it, which is not worth a start-up

    try:
        facturx.xml_check_xsd(xml, flavor="factur-x", level="en16931")
    except Exception as error:
        raise DocumentFailed(f"could not write Factur-X of {number}: {error}") from error


def _node(tag: str, *children: ET.Element | None) -> ET.Element:
    element = ET.Element(tag)
    element.extend(child for child in children if child is not None)
    return element


def _text(tag: str, text: str, **attributes: str) -> ET.Element:
    element = ET.Element(tag, attributes)
    element.text = text
    return element


def _maybe(tag: str, text: str | None) -> ET.Element | None:
    return _text(tag, text) if text else None


def _day(space: str, at: date) -> ET.Element:
    return _text(f"{space}:DateTimeString", f"{at:%Y%m%d}", format="102")


def _number(amount: Decimal) -> str:
    return f"{trimmed(amount):f}"


def _money(amount: Decimal, document: Document) -> str:
    return plain(amount, minor_units(document.currency))


def _notes(document: Document) -> Sequence[str]:
    if isinstance(document, Invoice):
        return document.notes
    return tuple(text for text in (document.explanation, document.tax_note) if text)


def _item(item: Item, document: Document) -> ET.Element:
    category, rate = _category(document, item.tax_rate)
    price = [_text("ram:ChargeAmount", _number(item.price))]
    if item.basis != 1:
        price.append(_text("ram:BasisQuantity", str(item.basis), unitCode=item.unit))
    return _node(
        "ram:IncludedSupplyChainTradeLineItem",
        _node("ram:AssociatedDocumentLineDocument", _text("ram:LineID", str(item.position))),
        _node("ram:SpecifiedTradeProduct", _text("ram:Name", item.name), _maybe("ram:Description", item.note)),
        _node("ram:SpecifiedLineTradeAgreement", _node("ram:NetPriceProductTradePrice", *price)),
        _node(
            "ram:SpecifiedLineTradeDelivery", _text("ram:BilledQuantity", _number(item.quantity), unitCode=item.unit)
        ),
        _node(
            "ram:SpecifiedLineTradeSettlement",
            _node(
                "ram:ApplicableTradeTax",
                _text("ram:TypeCode", "VAT"),
                _text("ram:CategoryCode", category),
                _text("ram:RateApplicablePercent", rate),
            ),
            _node(
                "ram:SpecifiedTradeSettlementLineMonetarySummation",
                _text("ram:LineTotalAmount", _money(item.amount, document)),
            ),
        ),
    )


def _category(document: Document, rate: Decimal) -> tuple[str, str]:
    """Tax category code (UNTDID 5305) and the rate in percent."""
    exempt = _EXEMPT.get(document.tax_treatment)
    return (exempt[0] if exempt else "S" if rate else "Z"), _number(rate.scaleb(2))


def _agreement(document: Document) -> ET.Element:
    order = document.purchase_order
    return _node(
        "ram:ApplicableHeaderTradeAgreement",
        _text("ram:BuyerReference", document.tenant),
        _node("ram:SellerTradeParty", *_party(document.seller, seller=True)),
        _node("ram:BuyerTradeParty", *_party(document.buyer, seller=False)),
        _node("ram:BuyerOrderReferencedDocument", _text("ram:IssuerAssignedID", order)) if order else None,
    )


def _party(party: Party, seller: bool) -> Iterator[ET.Element]:
    """A buyer's tax id that is no VAT id stands as its registration; a seller's as its national tax number."""
    vat = _is_vat(party.tax_id)
    yield _text("ram:Name", party.name)
    if party.tax_id and not vat and not seller:
        yield _node("ram:SpecifiedLegalOrganization", _text("ram:ID", party.tax_id))
    if party.email and seller:
        mail = _node("ram:EmailURIUniversalCommunication", _text("ram:URIID", party.email))
        yield _node("ram:DefinedTradeContact", _text("ram:PersonName", party.name), mail)
    *lines, country = party.address
    names = ("ram:LineOne", "ram:LineTwo", "ram:LineThree")
    rows = [*lines[:2], ", ".join(lines[2:])] if len(lines) > 3 else lines
    yield _node(
        "ram:PostalTradeAddress",
        *(_text(name, row) for name, row in zip(names, rows, strict=False)),
        _text("ram:CountryID", country),
    )
    if party.tax_id and (vat or seller):
        yield _node("ram:SpecifiedTaxRegistration", _text("ram:ID", party.tax_id, schemeID="VA" if vat else "FC"))


def _settlement(document: Document) -> ET.Element:
    invoice = document if isinstance(document, Invoice) else None
    rate, accounted = document.exchange, document.tax_in_price_currency
    iban = document.seller.iban if invoice and invoice.due else None
    return _node(
        "ram:ApplicableHeaderTradeSettlement",
        _maybe("ram:PaymentReference", document.number if invoice else None),
        _text("ram:TaxCurrencyCode", rate.base) if rate and accounted is not None else None,
        _text("ram:InvoiceCurrencyCode", document.currency),
        _node(
            "ram:SpecifiedTradeSettlementPaymentMeans",
            _text("ram:TypeCode", "58"),
            _node("ram:PayeePartyCreditorFinancialAccount", _text("ram:IBANID", iban)),
        )
        if iban
        else None,
        *(_tax(group, document) for group in document.taxes),
        _node(
            "ram:BillingSpecifiedPeriod",
            _node("ram:StartDateTime", _day("udt", document.first_day)),
            _node("ram:EndDateTime", _day("udt", document.last_day)),
        ),
        _terms(document),
        _summation(document, accounted),
        *(_referred(number, at) for number, at in _references(document)),
    )


def _tax(group: TaxGroup, document: Document) -> ET.Element:
    category, rate = _category(document, group.rate)
    exempt = _EXEMPT.get(document.tax_treatment)
    return _node(
        "ram:ApplicableTradeTax",
        _text("ram:CalculatedAmount", _money(group.amount, document)),
        _text("ram:TypeCode", "VAT"),
        _maybe("ram:ExemptionReason", (document.tax_note or exempt[2]) if exempt else None),
        _text("ram:BasisAmount", _money(group.base, document)),
        _text("ram:CategoryCode", category),
        _maybe("ram:ExemptionReasonCode", exempt[1] if exempt else None),
        _text("ram:RateApplicablePercent", rate),
    )


def _terms(document: Document) -> ET.Element:
    if isinstance(document, Invoice) and document.due_on:
        due = _node("ram:DueDateDateTime", _day("udt", document.due_on))
        return _node("ram:SpecifiedTradePaymentTerms", due)
    words = "Set off against what is open on the invoice; what was paid already is paid back."
    return _node("ram:SpecifiedTradePaymentTerms", _text("ram:Description", words))


def _summation(document: Document, accounted: Decimal | None) -> ET.Element:
    base = document.exchange.base if document.exchange else ""
    return _node(
        "ram:SpecifiedTradeSettlementHeaderMonetarySummation",
        _text("ram:LineTotalAmount", _money(document.net, document)),
        _text("ram:TaxBasisTotalAmount", _money(total(g.base for g in document.taxes), document)),
        _text("ram:TaxTotalAmount", _money(document.tax, document), currencyID=document.currency),
        None
        if accounted is None
        else _text("ram:TaxTotalAmount", plain(accounted, minor_units(base)), currencyID=base),
        _text("ram:GrandTotalAmount", _money(document.gross, document)),
        _text("ram:DuePayableAmount", _money(document.gross, document)),
    )


def _references(document: Document) -> Iterable[tuple[str, date]]:
    """The invoices that this one corrects or credits, each once."""
    if isinstance(document, CreditNote):
        return [(document.invoice, document.invoice_issued_on)]
    return sorted({(line.corrects.number, line.corrects.issued_on) for line in document.lines if line.corrects})


def _referred(number: str, at: date) -> ET.Element:
    return _node(
        "ram:InvoiceReferencedDocument",
        _text("ram:IssuerAssignedID", number),
        _node("ram:FormattedIssueDateTime", _day("qdt", at)),
    )


def _country(party: Party) -> str | None:
    last = party.address[-1] if party.address else ""
    return last if re.fullmatch("[A-Z]{2}", last) else None


def _is_vat(tax_id: str | None) -> bool:
    return bool(tax_id and re.match("[A-Z]{2}", tax_id))

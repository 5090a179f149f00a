"""Invoices and credit notes as Factur-X: the EN 16931 data of the printed document, as Cross Industry Invoice XML."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Final, NamedTuple, TypeAlias

from billing.documents.facturx_lines import Item, credited_items, invoiced_items
from billing.documents.wording import UNTAXED, Untaxed
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
        found.append("reverse charge needs the buyer's VAT id")  # BR-AE-02
    return found


def document_xml(document: Document) -> bytes:
    """UTF-8 XML of the profile EN 16931: type 380 for an invoice, 381 with positive amounts for a credit note.

    The same document gives the same bytes, valid against the profile's schema. DocumentFailed when `xml_problems` finds
    any, or the schema does.
    """
    if problems := xml_problems(document):
        raise DocumentFailed(f"could not write Factur-X of {document.number or document.tenant}: {'; '.join(problems)}")
    root = next(_elements("rsm:CrossIndustryInvoice", _tree(document)))
    for name, space in _SPACES.items():
        root.set(name, space)
    ET.indent(root, " ")
    written: bytes = ET.tostring(root, encoding="UTF-8", xml_declaration=True) + b"\n"
    _check_schema(written, document.number or "")
    return written


def _tree(document: Document) -> Tree:
    credit = isinstance(document, CreditNote)
    items = credited_items(document) if isinstance(document, CreditNote) else invoiced_items(document)
    assert document.issued_on is not None
    return {
        "rsm:ExchangedDocumentContext": {"GuidelineSpecifiedDocumentContextParameter": {"ID": GUIDELINE}},
        "rsm:ExchangedDocument": {
            "ID": document.number or "",
            "TypeCode": "381" if credit else "380",
            "IssueDateTime": _day(document.issued_on),
            "IncludedNote": [{"Content": note} for note in _notes(document)],
        },
        "rsm:SupplyChainTradeTransaction": {
            "IncludedSupplyChainTradeLineItem": [_item(item, document) for item in items],
            "ApplicableHeaderTradeAgreement": {
                "BuyerReference": document.tenant,
                "SellerTradeParty": _party(document.seller, seller=True, untaxed=_untaxed(document)),
                "BuyerTradeParty": _party(document.buyer, seller=False, untaxed=_untaxed(document)),
                "BuyerOrderReferencedDocument": _identified(document.purchase_order, "IssuerAssignedID"),
            },
            "ApplicableHeaderTradeDelivery": {
                "ActualDeliverySupplyChainEvent": {"OccurrenceDateTime": _day(document.last_day)}
            },
            "ApplicableHeaderTradeSettlement": _settlement(document),
        },
    }


def _check_schema(xml: bytes, number: str) -> None:
    import facturx  # reading PDFs comes with it, which is not worth a start-up

    try:
        facturx.xml_check_xsd(xml, flavor="factur-x", level="en16931")
    except Exception as error:
        raise DocumentFailed(f"could not write Factur-X of {number}: {error}") from error


class Text(NamedTuple):
    """An element's text with one attribute."""

    text: str
    name: str
    value: str


Tree: TypeAlias = "Mapping[str, Content]"
Content: TypeAlias = "str | Text | Tree | Sequence[Tree] | Sequence[Text] | None"


def _elements(tag: str, content: Content) -> Iterator[ET.Element]:
    """The elements of a tag: none for None, those of each for a list, children in their order; `ram:` stands before what has no space."""
    if content is None:
        return
    if not isinstance(content, str | Text | Mapping):
        for one in content:
            yield from _elements(tag, one)
        return
    element = ET.Element(tag if ":" in tag else f"ram:{tag}")
    if isinstance(content, Text):
        element.text = content.text
        element.set(content.name, content.value)
    elif isinstance(content, str):
        element.text = content
    else:
        for name, child in content.items():
            element.extend(_elements(name, child))
    yield element


def _identified(number: str | None, name: str = "ID") -> Tree | None:
    return {name: number} if number else None


def _day(at: date, space: str = "udt") -> Tree:
    return {f"{space}:DateTimeString": Text(f"{at:%Y%m%d}", "format", "102")}


def _number(amount: Decimal) -> str:
    return f"{trimmed(amount):f}"


def _money(amount: Decimal, document: Document) -> str:
    return plain(amount, minor_units(document.currency))


def _notes(document: Document) -> Sequence[str]:
    if isinstance(document, Invoice):
        return document.notes
    return tuple(text for text in (document.explanation, document.tax_note) if text)


def _item(item: Item, document: Document) -> Tree:
    category, rate = _category(document, item.tax_rate)
    basis = Text(str(item.basis), "unitCode", item.unit) if item.basis != 1 else None
    return {
        "AssociatedDocumentLineDocument": {"LineID": str(item.position)},
        "SpecifiedTradeProduct": {"Name": item.name, "Description": item.note or None},
        "SpecifiedLineTradeAgreement": {
            "NetPriceProductTradePrice": {"ChargeAmount": _number(item.price), "BasisQuantity": basis}
        },
        "SpecifiedLineTradeDelivery": {"BilledQuantity": Text(_number(item.quantity), "unitCode", item.unit)},
        "SpecifiedLineTradeSettlement": {
            "ApplicableTradeTax": {"TypeCode": "VAT", "CategoryCode": category, "RateApplicablePercent": rate},
            "SpecifiedTradeSettlementLineMonetarySummation": {"LineTotalAmount": _money(item.amount, document)},
        },
    }


def _untaxed(document: Document) -> Untaxed | None:
    return UNTAXED.get(document.tax_treatment)


def _category(document: Document, rate: Decimal) -> tuple[str, str | None]:
    """Tax category code and the rate in percent; a service outside the scope of the tax has none (BR-O-05, BR-48)."""
    untaxed = _untaxed(document)
    percent = None if untaxed and untaxed.outside else _number(rate.scaleb(2))
    return (untaxed.category if untaxed else "S" if rate else "Z"), percent


def _party(party: Party, seller: bool, untaxed: Untaxed | None) -> Tree:
    """A buyer's tax id that is no VAT id, or must not be one (BR-O-02), stands as its registration (BT-47); a seller's as its tax number
    (BT-32), and beside it as what identifies the seller (BT-29; BR-CO-26)."""
    vat = _is_vat(party.tax_id) and not (untaxed and untaxed.outside)
    contact: Tree = {"PersonName": party.name, "EmailURIUniversalCommunication": {"URIID": party.email}}
    *lines, country = party.address
    rows = [*lines[:2], ", ".join(lines[2:])] if len(lines) > 3 else lines
    tax_id = Text(party.tax_id or "", "schemeID", "VA" if vat else "FC")
    return {
        "ID": party.tax_id if seller and not vat else None,
        "Name": party.name,
        "SpecifiedLegalOrganization": None if vat or seller else _identified(party.tax_id),
        "DefinedTradeContact": contact if party.email and seller else None,
        "PostalTradeAddress": dict(zip(("LineOne", "LineTwo", "LineThree"), rows, strict=False))
        | {"CountryID": country},
        "SpecifiedTaxRegistration": {"ID": tax_id} if party.tax_id and (vat or seller) else None,
    }


def _settlement(document: Document) -> Tree:
    invoice = document if isinstance(document, Invoice) else None
    rate, accounted = document.exchange, document.tax_in_price_currency
    iban = document.seller.iban if invoice and invoice.due else None
    means: Tree = {"TypeCode": "58", "PayeePartyCreditorFinancialAccount": {"IBANID": iban}}
    return {
        "PaymentReference": invoice.number if invoice else None,
        "TaxCurrencyCode": rate.base if rate and accounted is not None else None,
        "InvoiceCurrencyCode": document.currency,
        "SpecifiedTradeSettlementPaymentMeans": means if iban else None,
        "ApplicableTradeTax": [_tax(group, document) for group in document.taxes],
        "BillingSpecifiedPeriod": {"StartDateTime": _day(document.first_day), "EndDateTime": _day(document.last_day)},
        "SpecifiedTradePaymentTerms": _terms(document),
        "SpecifiedTradeSettlementHeaderMonetarySummation": _summation(document),
        "InvoiceReferencedDocument": [
            {"IssuerAssignedID": number, "FormattedIssueDateTime": _day(at, "qdt")}
            for number, at in _references(document)
        ],
    }


def _tax(group: TaxGroup, document: Document) -> Tree:
    category, rate = _category(document, group.rate)
    untaxed = _untaxed(document)
    return {
        "CalculatedAmount": _money(group.amount, document),
        "TypeCode": "VAT",
        "ExemptionReason": (document.tax_note or untaxed.reason) if untaxed else None,
        "BasisAmount": _money(group.base, document),
        "CategoryCode": category,
        "ExemptionReasonCode": untaxed.code if untaxed else None,
        "RateApplicablePercent": rate,
    }


def _terms(document: Document) -> Tree:
    if isinstance(document, Invoice) and document.due_on:
        return {"DueDateDateTime": _day(document.due_on)}
    return {"Description": "Set off against what is open on the invoice; what was paid already is paid back."}


def _summation(document: Document) -> Tree:
    taxes = [Text(_money(document.tax, document), "currencyID", document.currency)]
    if document.exchange and document.tax_in_price_currency is not None:
        base = document.exchange.base
        taxes.append(Text(plain(document.tax_in_price_currency, minor_units(base)), "currencyID", base))
    return {
        "LineTotalAmount": _money(document.net, document),
        "TaxBasisTotalAmount": _money(total(g.base for g in document.taxes), document),
        "TaxTotalAmount": taxes,
        "GrandTotalAmount": _money(document.gross, document),
        "DuePayableAmount": _money(document.gross, document),
    }


def _references(document: Document) -> Iterable[tuple[str, date]]:
    """The invoices that this one corrects or credits, each once."""
    if isinstance(document, CreditNote):
        return [(document.invoice, document.invoice_issued_on)]
    return sorted({(line.corrects.number, line.corrects.issued_on) for line in document.lines if line.corrects})


def _country(party: Party) -> str | None:
    last = party.address[-1] if party.address else ""
    return last if re.fullmatch("[A-Z]{2}", last) else None


def _is_vat(tax_id: str | None) -> bool:
    return bool(tax_id and re.match("[A-Z]{2}", tax_id))

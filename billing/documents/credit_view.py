"""What a reader of the printed credit note sees: every number and sentence as text, ready to be placed on a page."""

from __future__ import annotations

from typing import Any

from billing.documents.formats import breakable, day, instant, money, month, short_day, unit_price
from billing.documents.line_view import price_text, quantity_text
from billing.documents.view import dated_rate, footer, party_view, rate_text, totals
from billing.documents.wording import REASONS
from billing.exact.money import negated
from billing.invoice.credit import CreditLine, CreditNote


def credit_note_view(note: CreditNote) -> dict[str, Any]:
    """The template's data: strings, and lists and dicts of strings."""
    draft = note.state == "draft"
    reference = note.number or f"draft, on {note.invoice}"
    return {
        "draft": draft,
        "title": f"Credit note {reference}",
        "heading": "Draft credit note" if draft else "Credit note",
        "currency": note.currency,
        "footer": footer(note.seller, reference),
        "seller": party_view(note.seller),
        "buyer": party_view(note.buyer),
        "facts": _facts(note),
        "due": {
            "label": "Amount credited" if not draft else "Proposed credit",
            "amount": f"{note.currency} {money(note.gross, note.currency)}",
            "by": f"On invoice {note.invoice}",
            "how": "A draft: it has no number and credits nothing yet."
            if draft
            else "Set off against what is open on that invoice; what was paid already is paid back.",
        },
        "reason": {"what": REASONS[note.reason], "explanation": note.explanation},
        "lines": [_line(line, note) for line in note.lines],
        "totals": totals(note, "Net amount credited"),
        "total": [f"Total credited, {note.currency}", money(note.gross, note.currency)],
        "balance": {
            "head": f"Invoice {note.invoice}",
            "rows": [
                [f"As issued on {day(note.invoice_issued_on)}", money(note.invoice_gross, note.currency)],
                ["Credited before", money(negated(note.credited_gross), note.currency)],
                ["This credit note", money(negated(note.gross), note.currency)],
            ],
            "last": ["What stands", money(note.remaining_gross, note.currency)],
        },
        "notes": _notes(note),
        "provenance": _provenance(note),
    }


def _facts(note: CreditNote) -> list[list[str]]:
    return [
        ["Number", note.number or "none yet"],
        ["Date", day(note.issued_on) if note.issued_on else "draft"],
        ["Invoice", note.invoice],
        ["Invoice date", day(note.invoice_issued_on)],
        ["Billing month", month(note.month)],
        ["Period", f"{short_day(note.first_day)} to {short_day(note.last_day)}"],
        ["Customer", breakable(note.tenant)],
        *([["Your order", breakable(note.purchase_order)]] if note.purchase_order else []),
        *([["Exchange rate", rate_text(note.exchange)]] if note.exchange else []),
    ]


def _line(line: CreditLine, note: CreditNote) -> dict[str, str | None]:
    known = line.quantity is not None
    return {
        "description": line.description,
        "note": _note(line),
        "quantity": quantity_text(line.quantity, line.unit) if line.quantity is not None else "",
        "unit": line.unit if known else "",
        "price": price_text(line, note.currency) if known else "",
        "charged": money(line.charged, note.currency),
        "before": money(line.credited_before, note.currency),
        "amount": money(line.amount, note.currency),
    }


def _note(line: CreditLine) -> str | None:
    """A sum of GPU time without a quantity says at which price it was charged, since an invoice may have several."""
    if line.quantity is not None or line.unit != "GPU-hour":
        return line.note
    price = f"at {line.price_currency} {unit_price(line.unit_price)} per GPU-hour"
    return f"{line.note} {price}" if line.note else price


def _notes(note: CreditNote) -> list[str]:
    notes = [
        f"Credited at the prices, exchange rate and tax rates of invoice {note.invoice}, which itself stays as it was issued.",
        "The tax is what the invoice's tax comes down by: what stands is taxed like an invoice of that amount.",
        "A credited deduction is negative: it was taken off the invoice and is taken off the credit too.",
        note.tax_note or "",
    ]
    deductions = any(line.amount < 0 for line in note.lines)
    return [text for text in notes if text and (deductions or not text.startswith("A credited deduction"))]


def _provenance(note: CreditNote) -> list[list[str]]:
    rows = [
        ["Facts known up to", instant(note.cutoff)],
        ["Price book", note.price_book],
        *([["Exchange rate", dated_rate(note.exchange)]] if note.exchange else []),
        ["Invoice SHA-256", note.invoice_hash],
    ]
    rows += [["Ledger SHA-256", note.ledger_hash]] if note.ledger_hash else []
    return rows + ([["Content SHA-256", note.content_hash]] if note.content_hash else [])

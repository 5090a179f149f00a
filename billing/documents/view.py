"""What a reader of the printed invoice sees: every number and sentence as text, ready to be placed on a page."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from billing.cost.facts import COLD
from billing.documents.formats import (
    breakable,
    day,
    grouped,
    hours,
    in_fours,
    instant,
    money,
    month,
    per_million,
    short_day,
)
from billing.documents.line_view import line_rows
from billing.documents.wording import GLOSSARY, NOT_SUBJECT, OWNERS, PLANS, RANK, STATUSES, SUMMED, TERMS, UNTAXED
from billing.exact.money import ratio, round_places, total, trimmed
from billing.exact.quantities import gpu_hours
from billing.invoice.credit import CreditNote
from billing.invoice.invoice import Invoice, Party, Summed
from billing.invoice.lines import percent
from billing.invoice.prices import Exchange
from billing.invoice.rating import AdapterCost, StatusCost, Term
from catalog.owners import TimeOwner


def invoice_view(invoice: Invoice) -> dict[str, Any]:
    """The template's data: strings, and lists and dicts of strings."""
    draft = invoice.state == "draft"
    heading = "Draft invoice" if draft else "Invoice"
    reference = invoice.number or f"draft, {invoice.tenant}, {invoice.month}"
    return {
        "draft": draft,
        "title": f"Invoice {reference}",
        "heading": heading,
        "currency": invoice.currency,
        "cost_currency": invoice.price_currency,
        "footer": footer(invoice.seller, reference),
        "seller": party_view(invoice.seller),
        "buyer": party_view(invoice.buyer),
        "facts": _facts(invoice),
        "due": {
            "label": "Amount due" if not draft else "Amount so far, not yet due",
            "amount": f"{invoice.currency} {money(invoice.due, invoice.currency)}",
            "by": f"Due {day(invoice.due_on)}" if invoice.due_on else f"Usage up to {instant(invoice.cutoff)}",
            "how": _payment(invoice),
        },
        "lines": line_rows(invoice),
        "totals": totals(invoice, "Net amount"),
        "total": [f"Total, {invoice.currency}", money(invoice.gross, invoice.currency)],
        "highlights": _highlights(invoice),
        "terms": _terms(invoice),
        "charged": "Charged,\nnet" if invoice.plan == "per_token" else "Charged,\nwith margin",
        "adapters": _adapters(invoice),
        "statement": _statement(invoice),
        "statuses": [
            [
                STATUSES.get(status.status, status.status),
                grouped(status.requests),
                hours(status.gpu_hours),
                money(status.cost, invoice.price_currency),
                _charged(status, invoice),
            ]
            for status in sorted(invoice.statuses, key=lambda status: RANK.get(status.status, len(RANK)))
        ],
        "reconciliation": _reconciliation(invoice),
        "glossary": [list(item) for item in GLOSSARY.items()],
        "notes": list(invoice.notes),
        "provenance": _provenance(invoice),
    }


def footer(seller: Party, reference: str) -> str:
    """Who and which document, at the foot of every page."""
    return " · ".join(part for part in (seller.name, seller.tax_id and f"Tax ID {seller.tax_id}", reference) if part)


def party_view(party: Party) -> dict[str, Any]:
    """Name and lines of an address, with tax id and mail."""
    rows = [*party.address]
    rows += [f"Tax ID {party.tax_id}"] if party.tax_id else []
    rows += [party.email] if party.email else []
    return {"name": breakable(party.name), "rows": [breakable(row) for row in rows]}


def _facts(invoice: Invoice) -> list[list[str]]:
    return [
        ["Invoice number", invoice.number or "none yet"],
        ["Invoice date", day(invoice.issued_on) if invoice.issued_on else "draft"],
        ["Billing month", month(invoice.month)],
        ["Period", f"{short_day(invoice.first_day)} to {short_day(invoice.last_day)}"],
        ["Time zone", invoice.time_zone],
        ["Customer", breakable(invoice.tenant)],
        ["Plan", PLANS[invoice.plan]],
        *([["Your order", breakable(invoice.purchase_order)]] if invoice.purchase_order else []),
        *([["Exchange rate", rate_text(invoice.exchange)]] if invoice.exchange else []),
    ]


def rate_text(rate: Exchange) -> str:
    """`EUR 1 = USD 1.0842`."""
    return f"{rate.base} 1 = {rate.quote} {trimmed(rate.rate):f}"


def dated_rate(rate: Exchange) -> str:
    """`EUR 1 = USD 1.0842, ECB, 30 October 2026`."""
    return f"{rate_text(rate)}, {rate.source}, {day(rate.day)}"


def totals(document: Invoice | CreditNote, net: str) -> list[list[str]]:
    """The net amount, the tax by rate, and the tax in the currency in which the seller accounts for it, where that is another and there is any."""
    currency, accounted, abroad = document.currency, document.tax_in_price_currency, document.price_currency
    untaxed = UNTAXED.get(document.tax_treatment)
    outside = f"Tax ({NOT_SUBJECT})" if untaxed and untaxed.outside else None
    taxes = [
        [f"{outside or f'Tax {percent(g.rate)}'} on {money(g.base, currency)}", money(g.amount, currency)]
        for g in document.taxes
    ]
    for_information = [[f"Tax in {abroad}, for information", money(accounted, abroad)]] if accounted else []
    return [[net, money(document.net, currency)], *taxes, *for_information]


def _payment(invoice: Invoice) -> str:
    if not invoice.number:
        return "This is a draft. It has no number and is not a request for payment."
    if not invoice.due:
        return "Nothing to pay."
    account = f" to {in_fours(invoice.seller.iban)}" if invoice.seller.iban else ""
    return f"Please transfer{account}, reference {invoice.number}"


def _highlights(invoice: Invoice) -> list[dict[str, str]]:
    share = "not known" if invoice.lora_share is None else percent(invoice.lora_share)
    cards = [
        {
            "label": "Price per 1M tokens",
            "value": per_million(invoice.unit_price, invoice.currency),
            "note": "net, delivered output tokens",
        },
        {
            "label": "GPU cost per 1M tokens",
            "value": per_million(invoice.unit_cost, invoice.price_currency),
            "note": "attributed, before margin",
        },
        {"label": "LoRA routing overhead", "value": share, "note": "T_A, of this month's GPU cost"},
    ]
    if before := invoice.previous:
        change = ratio(total((invoice.net, before.net.copy_negate())), before.net, 3)
        sign = "+" if change and change > 0 else ""
        since = "" if change is None else f"{sign}{grouped(round_places(change * 100, 1))} % since then; "
        cards.append(
            {
                "label": month(before.month),
                "value": f"{invoice.currency} {money(before.net, invoice.currency)}",
                "note": f"{since}{per_million(before.unit_price, invoice.currency)} per 1M tokens",
            }
        )
    else:
        tokens = f"{grouped(invoice.output_tokens)} output tokens"
        cards.append({"label": "Requests", "value": grouped(invoice.requests), "note": tokens})
    return cards


def _adapters(invoice: Invoice) -> dict[str, Any]:
    parts = invoice.adapters
    whole = AdapterCost(
        "Together",
        invoice.requests,
        sum(part.input_tokens for part in parts),
        sum(part.cached_tokens for part in parts),
        invoice.output_tokens,
        invoice.statement,
        total(part.charged for part in parts),
    )
    *rows, together = (
        [
            breakable(part.adapter),
            grouped(part.requests),
            grouped(part.input_tokens),
            grouped(part.cached_tokens),
            grouped(part.output_tokens),
            hours(part.statement.measured.gpu_hours),
            money(part.statement.measured.cost, invoice.price_currency),
            money(part.charged, invoice.price_currency),
        ]
        for part in (*parts, whole)
    )
    note = (
        "Detail is rounded for reading; the lines on page 1 are what is charged. The files that come with this invoice "
        "hold every digit. “base” is the base model without an adapter."
    )
    return {"rows": rows, "total": together, "note": note}


def _statement(invoice: Invoice) -> dict[str, Any]:
    statement = invoice.statement
    terms = {name: [text, *_term(getattr(statement, name), invoice)] for name, text in TERMS.items()}
    terms["t_kv"][1:] = [f"−{text}" if text.strip("0.,") else text for text in terms["t_kv"][1:]]
    charged = (
        "Your plan charges this cost where the table below says so, plus margin."
        if invoice.plan == "cost_plus"
        else "Your plan charges per token, so this cost is shown for information and is not added to the bill."
    )
    idle = ""
    if invoice.idle:
        share = hours(total(part.gpu_hours for part in invoice.idle))
        cost = money(total(part.cost for part in invoice.idle), invoice.price_currency)
        idle = f" Your share of idle time is {share} GPU-hours, {invoice.price_currency} {cost}, beside the formula."
    return {
        **terms,
        "measured": ["Measured GPU time of your requests", *_term(statement.measured, invoice)],
        "note": f"GPU time is engine time multiplied by the number of GPUs. {charged}{idle}",
    }


def _term(term: Term, invoice: Invoice) -> list[str]:
    return [grouped(term.gpu_ns), hours(term.gpu_hours), money(term.cost, invoice.price_currency)]


def _reconciliation(invoice: Invoice) -> dict[str, Any]:
    parts = invoice.reconciliation
    idle = {"provider": "not charged", "usage": "shared by measured time", "residency": "shared by adapter memory"}
    if invoice.plan == "per_token":
        idle = dict.fromkeys(idle, "not charged")
    names = OWNERS | {TimeOwner.IDLE: f"Idle ({idle[invoice.idle_policy]})"}
    if isinstance(parts, Summed):
        names = SUMMED | {"together": f"{SUMMED['together']} (idle: {idle[invoice.idle_policy]})"}

    def row(name: str, ns: int) -> list[str]:
        share = ratio(Decimal(ns), Decimal(parts.rented), 4)
        return [name, grouped(ns), hours(gpu_hours(ns, 1)), "" if share is None else f"{share.scaleb(2):.2f} %"]

    own = grouped(invoice.statement.t_cold.gpu_ns)
    where = "second" if isinstance(parts, Summed) else "third"
    return {
        "rows": [row(text, getattr(parts, name)) for name, text in names.items()],
        "total": row("Rented time × GPUs", parts.rented),
        "note": f"The parts sum to the rented time to the nanosecond. Your share of adapter loading (T_cold) is {own} ns of the {where} row.",
    }


def _terms(invoice: Invoice) -> list[str]:
    """What must stand on the first page beside the sums: whose rate, why no tax, which prices."""
    rate, book = invoice.exchange, invoice.price_book
    return [
        *([f"Converted at {dated_rate(rate)}."] if rate else []),
        *([invoice.tax_note] if invoice.tax_note else []),
        *([f"Price book {book}: {invoice.price_note}"] if invoice.price_note else []),
    ]


def _provenance(invoice: Invoice) -> list[list[str]]:
    note = f": {invoice.price_note}" if invoice.price_note else ""
    rows = [
        ["Period in UTC", f"{instant(invoice.start)} up to {instant(invoice.end)}"],
        ["Usage cut-off", instant(invoice.cutoff)],
        ["Price book", f"{invoice.price_book} ({invoice.price_book_hash[:16]}){note}"],
        ["Method", f"{invoice.method}, step profile {', '.join(invoice.profiles) or 'none'}"],
        ["Ledger SHA-256", invoice.ledger_hash],
    ]
    if rate := invoice.exchange:
        rows.insert(2, ["Exchange rate", dated_rate(rate)])
    if invoice.content_hash:
        rows.append(["Content SHA-256", invoice.content_hash])
    return rows


def _charged(status: StatusCost, invoice: Invoice) -> str:
    if invoice.plan == "per_token":
        return "per token" if status.payer == "tenant" and status.status != COLD else "no"
    return "yes" if status.payer == "tenant" else "no"

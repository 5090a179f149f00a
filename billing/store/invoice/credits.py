"""Credit notes in the ledger: proposed from what is known now or agreed by hand, issued into the chain once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from billing.documents.press import Paper, Press
from billing.errors import CreditInvalid
from billing.exact.money import round_currency, total
from billing.invoice.corrections import Difference, proposed_credit_notes
from billing.invoice.credit import Credited, CreditNote, Reason, draft_credit_note, issue_credit_note, spread, whole
from billing.invoice.explain import Explained, Share, explain_request
from billing.invoice.invoice import Invoice
from billing.store.clickhouse import Ledger
from billing.store.invoice.corrections import as_known
from billing.store.invoice.drafting import Desk
from billing.store.invoice.explain import explain
from billing.store.invoice.issuing import free_number, issue, issued_credit_notes, issued_document
from billing.store.invoice.printing import keep_files
from billing.store.invoice.settling import post
from billing.store.invoice.verify import check_books
from catalog.model import Catalog


@dataclass(frozen=True, slots=True)
class Agreed:
    """A credit that no fact calls for: `net` of an invoice, what it charges for one `request`, or (both None) all that is left."""

    net: Decimal | None
    reason: Reason
    explanation: str | None = None
    request: str | None = None


def compare(ledger: Ledger, number: str, catalog: Catalog, now: datetime) -> Difference:
    """An issued invoice as issued and as now known; DocumentMissing when no invoice has that number."""
    return as_known(Desk.at(ledger, catalog, now), _invoice(ledger, number))


def propose(
    ledger: Ledger, number: str, catalog: Catalog, now: datetime, reason: Reason, explanation: str | None = None
) -> list[CreditNote]:
    """Drafts of the credit notes that bring what stands down to what is known; none when nothing has to go."""
    return list(proposed_credit_notes(compare(ledger, number, catalog, now), reason, explanation))


def agreed(ledger: Ledger, number: str, what: Agreed, now: datetime) -> CreditNote:
    """The draft of an agreed credit note; CreditInvalid when that much is not left, or the request is on no line."""
    invoice = _invoice(ledger, number)
    earlier = [note for note in issued_credit_notes(ledger, invoice.tenant) if note.invoice == number]
    credited = whole(invoice, earlier) if what.net is None else spread(invoice, what.net, earlier)
    if what.request is not None:
        credited = _of_request(explain(ledger, invoice), invoice, what.request, credited)
    return draft_credit_note(invoice, credited, what.reason, earlier=earlier, cutoff=now, explanation=_why(what))


def issue_proposed(
    ledger: Ledger,
    number: str,
    catalog: Catalog,
    now: datetime,
    reason: Reason,
    explanation: str | None = None,
    press: Press | None = None,
) -> list[CreditNote]:
    """Issue what `propose` proposes, and post it. Again, it issues nothing: what was credited is no longer due.

    DocumentFailed, and nothing is issued, when a note cannot be printed; BooksBroken as for a close.
    """
    return _issue(ledger, lambda: propose(ledger, number, catalog, now, reason, explanation), catalog, now, press)


def issue_agreed(
    ledger: Ledger, number: str, what: Agreed, catalog: Catalog, now: datetime, press: Press | None = None
) -> list[CreditNote]:
    """Issue an agreed credit note once: a second one of the same words, reason and sum on the invoice is not issued.

    Two that are meant to be two say so in their explanations. DocumentFailed, and nothing is issued, when it cannot be printed;
    BooksBroken as for a close.
    """

    def make() -> list[CreditNote]:
        earlier = issued_credit_notes(ledger, _invoice(ledger, number).tenant)
        if any(_same(note, number, what) for note in earlier):
            return []
        return [agreed(ledger, number, what, now)]

    return _issue(ledger, make, catalog, now, press)


def _issue(
    ledger: Ledger, make: Callable[[], Sequence[CreditNote]], catalog: Catalog, now: datetime, press: Press | None
) -> list[CreditNote]:
    check_books(ledger)
    series, today, printer = catalog.seller.credit_series, now.date(), press or Press()

    def numbered() -> list[CreditNote]:
        drafts = make()
        first = free_number(ledger, CreditNote, series, today.year) if drafts else 0
        notes = [issue_credit_note(draft, series, first + rank, today) for rank, draft in enumerate(drafts)]
        keep_files(ledger, [Paper(note, printer.files(note)) for note in notes], now)
        return notes

    done = issue(ledger, numbered, now)
    post(ledger)
    return done


def _same(note: CreditNote, number: str, what: Agreed) -> bool:
    sums = what.net is None or note.net == what.net
    return sums and (note.invoice, note.reason, note.explanation) == (number, what.reason, _why(what))


def _why(what: Agreed) -> str | None:
    """A request is always named, so that two are never taken for one."""
    if what.request is None or what.request in (what.explanation or ""):
        return what.explanation
    return f"{what.explanation or ''} Request {what.request}.".strip()


def _of_request(
    lines: Iterable[Explained], invoice: Invoice, request: str, left: Mapping[int, Credited]
) -> dict[int, Credited]:
    """Its share of each line, rounded, at most what is left of the line; with the quantity where nothing was cut off."""
    parts: defaultdict[int, list[Share]] = defaultdict(list)
    for line, share in explain_request(lines, request):
        parts[line.position].append(share)
    if not parts:
        raise CreditInvalid(f"could not credit request {request}: it is on no line of invoice {invoice.number}")
    credited = {}
    for position, shares in parts.items():
        asked = round_currency(total(share.amount for share in shares), invoice.currency)
        low, high = sorted((Decimal(0), left[position].amount if position in left else Decimal(0)))
        amount = min(max(asked, low), high)
        quantity = total(share.quantity for share in shares) if amount == asked else None
        credited[position] = Credited(amount, quantity)
    return credited


def _invoice(ledger: Ledger, number: str) -> Invoice:
    found = issued_document(ledger, number)
    if found.kind != "invoice":
        raise CreditInvalid(f"could not credit {number}: it is a credit note; give the number of an invoice")
    return found.invoice()

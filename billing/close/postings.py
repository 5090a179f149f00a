"""Double-entry postings of issued documents: every document balances, every posting is chained to the one before. No I/O."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from datetime import date
from decimal import Decimal
from typing import Final, Literal

from billing.close.acceptance import Acceptance
from billing.errors import PostingInvalid
from billing.exact.canonical import canonical_json, text_hash
from billing.exact.money import minor_units, negated, round_currency, total, trimmed
from billing.invoice.credit import CreditNote
from billing.invoice.invoice import Invoice

RECEIVABLE: Final = "receivable"
REVENUE: Final = "revenue"
TAX: Final = "tax"
CARRIED: Final = "carried"
"""What the provider takes on: the cost of gaps that were accepted."""
UNBILLED: Final = "unbilled"
"""Its other side: use that no tenant is billed for."""
FIRST: Final = ""
"""What the first posting of a ledger is chained to."""


@dataclass(frozen=True, slots=True)
class Posting:
    """One side of a document in its currency: either `debit` or `credit` is not 0, neither is negative.

    Its identity is (`document`, `entry`). `account` is `receivable` (what the tenant owes; the document's gross), `revenue`
    (one posting per document line, by `item`) or `tax` (one per rate); for an accepted gap `carried` and `unbilled`. `billing_month` is when it was used: for a
    correction line the month that it corrects. `invoice` is the invoice that is raised or lowered: the document itself, or
    the one that it corrects or credits. `hash` is SHA-256 over `previous_hash` and everything else, with amounts at the
    currency's minor unit, so that it does not depend on how many decimals a store hands back.
    """

    document: str
    entry: int
    kind: Literal["invoice", "credit_note", "acceptance"]
    account: str
    line: int | None
    item: str | None
    rate: Decimal | None
    tenant: str
    billing_month: str
    booked_on: date
    invoice: str
    currency: str
    debit: Decimal
    credit: Decimal
    previous_hash: str
    hash: str

    @property
    def amount(self) -> Decimal:
        """Debit minus credit."""
        return total((self.debit, negated(self.credit)))


def invoice_postings(invoice: Invoice, previous_hash: str) -> tuple[Posting, ...]:
    """The tenant owes the gross amount; each line is revenue, each tax rate is owed on. Lines of 0 have no posting.

    `previous_hash` is that of the ledger's last posting, or FIRST. PostingInvalid when the invoice is not issued.
    """
    if not invoice.number or not invoice.issued_on:
        raise PostingInvalid(f"could not post {invoice.tenant}'s {invoice.month}: it is not issued")
    blank = _blank(invoice.number, "invoice", invoice, invoice.issued_on, invoice.number)
    lines = [
        replace(
            blank,
            account=REVENUE,
            line=line.position,
            item=line.kind.value,
            invoice=line.corrects.number if line.corrects else invoice.number,
            billing_month=line.corrects.month if line.corrects else invoice.month,
            credit=line.amount,
        )
        for line in invoice.lines
    ]
    taxes = [replace(blank, account=TAX, rate=group.rate, credit=group.amount) for group in invoice.taxes]
    sides = [replace(blank, debit=invoice.gross), *lines, *taxes]
    return _linked([side for side in sides if side.amount], previous_hash)


def credit_note_postings(note: CreditNote, previous_hash: str) -> tuple[Posting, ...]:
    """The invoice's postings the other way round, as far as it is credited; lines are those of the credit note."""
    if not note.number or not note.issued_on:
        raise PostingInvalid(f"could not post the credit note on {note.invoice}: it is not issued")
    blank = _blank(note.number, "credit_note", note, note.issued_on, note.invoice)
    lines = [
        replace(blank, account=REVENUE, line=line.position, item=line.kind.value, debit=line.amount)
        for line in note.lines
    ]
    taxes = [replace(blank, account=TAX, rate=group.rate, debit=group.amount) for group in note.taxes]
    sides = [replace(blank, credit=note.gross), *lines, *taxes]
    return _linked([side for side in sides if side.amount], previous_hash)


def acceptance_postings(acceptance: Acceptance, previous_hash: str) -> tuple[Posting, ...]:
    """The provider carries what is at stake, and no tenant is billed for it. Both postings are there, also for nothing."""
    blank = replace(
        _blank(acceptance.number, "acceptance", acceptance, acceptance.issued_on, ""), item=acceptance.kind.value
    )
    cost = acceptance.cost
    sides = [replace(blank, account=CARRIED, debit=cost), replace(blank, account=UNBILLED, credit=cost)]
    return _linked(sides, previous_hash)


def balance(postings: Iterable[Posting]) -> dict[str, Decimal]:
    """Debit minus credit by currency; each is 0 or a document is broken."""
    sums: defaultdict[str, list[Decimal]] = defaultdict(list)
    for posting in postings:
        sums[posting.currency].append(posting.amount)
    return {currency: total(amounts) for currency, amounts in sorted(sums.items())}


def owed(postings: Iterable[Posting], document: str | None = None) -> dict[str, Decimal]:
    """What tenants owe by currency: the gross amount of one document (negative for a credit note), or of all."""
    return balance(
        posting for posting in postings if posting.account == RECEIVABLE and document in (None, posting.document)
    )


def document_postings(document: Invoice | CreditNote | Acceptance, previous_hash: str) -> tuple[Posting, ...]:
    """The postings of any issued document, behind the ledger's last one."""
    match document:
        case Invoice():
            return invoice_postings(document, previous_hash)
        case CreditNote():
            return credit_note_postings(document, previous_hash)
    return acceptance_postings(document, previous_hash)


def posting_faults(expected: Iterable[Posting], stored: Sequence[Posting]) -> list[str]:
    """Where the `stored` postings of a document are not those that follow from it, one line each.

    Equal amounts are equal, however many decimals a store hands back.
    """
    due, found = ({posting.entry: posting for posting in postings} for postings in (expected, stored))
    twice = [f"posting {entry} is there twice" for entry, n in Counter(p.entry for p in stored).items() if n > 1]
    odd = [entry for entry in sorted(due.keys() | found.keys()) if due.get(entry) != found.get(entry)]
    return twice + [f"posting {entry} {_odd(due.get(entry), found.get(entry))}" for entry in odd]


def _odd(due: Posting | None, found: Posting | None) -> str:
    if due is None or found is None:
        return "is missing" if due else "does not follow from the document"
    pairs = ((field.name, getattr(found, field.name), getattr(due, field.name)) for field in fields(Posting))
    said = [f"{name} {stated(was)}, not {stated(wanted)}" for name, was, wanted in pairs if was != wanted]
    values = [one for one in said if not one.startswith(("hash", "previous_hash"))]
    return f"says {', '.join(values)}" if values else "is not linked to the posting before it"


def stated(value: object) -> str:
    """A value as a fault says it: equal amounts are written equally."""
    return f"{trimmed(value):f}" if isinstance(value, Decimal) else str(value)


def _blank(
    number: str,
    kind: Literal["invoice", "credit_note", "acceptance"],
    document: Invoice | CreditNote | Acceptance,
    booked_on: date,
    invoice: str,
) -> Posting:
    return Posting(
        document=number,
        entry=0,
        kind=kind,
        account=RECEIVABLE,
        line=None,
        item=None,
        rate=None,
        tenant=document.tenant,
        billing_month=document.month,
        booked_on=booked_on,
        invoice=invoice,
        currency=document.currency,
        debit=Decimal(0),
        credit=Decimal(0),
        previous_hash=FIRST,
        hash="",
    )


def _linked(postings: Sequence[Posting], previous_hash: str) -> tuple[Posting, ...]:
    chained: list[Posting] = []
    for posting in map(_positive, postings):
        linked = replace(posting, entry=len(chained) + 1, previous_hash=previous_hash)
        chained.append(replace(linked, hash=_hash(linked)))
        previous_hash = chained[-1].hash
    if any(balance(chained).values()):
        raise PostingInvalid(f"could not post {postings[0].document}: debits and credits differ by {balance(chained)}")
    return tuple(chained)


def _positive(posting: Posting) -> Posting:
    """A negative debit is a credit, and the other way round; amounts have the currency's minor units."""
    amount = round_currency(posting.amount, posting.currency)
    nothing = Decimal(0).scaleb(-minor_units(posting.currency))
    debit, credit = (amount, nothing) if amount > 0 else (nothing, negated(amount))
    return replace(posting, debit=debit, credit=credit)


def _hash(posting: Posting) -> str:
    """Of a posting that has its amounts in minor units and no hash yet."""
    plain = replace(posting, rate=None if posting.rate is None else trimmed(posting.rate))
    return text_hash(f"{posting.previous_hash}\n{canonical_json(plain)}")

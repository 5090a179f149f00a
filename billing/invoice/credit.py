"""Credit notes: what lowers an issued invoice. Never more than was charged, line by line, in tax and in sum. No I/O."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Final, Literal, NamedTuple

from billing.errors import CreditInvalid
from billing.exact.amount import Amount
from billing.exact.canonical import content_hash
from billing.exact.money import minor_units, negated, round_currency, total
from billing.invoice.invoice import Invoice, Party
from billing.invoice.lines import Line, TaxGroup, accounted, sums
from billing.invoice.plans import ChargeKind
from billing.invoice.prices import Exchange
from catalog.model import TaxTreatment

SCHEMA: Final = "loraledger.credit_note/1"

Reason = Literal["usage_corrected", "price_corrected", "duplicate", "dispute", "goodwill", "void"]


class Credited(NamedTuple):
    """How much of one invoice line is credited, with the line's own sign; the quantity where it is that of the difference."""

    amount: Decimal
    quantity: Decimal | None = None


@dataclass(frozen=True, slots=True)
class CreditLine:
    """Takes back `amount` of line `line` of the invoice, which charged `charged`, of which `credited_before` was credited.

    All three have the line's sign: what is taken back of a deduction is negative. `unit_price` and the exchange rate are
    the invoice's; `quantity` (of `unit`) is None where the amount is not that of one quantity.
    """

    position: int
    line: int
    kind: ChargeKind
    description: str
    note: str | None
    charged: Decimal
    credited_before: Decimal
    amount: Decimal
    quantity: Decimal | None
    unit: str
    unit_price: Decimal
    price_currency: str
    exchange_rate: Decimal | None
    tax_rate: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class CreditNote:
    """A draft (no number, no date) or an issued credit note; positive amounts mean that the customer gets money back.

    Its identity is `number`, of a series of its own; `invoice` is the number of the one it lowers, at the prices, rates
    and taxes of that. `cutoff` is the instant up to which facts were known. `credited_gross` is what earlier credit notes
    took off the same invoice and `remaining_gross` what stands after this one.
    """

    schema: str = SCHEMA
    state: Literal["draft", "issued"] = "draft"
    number: str | None = None
    issued_on: date | None = None
    tenant: str
    seller: Party
    buyer: Party
    invoice: str
    invoice_issued_on: date
    invoice_hash: str
    purchase_order: str | None
    tax_treatment: TaxTreatment
    tax_note: str | None
    month: str
    time_zone: str
    start: datetime
    end: datetime
    first_day: date
    last_day: date
    reason: Reason
    explanation: str | None
    currency: str
    price_currency: str
    exchange: Exchange | None
    lines: tuple[CreditLine, ...]
    net: Decimal
    taxes: tuple[TaxGroup, ...]
    tax: Decimal
    tax_in_price_currency: Decimal | None
    gross: Decimal
    invoice_gross: Decimal
    credited_gross: Decimal
    remaining_gross: Decimal
    price_book: str
    cutoff: datetime
    ledger_hash: str | None
    content_hash: str | None = None

    @property
    def agreed(self) -> bool:
        """Whether it was given by agreement; a note that follows from facts says from which (`ledger_hash`)."""
        return self.ledger_hash is None

    def check(self) -> None:
        """Raise CreditInvalid unless sums agree to the cent and an issued note is what was issued."""
        name = _name(self)
        issued = self.state == "issued"
        if issued != all((self.number, self.issued_on, self.content_hash)):
            raise CreditInvalid(
                f"could not accept {name}: number, date and hash belong to issued credit notes, and to all of them"
            )
        sums = {
            "net amount": (self.net, total(line.amount for line in self.lines)),
            "tax": (self.tax, total(group.amount for group in self.taxes)),
            f"tax in {self.price_currency}": (self.tax_in_price_currency, accounted(self.tax, self.exchange)),
            "gross amount": (self.gross, total((self.net, self.tax))),
            "what remains": (
                self.remaining_gross,
                total((self.invoice_gross, negated(self.credited_gross), negated(self.gross))),
            ),
        }
        for what, (stated, summed) in sums.items():
            if stated != summed:
                raise CreditInvalid(f"could not accept {name}: {what} is {stated}, its parts come to {summed}")
        if self.net <= 0:
            raise CreditInvalid(f"could not accept {name}: it takes nothing off the invoice")
        if issued and self.content_hash != _hash(self):
            raise CreditInvalid(
                f"could not accept {name}: it was changed after issue (content hash {self.content_hash})"
            )


def draft_credit_note(
    invoice: Invoice,
    credited: Mapping[int, Credited],
    reason: Reason,
    *,
    earlier: Iterable[CreditNote] = (),
    cutoff: datetime,
    explanation: str | None = None,
    ledger_hash: str | None = None,
) -> CreditNote:
    """A credit note over lines of an issued invoice, by line position; `earlier` are all credit notes issued on it.

    The tax given back is what the tax on the rest no longer is, so what stands is always taxed like an invoice of that
    amount, and the last note takes whatever rounding left. `ledger_hash` is that of the rows as now known. CreditInvalid
    when the invoice is no issued one, or more would be credited than it charged.
    """
    if invoice.state != "issued" or not invoice.number or not invoice.issued_on or not invoice.content_hash:
        raise CreditInvalid(
            f"could not credit {invoice.tenant}'s {invoice.month}: only an issued invoice can be credited"
        )
    before = list(earlier)
    check_credited(invoice, before)
    note = _drafted(invoice, _lines(invoice, credited, before), before, reason, cutoff)
    note = replace(note, explanation=explanation, ledger_hash=ledger_hash)
    note.check()
    check_credited(invoice, [*before, note])
    return note


def _drafted(
    invoice: Invoice, lines: Sequence[CreditLine], before: Sequence[CreditNote], reason: Reason, cutoff: datetime
) -> CreditNote:
    number, issued_on, content = invoice.number, invoice.issued_on, invoice.content_hash
    assert number is not None
    assert issued_on is not None
    assert content is not None
    taxes = _taxes(invoice, lines, before)
    own = sums((line.amount for line in lines), taxes, invoice.currency, invoice.exchange)
    already = round_currency(total(note.gross for note in before), invoice.currency)
    return CreditNote(
        tenant=invoice.tenant,
        seller=invoice.seller,
        buyer=invoice.buyer,
        invoice=number,
        invoice_issued_on=issued_on,
        invoice_hash=content,
        purchase_order=invoice.purchase_order,
        tax_treatment=invoice.tax_treatment,
        tax_note=invoice.tax_note,
        month=invoice.month,
        time_zone=invoice.time_zone,
        start=invoice.start,
        end=invoice.end,
        first_day=invoice.first_day,
        last_day=invoice.last_day,
        reason=reason,
        explanation=None,
        currency=invoice.currency,
        price_currency=invoice.price_currency,
        exchange=invoice.exchange,
        lines=tuple(lines),
        net=own.net,
        taxes=taxes,
        tax=own.tax,
        tax_in_price_currency=own.accounted,
        gross=own.gross,
        invoice_gross=invoice.gross,
        credited_gross=already,
        remaining_gross=total((invoice.gross, negated(already), negated(own.gross))),
        price_book=invoice.price_book,
        cutoff=cutoff,
        ledger_hash=None,
    )


def _lines(invoice: Invoice, credited: Mapping[int, Credited], before: Sequence[CreditNote]) -> list[CreditLine]:
    taken = credited_lines(before)
    by_position = {line.position: line for line in invoice.lines}
    if unknown := credited.keys() - by_position.keys():
        raise CreditInvalid(f"could not credit invoice {invoice.number}: it has no line {min(unknown)}")
    places = Decimal(1).scaleb(-minor_units(invoice.currency))
    lines = [
        _line(rank, by_position[position], what, taken.get(position, Decimal(0)))
        for rank, (position, what) in enumerate(sorted((p, c) for p, c in credited.items() if c.amount), start=1)
    ]
    if odd := next((line for line in lines if line.amount % places), None):
        raise CreditInvalid(f"could not credit invoice {invoice.number}: {odd.amount} has parts of a minor unit")
    return lines


def issue_credit_note(draft: CreditNote, series: str, sequence: int, issued_on: date) -> CreditNote:
    """Number, date and freeze a draft: `<series>-<year>-<sequence>`, as invoices are numbered.

    The caller takes `sequence` in the transaction that stores the note. CreditInvalid when it is no draft, or would be
    dated before its invoice.
    """
    if draft.state != "draft":
        raise CreditInvalid(f"could not issue {_name(draft)}: it is issued already")
    if issued_on < draft.invoice_issued_on or sequence < 1:
        raise CreditInvalid(
            f"could not issue {_name(draft)} as {sequence} on {issued_on}: the invoice is of {draft.invoice_issued_on}, numbers start at 1"
        )
    issued = replace(draft, state="issued", number=f"{series}-{issued_on.year}-{sequence:04d}", issued_on=issued_on)
    return replace(issued, content_hash=_hash(issued))


def whole(invoice: Invoice, earlier: Iterable[CreditNote] = ()) -> dict[int, Credited]:
    """Everything that is not credited yet: what voids an invoice."""
    taken = credited_lines(earlier)
    return {
        line.position: Credited(left, line.quantity if left == line.amount else None)
        for line in invoice.lines
        if (left := total((line.amount, negated(taken.get(line.position, Decimal(0))))))
    }


def spread(invoice: Invoice, net: Decimal, earlier: Iterable[CreditNote] = ()) -> dict[int, Credited]:
    """A net sum dealt over the lines that charge something, by what is left of each; largest remainder, in minor units.

    CreditInvalid when the sum is not positive or more than is left.
    """
    currency = invoice.currency
    left = {position: Amount(what.amount, currency) for position, what in whole(invoice, earlier).items()}
    nothing, asked = Amount(Decimal(0), currency), Amount(net, currency)
    rest = sum(left.values(), nothing).rounded()
    if not nothing < asked <= rest:
        raise CreditInvalid(f"could not credit {net} of invoice {invoice.number}: {rest.value} net is left")
    charging = {position: amount for position, amount in left.items() if amount > nothing}
    parts = asked.dealt(list(charging.values()))
    return {position: Credited(part.value) for position, part in zip(charging, parts, strict=True) if part}


def credited_lines(notes: Iterable[CreditNote]) -> dict[int, Decimal]:
    """What credit notes of one invoice took back, by line position of the invoice."""
    taken: defaultdict[int, Decimal] = defaultdict(Decimal)
    for note in notes:
        for line in note.lines:
            taken[line.line] = total((taken[line.line], line.amount))
    return dict(taken)


def check_credited(invoice: Invoice, notes: Sequence[CreditNote]) -> None:
    """Raise CreditInvalid unless the notes lower this invoice, and by no more than it charged: per line, net, tax, gross."""
    where = f"could not credit invoice {invoice.number}"
    if strange := next(
        (n for n in notes if (n.invoice, n.invoice_hash) != (invoice.number, invoice.content_hash)), None
    ):
        raise CreditInvalid(f"{where}: {_name(strange)} refers to another document, or to other bytes of this one")
    charged = {line.position: line.amount for line in invoice.lines}
    for position, amount in credited_lines(notes).items():
        low, high = sorted((Decimal(0), charged[position]))
        if not low <= amount <= high:
            raise CreditInvalid(f"{where}: line {position} charged {charged[position]}, {amount} would be credited")
    for name in ("net", "tax", "gross"):
        taken, limit = total(getattr(note, name) for note in notes), getattr(invoice, name)
        if taken > limit:
            raise CreditInvalid(f"{where}: its {name} amount is {limit}, {taken} would be credited")


def _line(rank: int, line: Line, what: Credited, before: Decimal) -> CreditLine:
    return CreditLine(
        position=rank,
        line=line.position,
        kind=line.kind,
        description=line.description,
        note=_note(line),
        charged=line.amount,
        credited_before=before,
        amount=what.amount,
        quantity=what.quantity,
        unit=line.unit,
        unit_price=line.unit_price,
        price_currency=line.price_currency,
        exchange_rate=line.exchange_rate,
        tax_rate=line.tax_rate,
    )


def _note(line: Line) -> str | None:
    """Of which GPU, and of which month where the line is a correction; shares of a month's cost say nothing of a credit."""
    said = None if line.kind is ChargeKind.LORA else line.note
    return ", ".join(part for part in (said, line.gpu_type) if part) or None


def _taxes(invoice: Invoice, lines: Sequence[CreditLine], before: Sequence[CreditNote]) -> tuple[TaxGroup, ...]:
    groups, currency = [], invoice.currency
    for group in invoice.taxes:
        own = [line.amount for line in lines if line.tax_rate == group.rate]
        if not own:
            continue
        base = Amount.sum(own, currency)
        earlier = [g for note in before for g in note.taxes if g.rate == group.rate]
        stands = Amount(group.base, currency) - Amount.sum((g.base for g in earlier), currency)
        taxed = Amount(group.amount, currency) - Amount.sum((g.amount for g in earlier), currency)
        rest = ((stands - base) * group.rate).rounded()
        groups.append(TaxGroup(group.rate, base.rounded().value, (taxed - rest).value))
    return tuple(groups)


def _name(note: CreditNote) -> str:
    return f"credit note {note.number or f'(draft) on {note.invoice}'}"


def _hash(note: CreditNote) -> str:
    return content_hash(replace(note, content_hash=None))

"""As issued, as now known, and their difference: which is a proposed credit note, or a correction on the next invoice. No I/O."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final, Literal

from billing.errors import InvoiceInvalid
from billing.exact.amount import Amount
from billing.exact.money import negated, total
from billing.invoice.credit import Credited, CreditNote, Reason, credited_lines, draft_credit_note
from billing.invoice.invoice import Invoice
from billing.invoice.lines import Corrects, Line
from billing.invoice.plans import ChargeKind

_GIVEN: Final = ("goodwill", "void")
"""Reasons of agreed credits that say nothing of the facts."""


@dataclass(frozen=True, slots=True)
class Stake:
    """A line of an issued invoice, how much of it credit notes took back, and how much of that was agreed, whatever the facts say."""

    number: str
    line: Line
    credited: Amount
    agreed: Amount

    @property
    def amount(self) -> Amount:
        """What is left of the line."""
        return Amount(self.line.amount, self.credited.currency) - self.credited


@dataclass(frozen=True, slots=True)
class Change:
    """One item of the invoice: what was issued, what of it stands after credit notes and corrections, what is now known.

    `stakes` are the lines in which it stands, oldest first: that of the invoice, then corrections on later ones. `now` is
    the line as it would be charged today, None when nothing would; `nothing` is 0 in the invoice's currency.
    """

    stakes: tuple[Stake, ...]
    now: Line | None
    nothing: Amount

    @property
    def line(self) -> Line:
        """The item, as first charged or as it would be."""
        return self._lines[0]

    @property
    def standing(self) -> Amount:
        """Issued, less credited, plus corrected."""
        return sum((stake.amount for stake in self.stakes), self.nothing)

    @property
    def known(self) -> Amount:
        """What would be charged today."""
        return Amount(self.now.amount, self.nothing.currency) if self.now else self.nothing

    @property
    def agreed(self) -> Amount:
        """What was credited by agreement: later facts neither charge it again nor make it more."""
        return sum((stake.agreed for stake in self.stakes), self.nothing)

    @property
    def amount(self) -> Amount:
        """Known minus standing, as if nothing had been agreed."""
        return self.known - self.standing - self.agreed

    @property
    def quantity(self) -> Decimal | None:
        """Known minus standing quantity; None where no one price makes the amount of it."""
        one_price = len({(line.unit, line.unit_price, line.price_currency) for line in self._lines}) == 1
        if not one_price or any(stake.credited != stake.agreed for stake in self.stakes):
            return None
        standing = total(stake.line.quantity for stake in self.stakes)
        return total((self.now.quantity if self.now else Decimal(0), negated(standing)))

    @property
    def _lines(self) -> list[Line]:
        return [stake.line for stake in self.stakes] + ([self.now] if self.now else [])


@dataclass(frozen=True, slots=True)
class Difference:
    """An invoice as issued beside what is known now, item by item, in its currency and net of tax.

    `known` is the month drafted again with the prices that the caller wants compared: those of the invoice when only
    facts changed, the newest known version when a price was wrong. Its identity is (`original.number`, `known.cutoff`).
    """

    original: Invoice
    known: Invoice
    later: tuple[Invoice, ...]
    notes: tuple[CreditNote, ...]
    changes: tuple[Change, ...] = field(repr=False)

    @property
    def net(self) -> Amount:
        """What has to be charged more, or (negative) credited, so that what stands is what is known, less what was agreed.

        A credit that was agreed because something was wrong (a dispute, say) counts first against what facts take off;
        goodwill comes on top of it. Nothing is credited beyond what is left of the invoices.
        """
        nothing = self.nothing
        due = sum((change.amount for change in self.changes), nothing)
        if due >= nothing:
            return due
        wrong = (note.net for note in self.notes if note.agreed and note.reason not in _GIVEN)
        early = Amount.sum(wrong, nothing.currency)
        left = [max(_left(claim, nothing), nothing) for claim in _claims(self)]
        return -max(min(-due - early, sum(left, nothing)), nothing)

    @property
    def nothing(self) -> Amount:
        """0 in the invoice's currency."""
        return Amount(Decimal(0), self.original.currency)

    @property
    def outcome(self) -> Literal["none", "credit", "correction"]:
        """What the difference calls for; items that move while their sum does not call for nothing."""
        return "credit" if self.net < self.nothing else "correction" if self.net else "none"


def difference(
    original: Invoice, known: Invoice, later: Sequence[Invoice] = (), notes: Sequence[CreditNote] = ()
) -> Difference:
    """Compare an issued invoice with the same month as now known.

    `later` are the invoices issued since for the tenant (those that correct this one matter), `notes` the credit notes
    on any of these. Corrections that the original itself carries belong to earlier months and are left out of both sides.
    InvoiceInvalid when the two are not of one tenant, month and currency.
    """
    if original.state != "issued" or not original.number:
        raise InvoiceInvalid(f"could not compare {original.tenant}'s {original.month}: it was not issued")
    one = (original.tenant, original.month, original.currency, original.time_zone)
    if one != (known.tenant, known.month, known.currency, known.time_zone):
        raise InvoiceInvalid(
            f"could not compare invoice {original.number} with {known.tenant}'s {known.month} in {known.currency}: not the same"
        )
    related = [original, *sorted(later, key=_issued_on)]
    return Difference(original, known, tuple(related[1:]), tuple(notes), tuple(_changes(related, known, notes)))


def proposed_credit_notes(found: Difference, reason: Reason, explanation: str | None = None) -> tuple[CreditNote, ...]:
    """Drafts that bring what stands down to what is known: none unless the outcome is a credit.

    One on each invoice that still carries what has to go, newest correction first, the original last. Where some items
    rose and others fell, what rose is set off against what fell, so no line is credited beyond what it charged.
    """
    if found.outcome != "credit":
        return ()
    documents, claims = (*reversed(found.later), found.original), _claims(found)
    by_invoice = {
        invoice.number: {
            stake.line.position: _credited(change, part) for (change, stake), part in zip(claim, parts, strict=True)
        }
        for invoice, claim, parts in zip(documents, claims, _lowered(claims, -found.net), strict=True)
        if any(parts)
    }
    return tuple(
        draft_credit_note(
            invoice,
            by_invoice[invoice.number],
            reason,
            earlier=[note for note in found.notes if note.invoice == invoice.number],
            cutoff=found.known.cutoff,
            explanation=explanation,
            ledger_hash=found.known.ledger_hash,
        )
        for invoice in documents
        if invoice.number and invoice.number in by_invoice
    )


def correction_lines(found: Difference) -> tuple[Line, ...]:
    """Lines for the tenant's next invoice that bring what stands up to what is known: none unless the outcome is a correction.

    At the prices, exchange rate and tax rate of the corrected month; each refers to the original invoice. They sum to the
    difference to the cent.
    """
    if found.outcome != "correction":
        return ()
    return tuple(_correction(found, change) for change in found.changes if change.amount)


def _issued_on(invoice: Invoice) -> tuple[object, ...]:
    return invoice.issued_on, invoice.number


def _changes(related: Sequence[Invoice], known: Invoice, notes: Sequence[CreditNote]) -> list[Change]:
    """Stakes grouped by item, each with the known line that continues it: that of the same plan and price first, then
    of the same price, then of the same item."""
    threads: dict[Hashable, list[Stake]] = {}
    for invoice in related:
        own = [note for note in notes if note.invoice == invoice.number]
        taken, agreed = credited_lines(own), credited_lines(note for note in own if note.agreed)
        for line in invoice.lines:
            if (key := _thread(line, invoice, related[0])) is not None:
                parts = (Amount(part.get(line.position, Decimal(0)), known.currency) for part in (taken, agreed))
                threads.setdefault(key, []).append(Stake(invoice.number or "", line, *parts))
    waiting = [line for line in known.lines if line.corrects is None]
    found: dict[Hashable, Line] = {}
    for same in (_same_plan, _same_price, _same_item):
        for key, stakes in threads.items():
            continued = next((line for line in waiting if same(stakes[-1].line, line)), None)
            if key not in found and continued:
                found[key] = continued
                waiting.remove(continued)
    nothing = Amount(Decimal(0), known.currency)
    changes = [Change(tuple(stakes), found.get(key), nothing) for key, stakes in threads.items()]
    return changes + [Change((), line, nothing) for line in waiting]


def _thread(line: Line, invoice: Invoice, original: Invoice) -> Hashable:
    """Which item of the original the line belongs to; None when to none."""
    if invoice is original:
        return line.position if line.corrects is None else None
    if line.corrects is None or line.corrects.number != original.number:
        return None
    if line.corrects.line is None:
        return line.corrects.item, line.gpu_type, line.price_currency, line.unit_price, line.since
    return line.corrects.line


def _item(line: Line) -> tuple[object, ...]:
    return line.corrects.item if line.corrects else line.kind, line.gpu_type


def _same_item(one: Line, other: Line) -> bool:
    return _item(one) == _item(other)


def _same_plan(one: Line, other: Line) -> bool:
    return one.since == other.since and _same_price(one, other)


def _same_price(one: Line, other: Line) -> bool:
    return _same_item(one, other) and (one.price_currency, one.unit_price) == (other.price_currency, other.unit_price)


Claim = list[tuple[Change, Stake]]


def _claims(found: Difference) -> list[Claim]:
    """Lines and their items by document, in the order in which documents are credited: newest correction first, the original last."""
    return [
        [(change, stake) for change in found.changes for stake in change.stakes if stake.number == invoice.number]
        for invoice in (*reversed(found.later), found.original)
    ]


def _lowered(claims: Sequence[Claim], down: Amount) -> list[list[Amount]]:
    """How much to credit of each line so that all come to `down`, each between nothing and what is left of the line.

    A document is credited for its own lines that fell, then for others as far as it still stands; never below zero.
    """
    nothing = down * 0
    wanted = {id(change): -change.amount for claim in claims for change, _ in claim}
    fell, targets = [], []
    for claim in claims:
        parts = []
        for change, stake in claim:
            low, high = sorted((nothing, stake.amount))
            parts.append(min(max(wanted[id(change)], low), high))
            wanted[id(change)] -= parts[-1]
        fell.append(parts)
        targets.append(max(min(sum(parts, nothing), _left(claim, nothing), down), nothing))
        down -= targets[-1]
    for rank, claim in enumerate(claims):
        more = max(min(_left(claim, nothing) - targets[rank], down), nothing)
        targets[rank], down = targets[rank] + more, down - more
    return [_fitted(claim, parts, target) for claim, parts, target in zip(claims, fell, targets, strict=True)]


def _left(claim: Claim, nothing: Amount) -> Amount:
    return sum((stake.amount for _, stake in claim), nothing)


def _fitted(claim: Claim, parts: Sequence[Amount], target: Amount) -> list[Amount]:
    """The parts moved as little as it takes to come to `target`, within what is left of each line; none for no target."""
    if not target:
        return [target] * len(claim)
    nothing = target * 0
    gap = target - sum(parts, nothing)
    room = parts if gap < nothing else [stake.amount - part for (_, stake), part in zip(claim, parts, strict=True)]
    moves = gap.dealt([max(part, nothing) for part in room]) if gap else [nothing] * len(parts)
    return [part + move for part, move in zip(parts, moves, strict=True)]


def _credited(change: Change, part: Amount) -> Credited:
    """The quantity is said where the line alone makes up the whole change of its item."""
    alone = len(change.stakes) == 1 and part == -change.amount
    return Credited(part.value, negated(change.quantity) if alone and change.quantity is not None else None)


def _correction(found: Difference, change: Change) -> Line:
    original, line, amount, quantity = found.original, change.line, change.amount.value, change.quantity
    assert original.number is not None
    assert original.issued_on is not None
    one = Decimal(1).copy_sign(amount)
    now = None if quantity is None else change.now
    first = change.stakes[0].line if change.stakes and change.stakes[0].number == original.number else None
    taxed = first or next(iter(original.lines), line)
    standing = total(stake.line.exact for stake in change.stakes)
    return Line(
        position=0,
        kind=ChargeKind.CORRECTION,
        description=line.description if line.corrects else f"Correction: {line.description}",
        note=f"{original.month}, invoice {original.number}",
        quantity=quantity if now and quantity is not None else one,
        unit=line.unit if now else "item",
        unit_price=now.unit_price if now else abs(amount),
        exact=total((now.exact, negated(standing))) if now else amount,
        amount=amount,
        tax_rate=taxed.tax_rate,
        estimated=line.estimated,
        gpu_type=line.gpu_type,
        price_currency=line.price_currency if now else original.currency,
        exchange_rate=line.exchange_rate if now else None,
        corrects=Corrects(
            original.number,
            original.issued_on,
            original.month,
            original.currency,
            first.position if first else None,
            line.corrects.item if line.corrects else line.kind,
        ),
        since=line.since,
    )

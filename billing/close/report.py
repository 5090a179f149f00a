"""What finance signs: a month with its documents, what changed since the last close, and everything found. No I/O."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, Literal

from billing.close.acceptance import Acceptance
from billing.close.blocks import Block, blocked, told
from billing.exact.canonical import text_hash, to_plain
from billing.exact.money import total
from billing.invoice.invoice import Invoice

SCHEMA: Final = "loraledger.close_report/1"


@dataclass(frozen=True, slots=True)
class Change:
    """A term that is another than at the last close; None where it was not there, or is not any more. Values are JSON or text."""

    subject: str
    term: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Bill:
    """A tenant's document of the month, a draft (no number) included. `corrections` are what of `net` corrects earlier months.

    `cost` is what the tenant's use cost, in `price_currency`; `before` the net amount of its month before, where that is in the same currency.
    """

    tenant: str
    number: str | None
    currency: str
    net: Decimal
    tax: Decimal
    gross: Decimal
    corrections: Decimal
    before: Decimal | None
    cost: Decimal
    price_currency: str


@dataclass(frozen=True, slots=True)
class Late:
    """What is other than on an issued invoice, net: a correction on a document of this month, a credit note issued since the last
    close, or a difference that nobody settled yet (`due`; below 0 it needs `loraledger credit`), None where it cannot be worked out."""

    kind: Literal["correction", "credit_note", "due"]
    tenant: str
    invoice: str
    month: str
    number: str | None
    currency: str
    amount: Decimal | None


@dataclass(frozen=True, slots=True)
class Gone:
    """A tenant that used something in the month and is not in the catalog; `cost` is in the price book's currency. `document` is a
    number or `draft`, None where it is billed nothing."""

    tenant: str
    requests: int
    cost: Decimal
    document: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseReport:
    """A month as it can be closed, or was. `last_close` is when the newest earlier month was closed, None when none ever was.

    `findings` are all that was found, also what touches nobody; `accepted` what the provider took on, and who for it.
    """

    month: str
    as_of: datetime
    status: str
    closed_at: datetime | None
    last_month: str | None
    last_close: datetime | None
    currency: str
    rented_ns: int
    missing_ns: int
    missing_cost: Decimal
    unmeasured_attempts: int
    bills: tuple[Bill, ...]
    changes: tuple[Change, ...]
    findings: tuple[Block, ...]
    late: tuple[Late, ...]
    gone: tuple[Gone, ...]
    accepted: tuple[Acceptance, ...]

    @property
    def waiting(self) -> dict[str, list[Block]]:
        """Who has no invoice because of what."""
        return blocked(self.findings, [bill.tenant for bill in self.bills if bill.number])

    @property
    def sums(self) -> dict[str, tuple[Decimal, Decimal]]:
        """By currency: net and gross of all documents, drafts included."""
        return {
            currency: (total(bill.net for bill in own), total(bill.gross for bill in own))
            for currency in sorted({bill.currency for bill in self.bills})
            if (own := [bill for bill in self.bills if bill.currency == currency])
        }

    def told(self) -> dict[str, Any]:
        """As programs read it; `hash` is over all but the instant at which it was made, so that who approves can name what."""
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        plain = {name: to_plain(value) for name, value in own.items() if name != "findings"}
        plain |= {
            "schema": SCHEMA,
            "findings": [told(block) for block in self.findings],
            "waiting": {tenant: [block.id for block in blocks] for tenant, blocks in self.waiting.items()},
        }
        lasting = {name: value for name, value in plain.items() if name != "as_of"}
        return plain | {"hash": text_hash(json.dumps(lasting, sort_keys=True))}


def bill(invoice: Invoice) -> Bill:
    """An invoice or a draft as a line of the report."""
    return Bill(
        tenant=invoice.tenant,
        number=invoice.number,
        currency=invoice.currency,
        net=invoice.net,
        tax=invoice.tax,
        gross=invoice.gross,
        corrections=total(line.amount for line in invoice.lines if line.corrects),
        before=invoice.previous.net if invoice.previous else None,
        cost=invoice.statement.measured.cost,
        price_currency=invoice.price_currency,
    )


def late_corrections(invoices: Iterable[Invoice]) -> Iterator[Late]:
    """What the documents of a month raise earlier invoices by."""
    for invoice in invoices:
        for number, month in sorted(
            {(one.corrects.number, one.corrects.month) for one in invoice.lines if one.corrects}
        ):
            amounts = (line.amount for line in invoice.lines if line.corrects and line.corrects.number == number)
            yield Late("correction", invoice.tenant, number, month, invoice.number, invoice.currency, total(amounts))


def changes(kind: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Change]:
    """What is other in `after`, by subject (`kind` and its name) and term; terms are dicts of plain values."""
    for name in sorted(before.keys() | after.keys()):
        subject, old, new = f"{kind} {name}", before.get(name), after.get(name)
        if old is None or new is None:
            yield Change(subject, "", None if old is None else "was there", None if new is None else "is there")
            continue
        was, now = dict(_terms(old)), dict(_terms(new))
        for term in sorted(was.keys() | now.keys()):
            if was.get(term) != now.get(term):
                yield Change(subject, term, was.get(term), now.get(term))


def _terms(value: Any, path: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """`plan.margin`, `0.25`: dicts opened, lists as JSON, null as nothing."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from _terms(part, (*path, name))
    elif value is not None:
        yield ".".join(path), value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

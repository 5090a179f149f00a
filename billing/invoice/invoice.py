"""One tenant's month as a document: drafted from rated rows, numbered and frozen when issued."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Final, Literal, TypedDict

from billing.cost.attribution import IdleTime
from billing.cost.facts import NotConserved
from billing.errors import InvoiceInvalid
from billing.exact.canonical import content_hash
from billing.exact.money import product, ratio, total
from billing.exact.periods import BillingMonth
from billing.invoice.lines import Line, TaxGroup, accounted, invoice_lines, sums, tax_groups
from billing.invoice.notes import notes, tax_legend
from billing.invoice.plans import contract_of
from billing.invoice.prices import Exchange, book_hash, exchange
from billing.invoice.rating import AdapterCost, CostStatement, RatedTenant, StatusCost
from catalog.model import PriceBook, Seller, TaxTreatment, Tenant
from catalog.prices import IdlePolicy

SCHEMA: Final = "loraledger.invoice/1"
_MILLION: Final = Decimal(1_000_000)
_MOST: Final = Decimal(10**12)
"""What an amount stays below, so that every export has room for it."""


@dataclass(frozen=True, slots=True)
class Party:
    """Seller or buyer, frozen as they were when the invoice was drafted."""

    name: str
    address: tuple[str, ...]
    tax_id: str | None = None
    email: str | None = None
    iban: str | None = None


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """Where all rented GPU time of the month went, in GPU nanoseconds (engine nanoseconds x GPUs).

    `this_tenant` and `other_tenants` are measured request time without adapter loads; `cold` is every load. No other
    tenant is named.
    """

    this_tenant: int
    other_tenants: int
    cold: int
    recompute: int
    system: int
    idle: int
    unattributed: int
    down: int
    rented: int

    def check(self) -> None:
        """Raise NotConserved unless the parts sum to the rented time."""
        parts = sum(getattr(self, field.name) for field in fields(self) if field.name != "rented")
        if parts != self.rented:
            raise NotConserved("rented GPU time of the billing month", self.rented - parts)

    def summed(self) -> Summed:
        """As a customer may see it who must not learn what another one used."""
        together = self.other_tenants + self.cold + self.system + self.idle
        return Summed(self.this_tenant, together, self.recompute, self.unattributed, self.down, self.rented)


@dataclass(frozen=True, slots=True)
class Summed:
    """A `Reconciliation` in which other customers' time is told only in one sum with adapter loads, system and idle time.

    Where there are few customers, any of these beside the others would tell what a competitor used.
    """

    this_tenant: int
    together: int
    recompute: int
    unattributed: int
    down: int
    rented: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """The invoice of the month before, beside which this one is read."""

    month: str
    number: str | None
    requests: int
    output_tokens: int
    net: Decimal
    unit_price: Decimal | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Invoice:
    """A draft (no number, no dates) or an issued invoice (numbered, dated, `content_hash` over everything else).

    Amounts are in `currency`: `net` = sum of line amounts, `gross` = net + tax, `due` = gross. Costs (`statement`,
    `adapters`, `statuses`, `idle`) and prices stay in the price book's `price_currency`; where that is another,
    `exchange` is the rate the lines were converted at and `tax_in_price_currency` the tax as the seller accounts for it.
    `unit_cost` is attributed cost (`price_currency`) and `unit_price` the net amount without corrections, each per
    million delivered output tokens, None when none was delivered.
    `lora_share` is T_A as a fraction of the month's cost T_B + T_A - T_kv + T_cold. The period is [start, end) in UTC;
    `first_day` and `last_day` are what `time_zone` calls them. Facts known after `cutoff` are not in it.
    """

    schema: str = SCHEMA
    state: Literal["draft", "issued"] = "draft"
    number: str | None = None
    issued_on: date | None = None
    due_on: date | None = None
    payment_days: int
    tenant: str
    seller: Party
    buyer: Party
    purchase_order: str | None
    tax_treatment: TaxTreatment
    tax_note: str | None
    month: str
    time_zone: str
    start: datetime
    end: datetime
    first_day: date
    last_day: date
    currency: str
    price_currency: str
    exchange: Exchange | None
    plan: Literal["cost_plus", "per_token"]
    lines: tuple[Line, ...]
    net: Decimal
    taxes: tuple[TaxGroup, ...]
    tax: Decimal
    tax_in_price_currency: Decimal | None
    gross: Decimal
    due: Decimal
    requests: int
    output_tokens: int
    unit_cost: Decimal | None
    unit_price: Decimal | None
    lora_share: Decimal | None
    statement: CostStatement
    idle_policy: IdlePolicy
    idle: tuple[IdleTime, ...]
    adapters: tuple[AdapterCost, ...]
    statuses: tuple[StatusCost, ...]
    reconciliation: Reconciliation | Summed
    previous: Comparison | None
    price_book: str
    price_book_hash: str
    price_note: str | None
    method: str
    profiles: tuple[str, ...]
    cutoff: datetime
    ledger_hash: str
    notes: tuple[str, ...]
    content_hash: str | None = None

    def check(self) -> None:
        """Raise InvoiceInvalid unless sums agree to the cent and an issued invoice is what was issued."""
        name = self.number or f"draft of {self.tenant}, {self.month}"
        issued = self.state == "issued"
        if issued != all((self.number, self.issued_on, self.due_on, self.content_hash)):
            raise InvoiceInvalid(
                f"could not accept invoice {name}: number, dates and hash belong to issued invoices, and to all of them"
            )
        sums = {
            "net amount": (self.net, total(line.amount for line in self.lines)),
            "tax": (self.tax, total(group.amount for group in self.taxes)),
            f"tax in {self.price_currency}": (self.tax_in_price_currency, accounted(self.tax, self.exchange)),
            "gross amount": (self.gross, total((self.net, self.tax))),
            "amount due": (self.due, self.gross),
        }
        for what, (stated, summed) in sums.items():
            if stated != summed:
                raise InvoiceInvalid(f"could not accept invoice {name}: {what} is {stated}, its parts sum to {summed}")
        if self.taxes != tax_groups(self.lines, self.currency):
            raise InvoiceInvalid(f"could not accept invoice {name}: tax groups do not follow from its lines")
        if issued and self.content_hash != _hash(self):
            raise InvoiceInvalid(
                f"could not accept invoice {name}: it was changed after issue (content hash {self.content_hash})"
            )


class _AsItWas(TypedDict):
    """What is shown as it was declared and rated: who bills whom, for which month, by which prices, for what."""

    payment_days: int
    tenant: str
    seller: Party
    buyer: Party
    purchase_order: str | None
    tax_treatment: TaxTreatment
    tax_note: str | None
    month: str
    time_zone: str
    start: datetime
    end: datetime
    first_day: date
    last_day: date
    price_currency: str
    price_book: str
    price_note: str | None
    price_book_hash: str
    plan: Literal["cost_plus", "per_token"]
    requests: int
    output_tokens: int
    statement: CostStatement
    idle_policy: IdlePolicy
    idle: tuple[IdleTime, ...]
    adapters: tuple[AdapterCost, ...]
    statuses: tuple[StatusCost, ...]
    ledger_hash: str


def draft_invoice(
    rated: RatedTenant,
    tenant: Tenant,
    seller: Seller,
    book: PriceBook,
    month: BillingMonth,
    *,
    cutoff: datetime,
    method: str,
    profiles: Sequence[str],
    reconciliation: Reconciliation,
    previous: Invoice | None = None,
    corrections: Sequence[Line] = (),
) -> Invoice:
    """The month's draft, without a number. `cutoff` is the instant up to which usage was known (aware).

    In the tenant's currency, converted at the book's rate of the month if that is another. `corrections` are what raises
    earlier invoices (`corrections.correction_lines`); they come last and count towards no minimum or commitment.
    `previous` is shown beside this one when it is in the same currency. Raises NotConserved when the reconciliation does not add up or shows another time for this tenant than its rows do,
    ExchangeMissing, and InvoiceInvalid when rows, tenant or `previous` do not belong together, or an amount is too large.
    """
    _belong_together(rated, tenant, book, month, reconciliation, previous)
    cost = rated.statement.measured.cost
    lora_share = ratio(rated.statement.t_a.cost, cost, 4)
    rate, currency = exchange(tenant, book, month), tenant.currency
    usage = invoice_lines(rated, tenant.tax_rate, lora_share, contract_of(tenant, month), rate)
    lines = (*usage, *_placed(corrections, tenant, currency, len(usage)))
    taxes = tax_groups(lines, currency)
    own = sums((line.amount for line in lines), taxes, currency, rate)
    invoice = Invoice(
        **_as_it_was(rated, tenant, seller, month, book),
        currency=currency,
        exchange=rate,
        lines=lines,
        net=own.net,
        taxes=taxes,
        tax=own.tax,
        tax_in_price_currency=own.accounted,
        gross=own.gross,
        due=own.gross,
        unit_cost=_per_million(cost, rated.output_tokens),
        unit_price=_per_million(total(line.amount for line in usage), rated.output_tokens),
        lora_share=lora_share,
        reconciliation=reconciliation if seller.show_other_customers else reconciliation.summed(),
        previous=_comparison(previous) if previous and previous.currency == currency else None,
        method=method,
        profiles=tuple(sorted(set(profiles))),
        cutoff=cutoff,
        notes=notes(rated, tenant, rate, corrections),
    )
    invoice.check()
    _check_size(invoice)
    return invoice


def _check_size(invoice: Invoice) -> None:
    per_line = [
        amount for line in invoice.lines for amount in (line.exact, line.amount, line.unit_price, line.quantity)
    ]
    amounts = [*per_line, invoice.net, invoice.gross, invoice.tax_in_price_currency, invoice.statement.measured.cost]
    most = max((abs(amount) for amount in amounts if amount is not None), default=Decimal(0))
    if most >= _MOST:
        raise InvoiceInvalid(
            f"could not draft an invoice for {invoice.tenant}, {invoice.month}: {most:f} is on it, and it must stay below {_MOST:f}; "
            f"look at the plan's prices, the exchange rate and the usage"
        )


def _belong_together(
    rated: RatedTenant,
    tenant: Tenant,
    book: PriceBook,
    month: BillingMonth,
    reconciliation: Reconciliation,
    previous: Invoice | None,
) -> None:
    reconciliation.check()
    executed = rated.statement.measured.gpu_ns - rated.statement.t_cold.gpu_ns
    if missing := executed - reconciliation.this_tenant:
        raise NotConserved(f"measured time of tenant {tenant.id} in {month.text}", missing)
    if rated.tenant != tenant.id or rated.price_book_hash != book_hash(book):
        raise InvoiceInvalid(
            f"could not draft an invoice for {tenant.id} with price book {book.version}: it was rated for {rated.tenant} with {rated.price_book}"
        )
    if previous and previous.tenant != tenant.id:
        raise InvoiceInvalid(f"could not compare {tenant.id}'s month with an invoice of {previous.tenant}")


def _as_it_was(rated: RatedTenant, tenant: Tenant, seller: Seller, month: BillingMonth, book: PriceBook) -> _AsItWas:
    return {
        "payment_days": seller.payment_days,
        "tenant": tenant.id,
        "seller": Party(seller.name, seller.address, seller.tax_id, seller.email, seller.iban),
        "buyer": Party(tenant.name, tenant.address, tenant.tax_id),
        "purchase_order": tenant.purchase_order,
        "tax_treatment": tenant.tax_treatment,
        "tax_note": tax_legend(tenant) or None,
        "month": month.text,
        "time_zone": month.zone,
        "start": month.start,
        "end": month.end,
        "first_day": month.first_day,
        "last_day": month.last_day,
        "price_currency": book.currency,
        "price_book": book.version,
        "price_note": book.note,
        "price_book_hash": rated.price_book_hash,
        "plan": rated.plan,
        "requests": rated.requests,
        "output_tokens": rated.output_tokens,
        "statement": rated.statement,
        "idle_policy": rated.idle_policy,
        "idle": rated.idle,
        "adapters": rated.adapters,
        "statuses": rated.statuses,
        "ledger_hash": rated.ledger_hash,
    }


def issue_invoice(draft: Invoice, series: str, sequence: int, issued_on: date) -> Invoice:
    """Number, date and freeze a draft: `<series>-<year>-<sequence>`, due `payment_days` later.

    The caller takes `sequence` (1, 2, 3... per series and year) in the transaction that stores the invoice.
    InvoiceInvalid when it is no draft, or its month is not over on `issued_on`.
    """
    if draft.state != "draft":
        raise InvoiceInvalid(
            f"could not issue invoice {draft.number}: it is issued already; correct it with a credit note"
        )
    if issued_on < draft.last_day or sequence < 1:
        raise InvoiceInvalid(
            f"could not issue {draft.tenant}'s invoice for {draft.month} as {sequence} on {issued_on}: the month ends on {draft.last_day}, numbers start at 1"
        )
    issued = replace(
        draft,
        state="issued",
        number=f"{series}-{issued_on.year}-{sequence:04d}",
        issued_on=issued_on,
        due_on=issued_on + timedelta(days=draft.payment_days),
    )
    return replace(issued, content_hash=_hash(issued))


def _hash(invoice: Invoice) -> str:
    return content_hash(replace(invoice, content_hash=None))


def _per_million(amount: Decimal, tokens: int) -> Decimal | None:
    return ratio(product(amount, _MILLION), Decimal(tokens), 6)


def _comparison(invoice: Invoice) -> Comparison:
    return Comparison(
        invoice.month, invoice.number, invoice.requests, invoice.output_tokens, invoice.net, invoice.unit_price
    )


def _placed(corrections: Sequence[Line], tenant: Tenant, currency: str, after: int) -> list[Line]:
    for line in corrections:
        if line.corrects is None or line.corrects.currency != currency:
            raise InvoiceInvalid(
                f"could not draft an invoice for {tenant.id} in {currency}: line {line.description!r} corrects no invoice in that currency"
            )
    return [replace(line, position=after + rank) for rank, line in enumerate(corrections, start=1)]

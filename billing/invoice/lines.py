"""Charges become invoice lines, each rounded once; tax is computed per rate on the sum of rounded lines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from typing import Final, NamedTuple

from billing.cost.attribution import idle_policy
from billing.exact.amount import Amount
from billing.exact.canonical import SPARSE
from billing.exact.money import minor_units, product, ratio, round_currency, total, trimmed
from billing.invoice.plans import Charge, ChargeKind, Contract, contract_charges, rounded_amount
from billing.invoice.prices import Exchange
from billing.invoice.rating import RatedTenant

_NAMES: Final = {
    ChargeKind.BASE: "Base model time (T_B)",
    ChargeKind.LORA: "LoRA routing overhead (T_A)",
    ChargeKind.CACHE: "Prefix cache credit (T_kv, estimated)",
    ChargeKind.COLD: "Adapter loading (T_cold)",
    ChargeKind.IDLE: "Share of idle GPU time",
    ChargeKind.INPUT: "Input tokens, not cached",
    ChargeKind.CACHED_INPUT: "Input tokens, cached",
    ChargeKind.OUTPUT: "Output tokens, delivered",
    ChargeKind.COVERED: "Covered by the monthly commitment",
    ChargeKind.COMMITMENT: "Monthly commitment",
    ChargeKind.MINIMUM: "Top-up to the agreed monthly minimum",
    ChargeKind.ROUNDING: "Rounding",
}
_IDLE_BY: Final = {"usage": "by measured time", "residency": "by adapter memory", "provider": "carried by the provider"}


@dataclass(frozen=True, slots=True)
class Corrects:
    """What a correction line adds to: line `line` (None: nothing was charged for it then) of the issued invoice `number`.

    `item` is what it would have been charged as; `month` is the billing month in which it was used.
    """

    number: str
    issued_on: date
    month: str
    currency: str
    line: int | None
    item: ChargeKind


@dataclass(frozen=True, slots=True)
class Line:
    """One invoice line: `amount` is `exact` = quantity x unit price, rounded once, half up, to the currency's minor unit.

    `unit_price` and `exact` are in `price_currency`; where that is not the invoice's, `exact` times `exchange_rate` is
    what was rounded. MINIMUM tops the net amount up to the agreed minimum; ROUNDING keeps lines that round apart from
    going below zero together; CORRECTION raises an earlier invoice by the difference of two rounded amounts, so there
    `amount` and `exact` may be a minor unit apart. `estimated` marks what was not measured. In a month with several plans
    `since` is when the line's began: it is for usage up to the next one's.
    """

    position: int
    kind: ChargeKind
    description: str
    note: str | None
    quantity: Decimal
    unit: str
    unit_price: Decimal
    exact: Decimal
    amount: Decimal
    tax_rate: Decimal
    estimated: bool
    gpu_type: str | None
    price_currency: str
    exchange_rate: Decimal | None
    corrects: Corrects | None = None
    since: datetime | None = field(default=None, metadata={SPARSE: True})

    @property
    def converted(self) -> Decimal:
        """`exact` in the invoice's currency, unrounded; `amount` minus this is what rounding did to the line."""
        return self.exact if self.exchange_rate is None else trimmed(product(self.exact, self.exchange_rate))


@dataclass(frozen=True, slots=True)
class TaxGroup:
    """Tax of all lines with one rate: `amount` is `base` x `rate`, rounded once."""

    rate: Decimal
    base: Decimal
    amount: Decimal


class Sums(NamedTuple):
    """What lines and taxes come to; `accounted` is the tax in the currency of the price book, where that is another."""

    net: Decimal
    tax: Decimal
    gross: Decimal
    accounted: Decimal | None


def sums(amounts: Iterable[Decimal], taxes: Iterable[TaxGroup], currency: str, exchange: Exchange | None) -> Sums:
    """The sums of a document in `currency`: nothing is rounded that was not rounded before, but `accounted`."""
    net = Amount.sum(amounts, currency).rounded()
    tax = Amount.sum((group.amount for group in taxes), currency).rounded()
    return Sums(net.value, tax.value, (net + tax).value, accounted(tax.value, exchange))


def accounted(tax: Decimal, exchange: Exchange | None) -> Decimal | None:
    """The tax as the seller accounts for it, in the currency of the price book; None where that is the document's."""
    return ratio(tax, exchange.rate, minor_units(exchange.base)) if exchange else None


def invoice_lines(
    rated: RatedTenant,
    tax_rate: Decimal,
    lora_share: Decimal | None,
    contract: Contract | None = None,
    exchange: Exchange | None = None,
) -> tuple[Line, ...]:
    """One line per charge, in the plan's order, then what the contract adds: by default the plan's minimum alone.

    Amounts are in the price book's currency, or in that of `exchange`.
    """
    currency = exchange.quote if exchange else rated.currency
    usage = total(rounded_amount(charge, currency, exchange) for charge in rated.charges)
    contract = Contract(rated.minimum) if contract is None else contract
    charges = [*rated.charges, *contract_charges(usage, contract, currency, exchange)]
    several = len({charge.gpu_type for charge in charges if charge.gpu_type}) > 1
    return tuple(
        Line(
            position=position,
            kind=charge.kind,
            description=_description(charge, contract),
            note=_note(charge, rated, several, lora_share),
            quantity=charge.quantity,
            unit=charge.unit,
            unit_price=charge.price,
            exact=charge.amount,
            amount=rounded_amount(charge, currency, exchange),
            tax_rate=trimmed(tax_rate),
            estimated=charge.kind is ChargeKind.CACHE,
            gpu_type=charge.gpu_type,
            price_currency=charge.currency or rated.currency,
            exchange_rate=exchange.rate if exchange and charge.currency is None else None,
            since=charge.since,
        )
        for position, charge in enumerate(charges, start=1)
    )


def tax_groups(lines: Iterable[Line], currency: str) -> tuple[TaxGroup, ...]:
    """One group per tax rate, lowest first; rounded on the group's sum, never per line."""
    bases: defaultdict[Decimal, list[Decimal]] = defaultdict(list)
    for line in lines:
        bases[line.tax_rate].append(line.amount)
    groups = []
    for rate, amounts in sorted(bases.items()):
        base = round_currency(total(amounts), currency)
        groups.append(TaxGroup(rate, base, round_currency(product(base, rate), currency)))
    return tuple(groups)


def _description(charge: Charge, contract: Contract) -> str:
    match charge.kind:
        case ChargeKind.MARGIN:
            return f"Service margin, {percent(charge.price)} of cost"
        case ChargeKind.DISCOUNT:
            over = (
                f" of usage above {contract.discount.above:f}" if contract.discount and contract.discount.above else ""
            )
            return f"Discount, {percent(charge.price)}{over}"
        case ChargeKind.OVERAGE:
            return f"Usage beyond the commitment, {percent(charge.price)} {'more' if charge.quantity > 0 else 'less'}"
    return _NAMES[charge.kind]


def _note(charge: Charge, rated: RatedTenant, several: bool, lora_share: Decimal | None) -> str | None:
    parts = [charge.gpu_type] if several and charge.gpu_type else []
    if charge.kind is ChargeKind.LORA and lora_share is not None:
        parts.append(f"{percent(lora_share)} of this month's cost")
    if charge.kind is ChargeKind.IDLE:
        parts.append(_IDLE_BY[idle_policy(rated.idle, charge.gpu_type, charge.quantity, rated.idle_policy)])
    if charge.since is not None:
        parts.append(f"from {charge.since:%Y-%m-%d}{'' if charge.since.time() == time() else f'{charge.since: %H:%M}'}")
    return ", ".join(parts) or None


def percent(fraction: Decimal) -> str:
    """A fraction as people write it: `12.5 %`."""
    return f"{trimmed(fraction.scaleb(2)):f} %"

"""What a plan and a contract ask for a month: charges from usage, then discount, commitment and minimum upon them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Final

from billing.cost.attribution import IdleTime, TenantCost
from billing.cost.facts import TenantQuarter
from billing.exact.amount import Amount
from billing.exact.money import negated, product, total, trimmed
from billing.exact.periods import BillingMonth
from billing.invoice.prices import Exchange, in_invoice_currency
from catalog.model import Commitment, CostPlus, Discount, PerToken, Plan, Tenant
from catalog.tariff import token_lines


class ChargeKind(StrEnum):
    """What a charge is for; each becomes one line on the invoice. Those from DISCOUNT on arise only there."""

    BASE = "t_b"
    LORA = "t_a"
    CACHE = "t_kv"
    COLD = "t_cold"
    IDLE = "idle"
    MARGIN = "margin"
    INPUT = "input"
    CACHED_INPUT = "cached_input"
    OUTPUT = "output"
    DISCOUNT = "discount"
    COVERED = "covered"
    COMMITMENT = "commitment"
    OVERAGE = "overage"
    MINIMUM = "minimum"
    ROUNDING = "rounding"
    CORRECTION = "correction"


TERM_KINDS: Final = (ChargeKind.BASE, ChargeKind.LORA, ChargeKind.CACHE, ChargeKind.COLD)
TOKEN_KINDS: Final = (ChargeKind.INPUT, ChargeKind.CACHED_INPUT, ChargeKind.OUTPUT)


@dataclass(frozen=True, slots=True)
class Charge:
    """`quantity` x `price`, unrounded. `unit` is `GPU-hour`, `1M tokens`, `item`, or a currency (a share of that much money).

    A credit has a negative quantity, never a negative price. `gpu_type` tells term lines of several GPU types apart.
    `currency` is the invoice's where a charge follows from rounded lines, None where it is the price book's. `since` is when the
    terms of the charge began, in a month that has several.
    """

    kind: ChargeKind
    quantity: Decimal
    unit: str
    price: Decimal
    gpu_type: str | None = None
    currency: str | None = None
    since: datetime | None = None

    @property
    def amount(self) -> Decimal:
        """What it comes to, exact."""
        return trimmed(product(self.quantity, self.price))


@dataclass(frozen=True, slots=True)
class Contract:
    """What holds for one month beside the plan, in the price book's currency."""

    minimum: Decimal = Decimal(0)
    discount: Discount | None = None
    commitment: Commitment | None = None


def tokens(of: TenantQuarter, kind: ChargeKind) -> int:
    """How many tokens of a kind a row has: input is what was not cached."""
    if kind is ChargeKind.INPUT:
        return of.input_tokens - of.cached_tokens
    return of.cached_tokens if kind is ChargeKind.CACHED_INPUT else of.output_tokens


def contract_of(tenant: Tenant, month: BillingMonth) -> Contract:
    """The tenant's minimum, the commitment, and the discount that holds when the month begins, if any."""
    held = [
        discount
        for discount in tenant.discounts
        if (discount.start is None or discount.start <= month.start)
        and (discount.until is None or month.start < discount.until)
    ]
    newest = max(held, key=lambda discount: (discount.start is not None, discount.start or month.start), default=None)
    return Contract(trimmed(tenant.plan.minimum), newest, tenant.commitment)


def plan_charges(plan: Plan, rows: Sequence[TenantCost], idle: Sequence[IdleTime], currency: str) -> list[Charge]:
    """What the plan asks for rows that the tenant pays and for its share of idle time, unrounded.

    `currency` is the price book's. `cost_plus` charges the terms, the idle share and the margin on both; `per_token`
    charges tokens only.
    """
    return _cost_plus(plan, rows, idle, currency) if isinstance(plan, CostPlus) else _per_token(plan, rows)


def rounded_amount(charge: Charge, currency: str, exchange: Exchange | None) -> Decimal:
    """What the charge comes to on an invoice in `currency`: converted if need be, rounded once."""
    return in_invoice_currency(charge.amount, exchange if charge.currency is None else None, currency)


def contract_charges(rounded: Decimal, contract: Contract, currency: str, exchange: Exchange | None) -> list[Charge]:
    """What the contract adds to usage lines that come to `rounded` in the invoice's `currency`.

    In this order: the discount; the commitment's cover, its fee, and the difference that its overage price makes beyond
    the cover; what lifts the sum to the minimum. Each is reckoned on rounded lines, so a month within its commitment
    comes to the fee to the cent. Lines that round apart never leave a sum below zero.
    """
    charges: list[Charge] = []
    usage, nothing = Amount(rounded, currency), Amount(Decimal(0), currency)

    def agreed(amount: Decimal) -> Amount:
        return Amount(in_invoice_currency(amount, exchange, currency), currency)

    def so_far() -> Amount:
        return usage + Amount.sum((rounded_amount(charge, currency, exchange) for charge in charges), currency)

    def share(kind: ChargeKind, quantity: Amount, fraction: Decimal) -> None:
        if quantity and fraction:
            charges.append(Charge(kind, trimmed(quantity.value), currency, trimmed(fraction), currency=currency))

    if discount := contract.discount:
        share(ChargeKind.DISCOUNT, -max(usage - agreed(discount.above), nothing), discount.fraction)
    if commitment := contract.commitment:
        spent = so_far()
        covered = min(max(spent, nothing), agreed(commitment.fee if commitment.covers is None else commitment.covers))
        beyond = max(spent - covered, nothing)
        share(ChargeKind.COVERED, -covered, Decimal(1))
        charges.append(Charge(ChargeKind.COMMITMENT, Decimal(1), "item", trimmed(commitment.fee)))
        more = total((commitment.overage, Decimal(-1)))
        share(ChargeKind.OVERAGE, beyond if more > 0 else -beyond, abs(more))
    minimum = agreed(contract.minimum)
    if (missing := minimum - so_far()) > nothing:
        kind = ChargeKind.MINIMUM if minimum else ChargeKind.ROUNDING
        charges.append(Charge(kind, Decimal(1), "item", trimmed(missing.value), currency=currency))
    return charges


def _cost_plus(plan: CostPlus, rows: Sequence[TenantCost], idle: Sequence[IdleTime], currency: str) -> list[Charge]:
    charges = []
    priced: defaultdict[tuple[str, Decimal], list[TenantCost]] = defaultdict(list)
    for row in rows:
        priced[row.gpu_type, row.price].append(row)
    for (gpu_type, price), part in sorted(priced.items()):
        terms = {
            ChargeKind.BASE: total(row.t_b_gpu_hours for row in part),
            ChargeKind.LORA: total(row.t_a_gpu_hours for row in part),
            ChargeKind.CACHE: negated(total(row.t_kv_gpu_hours for row in part)),
            ChargeKind.COLD: total(row.t_cold_gpu_hours for row in part),
        }
        charges += [_charge(kind, quantity, "GPU-hour", price, gpu_type) for kind, quantity in terms.items()]
    charges += [_charge(ChargeKind.IDLE, part.gpu_hours, "GPU-hour", part.price, part.gpu_type) for part in idle]
    if plan.margin:
        cost = total(charge.amount for charge in charges)
        charges.append(_charge(ChargeKind.MARGIN, cost, currency, plan.margin))
    return charges


def _per_token(plan: PerToken, rows: Iterable[TenantCost]) -> list[Charge]:
    quarters = [row.quarter for row in rows]
    lines = token_lines(
        plan,
        sum(quarter.input_tokens for quarter in quarters),
        sum(quarter.cached_tokens for quarter in quarters),
        sum(quarter.output_tokens for quarter in quarters),
    )
    return [_charge(ChargeKind(line.kind), line.millions, "1M tokens", line.price) for line in lines]


def _charge(kind: ChargeKind, quantity: Decimal, unit: str, price: Decimal, gpu_type: str | None = None) -> Charge:
    return Charge(kind, trimmed(quantity), unit, trimmed(price), gpu_type)

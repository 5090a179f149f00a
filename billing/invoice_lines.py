"""Charges become invoice lines, each rounded once; tax is computed per rate on the sum of rounded lines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from billing.money import negated, product, round_currency, total, trimmed
from billing.rating import Charge, ChargeKind, RatedTenant

_NAMES: Final = {
    ChargeKind.BASE: "Base model time (T_B)",
    ChargeKind.LORA: "LoRA routing overhead (T_A)",
    ChargeKind.CACHE: "Prefix cache credit (T_kv, estimated)",
    ChargeKind.COLD: "Adapter loading (T_cold)",
    ChargeKind.IDLE: "Share of idle GPU time",
    ChargeKind.INPUT: "Input tokens, not cached",
    ChargeKind.CACHED_INPUT: "Input tokens, cached",
    ChargeKind.OUTPUT: "Output tokens, delivered",
    ChargeKind.MINIMUM: "Top-up to the agreed monthly minimum",
    ChargeKind.ROUNDING: "Rounding",
}
_IDLE_BY: Final = {"usage": "by measured time", "residency": "by adapter memory", "provider": "carried by the provider"}


@dataclass(frozen=True, slots=True)
class Line:
    """One invoice line: `amount` is `exact` = quantity x unit price, rounded once, half up, to the currency's minor unit.

    MINIMUM tops the net amount up to the agreed minimum; ROUNDING keeps lines that round apart from going below zero
    together. `estimated` marks what was not measured.
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
    estimated: bool = False


@dataclass(frozen=True, slots=True)
class TaxGroup:
    """Tax of all lines with one rate: `amount` is `base` x `rate`, rounded once."""

    rate: Decimal
    base: Decimal
    amount: Decimal


def invoice_lines(rated: RatedTenant, tax_rate: Decimal, lora_share: Decimal | None) -> tuple[Line, ...]:
    """One line per charge, in the plan's order, then what lifts the net amount to the minimum, if anything."""
    several = len({charge.gpu_type for charge in rated.charges if charge.gpu_type}) > 1
    charges = list(rated.charges)
    rounded = total(round_currency(charge.amount, rated.currency) for charge in charges)
    minimum = round_currency(rated.minimum, rated.currency)
    if rounded < minimum:
        kind = ChargeKind.MINIMUM if minimum else ChargeKind.ROUNDING
        charges.append(Charge(kind, Decimal(1), "item", trimmed(total((minimum, negated(rounded))))))
    several = len({charge.gpu_type for charge in charges if charge.gpu_type}) > 1
    return tuple(
        Line(
            position=position,
            kind=charge.kind,
            description=_description(charge),
            note=_note(charge, rated, several, lora_share),
            quantity=charge.quantity,
            unit=charge.unit,
            unit_price=charge.price,
            exact=charge.amount,
            amount=round_currency(charge.amount, rated.currency),
            tax_rate=trimmed(tax_rate),
            estimated=charge.kind is ChargeKind.CACHE,
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


def _description(charge: Charge) -> str:
    return (
        f"Service margin, {percent(charge.price)} of cost" if charge.kind is ChargeKind.MARGIN else _NAMES[charge.kind]
    )


def _note(charge: Charge, rated: RatedTenant, several: bool, lora_share: Decimal | None) -> str | None:
    parts = [charge.gpu_type] if several and charge.gpu_type else []
    if charge.kind is ChargeKind.LORA and lora_share is not None:
        parts.append(f"{percent(lora_share)} of this month's cost")
    if charge.kind is ChargeKind.IDLE:
        parts.append(_IDLE_BY[rated.idle_policy])
    return ", ".join(parts) or None


def percent(fraction: Decimal) -> str:
    """A fraction as people write it: `12.5 %`."""
    return f"{trimmed(fraction.scaleb(2)):f} %"

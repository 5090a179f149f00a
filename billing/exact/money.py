"""Exact decimal amounts: sums and products without loss, one rounding rule per currency, splits that add up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal, DivisionByZero, FloatOperation, Inexact, InvalidOperation, Overflow
from fractions import Fraction
from math import lcm
from typing import Final

from billing.errors import AmountInvalid
from catalog import apportionment

COST_QUANTUM: Final = Decimal(1).scaleb(-18)
"""Smallest step of an unrounded cost: a price with 6 decimals times a quantity with 12."""

_EXACT: Final = Context(prec=120, traps=[Inexact, InvalidOperation, DivisionByZero, Overflow, FloatOperation])
"""Sums and products either are exact or raise; the default context would round silently at 28 digits."""
_ROUNDING: Final = Context(
    prec=120, rounding=ROUND_HALF_UP, traps=[InvalidOperation, DivisionByZero, Overflow, FloatOperation]
)

_DECIMALS: Final = {
    0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF",
    3: "BHD IQD JOD KWD LYD OMR TND",
    4: "CLF UYW",
}
"""ISO 4217 currencies whose minor unit is not a hundredth."""


def minor_units(currency: str) -> int:
    """Decimals of an ISO 4217 currency: 2 unless the standard says otherwise."""
    return next((places for places, codes in _DECIMALS.items() if currency in codes.split()), 2)


def round_currency(amount: Decimal, currency: str) -> Decimal:
    """Round half up (away from zero on a tie) to the currency's minor unit: the only rounding of money there is."""
    return round_places(amount, minor_units(currency))


def round_places(amount: Decimal, places: int) -> Decimal:
    """Round half up to `places` decimals, keeping trailing zeros; never yields -0."""
    rounded = _ROUNDING.quantize(amount, Decimal(1).scaleb(-places))
    return rounded if rounded else rounded.copy_abs()


def product(left: Decimal, right: Decimal) -> Decimal:
    """`left` x `right`, every digit kept."""
    return _EXACT.multiply(left, right)


def quotient(part: Decimal, whole: Decimal) -> Decimal:
    """`part` / `whole`, every digit kept; decimal.Inexact when it has no end."""
    return _EXACT.divide(part, whole)


def negated(amount: Decimal) -> Decimal:
    """-`amount`, every digit kept; never yields -0."""
    return _EXACT.subtract(Decimal(0), amount)


def total(amounts: Iterable[Decimal]) -> Decimal:
    """The sum, every digit kept; 0 of nothing."""
    result = Decimal(0)
    for amount in amounts:
        result = _EXACT.add(result, amount)
    return result


def trimmed(amount: Decimal) -> Decimal:
    """The same value in its shortest fixed-point form, so that equal amounts are also written equally."""
    short = _EXACT.normalize(amount)
    return _EXACT.quantize(short, Decimal(1)) if short == short.to_integral_value() else short


def ratio(part: Decimal, whole: Decimal, places: int) -> Decimal | None:
    """`part` / `whole` rounded half up to `places` decimals, for people to read; None when there is no whole."""
    return round_places(_ROUNDING.divide(part, whole), places) if whole else None


def plain(amount: Decimal, places: int) -> str:
    """Fixed-point text with exactly `places` decimals; AmountInvalid if digits would be lost."""
    try:
        return format(_EXACT.quantize(amount, Decimal(1).scaleb(-places)), "f")
    except Inexact as error:
        raise AmountInvalid(f"could not write amount {amount}: it has more than {places} decimals") from error


def deal(units: int, weights: Sequence[int]) -> list[int]:
    """Split whole `units` by weight with the largest-remainder rule; ties go to the earlier weight, parts sum to `units`.

    AmountInvalid when a weight is negative, or when there is something to split and nobody to take it.
    """
    if min(weights, default=0) < 0:
        raise AmountInvalid(f"could not split {units}: weight {min(weights)} is negative")
    if units and not any(weights):
        raise AmountInvalid(f"could not split {units}: all {len(weights)} weights are zero")
    return apportionment.deal(units, weights)


def allocate(amount: Decimal, weights: Sequence[int | Decimal], quantum: Decimal) -> list[Decimal]:
    """Split `amount` by weight into multiples of `quantum` (one cent, one unit of a quantity) that sum to it exactly.

    Largest remainder, ties to the earlier weight. AmountInvalid when `amount` is not itself a multiple of `quantum`.
    """
    steps = Fraction(amount) / Fraction(quantum)
    if steps.denominator != 1:
        raise AmountInvalid(f"could not split {amount}: it is not a multiple of {quantum}")
    fractions = [Fraction(weight) for weight in weights]
    scale = lcm(*(fraction.denominator for fraction in fractions))
    dealt = deal(int(steps), [int(fraction * scale) for fraction in fractions])
    return [product(Decimal(part), quantum) for part in dealt]

"""Money as finance says it: an amount of one currency that adds up, exactly, with nothing but its own kind."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import total_ordering
from typing import Final, Self

from billing.errors import AmountInvalid
from billing.exact.money import allocate, minor_units, negated, product, quotient, round_currency, total

_WRITTEN: Final = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,18})?", re.ASCII)


def read_amount(text: str) -> Decimal:
    """An amount as people write one: digits 0 to 9 and at most one point, as 12.34. AmountInvalid for anything else, such as 1e2 or NaN."""
    if not _WRITTEN.fullmatch(text):
        raise AmountInvalid(f"{text!r} is not an amount such as 12.34: digits 0 to 9 and at most one point")
    return Decimal(text)


@total_ordering
@dataclass(frozen=True, slots=True)
class Amount:
    """`value` of `currency`, every digit kept: a product or a part that is not a finite decimal raises decimal.Inexact.

    + and - take an amount, * a count or a fraction. Amounts of two currencies are never equal; to add, subtract or order
    them is AmountInvalid. True unless it is 0; 0 never has a sign.
    """

    value: Decimal
    currency: str

    @classmethod
    def sum(cls, values: Iterable[Decimal], currency: str) -> Self:
        """What values of one currency come to; 0 for none."""
        return cls(total(values), currency)

    def __add__(self, other: Amount) -> Amount:
        return Amount(total((self.value, self._same(other))), self.currency)

    def __sub__(self, other: Amount) -> Amount:
        return self + -other

    def __neg__(self) -> Amount:
        return Amount(negated(self.value), self.currency)

    def __mul__(self, by: int | Decimal | Fraction) -> Amount:
        if isinstance(by, Fraction):
            return Amount(quotient((self * by.numerator).value, Decimal(by.denominator)), self.currency)
        return Amount(product(self.value, Decimal(by) if isinstance(by, int) else by), self.currency)

    __rmul__ = __mul__

    def __lt__(self, other: Amount) -> bool:
        return self.value < self._same(other)

    def __bool__(self) -> bool:
        return bool(self.value)

    def rounded(self) -> Amount:
        """Once, half up, to the currency's minor unit."""
        return Amount(round_currency(self.value, self.currency), self.currency)

    def dealt(self, weights: Sequence[Amount]) -> list[Amount]:
        """Parts by weight in minor units that sum to it; as `allocate`."""
        unit = Decimal(1).scaleb(-minor_units(self.currency))
        parts = allocate(self.value, [self._same(weight) for weight in weights], unit)
        return [Amount(part, self.currency) for part in parts]

    def _same(self, other: Amount) -> Decimal:
        if other.currency != self.currency:
            raise AmountInvalid(
                f"could not reckon {self.value} {self.currency} with {other.value} {other.currency}: convert one of them first"
            )
        return other.value

"""Numbers and days as people read them: grouped digits, a real minus sign, months by name. For reading, never for sums."""

from __future__ import annotations

import re
from datetime import date, datetime
from decimal import Decimal
from typing import Final

from billing.exact.money import minor_units, round_places, trimmed

_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip


def grouped(number: Decimal | int) -> str:
    """All digits, in groups of three: `1,234.50`, `−30.40`."""
    return f"{Decimal(number):,f}".replace("-", "−")


def money(amount: Decimal, currency: str) -> str:
    """Rounded to the currency's minor unit, without the currency."""
    return grouped(round_places(amount, minor_units(currency)))


def unit_price(price: Decimal) -> str:
    """Every digit of a price, at least two decimals."""
    exponent = trimmed(price).as_tuple().exponent
    return grouped(round_places(price, max(2, -exponent if isinstance(exponent, int) else 0)))


def per_million(amount: Decimal | None, currency: str) -> str:
    """A price per million tokens with its currency; four decimals below one."""
    if amount is None:
        return "none delivered"
    places = 4 if amount and abs(amount) < 1 else max(2, minor_units(currency))
    return f"{currency} {grouped(round_places(amount, places))}"


def hours(quantity: Decimal) -> str:
    """GPU-hours, or millions of tokens, with six decimals."""
    return grouped(round_places(quantity, 6))


def month(text: str) -> str:
    """`2026-10` as `October 2026`."""
    year, number = text.split("-")
    return f"{_MONTHS[int(number) - 1]} {year}"


def day(at: date) -> str:
    """`4 November 2026`."""
    return f"{at.day} {_MONTHS[at.month - 1]} {at.year}"


def short_day(at: date) -> str:
    """`4 Nov 2026`."""
    return f"{at.day} {_MONTHS[at.month - 1][:3]} {at.year}"


def instant(at: datetime) -> str:
    """`2026-11-03 06:00 UTC`; seconds only when there are any."""
    return f"{at:%Y-%m-%d %H:%M:%S} UTC".replace(":00 UTC", " UTC")


def in_fours(iban: str) -> str:
    """An account number in groups of four."""
    return re.sub(r"(\S{4})(?=\S)", r"\1 ", iban)


def breakable(text: str) -> str:
    """Lets a word longer than 20 characters wrap, so that no name runs into the next column."""
    return re.sub(r"(\S{20})(?=\S)", "\\1\u200b", text)

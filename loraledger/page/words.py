"""How the page writes numbers, instants and months. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

from billing.exact.periods import BillingMonth
from catalog.durations import SECOND_NS
from catalog.months import to_datetime

DASH = "–"
MINUS = "−"


def money(value: Decimal | None) -> str:
    """An amount with two decimals; a dash for None."""
    return DASH if value is None else f"{value:,.2f}".replace("-", MINUS)


def signed(value: Decimal) -> str:
    """Two decimals, always with a sign."""
    return f"{value:+,.2f}".replace("-", MINUS)


def percent(value: float | None, places: int = 1) -> str:
    """A share of 1 in percent."""
    return DASH if value is None else f"{value * 100:.{places}f} %"


def seconds(value: float | None) -> str:
    """Seconds, with fewer decimals the longer the time."""
    if value is None:
        return DASH
    return (
        f"{value:,.0f} s"
        if value >= 100
        else f"{value:.1f} s"
        if value >= 10 or value * 10 == int(value * 10)
        else f"{value:.2f} s"
    )


def engine_seconds(ns: int) -> str:
    """Nanoseconds as seconds with milliseconds."""
    return f"{ns / SECOND_NS:,.3f}"


def ms(value: float) -> str:
    """Milliseconds."""
    return f"{value:,.0f} ms" if value >= 100 else f"{value:.1f} ms"


def instant(value: datetime) -> str:
    """An instant in UTC, to the minute."""
    return value.astimezone(UTC).strftime("%-d %b %Y, %H:%M UTC")


def moment(ns: int) -> str:
    """An instant given in nanoseconds, in UTC, to the second."""
    return to_datetime(ns).strftime("%-d %b %H:%M:%S")


def month(text: str) -> str:
    """2026-11 as November 2026."""
    return BillingMonth(text).first_day.strftime("%B %Y")


def meter(ratio: float | None) -> float:
    """Width in percent of a bar in whose middle the promise stands."""
    return round(min((ratio or 0) * 50, 100), 1)

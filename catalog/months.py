"""Instants as calendars have them: UTC datetimes, and billing months as a tenant's time zone cuts them. No I/O."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from catalog.durations import SECOND_NS

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_datetime(at_ns: int) -> datetime:
    """The aware UTC instant, cut to microseconds (what a datetime can hold)."""
    return _EPOCH + timedelta(microseconds=at_ns // 1000)


def to_ns(at: datetime) -> int:
    """UTC nanoseconds of an aware instant, exactly."""
    return (at - _EPOCH) // timedelta(microseconds=1) * 1000


def month_of(at_ns: int, zone: str) -> str:
    """The billing month of the time zone that holds the instant, as 2026-10."""
    return f"{to_datetime(at_ns).astimezone(ZoneInfo(zone)):%Y-%m}"


def first_day(month: str) -> date:
    """The first local day of a month such as 2026-10."""
    return date.fromisoformat(f"{month}-01")


def month_after(month: str) -> str:
    """The month after a month such as 2026-10."""
    return f"{first_day(month) + timedelta(days=31):%Y-%m}"


def month_before(month: str) -> str:
    """The month before a month such as 2026-10."""
    return f"{first_day(month) - timedelta(days=1):%Y-%m}"


def month_begins(month: str, zone: str) -> datetime:
    """The first instant of the month in that time zone, UTC."""
    return datetime.combine(first_day(month), time(), ZoneInfo(zone)).astimezone(UTC)


class Calendar(NamedTuple):
    """Billing months of one whose time zone may change: each begins when the one before ends, so they tile time.

    `zones` are (month from which on, zone), oldest first, the first from ever on.
    """

    zones: tuple[tuple[str, str], ...]

    def zone(self, month: str) -> str:
        """The zone in which the month ends."""
        return next(zone for since, zone in reversed(self.zones) if since <= month)

    def opened(self, month: str) -> str:
        """The zone in which the month begins: that of the month before."""
        return self.zone(month_before(month))

    def begins(self, month: str) -> datetime:
        """The first instant of the month, UTC."""
        return month_begins(month, self.opened(month))

    def month_of(self, at_ns: int) -> str:
        """The billing month that holds the instant."""
        if len(self.zones) == 1:
            return month_of(at_ns, self.zones[0][1])
        at, month = to_datetime(at_ns), month_of(at_ns, "UTC")
        if at < self.begins(month):
            return month_before(month)
        return month_after(month) if at >= self.begins(month_after(month)) else month

    def seconds_left(self, at_ns: int) -> int:
        """Seconds until the next billing month begins, rounded up."""
        ends = self.begins(month_after(self.month_of(at_ns)))
        return -(-(int(ends.timestamp()) * SECOND_NS - at_ns) // SECOND_NS)

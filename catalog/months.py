"""Instants as calendars have them: UTC datetimes, and billing months as a tenant's time zone cuts them. No I/O."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from catalog.durations import SECOND_NS

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_datetime(at_ns: int) -> datetime:
    """The aware UTC instant, cut to microseconds (what a datetime can hold)."""
    return _EPOCH + timedelta(microseconds=at_ns // 1000)


def month_of(at_ns: int, zone: str) -> str:
    """The billing month of the time zone that holds the instant, as 2026-10."""
    return f"{to_datetime(at_ns).astimezone(ZoneInfo(zone)):%Y-%m}"


def first_day(month: str) -> date:
    """The first local day of a month such as 2026-10."""
    return date.fromisoformat(f"{month}-01")


def month_after(month: str) -> str:
    """The month after a month such as 2026-10."""
    return f"{first_day(month) + timedelta(days=31):%Y-%m}"


def month_begins(month: str, zone: str) -> datetime:
    """The first instant of the month in that time zone, UTC."""
    return datetime.combine(first_day(month), time(), ZoneInfo(zone)).astimezone(UTC)


def seconds_left(at_ns: int, zone: str) -> int:
    """Seconds until the next billing month begins in that time zone, rounded up."""
    ends = month_begins(month_after(month_of(at_ns, zone)), zone)
    return -(-(int(ends.timestamp()) * SECOND_NS - at_ns) // SECOND_NS)

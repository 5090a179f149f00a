"""Half-open windows of UTC time: quarter hours, hours, and billing months as a tenant's time zone cuts them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from billing.errors import PeriodInvalid
from catalog import months, tariff
from catalog.durations import HOUR_NS, QUARTER_NS
from catalog.months import first_day, month_after, month_begins, month_of
from catalog.tenants import Tenant


def quarter_start(at_ns: int) -> int:
    """Start of the UTC quarter hour that holds the instant."""
    return at_ns - at_ns % QUARTER_NS


def hour_start(at_ns: int) -> int:
    """Start of the UTC hour that holds the instant."""
    return at_ns - at_ns % HOUR_NS


def to_ns(at: datetime) -> int:
    """UTC nanoseconds of an aware instant, exactly; PeriodInvalid for a naive one."""
    if at.tzinfo is None:
        raise PeriodInvalid(f"could not place instant {at.isoformat()}: it has no time zone; give an aware datetime")
    return months.to_ns(at)


def hours(start_ns: int, end_ns: int) -> Iterator[int]:
    """Starts of all UTC hours that share time with [start_ns, end_ns), in order."""
    yield from range(hour_start(start_ns), end_ns, HOUR_NS)


def quarters(start_ns: int, end_ns: int) -> Iterator[int]:
    """Starts of all UTC quarter hours that share time with [start_ns, end_ns), in order."""
    yield from range(quarter_start(start_ns), end_ns, QUARTER_NS)


@dataclass(frozen=True, slots=True)
class BillingMonth:
    """A calendar month in a time zone, `BillingMonth("2026-10", "Europe/Berlin")`: [start, end) as UTC instants.

    A month in which clocks change has an hour more or less. `opened` is the zone of the month before, where that is another:
    the month begins when that one ends. PeriodInvalid when the text is not YYYY-MM, the zone is
    unknown, or the month would not begin and end on a UTC quarter hour.
    """

    text: str
    zone: str = "UTC"
    opened: str = ""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[1-9][0-9]{3}-(0[1-9]|1[0-2])", self.text) or self.text == "9999-12":
            raise PeriodInvalid(f"could not read billing month {self.text!r}: it must look like 2026-10")
        try:
            ZoneInfo(self.zone)
        except (ZoneInfoNotFoundError, ValueError) as error:
            raise PeriodInvalid(f"could not read billing month {self.text}: unknown time zone {self.zone!r}") from error
        if self.start_ns % QUARTER_NS or self.end_ns % QUARTER_NS:
            raise PeriodInvalid(
                f"could not cut billing month {self.text}: in {self.zone} it does not begin and end on a UTC quarter hour"
            )

    @classmethod
    def of(cls, tenant: Tenant, text: str) -> BillingMonth:
        """The month as the tenant's time zones cut it."""
        cls(text)  # what is no month is named as this class names it
        cut = tariff.calendar(tenant)
        zone, opened = cut.zone(text), cut.opened(text)
        return cls(text, zone, opened if opened != zone else "")

    @classmethod
    def at(cls, at_ns: int, zone: str = "UTC") -> BillingMonth:
        """The billing month of `zone` that holds the instant."""
        cls("2000-01", zone)  # an unknown zone is named as this class names it
        return cls(month_of(at_ns, zone), zone)

    @property
    def first_day(self) -> date:
        """First local day."""
        return first_day(self.text)

    @property
    def last_day(self) -> date:
        """Last local day, inclusive, as people write it."""
        return first_day(month_after(self.text)) - timedelta(days=1)

    @property
    def start(self) -> datetime:
        """First instant, UTC."""
        return month_begins(self.text, self.opened or self.zone)

    @property
    def end(self) -> datetime:
        """First instant that is no longer in the month, UTC."""
        return month_begins(month_after(self.text), self.zone)

    @property
    def start_ns(self) -> int:
        """First instant, UTC nanoseconds."""
        return to_ns(self.start)

    @property
    def end_ns(self) -> int:
        """First instant after the month, UTC nanoseconds."""
        return to_ns(self.end)

    def hours(self) -> Iterator[int]:
        """Starts (UTC ns) of all UTC hours that share time with the month; zones off the full hour touch one more."""
        return hours(self.start_ns, self.end_ns)

    def holds(self, at_ns: int) -> bool:
        """Whether the instant lies in the month."""
        return self.start_ns <= at_ns < self.end_ns

    def previous(self) -> BillingMonth:
        """The month before, in the same zone."""
        return BillingMonth((self.first_day - timedelta(days=1)).strftime("%Y-%m"), self.zone)

    def next(self) -> BillingMonth:
        """The month after, in the same zone."""
        return BillingMonth(month_after(self.text), self.zone)

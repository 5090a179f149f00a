"""Billing months as time zones cut them."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from billing.errors import PeriodInvalid
from billing.exact.periods import BillingMonth, hours, quarters, to_ns
from catalog.durations import HOUR_NS, QUARTER_NS
from catalog.months import to_datetime


@pytest.mark.parametrize(
    ("month", "zone", "length"),
    [
        ("2026-10", "UTC", 744),
        ("2026-10", "Europe/Berlin", 745),
        ("2026-03", "Europe/Berlin", 743),
        ("2026-03", "America/New_York", 743),
        ("2026-11", "America/New_York", 721),
        ("2028-02", "Asia/Tokyo", 696),
    ],
)
def test_a_month_has_the_hours_its_clocks_say(month: str, zone: str, length: int) -> None:
    period = BillingMonth(month, zone)
    assert period.end_ns - period.start_ns == length * HOUR_NS
    assert len(list(period.hours())) == length


def test_months_follow_each_other_without_gap_or_overlap() -> None:
    month = BillingMonth("2026-01", "Europe/Berlin")
    for _ in range(24):
        assert month.next().start_ns == month.end_ns
        assert month.next().previous() == month
        assert BillingMonth.at(month.start_ns, month.zone) == month
        assert BillingMonth.at(month.end_ns - 1, month.zone) == month
        assert month.holds(month.start_ns)
        assert not month.holds(month.end_ns)
        month = month.next()
    assert month.text == "2028-01"


def test_a_half_hour_zone_cuts_at_a_quarter_and_touches_one_more_hour() -> None:
    month = BillingMonth("2026-10", "Asia/Kolkata")
    assert month.start == datetime(2026, 9, 30, 18, 30, tzinfo=UTC)
    assert len(list(month.hours())) == 745
    assert len(list(quarters(month.start_ns, month.end_ns))) == 744 * 4


def test_people_read_local_first_and_last_days() -> None:
    month = BillingMonth("2026-02", "Asia/Tokyo")
    assert (month.first_day, month.last_day) == (date(2026, 2, 1), date(2026, 2, 28))


@pytest.mark.parametrize("text", ["2026-13", "2026-00", "2026-1", "26-01", "2026/01", "2026-01-01", "", "9999-12"])
def test_what_is_not_a_month_is_refused(text: str) -> None:
    with pytest.raises(PeriodInvalid, match="must look like 2026-10"):
        BillingMonth(text)


@pytest.mark.parametrize("zone", ["Europe/Berlinn", "", "/etc/passwd"])
def test_an_unknown_zone_is_named(zone: str) -> None:
    with pytest.raises(PeriodInvalid, match="unknown time zone"):
        BillingMonth("2026-10", zone)


def test_a_month_off_the_quarter_hour_grid_is_refused() -> None:
    with pytest.raises(PeriodInvalid, match="does not begin and end on a UTC quarter hour"):
        BillingMonth("1890-01", "Europe/Berlin")


def test_instants_are_exact_and_aware() -> None:
    at = datetime(2026, 10, 25, 2, 30, 0, 123457, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    assert to_ns(at) == 1_792_875_600_123_457_000
    assert to_datetime(to_ns(at)) == at
    with pytest.raises(PeriodInvalid, match="no time zone"):
        to_ns(datetime(2026, 1, 1))  # noqa: DTZ001


def test_windows_are_half_open() -> None:
    assert list(hours(HOUR_NS, 2 * HOUR_NS)) == [HOUR_NS]
    assert list(hours(HOUR_NS - 1, HOUR_NS + 1)) == [0, HOUR_NS]
    assert list(quarters(QUARTER_NS, QUARTER_NS)) == []

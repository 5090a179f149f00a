"""Billing months as the gateway asks for them are those that invoices have."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from billing.exact.periods import BillingMonth
from catalog.durations import SECOND_NS
from catalog.months import Calendar, month_of

ZONES = (
    "UTC", "Europe/Berlin", "Asia/Kolkata", "Asia/Kathmandu", "America/Havana", "America/Asuncion", "Pacific/Kiritimati"
)  # fmt: skip


def seconds_left(at_ns: int, zone: str) -> int:
    return Calendar((("", zone),)).seconds_left(at_ns)


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * SECOND_NS


@given(st.integers(at("2020-01-01T00:00"), at("2035-01-01T00:00")), st.sampled_from(ZONES))
def test_an_instant_lies_in_its_month_and_the_rest_of_it_is_what_is_left(at_ns: int, zone: str) -> None:
    month = BillingMonth(month_of(at_ns, zone), zone)
    assert month.holds(at_ns)
    assert 0 <= seconds_left(at_ns, zone) * SECOND_NS - (month.end_ns - at_ns) < SECOND_NS


def test_a_month_in_which_the_clocks_change_ends_when_it_ends() -> None:
    assert seconds_left(at("2026-10-24T22:00"), "Europe/Berlin") == (6 * 24 + 25) * 3600
    assert seconds_left(at("2026-03-27T23:00"), "Europe/Berlin") == (3 * 24 + 23) * 3600
    assert seconds_left(at("2026-10-31T18:29") + 1, "Asia/Kolkata") == 60

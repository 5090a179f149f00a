"""One value, one text, one hash."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pytest

from billing.exact.canonical import content_hash, to_plain
from billing.invoice.plans import ChargeKind


@dataclass(frozen=True, slots=True)
class Sample:
    amount: Decimal
    at: datetime
    day: date
    kind: ChargeKind
    parts: tuple[int | bool | None, ...]


SAMPLE = Sample(
    Decimal("1E-18"), datetime(2026, 1, 1, 5, 30, tzinfo=UTC), date(2026, 1, 1), ChargeKind.BASE, (1, True, None)
)


def test_values_have_one_plain_form() -> None:
    assert to_plain(SAMPLE) == {
        "amount": "0.000000000000000001",
        "at": "2026-01-01T05:30:00Z",
        "day": "2026-01-01",
        "kind": "t_b",
        "parts": [1, True, None],
    }


def test_the_same_instant_in_another_zone_hashes_the_same() -> None:
    kolkata = timezone(timedelta(hours=5, minutes=30))
    elsewhere = Sample(SAMPLE.amount, SAMPLE.at.astimezone(kolkata), SAMPLE.day, SAMPLE.kind, SAMPLE.parts)
    assert content_hash(elsewhere) == content_hash(SAMPLE)


def test_a_float_has_no_form() -> None:
    with pytest.raises(TypeError, match="no canonical form for float"):
        to_plain((0.1,))

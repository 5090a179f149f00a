"""Brings together what the meter measured and what the usage records say, by tenant and quarter hour. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from typing import Final

from billing.cost.attribution import TenantCost
from billing.cost.facts import QuarterKey, TenantQuarter
from telemetry.usage import Status

_COUNTS: Final = tuple(field.name for field in fields(TenantQuarter) if field.default == 0)


@dataclass(frozen=True, slots=True)
class Part:
    """Some of the numbers of one row: measured time, estimates, or requests with their tokens."""

    key: QuarterKey
    numbers: Mapping[str, int]


def merge(parts: Iterable[Part]) -> list[TenantQuarter]:
    """One row per key, numbers added up, sorted. Measured time of an attempt without a usage record has status `lost`."""
    rows: dict[QuarterKey, dict[str, int]] = {}
    for part in parts:
        key = part.key._replace(status=part.key.status or Status.LOST.value)
        row = rows.setdefault(key, dict.fromkeys(_COUNTS, 0))
        for name, number in part.numbers.items():
            row[name] += number
    return [
        TenantQuarter(*key, *(numbers[name] for name in _COUNTS))
        for key, numbers in sorted(rows.items())
        if any(numbers.values())
    ]


def without_engine_time(row: TenantQuarter, price: Decimal) -> TenantCost:
    """The cost row of attempts that never reached an engine, or finished in an hour in which theirs measured nothing: 0."""
    nothing = Decimal(0)
    return TenantCost(replace(row, cold_ns=0), "", 1, price, nothing, nothing, nothing)

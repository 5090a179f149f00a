"""Brings together what the meter measured and what the usage records say, by tenant and quarter hour. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from typing import Final, NamedTuple

from billing.cost.attribution import TenantCost
from billing.cost.facts import COLD, TenantQuarter
from billing.exact.money import COST_QUANTUM, product, round_places, total
from catalog.model import CostPlus, PriceBook, Tenant
from telemetry.usage import Status

_COUNTS: Final = tuple(field.name for field in fields(TenantQuarter) if field.default == 0)
_PLACES: Final = -int(COST_QUANTUM.as_tuple().exponent)


class QuarterKey(NamedTuple):
    """What makes two parts belong to the same row."""

    tenant: str
    adapter: str
    engine: str
    status: str
    start_ns: int


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


def revenue(row: TenantCost, tenant: Tenant | None, book: PriceBook) -> tuple[str, Decimal]:
    """Who pays for the row by the book's table, and what the plan asks for it before minimums and line rounding.

    Rounded to 18 decimals. A tenant that the catalog does not have (the provider itself, say) pays nothing.
    """
    status = row.quarter.status
    payer = (
        "tenant" if status == COLD else next((p for named, p in book.charged.items() if named == status), "provider")
    )
    if tenant is None or payer != "tenant":
        return "provider", Decimal(0)
    if isinstance(tenant.plan, CostPlus):
        return payer, round_places(product(row.cost, 1 + tenant.plan.margin), _PLACES)
    plan, quarter = tenant.plan, row.quarter
    tokens = (
        (quarter.input_tokens - quarter.cached_tokens, plan.input),
        (quarter.cached_tokens, plan.cached_input),
        (quarter.output_tokens, plan.output),
    )
    return payer, total(product(Decimal(count).scaleb(-6), price) for count, price in tokens)


def without_engine_time(row: TenantQuarter, price: Decimal) -> TenantCost:
    """The cost row of attempts that never reached an engine, or finished in an hour in which theirs measured nothing: 0."""
    nothing = Decimal(0)
    return TenantCost(replace(row, cold_ns=0), "", 1, price, nothing, nothing, nothing)

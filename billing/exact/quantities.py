"""GPU-hours with 12 decimals, dealt so that the parts of an engine-hour sum to the engine-hour. Integer arithmetic."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from decimal import Decimal
from typing import Final, TypeVar

from billing.errors import AmountInvalid
from catalog.apportionment import top_up

K = TypeVar("K", bound=Hashable)

GPU_HOUR_QUANTUM: Final = Decimal(1).scaleb(-12)
"""Smallest step of a quantity: 3.6 nanoseconds of one GPU."""
_EIGHTEENTHS_PER_NS: Final = 5
"""One nanosecond is 5/18 of a quantity step: 10**12 steps an hour over 3.6 * 10**12 ns an hour."""


def gpu_hours(ns: int, gpu_count: int) -> Decimal:
    """GPU-hours of `ns` engine nanoseconds on `gpu_count` GPUs, rounded half even to 12 decimals."""
    return _quantity(_half_even(_eighteenths(ns, gpu_count)))


def deal_gpu_hours(parts_ns: Mapping[K, int], gpu_count: int) -> dict[K, Decimal]:
    """Quantities of the parts of one engine-hour, in the given order; their sum is `gpu_hours` of the summed ns exactly.

    Each part is its own exact quantity cut to 12 decimals, plus at most one step: steps left over go to the largest
    cut-off fractions, ties to the earlier part. A part of 0 ns gets 0. AmountInvalid when a part is negative.
    """
    exact = [divmod(_eighteenths(ns, gpu_count), 18) for ns in parts_ns.values()]
    steps = [whole for whole, _ in exact]
    if left := _half_even(_eighteenths(sum(parts_ns.values()), gpu_count)) - sum(steps):
        top_up(steps, [rest for _, rest in exact], left)
    return dict(zip(parts_ns, map(_quantity, steps), strict=True))


def _eighteenths(ns: int, gpu_count: int) -> int:
    if ns < 0 or gpu_count < 1:
        raise AmountInvalid(f"could not measure GPU-hours: {ns} ns on {gpu_count} GPUs")
    return ns * gpu_count * _EIGHTEENTHS_PER_NS


def _half_even(eighteenths: int) -> int:
    floor, remainder = divmod(eighteenths, 18)
    return floor + (remainder > 9 or (remainder == 9 and floor % 2 == 1))


def _quantity(steps: int) -> Decimal:
    return Decimal(steps).scaleb(-12)

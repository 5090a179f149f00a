"""Who leaves the host tier: the order, and the ones that never do."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from serving.policy.residency import SETTLING_NS, WINDOW_NS, Recent, Resident, priority, victim

SECOND = 1_000_000_000
NOW = 3600 * SECOND


def one(name: str, **fields: Any) -> Resident:
    used = {"loaded_ns": 0, "used_ns": NOW - 100 * SECOND, "size_bytes": 1000}
    return Resident(**{"served_name": name, **used, **fields})


def busy(times: int) -> Recent:
    recent = Recent()
    for _ in range(times):
        recent = recent.hit(NOW)
    return recent


@pytest.mark.parametrize(
    ("goes", "stays"),
    [
        (one("b"), one("a", recent=busy(30))),
        (one("b"), one("a", strictness=Fraction(2))),
        (one("b", size_bytes=5000), one("a")),
        (one("b", used_ns=NOW - 200 * SECOND), one("a")),
        (one("b", recent=busy(100)), one("a", warm=True)),
        (one("b", recent=busy(100)), one("a", loaded_ns=NOW - SETTLING_NS + 1)),
        (one("b", loaded_ns=NOW), one("a", warm=True)),
        (one("a"), one("b")),
    ],
    ids=[
        "the rarely used before the often used",
        "the lax tenant's before the strict tenant's",
        "the large before the small",
        "the long unused before the lately used",
        "a warm one after everything else",
        "one just loaded after what has settled",
        "one just loaded before a warm one",
        "equals by name",
    ],
)
def test_the_order_of_leaving(goes: Resident, stays: Resident) -> None:
    assert victim((stays, goes), NOW) == victim((goes, stays), NOW) == goes.served_name


def test_what_is_in_use_never_leaves() -> None:
    assert victim((one("a", in_flight=1), one("b", warm=True)), NOW) == "b"
    assert victim((one("a", in_flight=1), one("b", in_flight=2)), NOW) is None
    assert victim((), NOW) is None


def test_frequency_is_counted_over_five_minutes() -> None:
    recent = busy(600)
    assert recent.per_second(NOW) == 2
    assert recent.per_second(NOW + WINDOW_NS - 10 * SECOND) == 2
    assert recent.per_second(NOW + WINDOW_NS) == 0
    assert len(recent.hit(NOW + 2 * WINDOW_NS).slots) == 1


def test_priority_is_the_published_formula() -> None:
    it = one("a", recent=busy(300), strictness=Fraction(2), used_ns=NOW - 150 * SECOND)
    assert priority(it, 4000, NOW) == 1 + Fraction(2, 10) - Fraction(1, 40) + Fraction(1, 20)
    assert replace(it, in_flight=0).hit(NOW).in_flight == 1

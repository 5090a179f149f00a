from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from billing.close.reconcile import Reconciliation
from billing.cost.facts import NotConserved
from catalog.owners import TimeOwner

WHOLE = Reconciliation(
    0,
    1,
    dict.fromkeys(TimeOwner, 10),
    70,
    {owner: Decimal("0.1") for owner in TimeOwner},
    Decimal("0.2"),
    "EUR",
    5,
    5,
    0,
    0,
)


def test_everything_owned_is_whole() -> None:
    WHOLE.check()
    assert WHOLE.missing_ns == WHOLE.record_difference_ns == 0
    assert WHOLE.missing_cost == 0
    assert WHOLE.share(TimeOwner.IDLE) == Decimal(10) / 70


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(replace(WHOLE, rented_ns=71), id="a nanosecond without an owner"),
        pytest.param(replace(WHOLE, rented_ns=69), id="a nanosecond too many"),
        pytest.param(replace(WHOLE, attributed_cost=Decimal("0.199999999999999999")), id="the 18th decimal of a cost"),
    ],
)
def test_the_smallest_difference_is_an_error(broken: Reconciliation) -> None:
    with pytest.raises(NotConserved):
        broken.check()


def test_nothing_rented_has_no_shares() -> None:
    assert replace(WHOLE, rented_ns=0).share(TimeOwner.IDLE) is None

"""What a contract adds to usage: in a fixed order, on rounded lines, to the cent."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.exact.money import total
from billing.exact.periods import BillingMonth
from billing.invoice.plans import ChargeKind, Contract, contract_charges, contract_of, rounded_amount
from billing.invoice.prices import Exchange
from catalog.model import Commitment, Discount, Tenant

D = Decimal
RATE = Exchange("EUR", "USD", D("1.0842"), date(2026, 10, 30), "ECB")
TENTH = Discount(id="tenth", fraction=D("0.1"), above=D(50))
COMMITTED = Commitment(fee=D(80), covers=D(100), overage=D("0.9"))


def added(usage: str, contract: Contract, rate: Exchange | None = None) -> dict[str, str]:
    currency = rate.quote if rate else "EUR"
    charges = contract_charges(D(usage), contract, currency, rate)
    return {charge.kind.value: str(rounded_amount(charge, currency, rate)) for charge in charges}


@pytest.mark.parametrize(
    ("usage", "contract", "lines"),
    [
        ("40.00", Contract(discount=TENTH), {}),
        ("62.05", Contract(discount=TENTH), {"discount": "-1.21"}),
        ("60.00", Contract(commitment=COMMITTED), {"covered": "-60.00", "commitment": "80.00"}),
        ("0.00", Contract(commitment=COMMITTED), {"commitment": "80.00"}),
        ("130.00", Contract(commitment=COMMITTED), {"covered": "-100.00", "commitment": "80.00", "overage": "-3.00"}),
        (
            "130.00",
            Contract(commitment=COMMITTED.model_copy(update={"overage": D("1.5")})),
            {"covered": "-100.00", "commitment": "80.00", "overage": "15.00"},
        ),
        ("130.00", Contract(commitment=Commitment(fee=D(80))), {"covered": "-80.00", "commitment": "80.00"}),
        ("62.05", Contract(D(70), TENTH), {"discount": "-1.21", "minimum": "9.16"}),
        ("-0.01", Contract(), {"rounding": "0.01"}),
        ("-0.01", Contract(commitment=COMMITTED), {"commitment": "80.00"}),
    ],
)
def test_contracts_add_these_lines(usage: str, contract: Contract, lines: dict[str, str]) -> None:
    assert added(usage, contract) == lines


def test_agreed_sums_are_converted_at_the_rate_of_the_month() -> None:
    assert added("100.00", Contract(commitment=COMMITTED), RATE) == {"covered": "-100.00", "commitment": "86.74"}
    assert added("130.00", Contract(commitment=COMMITTED), RATE)["covered"] == "-108.42"
    assert added("1.00", Contract(D(70)), RATE) == {"minimum": "74.89"}


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.sampled_from([None, RATE]), st.booleans())
def test_a_month_comes_to_at_least_what_was_agreed_and_within_its_commitment_to_the_fee(
    cents: int, minimum: int, rate: Exchange | None, discounted: bool
) -> None:
    usage = D(cents).scaleb(-2)
    contract = Contract(D(minimum).scaleb(-2), TENTH if discounted else None, COMMITTED)
    lines = added(str(usage), contract, rate)
    net = total((usage, *map(D, lines.values())))
    agreed = [D(x) if rate is None else round(D(x) * rate.rate, 6) for x in (contract.minimum, COMMITTED.fee)]
    assert net >= max(agreed) - D("0.01")
    if ChargeKind.OVERAGE.value not in lines and ChargeKind.MINIMUM.value not in lines:
        assert abs(net - agreed[1]) < D("0.01")


def test_the_discount_is_the_newest_that_holds_when_the_month_begins(clinic: Tenant) -> None:
    def at(month: int) -> datetime:
        return datetime(2026, month, 1, tzinfo=UTC)

    old = Discount(id="old", fraction=D("0.1"))
    autumn = Discount(id="autumn", fraction=D("0.2"), start=at(9), until=at(11))
    tenant = clinic.model_copy(update={"discounts": (old, autumn)})
    held = [contract_of(tenant, BillingMonth(f"2026-{month:02}")).discount for month in (8, 9, 10, 11)]
    assert held == [old, autumn, autumn, old]
    assert contract_of(clinic, BillingMonth("2026-10")) == Contract(D(0), None, None)

"""Prices as of two times, and rates of a day: what was asked for exactly, or an error."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from billing.errors import BookMissing, ExchangeMissing
from billing.exact.periods import BillingMonth, to_ns
from billing.invoice.prices import Exchange, book_as_of, book_hash, exchange, gpu_price, in_invoice_currency
from catalog.model import PriceBook, Tenant

D = Decimal


def day(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def version(name: str, price: str, **times: str) -> PriceBook:
    row = {"gpu_type": "h200", "start": "2026-01-01T00:00:00Z", "per_hour": price}
    return PriceBook.model_validate({"version": name, "gpu_hours": [row], **{k: day(v) for k, v in times.items()}})


BOOKS = (
    version("first", "360"),
    version("autumn", "400", effective_from="2026-10-01", known_from="2026-09-15"),
    version("autumn-corrected", "390", effective_from="2026-10-01", known_from="2026-11-10"),
)


@pytest.mark.parametrize(
    ("at", "known_at", "price"),
    [
        ("2026-09-30", "2026-11-30", 360),
        ("2026-10-01", "2026-09-14", 360),
        ("2026-10-20", "2026-11-04", 400),
        ("2026-10-20", "2026-11-10", 390),
    ],
    ids=["before it holds", "before it was known", "as issued", "as now known"],
)
def test_the_version_is_that_of_the_event_as_known_then(at: str, known_at: str, price: int) -> None:
    book = book_as_of(BOOKS, day(at), day(known_at))
    assert gpu_price(book, "h200", to_ns(day(at))) == price
    assert book_as_of(reversed(BOOKS), day(at), day(known_at)) == book


def test_no_version_is_an_error_that_names_both_times() -> None:
    with pytest.raises(BookMissing, match=r"could not price 2026-10-20.*known at 2026-09-01"):
        book_as_of(BOOKS[1:], day("2026-10-20"), day("2026-09-01"))


# public report langfuse/langfuse#14160: an edited price was ignored because its date had not changed
def test_one_changed_rate_is_a_new_version_and_a_new_name_or_order_is_not() -> None:
    book = BOOKS[0]
    row = book.gpu_hours[0]
    other = row.model_copy(update={"gpu_type": "a100"})
    assert book_hash(version("first", "360.000001")) != book_hash(book)
    assert book_hash(version("renamed", "360.0", known_from="2026-11-01")) == book_hash(book)
    one, two = (book.model_copy(update={"gpu_hours": rows}) for rows in ((row, other), (other, row)))
    assert book_hash(one) == book_hash(two) != book_hash(book)
    assert book_hash(book.model_copy(update={"idle": "usage"})) != book_hash(book)


def rated(*rates: tuple[str, str]) -> PriceBook:
    fx = [{"currency": "USD", "day": at, "rate": rate, "source": "ECB"} for at, rate in rates]
    return PriceBook.model_validate(BOOKS[0].model_dump() | {"fx": fx})


def dollars(clinic: Tenant, **changes: Any) -> Tenant:
    return clinic.model_copy(update={"currency": "USD", **changes})


# public report dimagi/commcare-connect#1504: the rate of the filing day was taken
def test_the_rate_is_the_last_of_the_billing_month_whenever_it_is_invoiced(clinic: Tenant) -> None:
    book = rated(("2026-09-30", "1.2"), ("2026-10-01", "1.1"), ("2026-10-30", "1.0842"), ("2026-11-02", "1.3"))
    found = exchange(dollars(clinic), book, BillingMonth("2026-10", "Europe/Berlin"))
    assert found == Exchange("EUR", "USD", D("1.0842"), date(2026, 10, 30), "ECB")
    assert exchange(clinic, book, BillingMonth("2026-10")) is None


def test_another_months_rate_is_never_used(clinic: Tenant) -> None:
    with pytest.raises(ExchangeMissing) as caught:
        exchange(dollars(clinic), rated(("2026-09-30", "1.2"), ("2026-11-02", "1.3")), BillingMonth("2026-10"))
    assert str(caught.value) == (
        "could not invoice tenant clinic in USD: price book first has no rate from EUR dated in 2026-10; add an entry to prices.fx"
    )


# public report opencost/opencost#2410: switching the currency changed only the symbol
def test_an_amount_is_converted_and_rounded_once_to_the_currencys_minor_unit() -> None:
    rate = Exchange("USD", "EUR", D("0.9"), date(2026, 10, 30), "ECB")
    assert in_invoice_currency(D(10), rate, "EUR") == D("9.00")
    assert in_invoice_currency(D("0.005"), None, "EUR") == D("0.01")
    yen = Exchange("EUR", "JPY", D("160.25"), date(2026, 10, 30), "ECB")
    assert in_invoice_currency(D("10.01"), yen, "JPY") == D("1604")

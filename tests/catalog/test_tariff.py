"""Which book, which price and which payer hold at an instant."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from catalog.durations import HOUR_NS, MINUTE_NS
from catalog.model import GpuPrice, PerToken, PriceBook
from catalog.prices import PAYERS
from catalog.tariff import book_of_hour, gpu_price, payer, token_lines

TEN = datetime(2026, 10, 1, 10, tzinfo=UTC)
TEN_NS = int(TEN.timestamp()) * 10**9


def book(version: str, *prices: tuple[datetime, int], **times: datetime) -> PriceBook:
    rows = tuple(GpuPrice(gpu_type="demo", start=start, per_hour=Decimal(price)) for start, price in prices)
    return PriceBook.model_validate({"version": version, "gpu_hours": rows, **times})


FIRST = book("first", (TEN.replace(year=2025), 1), (TEN.replace(minute=30), 2))
RISEN = book("risen", (TEN, 3), effective_from=TEN.replace(hour=12))
CORRECTED = book("corrected", (TEN, 4), effective_from=TEN.replace(hour=12), known_from=TEN.replace(day=5))
BOOKS = (FIRST, RISEN, CORRECTED)


@pytest.mark.parametrize(
    ("minutes", "known_on", "price"),
    [(-1, 1, 1), (0, 1, 1), (59, 1, 1), (60, 1, 2), (119, 1, 2), (120, 1, 3), (120, 4, 3), (120, 5, 4), (119, 5, 2)],
)
def test_an_hour_has_the_price_and_the_book_with_which_it_begins(minutes: int, known_on: int, price: int) -> None:
    known_at = TEN.replace(day=known_on)
    assert gpu_price(BOOKS, "demo", TEN_NS + minutes * MINUTE_NS, known_at) == price
    assert gpu_price(reversed(BOOKS), "demo", TEN_NS + minutes * MINUTE_NS, known_at) == price


def test_what_no_book_says_is_none_and_never_free() -> None:
    assert gpu_price(BOOKS, "h200", TEN_NS, TEN) is None
    assert gpu_price((RISEN,), "demo", TEN_NS, TEN) is None
    assert gpu_price((FIRST,), "demo", TEN_NS - 366 * 24 * HOUR_NS, TEN) is None
    assert book_of_hour((CORRECTED,), TEN_NS + 3 * HOUR_NS, TEN) is None


def test_the_book_says_who_pays_for_a_status() -> None:
    assert {status: payer(FIRST, status) for status in PAYERS} == PAYERS
    assert payer(FIRST, "unheard_of") is None
    free = FIRST.model_copy(update={"charged": PAYERS | {"ok": "provider"}})
    assert payer(free, "ok") == "provider"


def test_cached_tokens_are_taken_out_of_input() -> None:
    plan = PerToken(kind="per_token", input=Decimal("1.5"), cached_input=Decimal("0.15"), output=Decimal(6))
    lines = token_lines(plan, 2_500_000, 500_000, 7)
    assert [(line.kind, line.millions, line.price) for line in lines] == [
        ("input", 2, Decimal("1.5")),
        ("cached_input", Decimal("0.5"), Decimal("0.15")),
        ("output", Decimal("0.000007"), 6),
    ]

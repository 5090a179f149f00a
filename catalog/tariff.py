"""What gateway and ledger both go by, so that they charge the same: a tenant's terms, which price book held, who pays, at which prices.
No I/O.

Terms have dates, so what is asked for holds at an instant (UTC nanoseconds). Price books change on the hour, a tenant's terms on the
quarter hour: an hour has the book with which it begins, as it was known at `known_at`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, time
from decimal import Decimal
from typing import Final, Literal, NamedTuple
from zoneinfo import ZoneInfo

from catalog.durations import HOUR_NS
from catalog.months import Calendar, month_after, to_datetime, to_ns
from catalog.prices import Payer, PriceBook
from catalog.tenants import CostPlus, PerToken, Plan, Tenant

_ALWAYS: Final = datetime.min.replace(tzinfo=UTC)


class TokenLine(NamedTuple):
    """Tokens that a plan charges alike, and the price of a million of them."""

    kind: Literal["input", "cached_input", "output"]
    tokens: int
    price: Decimal

    @property
    def millions(self) -> Decimal:
        """How many millions of tokens it is, exactly."""
        return Decimal(self.tokens).scaleb(-6)


def standing(tenant: Tenant) -> Iterator[tuple[int, Tenant, Calendar]]:
    """The tenant without dates as it stands from each instant on, the oldest first and from ever on, and its months so far."""
    at_ns, now, months = 0, tenant.model_copy(update={"terms": ()}), Calendar((("", tenant.time_zone),))
    yield at_ns, now, months
    for term in tenant.terms:
        day = term.effective_from
        if not isinstance(day, datetime):
            day = datetime.combine(day, time(), ZoneInfo(months.zone(f"{day:%Y-%m}")))
        at_ns, now = to_ns(day), now.model_copy(update=term.named)
        if now.time_zone != months.zones[-1][1]:
            months = Calendar((*months.zones, (month_after(months.month_of(at_ns - 1)), now.time_zone)))
        yield at_ns, now, months


def terms_at(tenant: Tenant, at_ns: int) -> Tenant:
    """The tenant as its terms are at that instant, without dates."""
    if not tenant.terms:
        return tenant
    return next(now for since_ns, now, _ in reversed(list(standing(tenant))) if since_ns <= max(at_ns, 0))


def calendar(tenant: Tenant) -> Calendar:
    """The tenant's billing months: a zone holds from the first month that begins when it is agreed or later."""
    if not tenant.terms:
        return Calendar((("", tenant.time_zone),))
    return list(standing(tenant))[-1][2]


def plans(tenant: Tenant, start_ns: int, end_ns: int) -> list[tuple[int, Plan]]:
    """The plans of [start_ns, end_ns), each from when on, the oldest first; their minimums, which are the month's, left out."""
    found: list[tuple[int, Plan]] = []
    for at_ns, now, _ in standing(tenant):
        plan = now.plan.model_copy(update={"minimum": Decimal(0)})
        if at_ns <= start_ns:
            found = [(start_ns, plan)]
        elif at_ns < end_ns and plan != found[-1][1]:
            found.append((at_ns, plan))
    return found


def book_held(books: Iterable[PriceBook], at: datetime, known_at: datetime) -> PriceBook | None:
    """The version that held at `at`, as it was known at `known_at`; both instants are aware. None when there is none.

    Of the versions effective and known by then, the one effective latest; of those, the one known latest.
    """
    held = [
        book
        for book in books
        if (book.effective_from is None or book.effective_from <= at)
        and (book.known_from is None or book.known_from <= known_at)
    ]
    return max(held, key=lambda book: (book.effective_from or _ALWAYS, book.known_from or _ALWAYS), default=None)


def book_of_hour(books: Iterable[PriceBook], at_ns: int, known_at: datetime) -> PriceBook | None:
    """The version by which the UTC hour that holds the instant is charged; None when there is none."""
    return book_held(books, hour_begins(at_ns), known_at)


def hour_price(book: PriceBook, gpu_type: str, at_ns: int) -> Decimal | None:
    """The book's price of a GPU-hour in the UTC hour that holds the instant; None when it has none."""
    return book.price(gpu_type, hour_begins(at_ns))


def gpu_price(books: Iterable[PriceBook], gpu_type: str, at_ns: int, known_at: datetime) -> Decimal | None:
    """What a GPU-hour costs at that instant; None when no book held, or the one that did has no price."""
    book = book_of_hour(books, at_ns, known_at)
    return None if book is None else hour_price(book, gpu_type, at_ns)


def payer(book: PriceBook, status: str) -> Payer | None:
    """Who pays for an attempt that ended like this; None when the book does not say."""
    return next((payer for named, payer in book.charged.items() if named == status), None)


def markup(plan: CostPlus) -> Decimal:
    """What one unit of attributed cost is charged at."""
    return 1 + plan.margin


def token_lines(plan: PerToken, input_tokens: int, cached_tokens: int, output_tokens: int) -> tuple[TokenLine, ...]:
    """What the plan charges for tokens: `cached_tokens` are among `input_tokens`, output counts as delivered."""
    return (
        TokenLine("input", input_tokens - cached_tokens, plan.input),
        TokenLine("cached_input", cached_tokens, plan.cached_input),
        TokenLine("output", output_tokens, plan.output),
    )


def hour_begins(at_ns: int) -> datetime:
    """The instant at which the UTC hour begins whose terms hold at `at_ns`."""
    return to_datetime(at_ns - at_ns % HOUR_NS)

"""What a tenant's attempt will be charged, and when its billing month turns, as the ledger will have it. No I/O, money is exact."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from zoneinfo import ZoneInfo

from catalog.durations import HOUR_NS, SECOND_NS
from catalog.model import CostPlus, Engine, PerToken, Plan, PriceBook, book_held
from serving.policy.admission import Ask
from telemetry.usage import UsageRecord


@dataclass(frozen=True, slots=True)
class Terms:
    """What one tenant's attempts are charged by, and its budget for a month of its time zone. `books` are all versions."""

    budget: Decimal
    plan: Plan
    zone: str
    books: tuple[PriceBook, ...]
    gpu_type: str = ""
    gpu_count: int = 1

    @classmethod
    def on(cls, engine: Engine | None, budget: Decimal, plan: Plan, zone: str, books: tuple[PriceBook, ...]) -> Terms:
        """Terms for requests that this engine will serve; one that the catalog does not know has no price."""
        if engine is None:
            return cls(budget, plan, zone, books)
        return cls(budget, plan, zone, books, engine.gpu_type, engine.gpu_count)


def month_of(at_ns: int, zone: str) -> str:
    """The billing month that holds the instant, as 2026-10."""
    return datetime.fromtimestamp(at_ns // SECOND_NS, ZoneInfo(zone)).strftime("%Y-%m")


def seconds_left(at_ns: int, zone: str) -> int:
    """Seconds until the next billing month begins in that time zone, rounded up."""
    here = datetime.fromtimestamp(at_ns // SECOND_NS, ZoneInfo(zone))
    year, month = divmod(here.year * 12 + here.month, 12)
    begins_ns = int(datetime(year, month + 1, 1, tzinfo=ZoneInfo(zone)).timestamp()) * SECOND_NS
    return -(-(begins_ns - at_ns) // SECOND_NS)


def charge(terms: Terms, record: UsageRecord) -> Mapping[str, Fraction] | None:
    """What the plan asks for an ended attempt, by billing month, as the ledger will have it; shares of loads aside.

    Statuses that the provider pays are free, and so is a GPU without a price, which the ledger cannot invoice either. None
    when the engine's time is not known.
    """
    end_ns = record.finished_ns if record.finished_ns is not None else record.arrival_ns
    if isinstance(terms.plan, PerToken):
        book = _book(terms, end_ns, end_ns)
        paid = book is not None and _pays(book, record)
        amount = _tokens_price(terms.plan, record) if paid else Fraction(0)
        return {month_of(end_ns, terms.zone): amount} if amount else {}
    if record.slices is None:
        book = _book(terms, end_ns, end_ns)
        return None if book is not None and _pays(book, record) else {}
    months: dict[str, Fraction] = {}
    for part in record.slices:
        book = _book(terms, part.start_ns, end_ns)
        if book is None or not _pays(book, record):
            continue
        gpu_ns = (part.base_ns + part.adapter_ns) * (record.gpu_count or 1)
        amount = gpu_ns * _per_ns(terms.plan, book, record.gpu_type or "", part.start_ns)
        if amount:
            month = month_of(part.start_ns, terms.zone)
            months[month] = months.get(month, Fraction(0)) + amount
    return months


def hold(terms: Terms, ask: Ask, ns_per_token: int, now_ns: int) -> Fraction:
    """What to set aside for a request: all tokens it asks for, at their prices or at `ns_per_token` of each GPU's time."""
    if isinstance(terms.plan, PerToken):
        plan = terms.plan
        prompt, output = ask.prompt_tokens, ask.tokens - ask.prompt_tokens
        return (prompt * Fraction(max(plan.input, plan.cached_input)) + output * Fraction(plan.output)) / 1_000_000
    book = _book(terms, now_ns, now_ns)
    if book is None:
        return Fraction(0)
    return ask.tokens * ns_per_token * terms.gpu_count * _per_ns(terms.plan, book, terms.gpu_type, now_ns)


def _book(terms: Terms, at_ns: int, known_ns: int) -> PriceBook | None:
    """The price book of the UTC hour that holds the instant."""
    return book_held(terms.books, _utc(at_ns - at_ns % HOUR_NS), _utc(known_ns))


def _per_ns(plan: CostPlus, book: PriceBook, gpu_type: str, at_ns: int) -> Fraction:
    """What a nanosecond of one GPU is charged at: the price at the start of its hour, and the margin."""
    price = book.price(gpu_type, _utc(at_ns - at_ns % HOUR_NS))
    return Fraction(price or 0) * (1 + Fraction(plan.margin)) / HOUR_NS


def _tokens_price(plan: PerToken, record: UsageRecord) -> Fraction:
    cached = record.cached_tokens or 0
    uncached = (record.input_tokens or 0) - cached
    output = record.output_tokens_delivered or 0
    prices = (uncached, plan.input), (cached, plan.cached_input), (output, plan.output)
    return sum((count * Fraction(price) for count, price in prices), Fraction(0)) / 1_000_000


def _pays(book: PriceBook, record: UsageRecord) -> bool:
    """Whether the tenant pays for attempts that end like this one."""
    return any(payer == "tenant" for status, payer in book.charged.items() if status == record.status.value)


def _utc(at_ns: int) -> datetime:
    return datetime.fromtimestamp(at_ns // SECOND_NS, UTC)

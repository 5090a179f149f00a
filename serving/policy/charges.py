"""What a tenant's attempt will be charged, as the ledger will have it. No I/O, money is exact."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from catalog import tariff
from catalog.durations import HOUR_NS
from catalog.model import CostPlus, Engine, PerToken, Plan, PriceBook, Tenant
from catalog.months import Calendar, to_datetime
from serving.policy.admission import Ask
from telemetry.usage import UsageRecord


@dataclass(frozen=True, slots=True)
class Terms:
    """What one tenant's attempts are charged by, and its budget for a billing month. `books` are all versions."""

    budget: Decimal
    tenant: Tenant
    months: Calendar
    books: tuple[PriceBook, ...]
    gpu_type: str = ""
    gpu_count: int = 1

    @classmethod
    def on(cls, engine: Engine | None, budget: Decimal, tenant: Tenant, books: tuple[PriceBook, ...]) -> Terms:
        """Terms for requests that this engine will serve; one that the catalog does not know has no price."""
        gpus = (engine.gpu_type, engine.gpu_count) if engine is not None else ()
        return cls(budget, tenant, tariff.calendar(tenant), books, *gpus)

    def plan(self, at_ns: int) -> Plan:
        """The plan of that instant."""
        return tariff.terms_at(self.tenant, at_ns).plan


def charge(terms: Terms, record: UsageRecord) -> Mapping[str, Fraction] | None:
    """What the plan of its time asks for an ended attempt, by billing month, as the ledger will have it; shares of loads aside.

    Statuses that the provider pays are free, and so is a GPU without a price, which the ledger cannot invoice either. None
    when the engine's time is not known.
    """
    end_ns = record.finished_ns if record.finished_ns is not None else record.arrival_ns
    known_at = to_datetime(end_ns)

    def book_paid_by(at_ns: int) -> PriceBook | None:
        """The book of that hour, if the tenant pays by it for attempts that end like this one."""
        book = tariff.book_of_hour(terms.books, at_ns, known_at)
        return book if book is not None and tariff.payer(book, record.status.value) == "tenant" else None

    months: dict[str, Fraction] = {}
    if isinstance(plan := terms.plan(end_ns), PerToken):
        counts = record.input_tokens, record.cached_tokens, record.output_tokens_delivered
        amount = _tokens_price(plan, *(count or 0 for count in counts))
        if amount and book_paid_by(end_ns) is not None:
            months[terms.months.month_of(end_ns)] = amount
    elif record.slices is None:
        return {} if book_paid_by(end_ns) is None else None
    for part in record.slices or ():
        plan, book = terms.plan(part.start_ns), book_paid_by(part.start_ns)
        if book is None or isinstance(plan, PerToken):
            continue
        price = tariff.hour_price(book, record.gpu_type or "", part.start_ns)
        amount = (part.base_ns + part.adapter_ns) * (record.gpu_count or 1) * _per_ns(plan, price)
        if amount:
            month = terms.months.month_of(part.start_ns)
            months[month] = months.get(month, Fraction(0)) + amount
    return months


def hold(terms: Terms, ask: Ask, ns_per_token: int, now_ns: int) -> Fraction:
    """What to set aside for a request: all tokens it asks for, at their prices or at `ns_per_token` of each GPU's time."""
    if isinstance(plan := terms.plan(now_ns), PerToken):
        prompt, output = ask.prompt_tokens, ask.tokens - ask.prompt_tokens
        return max(_tokens_price(plan, prompt, cached, output) for cached in (0, prompt))
    price = tariff.gpu_price(terms.books, terms.gpu_type, now_ns, to_datetime(now_ns))
    return ask.tokens * ns_per_token * terms.gpu_count * _per_ns(plan, price)


def _per_ns(plan: CostPlus, price: Decimal | None) -> Fraction:
    """What a nanosecond of one GPU is charged at; nothing where it has no price."""
    return Fraction(price or 0) * Fraction(tariff.markup(plan)) / HOUR_NS


def _tokens_price(plan: PerToken, input_tokens: int, cached_tokens: int, output_tokens: int) -> Fraction:
    lines = tariff.token_lines(plan, input_tokens, cached_tokens, output_tokens)
    return sum((Fraction(line.millions) * Fraction(line.price) for line in lines), Fraction(0))

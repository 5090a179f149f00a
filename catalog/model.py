"""The catalog's values: tenants, adapters, engines, promises, routing rules, prices; validated as a whole, frozen."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Annotated, Final, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field


def _known_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise ValueError(f"unknown time zone {name!r}") from error
    return name


def _compiles(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from error
    return pattern


Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")]
Zone = Annotated[str, AfterValidator(_known_zone)]
Pattern = Annotated[str, AfterValidator(_compiles)]
Currency = Annotated[str, Field(pattern=r"^[A-Z]{3}$")]
Price = Annotated[Decimal, Field(ge=0, max_digits=20, decimal_places=6)]
Fraction = Annotated[Decimal, Field(ge=0, max_digits=12, decimal_places=6)]
Rate = Annotated[Decimal, Field(gt=0, max_digits=20, decimal_places=8)]
KeyHash = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]


class Value(BaseModel):
    """Frozen, and strict about unknown fields: a typo is an error, not silence."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class BaseModelSpec(Value):
    """The one base model. `builtin:tiny` is made locally on first use; else a directory or a hub name."""

    name: Name
    path: str = "builtin:tiny"


class Rental(Value):
    """One interval [start, until) in which an engine's GPUs are paid for."""

    start: AwareDatetime
    until: AwareDatetime | None = None


class Engine(Value):
    """One vLLM engine and the GPUs it rents.

    `rented: on_demand` means each process run is rented from its start to its end; else the listed intervals are.
    `memory_bytes` is the engine's budget (weights, slots, KV), the denominator of utilisation. `profile` is the step profile
    that `loraledger calibrate` wrote for this engine; without one, that of the built-in tiny model is used.
    """

    id: Name
    gpu_type: Name
    gpu_count: Annotated[int, Field(ge=1)] = 1
    rented: Literal["on_demand"] | tuple[Rental, ...] = "on_demand"
    max_loras: Annotated[int, Field(ge=1)] = 2
    max_cpu_loras: Annotated[int, Field(ge=1)] = 8
    max_lora_rank: Literal[8, 16, 32, 64, 128, 256, 320, 512] = 64
    max_model_len: Annotated[int, Field(ge=64)] = 1024
    max_num_seqs: Annotated[int, Field(ge=1)] = 32
    max_num_batched_tokens: Annotated[int, Field(ge=64)] = 1024
    block_size: Annotated[int, Field(ge=8)] = 32
    kv_cache_bytes: Annotated[int, Field(ge=1 << 20)] = 256 << 20
    memory_bytes: Annotated[int, Field(ge=1 << 20)] = 300 << 20
    profile: str | None = None


class Adapter(Value):
    """One LoRA adapter. `builtin:adapter/N` (N = 0..7) is made locally on first use; else a directory in PEFT format.

    `warm` asks for it to be loaded ahead and counted as warm pool.
    """

    name: Name
    path: str
    rank: Annotated[int, Field(ge=1, le=512)]
    owner: Name | None = None
    memory_budget_bytes: Annotated[int, Field(ge=0)] = 0
    warm: bool = False


class Slo(Value):
    """The promise: 99 % of requests within `p99_seconds`. Strictness is 1 / p99_seconds."""

    p99_seconds: Annotated[Decimal, Field(gt=0)]


class Quotas(Value):
    """What a tenant may use; None is no limit. Refusals are 429 with Retry-After.

    `monthly_budget` is in the price book's currency, for the usage charges of the tenant's billing month: what the plan asks
    for its attempts and its share of adapter loads, before idle time, discounts, commitment, minimum and tax.
    """

    requests_per_minute: Annotated[int, Field(ge=1)] | None = None
    tokens_per_minute: Annotated[int, Field(ge=1)] | None = None
    kv_blocks_in_flight: Annotated[int, Field(ge=1)] | None = None
    monthly_budget: Price | None = None


class CostPlus(Value):
    """Pays the attributed cost plus `margin` (0.25 = 25 %), at least `minimum` a month."""

    kind: Literal["cost_plus"]
    margin: Fraction = Decimal(0)
    minimum: Price = Decimal(0)


class PerToken(Value):
    """Pays per million tokens: uncached input, cached input, delivered output; at least `minimum` a month."""

    kind: Literal["per_token"]
    input: Price
    cached_input: Price
    output: Price
    minimum: Price = Decimal(0)


Plan = Annotated[CostPlus | PerToken, Field(discriminator="kind")]


class Discount(Value):
    """Takes `fraction` (0.1 = 10 %) off the part of a month's usage charges above `above`.

    For billing months that begin in [start, until). Of several that hold, the one with the latest start does.
    """

    id: Name
    fraction: Annotated[Decimal, Field(gt=0, le=1, max_digits=12, decimal_places=6)]
    above: Price = Decimal(0)
    start: AwareDatetime | None = None
    until: AwareDatetime | None = None


class Commitment(Value):
    """Pays `fee` every month, used or not. It covers usage worth `covers` at the plan's prices (None: worth the fee).

    What is used beyond that costs `overage` times the plan's prices (0.9 = 10 % off, 1.2 = 20 % more).
    """

    fee: Annotated[Decimal, Field(gt=0, max_digits=20, decimal_places=6)]
    covers: Price | None = None
    overage: Fraction = Decimal(1)


TaxTreatment = Literal["standard", "reverse_charge", "export", "exempt"]


class Tenant(Value):
    """One customer: who it is, what it was promised, what it may use, what it pays.

    Plan, discounts and commitment are in the price book's currency; invoices are in `currency`, converted at the dated
    rate when that is another. The last line of `address` is the ISO 3166 country code where an e-invoice is wanted.
    """

    id: Name
    name: str
    org: Name | None = None
    address: tuple[str, ...] = ()
    tax_id: str | None = None
    tax_rate: Fraction = Decimal(0)
    tax_treatment: TaxTreatment = "standard"
    tax_note: str | None = None
    purchase_order: str | None = None
    time_zone: Zone = "UTC"
    currency: Currency = "EUR"
    key_hashes: tuple[KeyHash, ...] = ()
    slo: Slo
    plan: Plan
    discounts: tuple[Discount, ...] = ()
    commitment: Commitment | None = None
    quotas: Quotas = Quotas()
    adapters: tuple[Name, ...] = ()
    default_adapter: Name | None = None
    kv_sharing_group: Name | None = None


class ExplicitRule(Value):
    """The request's own `model` field names an adapter (or the base model)."""

    id: Name
    kind: Literal["explicit"]


class ExperimentRule(Value):
    """Sticky split of a tenant's requests: hash of (experiment, sticky key) chooses a variant by integer weight."""

    id: Name
    kind: Literal["experiment"]
    tenants: tuple[Name, ...]
    variants: dict[Name, Annotated[int, Field(ge=1)]]


class ContentRule(Value):
    """The prompt matches `pattern` (a regular expression): goes to `adapter`."""

    id: Name
    kind: Literal["content"]
    pattern: Pattern
    adapter: Name


class TenantDefaultRule(Value):
    """The tenant's `default_adapter`."""

    id: Name
    kind: Literal["tenant_default"]


class TenantHashRule(Value):
    """Hash of the tenant id chooses among `adapters`."""

    id: Name
    kind: Literal["tenant_hash"]
    adapters: tuple[Name, ...]


class BaseRule(Value):
    """The base model, without an adapter."""

    id: Name
    kind: Literal["base"]


Rule = Annotated[
    ExplicitRule | ExperimentRule | ContentRule | TenantDefaultRule | TenantHashRule | BaseRule,
    Field(discriminator="kind"),
]


class GpuPrice(Value):
    """Price of one GPU-hour of `gpu_type` from `start` on (until the next entry of that type)."""

    gpu_type: Name
    start: AwareDatetime
    per_hour: Price


class FxRate(Value):
    """On `day` one unit of the price book's currency bought `rate` units of `currency`, as `source` published it."""

    currency: Currency
    day: date
    rate: Rate
    source: Annotated[str, Field(min_length=1)]


class PriceBook(Value):
    """GPU-hour prices, exchange rates, who carries idle, and which statuses a tenant pays for.

    A version holds for events from `effective_from` on and is known from `known_from` on; None is always. A price that
    was wrong is put right by a new version, never by changing this one.
    """

    version: Name
    currency: Currency = "EUR"
    note: str | None = None
    effective_from: AwareDatetime | None = None
    known_from: AwareDatetime | None = None
    fx: tuple[FxRate, ...] = ()
    gpu_hours: tuple[GpuPrice, ...]
    idle: Literal["provider", "usage", "residency"] = "provider"
    charged: dict[
        Literal["ok", "client_abort", "bad_request", "rejected", "server_error", "timeout", "lost"],
        Literal["tenant", "provider"],
    ] = {
        "ok": "tenant",
        "client_abort": "tenant",
        "bad_request": "provider",
        "rejected": "provider",
        "server_error": "provider",
        "timeout": "provider",
        "lost": "provider",
    }

    def price(self, gpu_type: str, at: datetime) -> Decimal | None:
        """Price of a GPU-hour at that instant; None when the book has none (an error for whoever needs it)."""
        rows = [row for row in self.gpu_hours if row.gpu_type == gpu_type and row.start <= at]
        return max(rows, key=lambda row: row.start).per_hour if rows else None


_ALWAYS: Final = datetime.min.replace(tzinfo=UTC)


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


class Seller(Value):
    """Who issues the invoices."""

    name: str
    address: tuple[str, ...]
    tax_id: str
    email: str
    iban: str | None = None
    payment_days: Annotated[int, Field(ge=0)] = 30
    number_series: Annotated[str, Field(pattern=r"^[A-Z0-9-]{1,12}$")] = "LL"
    credit_series: Annotated[str, Field(pattern=r"^[A-Z0-9-]{1,12}$")] = "CN"


class Catalog(Value):
    """The whole catalog. Cross references are checked by `catalog.load`, all problems together."""

    version: Literal[1]
    base_model: BaseModelSpec
    engines: Annotated[tuple[Engine, ...], Field(min_length=1)]
    adapters: tuple[Adapter, ...] = ()
    tenants: tuple[Tenant, ...] = ()
    routing: Annotated[tuple[Rule, ...], Field(min_length=1)]
    prices: PriceBook
    earlier_prices: tuple[PriceBook, ...] = ()
    seller: Seller

    @property
    def price_books(self) -> tuple[PriceBook, ...]:
        """Every version of the price book, the current one last."""
        return (*self.earlier_prices, self.prices)

    def tenant(self, tenant_id: str) -> Tenant | None:
        """The tenant of that id, or None."""
        return next((t for t in self.tenants if t.id == tenant_id), None)

    def adapter(self, name: str) -> Adapter | None:
        """The adapter of that name, or None."""
        return next((a for a in self.adapters if a.name == name), None)

    def engine(self, engine_id: str) -> Engine | None:
        """The engine of that id, or None."""
        return next((e for e in self.engines if e.id == engine_id), None)

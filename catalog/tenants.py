"""A tenant: who it is, what it was promised, what it may use, what it pays."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from catalog.fields import (
    Currency,
    Day,
    Factor,
    Instant,
    KeyHash,
    Line,
    Name,
    Price,
    Prose,
    Quota,
    Reference,
    Seconds,
    Share,
    TaxId,
    Value,
    Zone,
    refuse_bool,
)


class Slo(Value):
    """The promise: 99 % of requests within `p99_seconds`. Strictness is 1 / p99_seconds.

    `weight` is what each of the tenant's flows gets of an engine's time, beside the others' weights, while all of them want more.
    """

    p99_seconds: Seconds
    weight: Annotated[int, Field(ge=1, le=1_000), refuse_bool] = 1


class Quotas(Value):
    """What a tenant may use; None is no limit. Refusals are 429 with Retry-After, and 400 for what one request can never have.

    A request counts once for each answer it asks for: `n` times the prompts in a list. `max_choices` bounds that number,
    `requests_per_minute` and `seats_in_flight` (answers in the making) count it, and so do tokens and KV blocks.
    `monthly_budget` is in the price book's currency, for the usage charges of the tenant's billing month: what the plan asks
    for its attempts and its share of adapter loads, before idle time, discounts, commitment, minimum and tax.
    """

    requests_per_minute: Quota | None = None
    tokens_per_minute: Quota | None = None
    kv_blocks_in_flight: Quota | None = None
    seats_in_flight: Quota | None = None
    max_choices: Annotated[int, Field(ge=1, le=1024), refuse_bool] = 8
    monthly_budget: Price | None = None


class CostPlus(Value):
    """Pays the attributed cost plus `margin` (0.25 = 25 %), at least `minimum` a month."""

    kind: Literal["cost_plus"]
    margin: Factor = Decimal(0)
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
    fraction: Annotated[Decimal, Field(gt=0, le=1, max_digits=20, decimal_places=6), refuse_bool]
    above: Price = Decimal(0)
    start: Instant | None = None
    until: Instant | None = None


class Commitment(Value):
    """Pays `fee` every month, used or not. It covers usage worth `covers` at the plan's prices (None: worth the fee).

    What is used beyond that costs `overage` times the plan's prices (0.9 = 10 % off, 1.2 = 20 % more).
    """

    fee: Annotated[Decimal, Field(gt=0, le=10**12, max_digits=20, decimal_places=6), refuse_bool]
    covers: Price | None = None
    overage: Factor = Decimal(1)


TaxTreatment = Literal["standard", "reverse_charge", "export", "exempt"]


class DatedTerms(Value):
    """What holds for a tenant from `effective_from` on, an instant or the midnight with which a day begins in the tenant's
    time zone; what is not named continues.

    Usage is rated by the plan of its instant. A time zone holds from the next billing month on; currency, tax, buyer,
    minimum, discounts, commitment and idle share of a month are those of its last instant.
    """

    effective_from: Instant | Day
    plan: Plan | None = None
    discounts: tuple[Discount, ...] | None = None
    commitment: Commitment | None = None
    currency: Currency | None = None
    time_zone: Zone | None = None
    tax_rate: Share | None = None
    tax_treatment: TaxTreatment | None = None
    tax_note: Prose | None = None
    tax_id: TaxId | None = None
    name: Line | None = None
    address: Annotated[tuple[Line, ...], Field(max_length=8)] | None = None
    purchase_order: Reference | None = None

    @property
    def named(self) -> Mapping[str, Any]:
        """What is said here, by field of `Tenant`: null where it says that there is none from then on."""
        return {name: getattr(self, name) for name in sorted(self.model_fields_set - {"effective_from"})}

    @model_serializer(mode="wrap")
    def _written(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in handler(self).items() if name in self.model_fields_set}


class Tenant(Value):
    """One customer: who it is, what it was promised, what it may use, what it pays; `terms` change that at dates to come.

    Plan, discounts and commitment are in the price book's currency; invoices are in `currency`, converted at the dated
    rate when that is another. The last line of `address` is the ISO 3166 country code where an e-invoice is wanted.
    Tenants of one `kv_sharing_group` reuse each other's cached prefixes: all of one `org`, and each names every other
    member in `kv_sharing_consent`.
    """

    id: Name
    name: Line
    org: Name | None = None
    address: Annotated[tuple[Line, ...], Field(max_length=8)] = ()
    tax_id: TaxId | None = None
    tax_rate: Share = Decimal(0)
    tax_treatment: TaxTreatment = "standard"
    tax_note: Prose | None = None
    purchase_order: Reference | None = None
    time_zone: Zone = "UTC"
    currency: Currency = "EUR"
    key_hashes: Annotated[tuple[KeyHash, ...], Field(max_length=1_000)] = ()
    slo: Slo
    plan: Plan
    discounts: tuple[Discount, ...] = ()
    commitment: Commitment | None = None
    quotas: Quotas = Quotas()
    adapters: tuple[Name, ...] = ()
    default_adapter: Name | None = None
    kv_sharing_group: Name | None = None
    kv_sharing_consent: tuple[Name, ...] = ()
    terms: Annotated[tuple[DatedTerms, ...], Field(max_length=1_000, exclude_if=lambda terms: not terms)] = ()

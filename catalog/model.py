"""The catalog as one value: tenants, adapters, engines, promises, routing rules, prices; validated as a whole, frozen.

Routing rules are asked in the catalog's order, the first that yields an adapter decides.
"""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import Field

from catalog.engines import Adapter, BaseModelSpec, Engine, Rental
from catalog.fields import Name, Pattern, Value, refuse_bool
from catalog.prices import FxRate, GpuPrice, PriceBook, Seller
from catalog.tenants import (
    Commitment,
    CostPlus,
    DatedTerms,
    Discount,
    PerToken,
    Plan,
    Quotas,
    Slo,
    TaxTreatment,
    Tenant,
)

__all__ = [
    "Adapter",
    "BaseModelSpec",
    "Commitment",
    "CostPlus",
    "DatedTerms",
    "Discount",
    "Engine",
    "FxRate",
    "GpuPrice",
    "PerToken",
    "Plan",
    "PriceBook",
    "Quotas",
    "Rental",
    "Seller",
    "Slo",
    "TaxTreatment",
    "Tenant",
]


class ExplicitRule(Value):
    """The request's own `model` field names an adapter (or the base model)."""

    id: Name
    kind: Literal["explicit"]


class ExperimentRule(Value):
    """Sticky split of a tenant's requests: hash of (experiment, sticky key) chooses a variant by integer weight."""

    id: Name
    kind: Literal["experiment"]
    tenants: Annotated[tuple[Name, ...], Field(min_length=1)]
    variants: Annotated[dict[Name, Annotated[int, Field(ge=1, le=1_000_000), refuse_bool]], Field(min_length=1)]


class ContentRule(Value):
    """The prompt matches `pattern` (RE2 syntax: no backreferences, no lookaround): goes to `adapter`."""

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
    adapters: Annotated[tuple[Name, ...], Field(min_length=1)]


class BaseRule(Value):
    """The base model, without an adapter."""

    id: Name
    kind: Literal["base"]


Rule = Annotated[
    ExplicitRule | ExperimentRule | ContentRule | TenantDefaultRule | TenantHashRule | BaseRule,
    Field(discriminator="kind"),
]


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


def json_schema() -> str:
    """The catalog's JSON Schema, published as `catalog/schema.json` for editors and other programs; indented, ends with a newline."""
    return json.dumps(Catalog.model_json_schema(), indent=2) + "\n"

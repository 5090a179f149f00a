"""The catalog as one value: tenants, adapters, engines, promises, routing rules, prices; validated as a whole, frozen."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from catalog.engines import Adapter, BaseModelSpec, Engine, Rental
from catalog.fields import Value
from catalog.prices import FxRate, GpuPrice, PriceBook, Seller
from catalog.rules import (
    BaseRule,
    ContentRule,
    ExperimentRule,
    ExplicitRule,
    Rule,
    TenantDefaultRule,
    TenantHashRule,
)
from catalog.tenants import (
    Commitment,
    CostPlus,
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
    "BaseRule",
    "Catalog",
    "Commitment",
    "ContentRule",
    "CostPlus",
    "Discount",
    "Engine",
    "ExperimentRule",
    "ExplicitRule",
    "FxRate",
    "GpuPrice",
    "PerToken",
    "Plan",
    "PriceBook",
    "Quotas",
    "Rental",
    "Rule",
    "Seller",
    "Slo",
    "TaxTreatment",
    "Tenant",
    "TenantDefaultRule",
    "TenantHashRule",
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

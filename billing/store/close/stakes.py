"""Who was on an engine, and what its time and tokens are worth: what a finding is about."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Final, Literal

from billing.exact.money import product, ratio
from billing.exact.quantities import gpu_hours
from billing.store.clickhouse import Ledger
from catalog import tariff
from catalog.model import Catalog, PerToken
from telemetry.names import EventName

_PLACES: Final = 18


@dataclass(frozen=True, slots=True)
class Stakes:
    """Asked of the ledger, with the prices that the catalog has at `now`."""

    ledger: Ledger
    catalog: Catalog
    now: datetime

    def on_engine(self, engine: str, start_ns: int, end_ns: int) -> list[str]:
        """Who had something on the engine in [start_ns, end_ns), by the records and by the meter."""
        asked = {"engine": engine, "start_ns": start_ns, "end_ns": end_ns, "window": EventName.WINDOW}
        return [row["tenant"] for row in self.ledger.read("tenants_on_engine", asked)]

    def known(self, tenants: Iterable[str]) -> tuple[str, ...]:
        """Those that the catalog has: nobody else gets an invoice."""
        return tuple(sorted(name for name in tenants if self.catalog.tenant(name) is not None))

    def charged_by(self, name: str, start_ns: int, end_ns: int) -> list[Literal["tokens", "time"]]:
        """What the plans charge by that the tenant has in [start_ns, end_ns); nothing for whom the catalog has not."""
        tenant = self.catalog.tenant(name)
        plans = [] if tenant is None else [plan for _, plan in tariff.plans(tenant, start_ns, end_ns)]
        return sorted({"tokens" if isinstance(plan, PerToken) else "time" for plan in plans})

    def pays(self, status: str, at_ns: int) -> bool:
        """Whether tenants pay for attempts that end like this, by the price book of that instant."""
        book = tariff.book_of_hour(self.catalog.price_books, at_ns, self.now)
        return book is not None and tariff.payer(book, status) == "tenant"

    def price(self, gpu_type: str, at_ns: int) -> Decimal | None:
        """What a GPU-hour costs at that instant; None when no price book says."""
        return tariff.gpu_price(self.catalog.price_books, gpu_type, at_ns, self.now)

    def cost(self, engine: str, at_ns: int, engine_ns: int, gpus: int | None = None) -> Decimal | None:
        """What so much time of an engine costs; None when the catalog does not know the engine or a price for it."""
        declared = self.catalog.engine(engine)
        price = None if declared is None else self.price(declared.gpu_type, at_ns)
        if declared is None or price is None:
            return None
        return product(gpu_hours(engine_ns, gpus or declared.gpu_count), price)

    def token_cost(
        self, engine: str, start_ns: int, end_ns: int, tokens: int, what: str, tenants: Iterable[str]
    ) -> Decimal | None:
        """The dearer of what a token cost on the engine, and what one of these tenants pays for it by its plan."""
        if not what.endswith("tokens"):
            return None
        row = self.ledger.read("cost_per_token", {"engine": engine, "start_ns": start_ns, "end_ns": end_ns})[0]
        average = (
            ratio(product(row["cost_sum"], Decimal(tokens)), Decimal(row["tokens"]), _PLACES) if row["tokens"] else None
        )
        plans = [
            tariff.terms_at(tenant, start_ns).plan
            for name in tenants
            if (tenant := self.catalog.tenant(name)) is not None
        ]
        prices = [
            product(plan.input if what.startswith("prompt") else plan.output, Decimal(tokens).scaleb(-6))
            for plan in plans
            if isinstance(plan, PerToken)
        ]
        return max([*prices, *([] if average is None else [average])], default=None)

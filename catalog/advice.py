"""What a valid catalog probably does not mean: warnings, which stop nothing."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Final

from stdnum.eu import vat

from catalog import tariff
from catalog.fields import countries
from catalog.model import (
    BaseRule,
    Catalog,
    ContentRule,
    ExperimentRule,
    ExplicitRule,
    PerToken,
    Rule,
    Seller,
    Tenant,
    TenantDefaultRule,
)
from catalog.patterns import Matcher
from catalog.references import targets

HIGH_TAX: Final = Decimal("0.35")
"""Above every value added tax there is."""


def warnings(catalog: Catalog) -> list[str]:
    """Lines of `path: what is odd`, in the catalog's order."""
    return [*_engines(catalog), *_adapters(catalog), *_tenants(catalog), *_routing(catalog), *_invoicing(catalog)]


def _engines(catalog: Catalog) -> Iterable[str]:
    warm = sum(adapter.warm for adapter in catalog.adapters)
    for i, engine in enumerate(catalog.engines):
        if warm > engine.max_cpu_loras:
            yield f"engines[{i}].max_cpu_loras: {warm} adapters are warm and {engine.max_cpu_loras} have a place; the rest load on demand"


def _adapters(catalog: Catalog) -> Iterable[str]:
    granted = {name for tenant in catalog.tenants for name in tenant.adapters}
    for i, adapter in enumerate(catalog.adapters):
        if adapter.name not in granted:
            yield f"adapters[{i}].name: {adapter.name!r} is granted to no tenant"


def _tenants(catalog: Catalog) -> Iterable[str]:
    for i, tenant in enumerate(catalog.tenants):
        oddities = (*_money(tenant), *_party(tenant.address, tenant.tax_id), *_treatments(tenant, catalog.seller))
        yield from (f"tenants[{i}].{oddity}" for oddity in oddities)


def _money(tenant: Tenant) -> Iterable[str]:
    if tenant.tax_rate > HIGH_TAX:
        yield f"tax_rate: {tenant.tax_rate} is {100 * tenant.tax_rate:f} %"
    plan = tenant.plan
    if isinstance(plan, PerToken):
        if plan.cached_input > plan.input:
            yield f"plan.cached_input: {plan.cached_input} is above the price of uncached input ({plan.input})"
    elif plan.margin > 1:
        yield f"plan.margin: {plan.margin} is {100 * plan.margin:f} %"


def _party(address: tuple[str, ...], tax_id: str | None) -> Iterable[str]:
    country = address[-1] if address else ""
    if address and country not in countries():
        yield "address: its last line is no ISO 3166 country code, so there is no e-invoice"
    prefix = {"GR": "EL"}.get(country, country)
    if _in_union(country) and tax_id is not None and tax_id.startswith(prefix) and not vat.is_valid(tax_id):
        yield f"tax_id: {tax_id!r} is not a VAT id as {country} issues them"


def _treatments(tenant: Tenant, seller: Seller) -> Iterable[str]:
    """Of all terms that the tenant has or will have, each oddity once."""
    return dict.fromkeys(oddity for _, held, _ in tariff.standing(tenant) for oddity in _treatment(held, seller))


def _treatment(tenant: Tenant, seller: Seller) -> Iterable[str]:
    """Where a seller in the European Union treats services to a business as if it were elsewhere; goods are not judged."""
    country, own = (address[-1] if address else "" for address in (tenant.address, seller.address))
    if not _in_union(own) or country not in countries():
        return
    treatment = tenant.tax_treatment
    if treatment == "export" and _in_union(country):
        yield f"tax_treatment: export is for customers outside the European Union; a business in {country} owes the tax itself, which is reverse_charge"
    if treatment == "reverse_charge" and not _in_union(country):
        yield f"tax_treatment: reverse_charge is for businesses in the European Union; services to one in {country} are not subject to its tax, which is export"


def _in_union(country: str) -> bool:
    """Northern Ireland (XI) is in it for goods only."""
    return country != "XI" and country.lower() in vat.MEMBER_STATES


def _routing(catalog: Catalog) -> Iterable[str]:
    """Rules that can never decide, because earlier rules decide for every tenant that they apply to."""
    open_for = {tenant.id for tenant in catalog.tenants}
    explicit = False
    for i, rule in enumerate(catalog.routing):
        if isinstance(rule, ExplicitRule):
            never, explicit = explicit or not open_for, True
        else:
            never = not any(_may_decide(rule, tenant) for tenant in catalog.tenants if tenant.id in open_for)
        if never and catalog.tenants:
            yield f"routing[{i}]: rule {rule.id!r} can never decide: no tenant that reaches it has what it needs"
        if isinstance(rule, ContentRule) and Matcher(rule.pattern).found_in(b""):
            yield f"routing[{i}].pattern: matches every text"
        if not isinstance(rule, ExplicitRule | ContentRule):
            open_for -= {tenant.id for tenant in catalog.tenants if _may_decide(rule, tenant)}


def _may_decide(rule: Rule, tenant: Tenant) -> bool:
    if isinstance(rule, TenantDefaultRule):
        return tenant.default_adapter is not None
    if isinstance(rule, ExperimentRule) and tenant.id not in rule.tenants:
        return False
    return isinstance(rule, BaseRule) or any(name in tenant.adapters for name in targets(rule))


def _invoicing(catalog: Catalog) -> Iterable[str]:
    for i, price in enumerate(catalog.prices.gpu_hours):
        if not price.per_hour:
            yield f"prices.gpu_hours[{i}].per_hour: a GPU-hour of {price.gpu_type} costs nothing"
    yield from (f"seller.{oddity}" for oddity in _party(catalog.seller.address, catalog.seller.tax_id))

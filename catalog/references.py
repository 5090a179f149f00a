"""Names in a catalog: each once, none reserved, and every one that is referred to is there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from catalog.model import Catalog, ContentRule, ExperimentRule, Rule, TenantHashRule
from catalog.owners import TimeOwner

RESERVED_TENANTS: Final = frozenset(
    {"other", "provider", "unauthenticated", "unknown", *(owner.value for owner in TimeOwner)}
)
"""Ids that the ledger and the metrics use themselves."""
RESERVED_MODELS: Final = frozenset({"auto", "base", "other", "unknown"})
"""Names that requests, records and metrics use themselves."""


def duplicates(where: str, values: Iterable[str]) -> Iterable[str]:
    """A problem for every value that is there more than once."""
    for value, count in Counter(values).items():
        if count > 1:
            yield f"{where}: {value!r} appears {count} times"


def reference_problems(catalog: Catalog) -> Iterable[str]:
    """Everything wrong with the names of a catalog whose values are right."""
    yield from _once(catalog)
    yield from _adapters(catalog)
    yield from _tenants(catalog)
    yield from _rules(catalog)
    priced = {price.gpu_type for price in catalog.prices.gpu_hours}
    for i, engine in enumerate(catalog.engines):
        if engine.gpu_type not in priced:
            yield f"engines[{i}].gpu_type: {engine.gpu_type!r} has no price in prices.gpu_hours"


def raw_reference_problems(raw: dict[str, Any]) -> list[str]:
    """Reference problems that can be told even when values do not validate, so that one run shows everything."""
    known = [adapter.get("name") for adapter in _mappings(raw.get("adapters"))]
    return [
        f"tenants[{i}].adapters: unknown adapter {name!r}"
        for i, tenant in enumerate(_mappings(raw.get("tenants")))
        for name in _listed(tenant.get("adapters"))
        if isinstance(name, str) and name not in known
    ]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _mappings(value: Any) -> list[dict[str, Any]]:
    return [item if isinstance(item, dict) else {} for item in _listed(value)]


def _once(catalog: Catalog) -> Iterable[str]:
    yield from duplicates("engines", [e.id for e in catalog.engines])
    yield from duplicates("adapters", [a.name for a in catalog.adapters])
    yield from duplicates("tenants", [t.id for t in catalog.tenants])
    yield from duplicates("routing", [r.id for r in catalog.routing])
    yield from duplicates("prices.version", [book.version for book in catalog.price_books])
    holders: dict[str, list[str]] = {}
    for tenant in catalog.tenants:
        for key in tenant.key_hashes:
            holders.setdefault(key, []).append(tenant.id)
    for key, ids in holders.items():
        if len(ids) > 1:
            yield f"tenants.key_hashes: {key!r} appears {len(ids)} times ({', '.join(ids)})"


def _adapters(catalog: Catalog) -> Iterable[str]:
    tenants = {tenant.id for tenant in catalog.tenants}
    if catalog.base_model.name in RESERVED_MODELS:
        yield f"base_model.name: {catalog.base_model.name!r} is reserved"
    for i, adapter in enumerate(catalog.adapters):
        if adapter.owner is not None and adapter.owner not in tenants:
            yield f"adapters[{i}].owner: unknown tenant {adapter.owner!r}"
        if adapter.name in RESERVED_MODELS or adapter.name == catalog.base_model.name:
            yield f"adapters[{i}].name: {adapter.name!r} is reserved"


def _tenants(catalog: Catalog) -> Iterable[str]:
    adapters = {adapter.name for adapter in catalog.adapters}
    tenants = {tenant.id for tenant in catalog.tenants}
    for i, tenant in enumerate(catalog.tenants):
        where = f"tenants[{i}]"
        if tenant.id in RESERVED_TENANTS:
            yield f"{where}.id: {tenant.id!r} is reserved"
        yield from _known(f"{where}.adapters", "adapter", tenant.adapters, adapters)
        yield from duplicates(f"{where}.adapters", tenant.adapters)
        if tenant.default_adapter is not None and tenant.default_adapter not in tenant.adapters:
            yield f"{where}.default_adapter: {tenant.default_adapter!r} is not granted to this tenant"
        yield from _known(f"{where}.kv_sharing_consent", "tenant", tenant.kv_sharing_consent, tenants)


def _rules(catalog: Catalog) -> Iterable[str]:
    adapters = {adapter.name for adapter in catalog.adapters}
    tenants = {tenant.id for tenant in catalog.tenants}
    for i, rule in enumerate(catalog.routing):
        yield from _known(f"routing[{i}]", "adapter", targets(rule), adapters)
        if isinstance(rule, TenantHashRule):
            yield from duplicates(f"routing[{i}].adapters", rule.adapters)
        if isinstance(rule, ExperimentRule):
            yield from _known(f"routing[{i}].tenants", "tenant", rule.tenants, tenants)
            yield from duplicates(f"routing[{i}].tenants", rule.tenants)


def _known(where: str, kind: str, names: Iterable[str], known: set[str]) -> Iterable[str]:
    for name in names:
        if name not in known:
            yield f"{where}: unknown {kind} {name!r}"


def targets(rule: Rule) -> tuple[str, ...]:
    """The adapters that a rule itself names."""
    match rule:
        case ContentRule():
            return (rule.adapter,)
        case TenantHashRule():
            return rule.adapters
        case ExperimentRule():
            return tuple(rule.variants)
    return ()

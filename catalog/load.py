"""Reads and checks a catalog file; every problem at once, each with its path."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from catalog.model import Catalog, ContentRule, ExperimentRule, PriceBook, Tenant, TenantHashRule

RESERVED_TENANTS = frozenset({"other", "provider", "unauthenticated", "unknown"})
"""Ids that the ledger and the metrics use themselves."""


class CatalogInvalid(Exception):
    """The file cannot be used; `problems` are lines of `path: what is wrong`."""

    def __init__(self, source: str, problems: list[str]) -> None:
        self.source, self.problems = source, problems
        count = len(problems)
        super().__init__(
            f"could not use catalog {source}: {count} problem{'s' if count != 1 else ''}\n"
            + "\n".join(f"  {p}" for p in problems)
        )


def load(path: Path) -> Catalog:
    """Read `path`; CatalogInvalid lists everything that is wrong with it."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise CatalogInvalid(str(path), [f"cannot be read: {error.strerror or error}"]) from error
    return parse(text, str(path))


def parse(text: str, source: str) -> Catalog:
    """Check catalog text; `source` names it in errors."""
    try:
        raw: Any = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise CatalogInvalid(source, [f"not YAML: {' '.join(str(error).split())}"]) from error
    if not isinstance(raw, dict):
        raise CatalogInvalid(source, ["the file must hold a mapping at the top"])
    try:
        catalog = Catalog.model_validate(raw)
    except ValidationError as error:
        problems = [f"{_dotted(e['loc'])}: {e['msg'].removeprefix('Value error, ')}" for e in error.errors()]
        raise CatalogInvalid(source, problems + _raw_references(raw)) from error
    if problems := list(_references(catalog)):
        raise CatalogInvalid(source, problems)
    return catalog


def version(catalog: Catalog) -> str:
    """Content hash of the whole catalog: 12 hex digits. The routing policy version on every decision."""
    return hashlib.sha256(catalog.model_dump_json().encode()).hexdigest()[:12]


def _dotted(location: Iterable[str | int]) -> str:
    out = ""
    for part in location:
        out += f"[{part}]" if isinstance(part, int) else f".{part}" if out else str(part)
    return out or "(top)"


def _raw_references(raw: dict[str, Any]) -> list[str]:
    """Reference problems that can be told even when values do not validate, so that one run shows everything."""
    known = {a.get("name") for a in raw.get("adapters") or () if isinstance(a, dict)}
    found = []
    for i, tenant in enumerate(raw.get("tenants") or ()):
        if isinstance(tenant, dict):
            for name in tenant.get("adapters") or ():
                if name not in known:
                    found.append(f"tenants[{i}].adapters: unknown adapter {name!r}")
    return found


def _references(catalog: Catalog) -> Iterable[str]:
    yield from _duplicates("engines", [e.id for e in catalog.engines])
    yield from _duplicates("adapters", [a.name for a in catalog.adapters])
    yield from _duplicates("tenants", [t.id for t in catalog.tenants])
    yield from _duplicates("routing", [r.id for r in catalog.routing])
    yield from _duplicates("tenants.key_hashes", [h for t in catalog.tenants for h in t.key_hashes])
    adapters = {a.name for a in catalog.adapters}
    tenants = {t.id for t in catalog.tenants}
    top_rank = max(e.max_lora_rank for e in catalog.engines)
    for i, adapter in enumerate(catalog.adapters):
        if adapter.owner is not None and adapter.owner not in tenants:
            yield f"adapters[{i}].owner: unknown tenant {adapter.owner!r}"
        if adapter.rank > top_rank:
            yield f"adapters[{i}].rank: {adapter.rank} is above every engine's max_lora_rank ({top_rank})"
        if adapter.name in ("base", "other", catalog.base_model.name):
            yield f"adapters[{i}].name: {adapter.name!r} is reserved"
    for i, tenant in enumerate(catalog.tenants):
        if tenant.id in RESERVED_TENANTS:
            yield f"tenants[{i}].id: {tenant.id!r} is reserved"
        for name in tenant.adapters:
            if name not in adapters:
                yield f"tenants[{i}].adapters: unknown adapter {name!r}"
        if tenant.default_adapter is not None and tenant.default_adapter not in tenant.adapters:
            yield f"tenants[{i}].default_adapter: {tenant.default_adapter!r} is not granted to this tenant"
        yield from (f"tenants[{i}].{problem}" for problem in _money(tenant, catalog.prices))
    for i, rule in enumerate(catalog.routing):
        names = (
            [rule.adapter]
            if isinstance(rule, ContentRule)
            else list(rule.adapters)
            if isinstance(rule, TenantHashRule)
            else list(rule.variants)
            if isinstance(rule, ExperimentRule)
            else []
        )
        for name in names:
            if name not in adapters:
                yield f"routing[{i}]: unknown adapter {name!r}"
        for name in rule.tenants if isinstance(rule, ExperimentRule) else ():
            if name not in tenants:
                yield f"routing[{i}].tenants: unknown tenant {name!r}"
    yield from _duplicates("prices.version", [book.version for book in catalog.price_books])
    for i, book in enumerate(catalog.price_books):
        where = f"earlier_prices[{i}]" if i < len(catalog.earlier_prices) else "prices"
        yield from (f"{where}.{problem}" for problem in _book(book))
        if book.currency != catalog.prices.currency:
            yield f"{where}.currency: {book.currency} is not the current book's {catalog.prices.currency}"
    priced = {p.gpu_type for p in catalog.prices.gpu_hours}
    for i, engine in enumerate(catalog.engines):
        if engine.gpu_type not in priced:
            yield f"engines[{i}].gpu_type: {engine.gpu_type!r} has no price in prices.gpu_hours"
        if engine.max_cpu_loras < engine.max_loras:
            yield f"engines[{i}].max_cpu_loras: {engine.max_cpu_loras} is below max_loras {engine.max_loras}"


def _money(tenant: Tenant, book: PriceBook) -> Iterable[str]:
    if tenant.currency != book.currency and tenant.currency not in {rate.currency for rate in book.fx}:
        yield f"currency: {tenant.currency} has no exchange rate to the price book's {book.currency}"
    if tenant.tax_treatment != "standard" and tenant.tax_rate:
        yield f"tax_rate: must be 0 where tax_treatment is {tenant.tax_treatment}"
    if tenant.tax_treatment == "reverse_charge" and not tenant.tax_id:
        yield "tax_id: reverse charge needs the customer's VAT id"
    yield from _duplicates("discounts", [discount.id for discount in tenant.discounts])
    for discount in tenant.discounts:
        if discount.start and discount.until and discount.start >= discount.until:
            yield f"discounts: {discount.id!r} ends before it starts"


def _book(book: PriceBook) -> Iterable[str]:
    yield from _duplicates(
        "gpu_hours", [f"{price.gpu_type} from {price.start.isoformat()}" for price in book.gpu_hours]
    )
    yield from _duplicates("fx", [f"{rate.currency} on {rate.day}" for rate in book.fx])
    if book.currency in {rate.currency for rate in book.fx}:
        yield f"fx: {book.currency} is the book's own currency"


def _duplicates(where: str, values: list[str]) -> Iterable[str]:
    for value, count in Counter(values).items():
        if count > 1:
            yield f"{where}: {value!r} appears {count} times"

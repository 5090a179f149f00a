"""Values of a catalog against each other: sizes that fit, intervals that tile, money that does not contradict itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise
from typing import Final

from catalog import tariff
from catalog.durations import HOUR_NS, QUARTER_NS
from catalog.engines import BUILTIN_KV_BYTES, Engine
from catalog.fields import LATEST, countries
from catalog.model import Catalog, PriceBook, Tenant
from catalog.months import to_ns
from catalog.prices import GAP_SERIES, PAYERS
from catalog.references import duplicates

MIN_KV_BYTES: Final = 256
"""Fewer bytes of KV cache than any model takes for a token."""

_OPTIONAL: Final = {"commitment", "purchase_order", "tax_id", "tax_note"}
"""Terms that a tenant may be without."""


def consistency_problems(catalog: Catalog) -> Iterable[str]:
    """Problems between values that are each valid by themselves."""
    kv_bytes = BUILTIN_KV_BYTES.get(catalog.base_model.path, MIN_KV_BYTES)
    for i, engine in enumerate(catalog.engines):
        yield from (f"engines[{i}].{problem}" for problem in (*_sizes(engine, kv_bytes), *_rentals(engine)))
    top_rank = max(engine.max_lora_rank for engine in catalog.engines)
    top_memory = max(engine.memory_bytes for engine in catalog.engines)
    for i, adapter in enumerate(catalog.adapters):
        if adapter.rank > top_rank:
            yield f"adapters[{i}].rank: {adapter.rank} is above every engine's max_lora_rank ({top_rank})"
        if adapter.memory_budget_bytes > top_memory:
            yield f"adapters[{i}].memory_budget_bytes: {adapter.memory_budget_bytes} is above every engine's memory_bytes ({top_memory})"
    for i, tenant in enumerate(catalog.tenants):
        yield from (
            f"tenants[{i}].{problem}" for problem in (*_tenant(tenant, catalog.prices), *_terms(tenant, catalog.prices))
        )
    yield from _sharing(catalog)
    yield from _books(catalog)
    yield from (f"seller.address: {problem}" for problem in _country(catalog.seller.address))
    if catalog.seller.number_series == catalog.seller.credit_series:
        yield "seller.credit_series: must differ from number_series, or two documents get one number"
    for name in ("number_series", "credit_series"):
        if getattr(catalog.seller, name) == GAP_SERIES:
            yield f"seller.{name}: {GAP_SERIES} is what accepted gaps are numbered with"


def _sizes(engine: Engine, kv_bytes: int) -> Iterable[str]:
    if engine.max_cpu_loras < engine.max_loras:
        yield f"max_cpu_loras: {engine.max_cpu_loras} is below max_loras {engine.max_loras}"
    if engine.block_size > engine.max_model_len:
        yield f"block_size: {engine.block_size} is above max_model_len {engine.max_model_len}"
    if engine.max_num_batched_tokens < engine.max_num_seqs:
        yield f"max_num_batched_tokens: {engine.max_num_batched_tokens} is below max_num_seqs {engine.max_num_seqs}"
    if engine.kv_cache_bytes > engine.memory_bytes:
        yield f"kv_cache_bytes: {engine.kv_cache_bytes} is above memory_bytes {engine.memory_bytes}, of which it is a part"
    one = -(-engine.max_model_len // engine.block_size) * engine.block_size * kv_bytes
    if engine.kv_cache_bytes < one:
        yield f"kv_cache_bytes: {engine.kv_cache_bytes} holds no sequence of max_model_len {engine.max_model_len}, which takes {one} or more"


def _rentals(engine: Engine) -> Iterable[str]:
    rentals = engine.rented if isinstance(engine.rented, tuple) else ()
    for i, rental in enumerate(rentals):
        if rental.until is not None and rental.until <= rental.start:
            yield f"rented[{i}]: ends before it starts"
    ordered = sorted(enumerate(rentals), key=lambda item: item[1].start)
    for (i, before), (j, after) in pairwise(ordered):
        if (before.until or LATEST) > after.start:
            yield f"rented[{j}]: begins before rented[{i}] ends; an engine is paid for once at a time"


def _tenant(tenant: Tenant, book: PriceBook) -> Iterable[str]:
    yield from (f"address: {problem}" for problem in _country(tenant.address))
    if tenant.currency != book.currency and tenant.currency not in {rate.currency for rate in book.fx}:
        yield f"currency: {tenant.currency} has no exchange rate to the price book's {book.currency}"
    if tenant.tax_treatment != "standard" and tenant.tax_rate:
        yield f"tax_rate: must be 0 where tax_treatment is {tenant.tax_treatment}"
    if tenant.tax_treatment == "reverse_charge" and not tenant.tax_id:
        yield "tax_id: reverse charge needs the customer's VAT id"
    yield from duplicates("discounts", [discount.id for discount in tenant.discounts])
    starts: dict[object, str] = {}
    for discount in tenant.discounts:
        if discount.start and discount.until and discount.start >= discount.until:
            yield f"discounts: {discount.id!r} ends before it starts"
        if (other := starts.setdefault(discount.start, discount.id)) != discount.id:
            yield f"discounts: {discount.id!r} starts when {other!r} does; the one that started last holds"


def _terms(tenant: Tenant, book: PriceBook) -> Iterable[str]:
    """Dates that follow each other on quarter hours, and at each a tenant without contradictions."""
    unsaid = [
        f"terms[{i}].{name}: cannot be null; leave it out where it continues"
        for i, term in enumerate(tenant.terms)
        for name, value in term.named.items()
        if value is None and name not in _OPTIONAL
    ]
    yield from unsaid
    if unsaid:
        return
    stood = list(tariff.standing(tenant))
    for i, ((before_ns, _, _), (at_ns, now, _)) in enumerate(pairwise(stood)):
        if at_ns % QUARTER_NS:
            yield f"terms[{i}].effective_from: must lie on a quarter hour (UTC), which is how finely usage is kept"
        if at_ns <= before_ns:
            yield f"terms[{i}].effective_from: must be after that of the terms before"
        yield from (f"terms[{i}]: {problem}" for problem in _tenant(now, book))


def _country(address: tuple[str, ...]) -> Iterable[str]:
    """A last line of two letters must be an ISO 3166 country code; any other last line is not checked."""
    last = address[-1] if address else ""
    if len(last) == 2 and last.isascii() and last.isalpha() and last not in countries():
        yield f"{last!r} is not an ISO 3166 country code (two capital letters, such as DE, GB or GR)"


def _sharing(catalog: Catalog) -> Iterable[str]:
    """One group is one organisation, and each of its tenants consents to every other."""
    groups: dict[str, list[tuple[int, Tenant]]] = defaultdict(list)
    for i, tenant in enumerate(catalog.tenants):
        if tenant.kv_sharing_group is not None:
            groups[tenant.kv_sharing_group].append((i, tenant))
        if tenant.id in tenant.kv_sharing_consent:
            yield f"tenants[{i}].kv_sharing_consent: a tenant needs no consent of its own"
        if tenant.kv_sharing_consent and tenant.kv_sharing_group is None:
            yield f"tenants[{i}].kv_sharing_consent: says with whom a kv_sharing_group may be shared, and there is none"
    for group, members in groups.items():
        orgs = {tenant.org for _, tenant in members}
        for i, tenant in members:
            where = f"tenants[{i}].kv_sharing_group: {group!r}"
            if tenant.org is None:
                yield f"{where} needs an org; only tenants of one organisation may share a prefix cache"
            elif len(orgs) > 1:
                yield f"{where} has tenants of several organisations; only those of one may share a prefix cache"
            missing = [other.id for _, other in members if other.id not in {tenant.id, *tenant.kv_sharing_consent}]
            if missing:
                yield f"tenants[{i}].kv_sharing_consent: must name every other tenant of group {group!r}; it lacks {', '.join(missing)}"


def _books(catalog: Catalog) -> Iterable[str]:
    held: dict[object, str] = {}
    for i, book in enumerate(catalog.price_books):
        where = f"earlier_prices[{i}]" if i < len(catalog.earlier_prices) else "prices"
        yield from (f"{where}.{problem}" for problem in _book(book))
        if book.currency != catalog.prices.currency:
            yield f"{where}.currency: {book.currency} is not the current book's {catalog.prices.currency}"
        if (other := held.setdefault((book.effective_from, book.known_from), where)) != where:
            yield f"{where}.effective_from: holds and is known from the same instants as {other}; which one holds cannot be told"


def _book(book: PriceBook) -> Iterable[str]:
    for where, at in (
        ("effective_from", book.effective_from),
        *((f"gpu_hours[{i}].start", price.start) for i, price in enumerate(book.gpu_hours)),
    ):
        if at is not None and to_ns(at) % HOUR_NS:
            yield f"{where}: must lie on the hour (UTC), since an engine-hour has one price; {at.isoformat()} does not"
    yield from duplicates("gpu_hours", [f"{price.gpu_type} from {price.start.isoformat()}" for price in book.gpu_hours])
    yield from duplicates("fx", [f"{rate.currency} on {rate.day}" for rate in book.fx])
    if book.currency in {rate.currency for rate in book.fx}:
        yield f"fx: {book.currency} is the book's own currency"
    if missing := PAYERS.keys() - book.charged.keys():
        yield f"charged: must say who pays for {', '.join(sorted(missing))}"

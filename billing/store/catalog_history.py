"""The catalog's prices, tenants and adapters as the ledger came to know them: appended when their content changes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from billing.exact.canonical import text_hash
from billing.store.clickhouse import Ledger
from catalog.model import Catalog


def remember_catalog(ledger: Ledger, catalog: Catalog, now: datetime) -> int:
    """Append what the newest rows do not already say, with `now` as knowledge time; how many rows."""
    prices = {
        f"{book.version} {price.gpu_type} {price.start.astimezone(UTC):%Y-%m-%dT%H:%M:%S+00:00}": {
            "gpu_type": price.gpu_type,
            "start": price.start,
            "per_hour": price.per_hour,
            "currency": book.currency,
            "book": book.version,
            "hash": text_hash(f"{price.model_dump_json()} {book.currency} {book.version}"),
        }
        for book in catalog.price_books
        for price in book.gpu_hours
    }
    tenants = {
        tenant.id: {
            "tenant": tenant.id,
            "name": tenant.name,
            "org": tenant.org or "",
            "time_zone": tenant.time_zone,
            "currency": tenant.currency,
            "plan": tenant.plan.kind,
            **_document(tenant.model_dump_json(exclude={"key_hashes"})),
        }
        for tenant in catalog.tenants
    }
    adapters = {
        adapter.name: {
            "adapter": adapter.name,
            "owner": adapter.owner or "",
            "rank": adapter.rank,
            "memory_budget_bytes": adapter.memory_budget_bytes,
            **_document(adapter.model_dump_json()),
        }
        for adapter in catalog.adapters
    }
    tables: dict[str, Mapping[str, Mapping[str, Any]]] = {"prices": prices, "tenants": tenants, "adapters": adapters}
    return sum(_append(ledger, table, entries, now) for table, entries in tables.items())


def _document(text: str) -> dict[str, str]:
    return {"document": text, "hash": text_hash(text)}


def _append(ledger: Ledger, table: str, entries: Mapping[str, Mapping[str, Any]], now: datetime) -> int:
    known = {row["entry"]: row["newest"] for row in ledger.read(f"newest_{table}")}
    fresh = [{**row, "known_at": now} for key, row in entries.items() if known.get(key) != row["hash"]]
    return ledger.insert(table, fresh)

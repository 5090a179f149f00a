"""The catalog's prices, tenants and adapters as the ledger came to know them: appended when their content changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from billing.store.clickhouse import Ledger
from billing.store.rows import text_hash
from catalog.model import Catalog


def remember_catalog(ledger: Ledger, catalog: Catalog, now: datetime) -> int:
    """Append what the newest rows do not already say, with `now` as knowledge time; how many rows."""
    prices = {
        f"{book.version} {price.gpu_type} {price.start.astimezone(UTC):%Y-%m-%dT%H:%M:%S+00:00}": (
            f"{price.model_dump_json()} {book.currency} {book.version}",
            {
                "gpu_type": price.gpu_type,
                "start": price.start,
                "per_hour": price.per_hour,
                "currency": book.currency,
                "book": book.version,
            },
        )
        for book in catalog.price_books
        for price in book.gpu_hours
    }
    tenants = {
        tenant.id: (
            document := tenant.model_dump_json(exclude={"key_hashes"}),
            {
                "tenant": tenant.id,
                "name": tenant.name,
                "org": tenant.org or "",
                "time_zone": tenant.time_zone,
                "currency": tenant.currency,
                "plan": tenant.plan.kind,
                "document": document,
            },
        )
        for tenant in catalog.tenants
    }
    adapters = {
        adapter.name: (
            document := adapter.model_dump_json(),
            {
                "adapter": adapter.name,
                "owner": adapter.owner or "",
                "rank": adapter.rank,
                "memory_budget_bytes": adapter.memory_budget_bytes,
                "document": document,
            },
        )
        for adapter in catalog.adapters
    }
    return (
        _append(ledger, "prices", prices, now)
        + _append(ledger, "tenants", tenants, now)
        + _append(ledger, "adapters", adapters, now)
    )


def _append(ledger: Ledger, table: str, entries: Mapping[str, tuple[str, Mapping[str, Any]]], now: datetime) -> int:
    known = {row["entry"]: row["newest"] for row in ledger.read(f"newest_{table}")}
    fresh = [(text_hash(text), row) for key, (text, row) in entries.items() if known.get(key) != text_hash(text)]
    columns: Sequence[str] = list(fresh[0][1]) if fresh else []
    return ledger.insert(table, [*columns, "known_at", "hash"], [[*row.values(), now, digest] for digest, row in fresh])

"""The catalog's prices, tenants and adapters as the ledger came to know them: appended when their content changes; and a catalog
whose tenants are as they held, not as they stand in the file today."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from billing.errors import PastTermsChanged
from billing.exact.canonical import text_hash
from billing.store.clickhouse import Ledger
from catalog.history import Entry, PastEdited, as_known
from catalog.model import Catalog, Tenant


class KnownCatalog(NamedTuple):
    """A catalog with every tenant that was ever known, each with its terms as they held; by tenant, what its entry says of the
    past against what was known then; and the tenants that the catalog no longer has."""

    catalog: Catalog
    edited: Mapping[str, tuple[PastEdited, ...]]
    gone: frozenset[str]


def known_catalog(ledger: Ledger, catalog: Catalog, now: datetime) -> KnownCatalog:
    """The catalog as the ledger's history and, from `now` on, the file have it. Nothing is written."""
    declared = {tenant.id: tenant for tenant in catalog.tenants}
    edited, tenants = {}, list[Tenant]()
    history = groupby(ledger.read("tenants_known", {}), itemgetter("tenant"))
    rows: dict[str, list[Mapping[str, Any]]] = {tenant: list(found) for tenant, found in history}
    for name in (*declared, *sorted(rows.keys() - declared.keys())):
        said, now_said = rows.get(name, []), declared.get(name)
        written = None if now_said is None else _declared(now_said)
        if now_said is not None and all(row["hash"] == written["hash"] for row in said if written):
            tenants.append(now_said)
            continue
        entries = [
            Entry(row["known_at"], Tenant.model_validate_json(row["document"]), bool(row["restated"])) for row in said
        ]
        if now_said is not None and written and said[-1]["hash"] != written["hash"]:
            entries.append(Entry(now, now_said))
        found = as_known(entries)
        keys = {} if now_said is None else {"key_hashes": now_said.key_hashes}
        tenants.append(found.tenant.model_copy(update=keys))
        if found.edited and now_said is not None:
            edited[name] = found.edited
    return KnownCatalog(
        catalog.model_copy(update={"tenants": tuple(tenants)}), edited, frozenset(rows.keys() - declared.keys())
    )


def refuse_edited(known: KnownCatalog, tenant: str, end: datetime) -> None:
    """PastTermsChanged when the tenant's entry says of the time before `end` what was not known then."""
    if edits := [str(edit) for edit in known.edited.get(tenant, ()) if edit.at < end]:
        raise PastTermsChanged(tenant, edits)


def remember_catalog(ledger: Ledger, catalog: Catalog, now: datetime, *, restate: bool = False) -> int:
    """Append what the newest rows do not already say, with `now` as knowledge time; how many rows.

    With `restate`, what tenants' entries say of the past holds there from now on.
    """
    restated = known_catalog(ledger, catalog, now).edited if restate else {}
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
            "restated": int(tenant.id in restated),
            **_declared(tenant),
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


def _declared(tenant: Tenant) -> dict[str, str]:
    return _document(tenant.model_dump_json(exclude={"key_hashes"}))


def _document(text: str) -> dict[str, str]:
    return {"document": text, "hash": text_hash(text)}


def _append(ledger: Ledger, table: str, entries: Mapping[str, Mapping[str, Any]], now: datetime) -> int:
    known = {row["entry"]: row["newest"] for row in ledger.read(f"newest_{table}")}
    fresh = [
        {**row, "known_at": now} for key, row in entries.items() if known.get(key) != row["hash"] or row.get("restated")
    ]
    return ledger.insert(table, fresh)

"""Engine time of which two facts say that it is another's: it waits in quarantine under both names, and nobody pays for it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from billing.store.clickhouse import Ledger
from billing.store.intake import quarantine
from billing.store.intake.quarantine import Entry
from catalog.model import Catalog
from telemetry.names import BASE, EventName
from telemetry.usage import UNKNOWN_TENANT


def quarantine_disputes(ledger: Ledger, window: Mapping[str, int], catalog: Catalog, now: datetime) -> None:
    """Put every attempt whose owner is in doubt into quarantine, and take those out that are agreed on now.

    What came past the gateway is nobody's, and no dispute. Given up, a dispute stays one: its time is the provider's.
    """
    known = {
        "tenants": [UNKNOWN_TENANT, *(tenant.id for tenant in catalog.tenants)],
        "adapters": [BASE, *(adapter.name for adapter in catalog.adapters)],
    }
    rows = ledger.read("disputed_shares", {"window": EventName.WINDOW, "base": BASE, **known, **window})
    entries = {entry.id: entry for entry in map(_entry, rows)}
    quarantine.put(ledger, entries.values(), now)
    gone = {row["id"] for row in ledger.read("quarantine_shares", {**window})} - entries.keys()
    quarantine.resolve(ledger, dict.fromkeys(gone, quarantine.ACCEPTED), now)


def _entry(row: Mapping[str, Any]) -> Entry:
    names = {name: row[name] for name in ("attempt", "tenants", "adapters", "recorded")}
    emitter, _, seq = row["attempt"].rpartition(":")
    numbered = bool(emitter) and seq.isascii() and seq.isdigit()
    return Entry(
        "share",
        "ledger_events, meter windows",
        _reason(row),
        json.dumps(names, sort_keys=True),
        row["at_ns"],
        emitter=emitter if numbered else row["attempt"],
        seq=int(seq) if numbered else -1,
    )


def _reason(row: Mapping[str, Any]) -> str:
    owners = " and ".join(map(repr, row["tenants"]))
    found = [
        f"{what} {name!r} is not in the catalog" for what in ("tenant", "adapter") for name in row[f"unknown_{what}s"]
    ]
    if row["recorded"] and row["tenants"] != [row["recorded"]]:
        found.append(f"the record says {row['recorded']!r}")
    return f"the meter gives time to {owners}: {'; '.join(found) or 'one attempt of two tenants'}"

"""Tries again what waits in quarantine: its cause may be gone, by another catalog or another version of this program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from billing.store.clickhouse import Ledger
from billing.store.intake import quarantine
from billing.store.intake.ingest import take_again, take_event
from billing.store.intake.quarantine import ACCEPTED, Waiting
from billing.store.intake.usage import retry_usage
from catalog.model import Catalog
from telemetry.otlp_decode import EventRow


def retry(ledger: Ledger, ids: Sequence[str], catalog: Catalog, now: datetime) -> tuple[list[Waiting], list[Waiting]]:
    """Take what can be taken now, of these entries or (none named) of all open ones; what was taken, and what still waits.

    Nothing that still waits changes. EntryMissing as in `quarantine.chosen`.
    """
    named = quarantine.chosen(ledger, ids) if ids else quarantine.listed(ledger)
    entries = [entry for entry in named if not entry.resolution]
    rows = {row["id"]: row for row in ledger.read("quarantine_entries", {"ids": [entry.id for entry in entries]})}
    if any(entry.kind == "usage" for entry in entries):
        retry_usage(ledger, catalog, now)
    lines = [entry for entry in entries if entry.kind == "line"]
    taken = [entry.id for entry in lines if _taken(ledger, rows[entry.id], catalog, now)]
    quarantine.resolve(ledger, dict.fromkeys(taken, ACCEPTED), now)
    waiting = {entry.id for entry in quarantine.listed(ledger)}
    return [e for e in entries if e.id not in waiting], [e for e in entries if e.id in waiting]


def _taken(ledger: Ledger, row: Mapping[str, Any], catalog: Catalog, now: datetime) -> bool:
    """An entry of an event holds its body, its name begins the reason; any other holds its line."""
    if not row["emitter"]:
        return take_again(ledger, row["content"], row["source"], catalog, now)
    if row["event_time"] is None:
        return False
    name = row["reason"].split(" ", 1)[0]
    return take_event(ledger, EventRow(name, row["emitter"], row["seq"], row["event_time"], row["content"]), now)

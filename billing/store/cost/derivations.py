"""What the derived tables hold: which months were derived when, and whether facts came since."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from billing.store.clickhouse import Ledger
from catalog.load import version
from catalog.model import Catalog


class Derived(NamedTuple):
    """What deriving a stretch of time did: rows that changed, and in words what could not be derived."""

    changed: int
    faults: tuple[str, ...] = ()


def remember_derivation(ledger: Ledger, start_ns: int, end_ns: int, catalog: Catalog, now: datetime) -> None:
    """Say that [start_ns, end_ns) holds everything that the ledger knows at `now`."""
    row = {"start_ns": start_ns, "end_ns": end_ns, "derived_at": now, "catalog_version": version(catalog)}
    ledger.insert("ledger_derivations", [row])


def unseen(ledger: Ledger) -> str | None:
    """That facts were read after anything was derived last, in words; None when the derived tables hold what there is."""
    found = ledger.read("derivation_newest")[0]
    if found["taken_at"].timestamp() <= 0 or found["taken_at"] <= found["derived_at"]:
        return None
    derived = f"at {found['derived_at']:%Y-%m-%d %H:%M:%S} UTC" if found["derived_at"].timestamp() > 0 else "never"
    return (
        f"facts came at {found['taken_at']:%Y-%m-%d %H:%M:%S} UTC and were derived {derived}: usage, engine_time, tenant_cost and what is made "
        "of them are older; `loraledger reconcile MONTH` derives a month"
    )


def behind(ledger: Ledger, start_ns: int, end_ns: int, catalog: Catalog) -> str | None:
    """Why the derived tables do not hold all that is known of [start_ns, end_ns), in words; None when they do.

    Files that were read later count, whatever month they are about: deriving again is what tells.
    """
    found = ledger.read("derivation_behind", {"start_ns": start_ns, "end_ns": end_ns})[0]
    taken_at: datetime = found["taken_at"]
    if taken_at.timestamp() <= 0:
        return None
    if not found["derivations"]:
        return "it was never derived from the facts"
    if taken_at > found["derived_at"]:
        return f"facts came at {taken_at:%Y-%m-%d %H:%M:%S} UTC, after it was derived at {found['derived_at']:%Y-%m-%d %H:%M:%S} UTC"
    if found["catalog_version"] != version(catalog):
        return "the catalog changed since it was derived"
    return None

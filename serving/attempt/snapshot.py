"""The ledger's last published figures, for the cost gauges. The request path never waits for the ledger, it reads a file."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Currency amounts by tenant, and what is wrong in the ledger (should be 0), as of `published_at`.

    `cost`, `revenue` and `charged` are to date of the tenant's billing `month`. `counted` says, by emitter, which attempts
    are in `charged`: ranges [first, last] of their numbers, ascending; those that ended before `charged_until` should be.
    What the ledger did not say is absent: no entry, or None.
    """

    published_at: datetime
    cost_per_mtok: Mapping[str, Decimal]
    memory_cost_per_hour: Mapping[str, Decimal]
    cost: Mapping[str, Decimal] = field(default_factory=dict)
    revenue: Mapping[str, Decimal] = field(default_factory=dict)
    month: Mapping[str, str] = field(default_factory=dict)
    charged: Mapping[str, Decimal] = field(default_factory=dict)
    counted: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    charged_until: datetime | None = None
    quarantine_records: int | None = None
    record_gaps: int | None = None
    close_overdue_ns: int | None = None
    price_missing_ns: int | None = None

    @classmethod
    def from_json(cls, text: str) -> Snapshot:
        """Read `{"published_at": iso, "ledger": {"record_gaps": 0, …}, "tenants": {id: {"cost_per_million_tokens": "…", …}},
        "counted": {emitter: [[first, last], …]}, "charged_until": iso}`.

        A figure that is missing or null is absent. KeyError, TypeError or ValueError when it is not a snapshot.
        """
        raw: dict[str, Any] = json.loads(text)
        published = _instant(raw, "published_at")
        tenants: dict[str, dict[str, Any]] = raw["tenants"]
        ledger: dict[str, Any] = raw.get("ledger") or {}
        return cls(
            published_at=published,
            cost_per_mtok=_column(tenants, "cost_per_million_tokens"),
            memory_cost_per_hour=_column(tenants, "memory_cost_per_hour"),
            cost=_column(tenants, "cost"),
            revenue=_column(tenants, "revenue"),
            month={tenant: str(row["month"]) for tenant, row in tenants.items() if row.get("month") is not None},
            charged=_column(tenants, "charged"),
            counted={emitter: _ranges(spans) for emitter, spans in (raw.get("counted") or {}).items()},
            charged_until=_instant(raw, "charged_until") if raw.get("charged_until") is not None else None,
            quarantine_records=_count(ledger, "quarantine_records"),
            record_gaps=_count(ledger, "record_gaps"),
            close_overdue_ns=_count(ledger, "close_overdue_ns"),
            price_missing_ns=_count(ledger, "price_missing_ns"),
        )


def _instant(raw: Mapping[str, Any], name: str) -> datetime:
    found = datetime.fromisoformat(raw[name])
    if found.tzinfo is None:
        raise ValueError(f"{name} has no time zone")
    return found


def _column(tenants: Mapping[str, Mapping[str, Any]], name: str) -> dict[str, Decimal]:
    try:
        return {tenant: Decimal(str(row[name])) for tenant, row in tenants.items() if row.get(name) is not None}
    except (InvalidOperation, AttributeError) as error:
        raise ValueError(f"{name} is not a number") from error


def _ranges(spans: Iterable[Sequence[int]]) -> tuple[tuple[int, int], ...]:
    found = tuple(sorted((first, last) for first, last in spans))
    if any(type(number) is not int for span in found for number in span):
        raise ValueError("an attempt number is not a whole number")
    return found


def _count(ledger: Mapping[str, Any], name: str) -> int | None:
    found = ledger.get(name)
    if found is None or type(found) is int:
        return found
    raise ValueError(f"{name} is not a whole number")


class SnapshotFile:
    """The file the ledger replaces. `read` gives the last good content, None while there never was any."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._stamp: tuple[int, int] | None = None
        self._last: Snapshot | None = None

    def read(self) -> Snapshot | None:
        """The newest good snapshot; a broken file is logged once and the last good one stays, its age growing."""
        if self._path is None:
            return None
        try:
            stat = self._path.stat()
        except OSError:
            return self._last
        stamp = stat.st_mtime_ns, stat.st_ino
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._last = Snapshot.from_json(self._path.read_text(encoding="utf-8"))
            except (OSError, KeyError, TypeError, ValueError) as error:
                log.error("could not read ledger snapshot %s: %s", self._path, error)
        return self._last

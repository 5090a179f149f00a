"""The ledger's last published figures, for the cost gauges. The request path never waits for the ledger, it reads a file."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Currency amounts by tenant, as of `published_at`."""

    published_at: datetime
    cost_per_mtok: Mapping[str, Decimal]
    memory_cost_per_hour: Mapping[str, Decimal]

    @classmethod
    def from_json(cls, text: str) -> Snapshot:
        """Read `{"published_at": iso, "tenants": {id: {"cost_per_million_tokens": "…", "memory_cost_per_hour": "…"}}}`.

        A figure that is missing or null is absent. KeyError, TypeError or ValueError when it is not a snapshot.
        """
        raw: dict[str, Any] = json.loads(text)
        published = datetime.fromisoformat(raw["published_at"])
        if published.tzinfo is None:
            raise ValueError("published_at has no time zone")
        tenants: dict[str, dict[str, Any]] = raw["tenants"]
        return cls(published, _column(tenants, "cost_per_million_tokens"), _column(tenants, "memory_cost_per_hour"))


def _column(tenants: Mapping[str, Mapping[str, Any]], name: str) -> dict[str, Decimal]:
    try:
        return {tenant: Decimal(str(row[name])) for tenant, row in tenants.items() if row.get(name) is not None}
    except (InvalidOperation, AttributeError) as error:
        raise ValueError(f"{name} is not a number") from error


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

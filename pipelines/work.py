"""What every step and check is given: the open ledger, the catalog, where things are, and the time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from billing.store.clickhouse import Ledger
from billing.store.migrate import migrate
from catalog.load import load
from catalog.model import Catalog
from pipelines.settings import Settings

Progress = Callable[[str, int, int], None]
"""Called with what is being made, how much is done, and how much there is."""


class Window(NamedTuple):
    """[start_ns, end_ns) in UTC nanoseconds, whole hours."""

    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Work:
    """One run's ledger, catalog, settings and time; `progress` hears how far a step has come."""

    ledger: Ledger
    catalog: Catalog
    settings: Settings
    now: datetime
    progress: Progress


def silent(_what: str, _done: int, _total: int) -> None:
    """The progress that nobody watches."""


@contextmanager
def open_work(settings: Settings, now: datetime, progress: Progress = silent) -> Iterator[Work]:
    """Read the catalog and open the ledger, its schema brought up to date. CatalogInvalid with every problem; StoreError."""
    catalog = load(settings.catalog)
    with Ledger.open(settings.dsn) as ledger:
        migrate(ledger, now)
        yield Work(ledger, catalog, settings, now, progress)

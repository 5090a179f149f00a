"""What assets are given: the ledger, the catalog, folders, the time, and somebody to tell about progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
from pydantic import Field

from billing.store.clickhouse import Ledger
from billing.store.migrate import migrate
from catalog.load import load
from catalog.model import Catalog
from pipelines.settings import Settings

Progress = Callable[[str, int, int], None]
"""Called with what is being made, how much is done, and how much there is."""


class LedgerResource(dg.ConfigurableResource[Ledger]):
    """The ledger at a DSN, opened for as long as one asset needs it."""

    dsn: str

    @contextmanager
    def open(self, now: datetime) -> Iterator[Ledger]:
        """Open it with its schema up to date; StoreError when that fails."""
        with Ledger.open(self.dsn) as ledger:
            migrate(ledger, now)
            yield ledger


class Place(dg.ConfigurableResource[None]):
    """A file or a folder."""

    path: str

    @property
    def at(self) -> Path:
        """Where it is."""
        return Path(self.path)


class FontFolders(dg.ConfigurableResource[None]):
    """Folders of fonts beside those that come with the program."""

    paths: list[str] = Field(default_factory=list)

    @property
    def at(self) -> tuple[Path, ...]:
        """Where they are."""
        return tuple(map(Path, self.paths))


class CatalogFile(Place):
    """The catalog."""

    def load(self) -> Catalog:
        """Read and check it; CatalogInvalid with every problem."""
        return load(self.at)


@dataclass(frozen=True)
class Desk:
    """What belongs to the one run: its clock, and who hears of its progress."""

    clock: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))
    progress: Progress = field(default=lambda _what, _done, _total: None)


def resources(settings: Settings, desk: Desk | None = None) -> dict[str, object]:
    """Everything assets ask for, by name."""
    return {
        "ledger": LedgerResource(dsn=settings.dsn),
        "catalog": CatalogFile(path=str(settings.catalog)),
        "spool": Place(path=str(settings.spool)),
        "documents": Place(path=str(settings.out)),
        "fonts": FontFolders(paths=[str(path) for path in settings.fonts]),
        "snapshot": Place(path=str(settings.snapshot)),
        "desk": desk or Desk(),
    }

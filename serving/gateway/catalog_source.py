"""The catalog in force, and how a changed file replaces it: a good one at the next look, a bad one never."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from catalog.load import CatalogInvalid, load
from catalog.model import Catalog
from serving.credentials import Keyring
from serving.routing import Policy

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class View:
    """One catalog version as the gateway uses it. A request keeps the one it began with."""

    catalog: Catalog
    policy: Policy
    keys: Keyring

    @classmethod
    def of(cls, catalog: Catalog) -> View:
        """Prepare a catalog for use."""
        return cls(catalog, Policy.of(catalog), Keyring.of(catalog))


class CatalogSource:
    """Reads `path` now and whenever `poll` finds it changed. Raises CatalogInvalid when the first one is bad.

    What is fixed while serving (the base model, the engines) may not change; such a file is refused like a faulty one.
    """

    def __init__(self, path: Path, read: Callable[[Path], Catalog] = load) -> None:
        self._path, self._read = path, read
        self._stamp = self._stat()
        self._view = View.of(read(path))
        self.last_error: CatalogInvalid | None = None
        """Why the file as it is now was refused; None while it is in force."""

    @property
    def view(self) -> View:
        """The catalog in force."""
        return self._view

    def poll(self) -> bool:
        """Reload if the file changed since the last look; whether a new catalog is in force."""
        stamp = self._stat()
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        return self.reload()

    def reload(self) -> bool:
        """Read the file now; whether a new catalog is in force. A bad one is logged with all its problems."""
        try:
            catalog = self._read(self._path)
            if fixed := _fixed(self._view.catalog, catalog):
                raise CatalogInvalid(str(self._path), fixed)
        except CatalogInvalid as error:
            self.last_error = error
            log.error("the catalog stays as it was: %s", error)
            return False
        self.last_error = None
        view = View.of(catalog)
        changed = view.policy.version != self._view.policy.version
        if changed:
            log.info("catalog %s is in force", view.policy.version)
            self._view = view
        return changed

    def _stat(self) -> tuple[int, int, int] | None:
        try:
            stat = self._path.stat()
        except OSError:
            return None
        return stat.st_mtime_ns, stat.st_size, stat.st_ino


def _fixed(old: Catalog, new: Catalog) -> list[str]:
    problems = []
    if old.base_model != new.base_model:
        problems.append("base_model: cannot change while serving; restart with the new catalog")
    if old.engines != new.engines:
        problems.append("engines: cannot change while serving; restart with the new catalog")
    return problems

"""The catalog in force, and how a changed file replaces it: a good one at the next look, a bad one never."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from catalog.durations import SECOND_NS
from catalog.load import CatalogInvalid, parse_bytes, read_file
from catalog.model import Catalog, Tenant
from serving.policy.credentials import keyring
from serving.policy.routing import Policy

log = logging.getLogger(__name__)

SETTLED_NS: Final = 2 * SECOND_NS


@dataclass(frozen=True, slots=True)
class View:
    """One catalog version as the gateway uses it. A request keeps the one it began with."""

    catalog: Catalog
    policy: Policy
    keys: Mapping[str, Tenant]

    @classmethod
    def of(cls, catalog: Catalog) -> View:
        """Prepare a catalog for use."""
        return cls(catalog, Policy.of(catalog), keyring(catalog))


class CatalogSource:
    """Reads `path` now and whenever `poll` finds it changed. Raises CatalogInvalid when the first one is bad.

    What is fixed while serving (the base model, the engines) may not change; such a file is refused like a faulty one.
    While a file is refused it is read again at every look, however little of it seems to have changed. `check` makes a
    catalog of a file's bytes; the same bytes are not checked twice.
    """

    def __init__(self, path: Path, check: Callable[[bytes, str], Catalog] = parse_bytes) -> None:
        self._path, self._check = path, check
        self._stamp: tuple[int, ...] | None = None
        self._refused: bytes | None = None
        self.view = View.of(check(read_file(path), str(path)))
        """The catalog in force."""
        self.last_error: CatalogInvalid | None = None
        """Why the file as it is now was refused; None while it is in force."""

    def poll(self) -> View | None:
        """As `read`, if the file changed since the last look, may have, or was refused. Blocks."""
        stamp = self._stat()
        if self.last_error is None and stamp is not None and stamp == self._stamp:
            return None
        return self.read()

    def read(self) -> View | None:
        """Read the file now; what is new in it, ready for `adopt`. A bad one is logged with all its problems. Blocks."""
        stamp, raw = self._stat(), None
        try:
            raw = read_file(self._path)
            if self.last_error is not None and raw == self._refused:
                return None
            view = View.of(self._check(raw, str(self._path)))
            if fixed := _fixed(self.view.catalog, view.catalog):
                raise CatalogInvalid(str(self._path), fixed)
        except CatalogInvalid as error:
            self._refuse(error, raw)
            return None
        except Exception as error:
            log.exception("the catalog could not be read")
            self._refuse(CatalogInvalid(str(self._path), [f"cannot be read: {error}"]), None)
            return None
        # A file that changed just now may change again without its times showing it.
        settled = stamp is not None and max(stamp[0], stamp[1]) < time.time_ns() - SETTLED_NS
        self._stamp = stamp if settled else None
        if view.policy.version != self.view.policy.version:
            return view
        self.last_error = None
        return None

    def adopt(self, view: View) -> None:
        """Let `view` be in force for requests that begin now."""
        log.info("catalog %s is in force", view.policy.version)
        self.view, self.last_error = view, None

    def _refuse(self, error: CatalogInvalid, raw: bytes | None) -> None:
        if self.last_error is None or self.last_error.problems != error.problems:
            log.error("the catalog stays as it was: %s", error)
        self.last_error, self._refused = error, raw

    def _stat(self) -> tuple[int, ...] | None:
        try:
            stat = self._path.stat()
        except OSError:
            return None
        return stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, stat.st_ino


def _fixed(old: Catalog, new: Catalog) -> list[str]:
    changed = [what for what in ("base_model", "engines") if getattr(old, what) != getattr(new, what)]
    return [f"{what}: cannot change while serving; restart with the new catalog" for what in changed]

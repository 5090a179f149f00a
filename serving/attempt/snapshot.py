"""The ledger's last published figures. The request path never waits for the ledger, it reads a file."""

from __future__ import annotations

import logging
from pathlib import Path

from telemetry.ledger_snapshot import LedgerSnapshot

log = logging.getLogger(__name__)


class SnapshotFile:
    """The file the ledger replaces. `read` gives the last good content, None while there never was any."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._stamp: tuple[int, int] | None = None
        self._last: LedgerSnapshot | None = None

    def read(self) -> LedgerSnapshot | None:
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
                self._last = LedgerSnapshot.from_json(self._path.read_text(encoding="utf-8"))
            except (OSError, ValueError) as error:
                log.error("could not read ledger snapshot %s: %s", self._path, error)
        return self._last

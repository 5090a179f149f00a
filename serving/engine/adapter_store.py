"""Keeps one private copy of each adapter version under a home that several processes may share.

A copy is claimed by every process that may still hand it to an engine; what no living process claims is removed. A claim ends
with its process, however that ends, since it is a lock on a file.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import secrets
import shutil
import tempfile
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from catalog.durations import SECOND_NS
from serving.engine.adapter_files import checked_copy, publish
from serving.engine.door import AdapterFiles
from serving.errors import AdapterLoadFailed
from serving.wire.keys import CONFIG_FILE, WEIGHTS_FILE

log = logging.getLogger(__name__)

SETTLED_NS: Final = 2 * SECOND_NS
"""A file changed less than this before it was read may change again without its time showing it."""
GRACE_S: Final = 60.0
"""A copy just read is not collected, even when whoever asked for it has not used it yet."""
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_INCOMING: Final = ".incoming-"
_OUTGOING: Final = ".outgoing-"

Stamp = tuple[tuple[int, int, int, int, int], ...]


class AdapterStore:
    """The copies under `home/adapters`, as one process sees them. Safe to use from any thread; every call blocks."""

    def __init__(self, home: Path, grace_s: float = GRACE_S) -> None:
        self.home, self._grace_s = home, grace_s
        self._kept = home / "adapters"
        self._me = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._lock = threading.Lock()
        self._known: dict[tuple[Path, int], tuple[Stamp, AdapterFiles]] = {}
        self._claims: dict[str, float] = {}
        self._claim_file: int | None = None

    def read(self, name: str, path: Path, rank: int) -> AdapterFiles:
        """Check the adapter in PEFT format at `path`, copy it to `home/adapters/<hash>` and describe the copy.

        Files that did not change since they were last read cost only a look at them. AdapterLoadFailed when a file is
        missing or broken, when its rank is not `rank`, or when the copy cannot be written.
        """
        try:
            stamp = _stamp(name, path)
            return self._unchanged(name, path, rank, stamp) or self._take(name, path, rank, stamp)
        except OSError as error:
            raise AdapterLoadFailed(name, str(path), f"{error.strerror or error} ({error.filename or path})") from error

    def collect(self, used: frozenset[str]) -> None:
        """Give up every copy but those of the hashes `used` and those just read, and remove what no process claims.

        What cannot be removed is logged and tried again next time.
        """
        try:
            with self._alone():
                self._give_up(used)
                doomed = self._doomed()
            for path in doomed:
                shutil.rmtree(path)
        except OSError as error:
            log.warning("old adapter copies under %s could not be removed: %s", self._kept, error)

    def _unchanged(self, name: str, path: Path, rank: int, stamp: Stamp) -> AdapterFiles | None:
        with self._lock:
            before, known = self._known.get((path, rank), (None, None))
            if known is None or before != stamp or known.hash not in self._claims:
                return None
            self._claims[known.hash] = time.monotonic()
        return replace(known, name=name) if (known.path / WEIGHTS_FILE).is_file() else None

    def _take(self, name: str, path: Path, rank: int, stamp: Stamp) -> AdapterFiles:
        begun = time.time_ns()
        with self._alone():
            self._claim()
        work = Path(tempfile.mkdtemp(prefix=f"{_INCOMING}{self._me}-", dir=self._kept))
        try:
            digest = checked_copy(name, path, rank, work)
            with self._alone():
                self._claim(digest)
            # Claimed before it is there, so nobody takes it away; its disk is waited for beside, not before the others.
            publish(work, self._kept / digest)
        finally:
            if work.exists():
                work.chmod(0o700)
                shutil.rmtree(work)
        kept = self._kept / digest
        files = AdapterFiles(name, kept, digest, rank, (kept / WEIGHTS_FILE).stat().st_size)
        settled = max(changed for file in stamp for changed in file[-2:]) < begun - SETTLED_NS
        if settled and _stamp(name, path) == stamp:
            with self._lock:
                self._known[path, rank] = stamp, files
        return files

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """No other process and no other thread changes which copies there are, or whose they are."""
        self._kept.mkdir(parents=True, exist_ok=True)
        mutex = os.open(self._kept / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(mutex, fcntl.LOCK_EX)
            yield
        finally:
            os.close(mutex)

    def _claim(self, digest: str | None = None) -> None:
        """Write this process's claims, with one more. Runs alone."""
        if self._claim_file is None:
            users = self._kept / ".users"
            users.mkdir(exist_ok=True)
            self._claim_file = os.open(users / self._me, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            fcntl.flock(self._claim_file, fcntl.LOCK_EX)
            weakref.finalize(self, os.close, self._claim_file)
        with self._lock:
            if digest is not None:
                self._claims[digest] = time.monotonic()
            lines = "".join(f"{claimed}\n" for claimed in self._claims).encode()
        os.pwrite(self._claim_file, lines, 0)
        os.ftruncate(self._claim_file, len(lines))

    def _give_up(self, used: frozenset[str]) -> None:
        now = time.monotonic()
        with self._lock:
            self._claims = {
                digest: at for digest, at in self._claims.items() if digest in used or now - at < self._grace_s
            }
            self._known = {key: known for key, known in self._known.items() if known[1].hash in self._claims}
        self._claim()

    def _doomed(self) -> list[Path]:
        """Put aside what nobody claims and what a crash left; the paths to remove. Runs alone."""
        living, claimed = self._living()
        doomed = []
        for entry in sorted(self._kept.iterdir()):
            if entry.name.startswith(_INCOMING):
                if not entry.name.removeprefix(_INCOMING).startswith(tuple(f"{user}-" for user in living)):
                    doomed.append(entry)
            elif entry.name.startswith(_OUTGOING):
                doomed.append(entry)
            elif _HASH.fullmatch(entry.name) and entry.name not in claimed:
                doomed.append(entry.rename(self._kept / f"{_OUTGOING}{entry.name}-{self._me}"))
        return doomed

    def _living(self) -> tuple[set[str], set[str]]:
        """The processes that live, and what they claim; the claims of the dead are removed."""
        living, claimed = {self._me}, set(self._claims)
        for file in (self._kept / ".users").iterdir():
            if file.name == self._me:
                continue
            claim = os.open(file, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
                file.unlink()
            except BlockingIOError:
                living.add(file.name)
                claimed.update(file.read_text().split())
            finally:
                os.close(claim)
        return living, claimed


def _stamp(name: str, path: Path) -> Stamp:
    """What shows that the two files are the ones that were read: device, inode, size, and when they were changed."""
    if not path.is_dir():
        raise AdapterLoadFailed(name, str(path), "no such directory")
    stamps = []
    for file in (CONFIG_FILE, WEIGHTS_FILE):
        if not (path / file).is_file():
            raise AdapterLoadFailed(name, str(path), f"{file} is missing")
        stat = (path / file).stat()
        stamps.append((stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns))
    return tuple(stamps)

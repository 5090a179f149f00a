"""One file of the spool: the few things that the spool asks of a disk, and the real disk."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol


class SpoolFile(Protocol):
    """One file of the spool, open for appending."""

    def write(self, data: bytes) -> int:
        """Append some or all of `data`; the number of bytes taken. OSError when the disk refuses."""

    def sync(self) -> None:
        """Make all that was written durable. OSError when it is not; FileNotFoundError when the file was deleted."""

    def truncate(self, size: int) -> None:
        """Cut the file back to `size` bytes; the next write goes there."""

    def close(self) -> None:
        """Let go of the file."""


class DiskFile:
    """A `SpoolFile` on a real disk."""

    def __init__(self, path: Path) -> None:
        """Create `path`, which must not exist, and make its directory entry durable."""
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o640)
        try:
            _sync_directory(path.parent)
        except OSError:
            os.close(self._fd)
            path.unlink(missing_ok=True)
            raise

    def write(self, data: bytes) -> int:
        """Append; O_APPEND puts it at the end whatever was cut before."""
        return os.write(self._fd, data)

    def sync(self) -> None:
        """fsync, and notice a file that somebody deleted: what is in it would vanish with this process."""
        os.fsync(self._fd)
        if os.fstat(self._fd).st_nlink == 0:
            raise FileNotFoundError("the spool file was deleted while it was written")

    def truncate(self, size: int) -> None:
        """Cut back to `size` bytes."""
        os.ftruncate(self._fd, size)

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._fd)


def _sync_directory(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)

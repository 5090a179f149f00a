"""The spool: lines that are on disk before anybody is told so. Needs nothing but a directory.

One thread writes. It syncs as soon as somebody waits for a line and it is free, and lines that arrive meanwhile share the
next sync (group commit); lines that nobody waits for go with the next one. A disk that refuses makes the caller's future fail at once, so that a request can go on; the line stays in bounded memory and is written, in order,
when the disk is back. A line is written twice only when the disk also refused to take a half-written batch back.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Final, NamedTuple

from telemetry.errors import SpoolWriteFailed
from telemetry.spool_file import DiskFile, SpoolFile

log = logging.getLogger(__name__)

PREFIX: Final = "spool-"
SUFFIX: Final = ".jsonl"
_BATCH_BYTES: Final = 4 << 20
"""Most bytes behind one sync, so that a long backlog neither holds everyone's future nor overshoots a file by far."""


class _Line(NamedTuple):
    data: bytes
    future: Future[None] | None
    """None when nobody waits for this line, or not any longer since the future has failed: it is still owed to the disk."""


class Spool:
    """Appends lines durably to `spool-<utc ns>-<pid>.jsonl` files in `directory`; safe to use from any thread.

    A line that is waited for (`append`) is durable after the sync that is under way, if any, and its own; one that nobody
    waits for (`note`) after at most `linger_s` more. A file is left for a new one before it would pass `rotate_bytes` (one
    longer line has a file to itself). At most `buffer_bytes` of lines wait in memory.
    """

    def __init__(
        self,
        directory: Path,
        *,
        rotate_bytes: int = 64 << 20,
        linger_s: float = 0.005,
        buffer_bytes: int = 64 << 20,
        retry_s: float = 0.5,
        clock: Callable[[], int] = time.time_ns,
        opener: Callable[[Path], SpoolFile] = DiskFile,
    ) -> None:
        """Start the writer. `clock` gives UTC nanoseconds and only names files; `opener` creates a new one."""
        self.directory = directory
        self.lines = 0
        """Lines made durable."""
        self.errors = 0
        """Attempts to write that the disk refused, and times when it was so slow that lines were lost."""
        self.dropped = 0
        """Lines lost: the memory was full, or the spool was closed while the disk still refused."""
        self._rotate_bytes = rotate_bytes
        self._batch_bytes = min(_BATCH_BYTES, rotate_bytes)
        self._linger_s = linger_s
        self._buffer_bytes = buffer_bytes
        self._retry_s = retry_s
        self._clock = clock
        self._opener = opener
        self._changed = threading.Condition()
        self._waiting: deque[_Line] = deque()
        self._awaited = False
        self._held_bytes = 0
        self._refused: str | None = None
        self._overflowing = False
        self._closing = False
        self._file: SpoolFile | None = None
        self._path = directory
        self._good_end = 0
        self._last_name_ns = 0
        self._writer = threading.Thread(target=self._run, name="spool-writer", daemon=True)
        self._writer.start()

    @property
    def refused(self) -> str | None:
        """Why the disk refuses at this moment; None while it takes lines."""
        return self._refused

    @property
    def held_bytes(self) -> int:
        """Bytes of lines that are not durable yet."""
        return self._held_bytes

    def append(self, line: str) -> Future[None]:
        """Queue one line (without its end); the future is done when the line is on disk.

        The future fails with SpoolWriteFailed, whose `kept` says whether the line will still be written. A line with a
        line feed in it is a programming error (ValueError).
        """
        data = _encoded(line)
        future: Future[None] = Future()
        # A waiter that is cancelled must not cancel the write: its future would refuse a result.
        future.set_running_or_notify_cancel()
        with self._changed:
            fact, kept = self._take(data, future)
        if fact is not None:
            future.set_exception(SpoolWriteFailed(self.directory, fact, kept=kept))
        return future

    def note(self, line: str) -> None:
        """Queue one line (without its end) that nobody waits for; it reaches the disk before any line appended later.

        What the disk refuses is kept and counted as with `append`. A line with a line feed in it is a ValueError.
        """
        data = _encoded(line)
        with self._changed:
            self._take(data, None)

    def close(self) -> None:
        """Write what is waiting and stop; what the disk refuses now is lost, counted in `dropped` and logged."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._writer.join()

    def _take(self, data: bytes, future: Future[None] | None) -> tuple[str | None, bool]:
        """The error with which the line's future fails at once (None when it does not), and whether the line was kept."""
        if self._closing:
            self.dropped += 1
            return "it is closed", False
        if self._held_bytes + len(data) > self._buffer_bytes:
            self.dropped += 1
            if not self._overflowing:
                self._overflowing = True
                self.errors += self._refused is None
                log.critical(
                    "spool %s: %d bytes wait in memory; lines are being LOST", self.directory, self._held_bytes
                )
            return self._refused or "too many lines wait for the disk", False
        self._held_bytes += len(data)
        awaited = future is not None and self._refused is None
        # Only what changes the writer's mind may wake it: it would only go back to sleep.
        if not self._waiting or (awaited and not self._awaited):
            self._changed.notify()
        self._waiting.append(_Line(data, future if awaited else None))
        self._awaited |= awaited
        return self._refused, True

    def _run(self) -> None:
        while self._pause():
            batch = self._next_batch()
            try:
                self._commit([line.data for line in batch])
            except Exception as error:  # a dead writer would hang every request that waits for its line
                self._on_refusal(batch, error)
            else:
                self._on_success(batch)
        if self._file is not None:
            self._file.close()

    def _pause(self) -> bool:
        """Wait until there is something to write and it is time to; False when all is done and the spool closes."""
        with self._changed:
            if self._refused is not None:
                self._changed.wait_for(lambda: self._closing, self._retry_s)
            self._changed.wait_for(lambda: self._closing or self._waiting)
            self._changed.wait_for(lambda: self._closing or self._awaited, self._linger_s)
            return bool(self._waiting)

    def _next_batch(self) -> list[_Line]:
        with self._changed:
            batch: list[_Line] = []
            size = 0
            while self._waiting and (not batch or size + len(self._waiting[0].data) <= self._batch_bytes):
                batch.append(self._waiting.popleft())
                size += len(batch[-1].data)
            self._awaited = any(line.future is not None for line in self._waiting)
            return batch

    def _commit(self, batch: list[bytes]) -> None:
        data = b"".join(batch)
        if self._file is not None and self._good_end and self._good_end + len(data) > self._rotate_bytes:
            self._leave_file()
        try:
            self._write(data)
        except FileNotFoundError:
            # The file or its directory was deleted under us; a new one is as good.
            self._leave_file()
            self._write(data)

    def _write(self, data: bytes) -> None:
        file = self._file or self._new_file()
        rest = memoryview(data)
        while rest:
            rest = rest[file.write(bytes(rest)) :]
        file.sync()
        self._good_end += len(data)

    def _new_file(self) -> SpoolFile:
        self.directory.mkdir(parents=True, exist_ok=True)
        while True:
            # Names sort in the order of writing, also when the wall clock steps back.
            self._last_name_ns = max(self._clock(), self._last_name_ns + 1)
            self._path = self.directory / f"{PREFIX}{self._last_name_ns:019d}-{os.getpid()}{SUFFIX}"
            try:
                self._file = self._opener(self._path)
            except FileExistsError:
                continue
            self._good_end = 0
            return self._file

    def _leave_file(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _on_success(self, batch: list[_Line]) -> None:
        with self._changed:
            self.lines += len(batch)
            self._held_bytes -= sum(len(line.data) for line in batch)
            if self._refused is not None:
                log.warning(
                    "spool %s: the disk takes lines again; %d wait, %d were lost",
                    self.directory,
                    len(self._waiting),
                    self.dropped,
                )
            self._refused = None
            self._overflowing = False
        for line in batch:
            if line.future is not None:
                line.future.set_result(None)

    def _on_refusal(self, batch: list[_Line], error: Exception) -> None:
        self._take_back()
        fact = str(error) or type(error).__name__
        with self._changed:
            self.errors += 1
            if self._refused is None:
                log.critical(
                    "spool %s: the disk refuses: %s; lines are kept in memory and retried", self.directory, fact
                )
            self._refused = fact
            failed = [line.future for line in (*batch, *self._waiting) if line.future is not None]
            self._waiting = deque(_Line(line.data, None) for line in (*batch, *self._waiting))
            lost = self._closing
            if lost:
                self.dropped += len(self._waiting)
                log.critical(
                    "spool %s: closed while the disk refuses: %d lines are LOST", self.directory, len(self._waiting)
                )
                self._waiting.clear()
                self._held_bytes = 0
        for future in failed:
            future.set_exception(SpoolWriteFailed(self.directory, fact, kept=not lost))

    def _take_back(self) -> None:
        """Remove what the failed batch left behind the last durable line, so that no line is glued to a torn one."""
        if self._file is None:
            return
        try:
            self._file.truncate(self._good_end)
        except OSError as error:
            log.error(
                "spool file %s: could not cut it back to %d bytes: %s; going on in a new file",
                self._path,
                self._good_end,
                error,
            )
            try:
                self._leave_file()
                if not self._good_end:
                    self._path.unlink(missing_ok=True)
            except OSError as also:
                log.error("spool file %s: could not remove it: %s", self._path, also)


def _encoded(line: str) -> bytes:
    if "\n" in line:
        raise ValueError("could not append to the spool: the line holds a line feed")
    return line.encode("utf-8", "backslashreplace") + b"\n"


def spool_files(directory: Path) -> list[Path]:
    """The spool's files in the order in which they were begun."""
    return sorted(directory.glob(f"{PREFIX}*{SUFFIX}"))


def read_spool(path: Path, offset: int = 0) -> Iterator[tuple[int, str]]:
    """Complete lines of a spool file from byte `offset`, each with the offset behind it; safe while it is written.

    A torn last line is not yielded: it is still being written, or its writer died and never called it durable. For a
    directory, all its files in order; offsets are then within each file, so only `offset` 0 has a meaning (ValueError).
    Bytes that are not UTF-8 come as backslash escapes, which no JSON parser takes.
    """
    if path.is_dir():
        if offset:
            raise ValueError(f"could not read spool {path}: offset {offset} has no meaning for a directory")
        for file in spool_files(path):
            yield from read_spool(file)
        return
    with path.open("rb") as stream:
        stream.seek(offset)
        for raw in stream:
            if not raw.endswith(b"\n"):
                return
            offset += len(raw)
            if line := raw.strip():
                yield offset, line.decode("utf-8", "backslashreplace")

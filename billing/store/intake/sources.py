"""The files that ingest reads: which there are, where to go on in each, its lines. One that cannot be read is told, and stops no other."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from billing.store.errors import StoreError

LONGEST_LINE: Final = 64 << 20
"""Bytes; the gateway writes none that is longer, and a longer one is not held in memory."""
_PIECE: Final = 1 << 20
_GZIP: Final = b"\x1f\x8b"


class SourceMissing(StoreError):
    """A path to ingest does not exist."""

    def __init__(self, path: Path, fact: str) -> None:
        self.path = path
        super().__init__(f"could not ingest {path}: {fact}; give a spool directory or a .jsonl file")


class SourceUnreadable(StoreError):
    """A file cannot be read (any more)."""

    def __init__(self, path: Path, fact: str) -> None:
        self.path, self.fact = path, fact
        super().__init__(f"could not read {path}: {fact}")


@dataclass(frozen=True, slots=True)
class Skipped:
    """What was not taken, and why."""

    path: str
    reason: str


class Line(NamedTuple):
    """A complete line and the offset behind it. Of one that is too long only the beginning is there, and `size` says how long it is."""

    end: int
    text: str
    size: int


def find(paths: Iterable[Path]) -> tuple[list[Path], list[Skipped]]:
    """The files at `paths` (a directory stands for its `.jsonl` files), and what is none. SourceMissing for what does not exist."""
    files: list[Path] = []
    skipped: dict[str, Skipped] = {}
    for path in paths:
        try:
            given = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
            if not path.is_dir():
                path.lstat()
        except OSError as error:
            raise SourceMissing(path, error.strerror or str(error)) from error
        for file in given:
            if (reason := _unfit(file)) is None:
                files.append(file)
            else:
                skipped[str(file)] = Skipped(str(file), reason)
    return files, list(skipped.values())


def size(path: Path) -> int:
    """Bytes; 0 for a file that is not there any more."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


class Source:
    """One file, open. Use as a context manager; every read may raise SourceUnreadable."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._stream: BinaryIO = path.open("rb")
        except OSError as error:
            raise SourceUnreadable(path, _fact(error)) from error

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def identity(self) -> str | None:
        """A hash of its first line, by which the file is known whatever its name; None while that is not complete. '' when it is empty."""
        first, whole, any_bytes = hashlib.sha256(), False, False
        for piece in self._pieces(0, None):
            any_bytes = True
            head, feed, _ = piece.partition(b"\n")
            first.update(head + feed)
            if feed:
                whole = True
                break
        return first.hexdigest() if whole else None if any_bytes else ""

    def resume(self, known: Sequence[Mapping[str, Any]]) -> tuple[int, hashlib._Hash]:
        """Where to go on: behind the longest part of this very file that was read before, by the hash of its content."""
        for row in known:
            prefix = self.hashed(hashlib.sha256(), 0, row["read_offset"])
            if prefix.hexdigest() == row["prefix_hash"]:
                return row["read_offset"], prefix
        return 0, hashlib.sha256()

    def hashed(self, prefix: hashlib._Hash, start: int, end: int) -> hashlib._Hash:
        """`prefix` with the bytes of [start, end) added."""
        for piece in self._pieces(start, end):
            prefix.update(piece)
        return prefix

    def lines(self, offset: int) -> Iterator[Line]:
        """Complete lines from `offset`, without empty ones. Bytes that are not UTF-8 come as backslash escapes."""
        while True:
            raw = self._read(offset, LONGEST_LINE)
            start, offset = offset, offset + len(raw)
            if not raw.endswith(b"\n"):
                if len(raw) < LONGEST_LINE or (end := self._line_end(offset)) is None:
                    return
                raw, offset = raw[:_PIECE], end
            if text := raw.strip():
                yield Line(offset, text.decode("utf-8", "backslashreplace"), offset - start)

    def torn(self, offset: int) -> bool:
        """Whether an unfinished line follows `offset`."""
        return bool(self._read(offset, 1))

    def _line_end(self, offset: int) -> int | None:
        for piece in self._pieces(offset, None):
            if (found := piece.find(b"\n")) >= 0:
                return offset + found + 1
            offset += len(piece)
        return None

    def _read(self, offset: int, most: int) -> bytes:
        try:
            self._stream.seek(offset)
            return self._stream.readline(most)
        except OSError as error:
            raise SourceUnreadable(self.path, _fact(error)) from error

    def _pieces(self, start: int, end: int | None) -> Iterator[bytes]:
        at = start
        while end is None or at < end:
            try:
                self._stream.seek(at)
                piece = self._stream.read(_PIECE if end is None else min(_PIECE, end - at))
            except OSError as error:
                raise SourceUnreadable(self.path, _fact(error)) from error
            if not piece:
                return
            at += len(piece)
            yield piece


def _unfit(file: Path) -> str | None:
    """Why this is no file of lines; None when it is one, as far as can be seen without waiting for anything."""
    try:
        mode = file.stat().st_mode
        if not stat.S_ISREG(mode):
            kinds = {stat.S_IFDIR: "a directory", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
            return f"is {kinds.get(stat.S_IFMT(mode), 'a device')}, not a file"
        with file.open("rb") as stream:
            if stream.read(2) == _GZIP:
                return "is compressed; unpack it first"
    except FileNotFoundError as error:
        return "is a link to nothing" if file.is_symlink() else _fact(error)
    except OSError as error:
        return _fact(error)
    return None


def _fact(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__

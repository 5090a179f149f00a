"""Who has an embedded ledger open: one process at a time, named in a file beside the ledger's directory.

The kernel drops the lock when its holder dies, however it dies; what the file says then is old and harms nobody.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

_POLL_S: Final = 0.1
_COMMAND_LETTERS: Final = 200

Tell = Callable[[str], None]
"""Hears, once per holder, whom one waits for."""


class Held(Exception):
    """The lock stayed with somebody else; `holder` says with whom, `pid` is empty when nobody knows."""

    def __init__(self, holder: str, pid: str) -> None:
        self.holder, self.pid = holder, pid
        super().__init__(holder)


@dataclass(slots=True)
class _Mine:
    descriptor: int
    count: int = 1


@dataclass(slots=True)
class _Locks:
    """This process's locks by directory: it may open one ledger several times."""

    guard: threading.Lock = field(default_factory=threading.Lock)
    mine: dict[Path, _Mine] = field(default_factory=dict)


_LOCKS: Final = _Locks()


def lock(directory: Path, wait_s: float, sleep: Callable[[float], None], tell: Tell) -> Callable[[], None]:
    """Wait until no other process has the ledger in `directory`, and keep others out; call what is returned to let go.

    Held after `wait_s`. OSError when the file `<directory>.lock` cannot be made.
    """
    path = directory.resolve()
    file = path.with_name(path.name + ".lock")
    waited, told = 0.0, ""
    while (holder := _take(path, file)) is not None:
        if waited >= wait_s:
            raise Held(*holder)
        if holder[0] != told:
            told = holder[0]
            tell(f"{told}; waiting up to {wait_s - waited:g} s")
        sleep(_POLL_S)
        waited += _POLL_S
    return _Release(path)


class _Release:
    """Lets go once, however often it is called."""

    def __init__(self, path: Path) -> None:
        self._path: Path | None = path

    def __call__(self) -> None:
        path, self._path = self._path, None
        if path is None:
            return
        with _LOCKS.guard:
            mine = _LOCKS.mine[path]
            mine.count -= 1
            if not mine.count:
                del _LOCKS.mine[path]
                fcntl.flock(mine.descriptor, fcntl.LOCK_UN)
                os.close(mine.descriptor)


def _take(path: Path, file: Path) -> tuple[str, str] | None:
    """None when the lock is ours now; else who has it, in words, and its process id."""
    with _LOCKS.guard:
        if (mine := _LOCKS.mine.get(path)) is not None:
            mine.count += 1
            return None
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            try:
                return _described(os.pread(descriptor, 4096, 0))
            finally:
                os.close(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        if (holder := _engine_holder(path)) is not None:
            os.close(descriptor)
            return holder
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, _myself(), 0)
        _LOCKS.mine[path] = _Mine(descriptor)
        return None


def _engine_holder(path: Path) -> tuple[str, str] | None:
    """Whoever opened the directory without this lock: the engine itself locks its status file and writes its process id there."""
    try:
        with (path / "status").open("rb") as status:
            try:
                fcntl.flock(status, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                first = status.readline().decode("ascii", "replace").strip()
                pid = first.removeprefix("PID: ") if first.startswith("PID: ") else ""
                return None if pid == str(os.getpid()) else _words(pid, "", "")
    except FileNotFoundError:
        pass
    return None


def _myself() -> bytes:
    program, *arguments = [*sys.argv, ""] if not sys.argv else sys.argv
    command = " ".join([Path(program).name, *arguments])
    letters = "".join(letter if letter.isprintable() else " " for letter in command)[:_COMMAND_LETTERS]
    since = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return json.dumps({"pid": os.getpid(), "command": letters, "since": since}).encode()


def _described(content: bytes) -> tuple[str, str]:
    """The file is written after the lock is taken, so for an instant it may still be empty or another's."""
    try:
        said = json.loads(content)
        return _words(str(said["pid"]), str(said["command"]), str(said["since"]))
    except (ValueError, TypeError, KeyError):
        return _words("", "", "")


def _words(pid: str, command: str, since: str) -> tuple[str, str]:
    who = f"process {pid}" if pid else "another process"
    about = f" ({command})" if command else ""
    return f"{who}{about} has it open{f' since {since}' if since else ''}", pid

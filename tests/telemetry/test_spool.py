from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from telemetry.errors import SpoolWriteFailed
from telemetry.spool import Spool, read_spool, spool_files
from telemetry.spool_file import DiskFile


def written(path: Path) -> list[str]:
    return [line for _, line in read_spool(path)]


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not true():
        assert time.monotonic() < deadline, "waited 10 s in vain"
        time.sleep(0.002)


class Disk:
    """A real disk that takes only `room` more bytes, and can refuse to cut files back, to sync or to create."""

    def __init__(self) -> None:
        self.room = 1 << 40
        self.can_truncate = True
        self.can_sync = True
        self.free = threading.Event()
        """Cleared, it makes a sync last until it is set again."""
        self.free.set()
        self.syncs = 0
        self.created: list[Path] = []

    def __call__(self, path: Path) -> LimitedFile:
        self.created.append(path)
        return LimitedFile(self, path)


class LimitedFile(DiskFile):
    def __init__(self, disk: Disk, path: Path) -> None:
        super().__init__(path)
        self.disk = disk
        self.size = 0

    def write(self, data: bytes) -> int:
        taken = data[: self.disk.room]
        if not taken:
            raise OSError(errno.ENOSPC, "No space left on device")
        count = super().write(taken)
        self.size += count
        self.disk.room -= count
        return count

    def sync(self) -> None:
        if not self.disk.can_sync:
            raise OSError(errno.EIO, "Input/output error")
        self.disk.syncs += 1
        assert self.disk.free.wait(10)
        super().sync()

    def truncate(self, size: int) -> None:
        if not self.disk.can_truncate:
            raise OSError(errno.EIO, "Input/output error")
        super().truncate(size)
        self.disk.room += self.size - size
        self.size = size


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def spool(tmp_path: Path, disk: Disk) -> Iterator[Spool]:
    spool = Spool(tmp_path, retry_s=0.01, buffer_bytes=2000, opener=disk)
    yield spool
    spool.close()


def refusal(future: Future[None]) -> SpoolWriteFailed:
    error = future.exception(10)
    assert isinstance(error, SpoolWriteFailed)
    return error


def test_a_line_is_on_disk_when_its_future_is_done(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "new" / "spool")
    spool.append('{"a":"\u2028é"}').result(10)
    assert written(spool.directory) == ['{"a":"\u2028é"}']
    assert (spool.lines, spool.errors, spool.dropped, spool.held_bytes) == (1, 0, 0, 0)
    spool.close()


def test_close_writes_what_waits_and_later_lines_are_refused(tmp_path: Path) -> None:
    spool = Spool(tmp_path, linger_s=60)
    futures = [spool.append(str(n)) for n in range(100)]
    spool.close()
    assert all(future.result(0) is None for future in futures)
    assert written(tmp_path) == [str(n) for n in range(100)]
    assert not refusal(spool.append("late")).kept
    assert spool.dropped == 1
    spool.close()


def test_nobody_waits_for_company_and_what_nobody_waits_for_goes_along(tmp_path: Path, disk: Disk) -> None:
    spool = Spool(tmp_path, linger_s=60, opener=disk)
    for name in ("a", "b"):
        spool.note(f"{name} opened")
        spool.append(f"{name} closed").result(10)
    assert written(tmp_path) == ["a opened", "a closed", "b opened", "b closed"]
    assert disk.syncs == 2
    spool.note("last")
    spool.close()
    assert (written(tmp_path)[-1], spool.lines, spool.held_bytes) == ("last", 5, 0)


def test_a_line_that_nobody_waits_for_reaches_the_disk_by_itself(tmp_path: Path) -> None:
    spool = Spool(tmp_path, linger_s=0.01)
    spool.note("alone")
    wait_until(lambda: spool.lines == 1)
    assert written(tmp_path) == ["alone"]
    spool.close()


def test_what_arrives_during_a_sync_shares_the_next_one(tmp_path: Path, disk: Disk) -> None:
    spool = Spool(tmp_path, opener=disk)
    disk.free.clear()
    futures = [spool.append("first")]
    wait_until(lambda: disk.syncs == 1)
    futures += [spool.append(str(n)) for n in range(50)]
    disk.free.set()
    for future in futures:
        future.result(10)
    assert disk.syncs == 2
    assert written(tmp_path) == ["first", *map(str, range(50))]
    spool.close()


def test_a_full_disk_keeps_what_nobody_waits_for(spool: Spool, disk: Disk, tmp_path: Path) -> None:
    disk.room = 0
    spool.note("opened")
    assert refusal(spool.append("closed")).kept
    spool.note("opened next")
    disk.room = 1 << 40
    wait_until(lambda: spool.lines == 3)
    assert written(tmp_path) == ["opened", "closed", "opened next"]
    assert spool.dropped == 0


def test_a_line_feed_inside_a_line_is_refused(spool: Spool) -> None:
    for put in (spool.append, spool.note):
        with pytest.raises(ValueError, match="line feed"):
            put("a\nb")


def test_lines_of_many_threads_are_all_written_once_in_the_order_of_each_thread(tmp_path: Path) -> None:
    spool = Spool(tmp_path, rotate_bytes=4096)

    def append(name: int) -> None:
        futures = [spool.append(f"{name} {n}") for n in range(200)]
        for future in futures:
            future.result(10)

    threads = [threading.Thread(target=append, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    spool.close()
    lines = written(tmp_path)
    assert len(lines) == spool.lines == 1600
    for name in range(8):
        assert [line for line in lines if line.startswith(f"{name} ")] == [f"{name} {n}" for n in range(200)]


def test_files_rotate_by_size_under_names_that_sort_although_the_clock_stands_still(tmp_path: Path) -> None:
    spool = Spool(tmp_path, rotate_bytes=100, clock=lambda: 7)
    for n in range(30):
        spool.append(f"{n:09d}").result(10)
    spool.append("x" * 500).result(10)
    spool.close()
    files = spool_files(tmp_path)
    assert [file.name for file in files] == [f"spool-{7 + n:019d}-{os.getpid()}.jsonl" for n in range(4)]
    assert [file.stat().st_size for file in files] == [100, 100, 100, 501]
    assert written(tmp_path) == [f"{n:09d}" for n in range(30)] + ["x" * 500]


def test_two_spools_of_one_process_never_share_a_file(tmp_path: Path) -> None:
    spools = [Spool(tmp_path, clock=lambda: 7) for _ in range(2)]
    for spool in spools:
        spool.append("line").result(10)
        spool.close()
    assert len(spool_files(tmp_path)) == 2


def test_a_cancelled_waiter_does_not_stop_the_writer(spool: Spool, tmp_path: Path) -> None:
    assert not spool.append("a").cancel()
    spool.append("b").result(10)
    assert written(tmp_path) == ["a", "b"]


def test_a_full_disk_fails_futures_at_once_and_lines_follow_in_order_when_it_is_back(
    spool: Spool, disk: Disk, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spool.append("before").result(10)
    disk.room = 5
    assert refusal(spool.append("torn in the middle")).kept
    assert spool.refused == "[Errno 28] No space left on device"
    assert refusal(spool.append("second")).kept
    assert spool.append("third").done(), "while the disk refuses nobody waits for a retry"
    wait_until(lambda: spool.errors > 3)
    assert written(tmp_path) == ["before"], "no torn line is left"
    disk.room = 1 << 40
    wait_until(lambda: spool.refused is None and not spool.held_bytes)
    spool.append("after").result(10)
    assert written(tmp_path) == ["before", "torn in the middle", "second", "third", "after"]
    assert len(disk.created) == 1
    assert spool.lines == 5
    assert spool.dropped == 0
    assert [record.levelname for record in caplog.records] == ["CRITICAL", "WARNING"], "loud once per episode"


def test_a_failed_sync_is_not_believed_and_its_lines_are_written_again(
    spool: Spool, disk: Disk, tmp_path: Path
) -> None:
    disk.can_sync = False
    assert refusal(spool.append("a")).kept
    assert written(tmp_path) == []
    disk.can_sync = True
    spool_errors = spool.errors
    wait_until(lambda: spool.lines == 1)
    assert spool_errors >= 1
    assert written(tmp_path) == ["a"]


def test_a_torn_line_that_cannot_be_cut_back_is_left_alone_in_its_file(
    spool: Spool, disk: Disk, tmp_path: Path
) -> None:
    spool.append("before").result(10)
    disk.room, disk.can_truncate = 3, False
    refusal(spool.append("torn"))
    disk.room, disk.can_truncate = 1 << 40, True
    wait_until(lambda: spool.lines == 2)
    assert written(tmp_path) == ["before", "torn"]
    assert [file.read_text() for file in spool_files(tmp_path)] == ["before\ntor", "torn\n"]


def test_files_without_a_durable_line_do_not_pile_up(spool: Spool, disk: Disk, tmp_path: Path) -> None:
    disk.room, disk.can_truncate = 0, False
    refusal(spool.append("a"))
    wait_until(lambda: len(disk.created) > 3)
    disk.room = 1 << 40
    wait_until(lambda: spool.lines == 1)
    assert len(spool_files(tmp_path)) == 1


def test_beyond_the_buffer_lines_are_lost_counted_and_loud(
    spool: Spool, disk: Disk, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk.room = 0
    fates = [refusal(spool.append("x" * 499)).kept for _ in range(6)]
    assert fates == [True] * 4 + [False] * 2
    assert spool.dropped == 2
    assert sum("LOST" in record.message for record in caplog.records) == 1
    disk.room = 1 << 40
    wait_until(lambda: spool.lines == 4)
    assert len(written(tmp_path)) == 4


def test_closing_on_a_full_disk_counts_what_is_lost(tmp_path: Path, disk: Disk) -> None:
    spool = Spool(tmp_path, opener=disk, retry_s=60)
    disk.room = 0
    refusal(spool.append("a"))
    refusal(spool.append("b"))
    spool.close()
    assert (spool.lines, spool.dropped) == (0, 2)


def test_a_file_that_somebody_deletes_is_replaced_without_losing_a_line(spool: Spool, tmp_path: Path) -> None:
    spool.append("read and deleted").result(10)
    spool_files(tmp_path)[0].unlink()
    spool.append("next").result(10)
    assert written(tmp_path) == ["next"]
    assert spool.errors == 0


def test_reading_goes_on_from_an_offset_and_leaves_a_torn_tail(tmp_path: Path) -> None:
    file = tmp_path / "spool-1-1.jsonl"
    file.write_bytes(b"one\n\ntwo\r\nbad \xff\ntorn")
    assert list(read_spool(file)) == [(4, "one"), (10, "two"), (16, "bad \\xff")]
    assert list(read_spool(file, 16)) == []
    with file.open("ab") as stream:
        stream.write(b" no more\n")
    assert list(read_spool(file, 16)) == [(29, "torn no more")]
    with pytest.raises(ValueError, match="directory"):
        list(read_spool(tmp_path, 4))


CHILD = """
import sys
from pathlib import Path
from telemetry.spool import Spool
spool = Spool(Path(sys.argv[1]), rotate_bytes=4000)
n = 0
while True:
    futures = [(k, spool.append(f"line {k} " + "x" * 50)) for k in range(n, n + 7)]
    for k, future in futures:
        future.result()
        sys.stdout.write(f"{k}\\n")
        sys.stdout.flush()
    n += 7
"""


def test_every_acknowledged_line_survives_a_kill(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(tmp_path)], stdout=subprocess.PIPE, cwd=root, text=True)
    assert child.stdout is not None
    acknowledged = [int(child.stdout.readline()) for _ in range(300)]
    child.send_signal(signal.SIGKILL)
    acknowledged += [int(line) for line in child.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
    assert child.wait(10) == -signal.SIGKILL
    child.stdout.close()
    found = [int(line.split()[1]) for line in written(tmp_path)]
    assert found == list(range(len(found))), "in order, none twice"
    assert found[: len(acknowledged)] == acknowledged
    assert len(spool_files(tmp_path)) > 1


def test_a_file_is_synced_with_its_directory_when_it_is_made_and_itself_when_it_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.fstat(fd).st_ino))
    file = DiskFile(tmp_path / "spool-1.jsonl")
    assert synced == [tmp_path.stat().st_ino]
    file.write(b"line\n")
    file.sync()
    file.close()
    assert synced == [tmp_path.stat().st_ino, (tmp_path / "spool-1.jsonl").stat().st_ino]


def test_when_the_disk_refuses_whoever_waits_behind_is_told_at_once(spool: Spool, disk: Disk) -> None:
    disk.free.clear()
    first = spool.append("first")
    wait_until(lambda: disk.syncs == 1)
    behind = spool.append("behind")
    spool.note("unawaited")
    disk.can_sync = False
    disk.room = 0
    disk.free.set()
    assert first.result(10) is None
    assert refusal(behind).kept
    disk.can_sync, disk.room = True, 1 << 40
    wait_until(lambda: spool.lines == 3)
    assert (spool.held_bytes, spool.dropped) == (0, 0)

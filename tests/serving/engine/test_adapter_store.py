"""Copies of adapters cost nothing while nothing changed, and go when no living process wants them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from serving.engine import adapter_store
from serving.engine.adapter_store import AdapterStore
from serving.engine.tiny_model import TinyModel
from serving.wire.keys import CONFIG_FILE, WEIGHTS_FILE

ROOT = Path(__file__).parents[3]


def aged(directory: Path) -> Path:
    """A version of the files that was not written just now. (A file's change time cannot be set: let the rule be shorter.)"""
    past = time.time() - 100
    for file in (CONFIG_FILE, WEIGHTS_FILE):
        os.utime(directory / file, (past, past))
    return directory


@pytest.fixture
def source(tiny: TinyModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(adapter_store, "SETTLED_NS", 0)
    return aged(Path(shutil.copytree(tiny.adapter_paths[0], tmp_path / "source")))


def kept(home: Path) -> set[str]:
    return {entry.name for entry in (home / "adapters").glob("[!.]*")}


def another(source: Path) -> None:
    text = (source / CONFIG_FILE).read_text()
    (source / CONFIG_FILE).write_text(text.replace('"lora_alpha"', ' "lora_alpha"', 1))


def test_unchanged_files_are_only_looked_at(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = AdapterStore(tmp_path)
    first = store.read("law", source, 8)

    def never(*_: object) -> str:
        raise AssertionError("the files were read again")

    with monkeypatch.context() as patch:
        patch.setattr(adapter_store, "checked_copy", never)
        spent = time.process_time_ns()
        for _ in range(20):
            assert store.read("law", source, 8) == first
        assert (time.process_time_ns() - spent) / 20 < 5_000_000
        # Nothing that can change goes unseen: content of the same size and time, another file, another directory.
        (source / WEIGHTS_FILE).touch()
        with pytest.raises(AssertionError, match="read again"):
            store.read("law", source, 8)
    assert store.read("law", source, 8) == first
    weights = source / WEIGHTS_FILE
    stat = weights.stat()
    raw = bytearray(weights.read_bytes())
    raw[-1] ^= 1
    weights.write_bytes(raw)
    os.utime(weights, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert store.read("law", source, 8).hash != first.hash


def test_a_file_written_just_now_is_not_trusted_by_its_time(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter_store, "SETTLED_NS", 2_000_000_000)
    store = AdapterStore(tmp_path)
    store.read("law", source, 8)
    assert store._known == {}


def test_a_copy_that_was_taken_away_is_made_again(source: Path, tmp_path: Path) -> None:
    store = AdapterStore(tmp_path)
    files = store.read("law", source, 8)
    shutil.rmtree(files.path)
    assert store.read("law", source, 8) == files
    assert (files.path / WEIGHTS_FILE).is_file()


def test_old_copies_go_when_neither_this_nor_another_process_uses_them(source: Path, tmp_path: Path) -> None:
    one, other = AdapterStore(tmp_path, grace_s=0), AdapterStore(tmp_path, grace_s=0)
    old = one.read("law", source, 8)
    assert other.read("law", source, 8) == old
    another(source)
    new = one.read("law", source, 8)
    (tmp_path / "adapters" / ".incoming-999-dead-x").mkdir()
    (tmp_path / "adapters" / ".outgoing-x").mkdir()
    one.collect(frozenset({old.hash, new.hash}))
    assert kept(tmp_path) == {old.hash, new.hash}
    one.collect(frozenset({new.hash}))
    assert kept(tmp_path) == {old.hash, new.hash}, "the other process still uses it"
    other.collect(frozenset())
    assert kept(tmp_path) == {new.hash}
    assert {entry.name for entry in (tmp_path / "adapters").iterdir()} == {".lock", ".users", new.hash}
    # What is collected and wanted again is there again.
    one.collect(frozenset())
    assert kept(tmp_path) == set()
    assert one.read("law", source, 8) == new
    assert kept(tmp_path) == {new.hash}


def test_a_copy_just_read_is_left_to_who_asked_for_it(source: Path, tmp_path: Path) -> None:
    store = AdapterStore(tmp_path)
    files = store.read("law", source, 8)
    store.collect(frozenset())
    assert kept(tmp_path) == {files.hash}


@pytest.fixture
def neighbour(source: Path, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that uses the copy, until it is killed."""
    work = f"""
import sys
from pathlib import Path
from serving.engine.adapter_store import AdapterStore
store = AdapterStore(Path({str(tmp_path)!r}))
print(store.read("law", Path({str(source)!r}), 8).hash, flush=True)
sys.stdin.read()
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", work], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        yield process
        process.kill()


def test_a_claim_ends_with_its_process_however_that_ends(
    source: Path, tmp_path: Path, neighbour: subprocess.Popen[str]
) -> None:
    assert neighbour.stdout is not None
    digest = neighbour.stdout.readline().strip()
    store = AdapterStore(tmp_path, grace_s=0)
    store.collect(frozenset())
    assert kept(tmp_path) == {digest}
    neighbour.kill()
    neighbour.wait()
    store.collect(frozenset())
    assert kept(tmp_path) == set()
    assert len(list((tmp_path / "adapters" / ".users").iterdir())) == 1


def test_readers_and_collectors_at_once_never_lose_what_was_just_read(source: Path, tmp_path: Path) -> None:
    stores = [AdapterStore(tmp_path, grace_s=30), AdapterStore(tmp_path, grace_s=30)]
    faults: list[str] = []

    def work(store: AdapterStore) -> None:
        for _ in range(15):
            files = store.read("law", source, 8)
            store.collect(frozenset())
            if not (files.path / WEIGHTS_FILE).is_file():
                faults.append(files.hash)

    threads = [threading.Thread(target=work, args=(store,)) for store in stores * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []

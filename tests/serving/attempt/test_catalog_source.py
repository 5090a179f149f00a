"""A catalog that changes under a running gateway: good ones come into force, bad ones never do."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from catalog.load import parse_bytes
from catalog.model import Catalog
from serving.attempt.catalog_source import CatalogSource
from serving.gateway import build
from telemetry.engine_time import LoadCause

Ask = Callable[..., dict[str, Any]]
Run = Callable[..., None]


def test_a_new_grant_and_a_new_weight_come_into_force_without_a_restart(
    run_bench: Run, ask: Ask, catalog_text: Any
) -> None:
    async def test(bench: Any) -> None:
        assert (await bench.post(ask(model="risk"))).status_code == 404
        await bench.post(ask(model="coder"))
        old = bench.engine.seen[-1][2]["model"]
        text = bench.catalog_path.read_text()
        text = text.replace("adapters: [coder, tone]", "adapters: [coder, tone, risk]")
        bench.catalog_path.write_text(text.replace("/adapters/coder", "/adapters/coder-v2").replace("lingo}", "lingo}"))
        version = bench.source.view.policy.version
        async with asyncio.timeout(5):
            while bench.source.view.policy.version == version:
                await asyncio.sleep(0.01)
        assert (await bench.post(ask(model="risk"))).status_code == 200
        await bench.post(ask(model="coder"))
        new = bench.engine.seen[-1][2]["model"]
        assert new != old
        assert new.startswith("coder@")
        first, *_, last = bench.records()
        assert first.route_policy != last.route_policy

    run_bench(test, start=True)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("adapters: [coder, tone]", "adapters: [coder, tune]"), "unknown adapter 'tune'"),
        (("name: tiny-llama", "name: other-llama"), "cannot change while serving"),
        (("version: 1", "version: [1"), "not YAML"),
    ],
    ids=["broken reference", "fixed while serving", "not YAML"],
)
def test_a_bad_catalog_is_refused_and_shown(
    change: tuple[str, str], problem: str, run_bench: Run, ask: Ask, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(bench: Any) -> None:
        version = bench.source.view.policy.version
        text = bench.catalog_path.read_text()
        bench.catalog_path.write_text(text.replace(*change, 1))
        assert not await bench.gateway.reload()
        assert bench.source.view.policy.version == version
        assert (await bench.post(ask())).status_code == 200
        health = (await bench.get("/health")).json()
        assert health["status"] == "degraded"
        assert problem in str(health["catalog"]["last_error"])
        bench.catalog_path.write_text(text)
        await bench.gateway.reload()
        assert (await bench.get("/health")).json()["status"] == "ok"

    run_bench(test)
    assert problem in caplog.text


def test_a_newly_registered_warm_adapter_is_loaded_at_registration(run_bench: Run, catalog_text: Any) -> None:
    async def test(bench: Any) -> None:
        text = bench.catalog_path.read_text()
        new = "  - {name: fresh, path: /adapters/fresh, rank: 8, warm: true}\ntenants:"
        bench.catalog_path.write_text(text.replace("tenants:", new, 1))
        async with asyncio.timeout(5):
            while ("fresh", LoadCause.REGISTRATION) not in bench.engine.loads_done:
                await asyncio.sleep(0.01)

    run_bench(test, start=True)


def half(path: Path, text: str) -> None:
    path.write_text(text[: len(text) // 2])


def latin_1(path: Path, text: str) -> None:
    path.write_bytes(text.replace("id: clinic", "id: clinic\n    tax_note: Grüße").encode("latin-1"))


def gone(path: Path, text: str) -> None:
    path.unlink()


def directory(path: Path, text: str) -> None:
    path.unlink()
    path.mkdir()


def pipe(path: Path, text: str) -> None:
    path.unlink()
    os.mkfifo(path)


def dangling(path: Path, text: str) -> None:
    path.unlink()
    path.symlink_to(path.parent / "nowhere")


def twice(path: Path, text: str) -> None:
    path.write_text(text + text[text.index("prices:") :])


@pytest.mark.parametrize("harm", [half, latin_1, gone, directory, pipe, dangling, twice], ids=lambda f: f.__name__)
def test_a_file_that_went_bad_is_shown_and_tried_until_it_is_good(
    harm: Callable[[Path, str], None], run_bench: Run, ask: Ask
) -> None:
    async def test(bench: Any) -> None:
        path: Path = bench.catalog_path
        text = path.read_text()

        async def until(status: str) -> dict[str, Any]:
            async with asyncio.timeout(10):
                while (health := (await bench.get("/health")).json())["status"] != status:
                    await asyncio.sleep(0.01)
            return dict(health)

        harm(path, text)
        health = await until("degraded")
        assert health["catalog"]["last_error"]
        assert (await bench.post(ask())).status_code == 200
        assert "loraledger_catalog_valid 0.0" in (await bench.get("/metrics")).text
        if path.is_dir():
            path.rmdir()
        elif path.is_symlink() or not path.is_file():
            path.unlink(missing_ok=True)
        path.write_text(text.replace('p99_seconds: "5"', 'p99_seconds: "7"'))
        await until("ok")
        assert bench.source.view.catalog.tenants[0].slo.p99_seconds == 7
        assert "loraledger_catalog_valid 1.0" in (await bench.get("/metrics")).text

    run_bench(test, start=True)


def test_a_bad_file_is_read_again_however_little_of_it_seems_to_change(tmp_path: Path, catalog_text: Any) -> None:
    path = tmp_path / "catalog.yaml"
    path.write_text(catalog_text())
    checked: list[bytes] = []

    def check(raw: bytes, source: str) -> Catalog:
        checked.append(raw)
        return parse_bytes(raw, source)

    source = CatalogSource(path, check)
    good = path.read_bytes()
    bad = good.replace(b"tone]", b"tine]", 1)
    past = path.stat().st_mtime - 100
    path.write_bytes(bad)
    os.utime(path, (past, past))
    for _ in range(3):
        assert source.poll() is None
        assert source.last_error is not None
    assert checked == [good, bad], "the same bytes are not checked again"
    # Put right in place: same size, same time of change, and even the stamp that was seen last.
    path.write_bytes(good)
    os.utime(path, (past, past))
    source._stamp = source._stat()
    assert source.poll() is None
    assert source.last_error is None
    assert checked == [good, bad, good]


def test_whatever_goes_wrong_in_reading_leaves_the_last_good_one(tmp_path: Path, catalog_text: Any) -> None:
    path = tmp_path / "catalog.yaml"
    path.write_text(catalog_text())
    faults = [False, True, True, False]

    def check(raw: bytes, source: str) -> Catalog:
        if faults.pop(0):
            raise MemoryError("no room")
        return parse_bytes(raw, source)

    source = CatalogSource(path, check)
    for _ in range(2):
        assert source.read() is None
        assert "no room" in str(source.last_error)
    assert source.read() is None
    assert source.last_error is None


def test_copies_that_neither_the_catalog_nor_the_engine_has_are_let_go(
    run_bench: Run, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "TIDY_S", 0.01)
    told: list[frozenset[str]] = []

    def copy(path: str) -> str:
        return hashlib.sha256(path.encode()).hexdigest()

    async def until(*paths: str) -> None:
        async with asyncio.timeout(5):
            while not told or told[-1] != {copy(path) for path in paths}:
                await asyncio.sleep(0.01)

    async def test(bench: Any) -> None:
        await bench.post(ask(model="coder"))
        await until("/adapters/coder", "/adapters/lingo")
        text = bench.catalog_path.read_text()
        bench.catalog_path.write_text(text.replace("/adapters/lingo", "/adapters/lingo-2"))
        # The engine still has the old version: a request might be using it.
        await until("/adapters/coder", "/adapters/lingo", "/adapters/lingo-2")
        await bench.engine.evict_adapter(f"lingo@{copy('/adapters/lingo')[:8]}")
        await bench.engine.evict_adapter(f"coder@{copy('/adapters/coder')[:8]}")
        await until("/adapters/coder", "/adapters/lingo-2")

    run_bench(test, start=True, collect=told.append)

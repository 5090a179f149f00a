"""A catalog that changes under a running gateway: good ones come into force, bad ones never do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

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
        assert not bench.gateway.reload()
        assert bench.source.view.policy.version == version
        assert (await bench.post(ask())).status_code == 200
        health = (await bench.get("/health")).json()
        assert health["status"] == "degraded"
        assert problem in str(health["catalog"]["last_error"])
        bench.catalog_path.write_text(text)
        bench.gateway.reload()
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

"""The host tier under concurrent requests: one load each, never above capacity, one bad adapter hurts nobody else."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

from serving.gateway.limits import Limits
from telemetry.engine_time import LoadCause
from telemetry.usage import Status

Ask = Callable[..., dict[str, Any]]
Run = Callable[..., None]


def test_concurrent_first_requests_load_once(run_bench: Run, ask: Ask) -> None:
    async def test(bench: Any) -> None:
        replies = await asyncio.gather(*(bench.post(ask(model="coder")) for _ in range(5)))
        assert {reply.status_code for reply in replies} == {200}
        assert bench.engine.loads_done == [("coder", LoadCause.REQUEST)]
        assert {record.route_reason for record in bench.records()} == {"miss"}

    run_bench(test)


def test_the_tier_stays_within_its_capacity_and_says_when_it_evicts(
    run_bench: Run, ask: Ask, catalog_text: Any
) -> None:
    async def test(bench: Any) -> None:
        for name, key in (("coder", "clinic"), ("tone", "clinic"), ("lingo", "bank"), ("coder", "clinic")):
            assert (await bench.post(ask(model=name), key)).status_code == 200
            assert len(bench.engine.resident()) <= 2
            bench.clock.advance(10**10)
        # The warm adapter of the bank is the last to go.
        assert sorted(name.partition("@")[0] for name in bench.engine.resident()) == ["coder", "lingo"]
        assert [record.route_reason for record in bench.records()] == ["miss", "miss", "evict", "evict"]

    run_bench(test, catalog=catalog_text(host_tier=2))


def test_an_adapter_in_use_is_never_evicted_and_who_cannot_wait_is_told(
    run_bench: Run, ask: Ask, catalog_text: Any
) -> None:
    async def test(bench: Any) -> None:
        bench.engine.switches.stepping.clear()
        busy = [asyncio.create_task(bench.post(ask(model=name))) for name in ("coder", "tone")]
        async with asyncio.timeout(5):
            while len(bench.engine.seen) < 2:
                await asyncio.sleep(0)
        reply = await bench.post(ask(model="lingo"), "bank")
        assert (reply.status_code, reply.json()["error"]["code"]) == (503, "model_busy")
        assert reply.headers["retry-after"] == "1"
        waiting = asyncio.create_task(bench.post(ask(model="lingo"), "bank"))
        await asyncio.sleep(0)
        bench.engine.switches.stepping.set()
        assert [(await task).status_code for task in (*busy, waiting)] == [200, 200, 200]

    run_bench(test, catalog=catalog_text(host_tier=2), limits=Limits(room_s=0.3))


def test_many_at_once_on_a_small_tier_are_all_served(run_bench: Run, ask: Ask, catalog_text: Any) -> None:
    async def test(bench: Any) -> None:
        dice = random.Random(7)
        models = [
            dice.choice([("coder", "clinic"), ("tone", "clinic"), ("lingo", "bank"), ("risk", "bank")])
            for _ in range(60)
        ]
        work = asyncio.gather(*(bench.post(ask(f"{i}", model=name), key) for i, (name, key) in enumerate(models)))
        while not work.done():
            assert len(bench.engine.resident()) <= 2
            await asyncio.sleep(0)
        assert {reply.status_code for reply in work.result()} == {200}
        assert [reply.json()["model"] for reply in work.result()] == [name for name, _ in models]
        windows = bench.engine.windows()
        for window in windows:
            window.check()

    run_bench(test, catalog=catalog_text(host_tier=2))


def test_a_bad_adapter_fails_its_own_requests_only_and_can_be_repaired(run_bench: Run, ask: Ask) -> None:
    async def test(bench: Any) -> None:
        broken = bench.engine.switches.broken_adapters
        broken.add("coder")
        replies = await asyncio.gather(
            *(bench.post(ask(model=name)) for name in ("coder", "tone", "coder", "tiny-llama"))
        )
        assert [reply.status_code for reply in replies] == [503, 200, 503, 200]
        assert replies[0].json()["error"]["code"] == "model_load_failed"
        broken.clear()
        assert (await bench.post(ask(model="coder"))).status_code == 200

    run_bench(test)


def test_files_that_cannot_be_read_are_a_load_failure(run_bench: Run, ask: Ask, catalog_text: Any) -> None:
    async def test(bench: Any) -> None:
        reply = await bench.post(ask(model="tone"))
        assert reply.status_code == 503
        assert "missing" not in reply.text
        assert bench.only_record().status is Status.SERVER_ERROR

    run_bench(test, catalog=catalog_text().replace("/adapters/tone", "/missing/tone"))


def test_warm_adapters_are_loaded_at_start_and_counted(run_bench: Run, ask: Ask) -> None:
    async def test(bench: Any) -> None:
        assert bench.engine.loads_done == [("lingo", LoadCause.WARM)]
        await bench.post(ask(), "bank")
        assert bench.only_record().route_reason == "hit"
        scrape = bench.scrape()
        assert "lora_warm_pool_lookup_total 1.0" in scrape
        assert "lora_warm_pool_hit_total 1.0" in scrape
        assert "lora_warm_pool_hit_rate 1.0" in scrape

    run_bench(test, start=True)

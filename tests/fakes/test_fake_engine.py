"""The fake engine is deterministic, isolates prefixes as vLLM does, and its meter conserves every nanosecond."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from serving.engine.door import AdapterFiles, EngineDoor
from serving.errors import AdapterLoadFailed
from telemetry.engine_time import LoadCause
from tests.fakes.fake_engine import FakeEngine, ManualClock

CODER = AdapterFiles("coder", Path("/a"), "ab" * 32, 8, 1000)


def run(test: Callable[[FakeEngine], Awaitable[None]]) -> FakeEngine:
    async def main() -> FakeEngine:
        engine = FakeEngine(ManualClock())
        door: EngineDoor = engine
        await test(engine)
        await door.stop()
        return engine

    return asyncio.run(main())


async def ask(engine: FakeEngine, attempt: str, text: str = "hello", **fields: Any) -> dict[str, Any]:
    body = {
        "model": "tiny-llama",
        "prompt": text,
        "max_tokens": 3,
        "vllm_xargs": {"ll_attempt": attempt, "ll_tenant": "clinic"},
        **fields,
    }
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=engine.app), base_url="http://engine") as client:
        reply = await client.post("/v1/completions", content=json.dumps(body))
    return dict(reply.json())


def test_windows_and_attempts_conserve_all_time_whatever_runs_together() -> None:
    figures = []

    async def test(engine: FakeEngine) -> None:
        await engine.load_adapter(CODER, LoadCause.REQUEST)
        engine.clock.advance(5_000_000)
        for round_ in range(3):
            models = ["tiny-llama", CODER.served_name, CODER.served_name]
            texts = [f"word {i} " * 40 for i in range(3)]
            calls = [
                ask(engine, f"gw:{round_ * 3 + i}", text, model=model)
                for i, (model, text) in enumerate(zip(models, texts, strict=True))
            ]
            await asyncio.gather(*calls)
            engine.clock.advance(700_000_000)
        for i in range(9):
            figures.append(await engine.measured(f"gw:{i}", 1.0))

    engine = run(test)
    windows = engine.windows()
    for window in windows:
        window.check()
    assert all(figures)
    measured = sum(s.measured_ns for f in figures if f is not None for s in f.slices)
    shares = sum(s.base_ns + s.adapter_ns + s.recompute_ns for window in windows for s in window.shares)
    assert measured == shares
    cold = sum(sum(window.cold_ns.values()) for window in windows)
    assert cold == 22_000_000
    assert sum(window.unattributed_ns for window in windows) == 0
    (load,) = engine.loads()
    assert (load.adapter, load.engine_ns, load.adapter_hash) == ("coder", cold, CODER.hash)
    owners = engine.state().owner_ns
    assert sum(owners.values()) == engine.clock.mono_ns() - 1_000_000_000


def test_the_same_requests_give_the_same_words_and_times() -> None:
    replies: list[dict[str, Any]] = []
    clocks: list[int] = []
    for _ in range(2):

        async def test(engine: FakeEngine) -> None:
            replies.append(await ask(engine, "gw:0", "a b c"))
            clocks.append(engine.clock.mono_ns())

        run(test)
    assert replies[0] == replies[1]
    assert clocks[0] == clocks[1]


def test_a_prefix_is_found_again_under_the_same_salt_and_model_only() -> None:
    async def test(engine: FakeEngine) -> None:
        await engine.load_adapter(CODER, LoadCause.REQUEST)
        found = []
        for fields in ({}, {}, {"cache_salt": "x"}, {"model": CODER.served_name}, {"cache_salt": "x"}):
            reply = await ask(engine, "gw:0", "word " * 64, **fields)
            found.append(reply["usage"]["prompt_tokens_details"]["cached_tokens"])
        # One token is always computed, so the last whole block of an aligned prompt is not taken.
        assert found == [0, 48, 0, 0, 48]

    run(test)


def test_figures_of_an_attempt_wait_for_its_end_and_are_given_once() -> None:
    async def test(engine: FakeEngine) -> None:
        engine.switches.stepping.clear()
        task = asyncio.create_task(ask(engine, "gw:0"))
        while not engine.knows("gw:0"):
            await asyncio.sleep(0)
        assert await engine.measured("gw:0", 0.01) is None
        engine.switches.stepping.set()
        figures = await engine.measured("gw:0", 1.0)
        assert figures is not None
        assert (figures.input_tokens, figures.output_tokens) == (1, 3)
        assert not engine.knows("gw:0")
        await task

    run(test)


def test_a_broken_adapter_raises_and_an_evicted_one_is_gone() -> None:
    async def test(engine: FakeEngine) -> None:
        engine.switches.broken_adapters.add("coder")
        with pytest.raises(AdapterLoadFailed, match="could not load adapter coder"):
            await engine.load_adapter(CODER, LoadCause.REQUEST)
        engine.switches.broken_adapters.clear()
        assert (await engine.load_adapter(CODER, LoadCause.REQUEST)).engine_ns == 22_000_000
        assert (await engine.load_adapter(CODER, LoadCause.REQUEST)).engine_ns == 0
        await engine.evict_adapter(CODER.served_name)
        assert engine.resident() == frozenset()
        assert "does not exist" in str(await ask(engine, "gw:0", model=CODER.served_name))

    run(test)

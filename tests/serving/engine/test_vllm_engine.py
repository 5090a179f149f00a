"""The real engine behind its door: one process for the whole file, started first and stopped last."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from catalog.owners import TimeOwner

pytest.importorskip("vllm")

from billing.close.counters import Counted, explain
from catalog.model import BaseModelSpec, Engine
from serving.engine.door import AdapterFiles
from serving.engine.vllm_engine import VllmEngine
from serving.engine.vllm_start import start_vllm
from serving.errors import AdapterLoadFailed, EngineStartFailed
from serving.metering.accounting import Measured
from telemetry.engine_time import (
    AdapterLeft,
    AdapterLoad,
    EngineCounters,
    EngineSession,
    EngineValue,
    LoadCause,
    MeterWindow,
    PrefixReshare,
    SessionEvent,
)

pytestmark = [
    pytest.mark.engine,
    # vLLM and torch, while they are imported and while they answer.
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
    # vLLM's start-up handshake leaves its context to the garbage collector.
    pytest.mark.filterwarnings("ignore:.*Unclosed (context|socket) <zmq:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:.*zmq:pytest.PytestUnraisableExceptionWarning"),
]

BASE = "tiny-llama"
PROMPT = "def total(values): return sum(values)  # " * 10


@dataclass
class World:
    runner: asyncio.Runner
    door: VllmEngine
    values: list[EngineValue]
    children: set[int]
    attempts: dict[str, Measured] = field(default_factory=dict)

    def run(self, coroutine: Any) -> Any:
        return self.runner.run(coroutine)

    async def post(
        self, attempt: str, model: str, prompt: str = PROMPT, *, salt: str = "s", wait_s: float = 5, **more: Any
    ) -> httpx.Response:
        body = {
            "model": model,
            "messages": [{"role": "user", "content": prompt}],
            "max_completion_tokens": 12,
            "temperature": 0,
            "cache_salt": salt,
            "vllm_xargs": {"ll_attempt": attempt, "ll_tenant": "bank"},
        } | more
        transport = httpx.ASGITransport(self.door.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://engine", timeout=60) as client:
            response = await client.post("/v1/chat/completions", json=body)
        measured = await self.door.measured(attempt, wait_s)
        if measured is not None:
            self.attempts[attempt] = measured
        return response

    async def say(self, attempt: str, model: str, prompt: str = PROMPT, **more: Any) -> str:
        response = await self.post(attempt, model, prompt, **more)
        assert response.status_code == 200, response.text
        content: str = response.json()["choices"][0]["message"]["content"]
        return content


@pytest.fixture(scope="module")
def world(engine_home: Path) -> Iterator[World]:
    values: list[EngineValue] = []
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    engine = Engine(id="cpu-0", gpu_type="demo-cpu", max_loras=2, max_cpu_loras=8, max_num_seqs=16)
    with asyncio.Runner() as runner:
        door = runner.run(start_vllm(engine, BaseModelSpec(name=BASE), engine_home, values.append))
        try:
            yield World(runner, door, values, before)
        finally:
            runner.run(door.stop())


def _ended(child: psutil.Process) -> bool:
    """Whether the process has ended (though nobody asked for its status yet), or is multiprocessing's own, which stays."""
    try:
        return child.status() == psutil.STATUS_ZOMBIE or "resource_tracker" in " ".join(child.cmdline())
    except psutil.NoSuchProcess:
        return True


def load(world: World, adapter: AdapterFiles, cause: LoadCause = LoadCause.REQUEST) -> str:
    world.run(world.door.load_adapter(adapter, cause))
    return adapter.served_name


def test_base_and_adapters_answer_differently_and_are_measured(world: World, adapters: list[AdapterFiles]) -> None:
    timing = world.run(world.door.load_adapter(adapters[0], LoadCause.WARM))
    assert timing.read_ns > 0
    assert timing.activate_ns
    assert timing.engine_ns == timing.read_ns + timing.activate_ns
    again = world.run(world.door.load_adapter(adapters[0], LoadCause.REQUEST))
    assert (again.engine_ns, again.read_ns) == (0, 0)
    assert world.door.resident() == {adapters[0].served_name}

    base = world.run(world.post("gw-1:0", BASE))
    tuned = world.run(world.post("gw-1:1", adapters[0].served_name))
    assert base.json()["choices"][0]["message"] != tuned.json()["choices"][0]["message"]
    for response, attempt in ((base, "gw-1:0"), (tuned, "gw-1:1")):
        usage, measured = response.json()["usage"], world.attempts[attempt]
        assert (measured.input_tokens, measured.output_tokens) == (usage["prompt_tokens"], usage["completion_tokens"])
        assert not world.door.knows(attempt)
    assert sum(part.adapter_ns for part in world.attempts["gw-1:0"].slices) == 0
    assert sum(part.adapter_ns for part in world.attempts["gw-1:1"].slices) > 0
    state = world.door.state()
    assert state.slots == (adapters[0].served_name,)
    assert state.weights_bytes > 7_000_000
    assert state.slot_bytes > adapters[7].size_bytes
    assert (state.kv_blocks_used, state.gaps, state.faults) == (0, 0, 0)
    assert state.kv_block_bytes * state.kv_blocks_total <= 256 << 20


def test_a_stream_ends_with_usage(world: World) -> None:
    response = world.run(world.post("gw-1:2", BASE, stream=True, stream_options={"include_usage": True}))
    lines = [line.removeprefix("data: ") for line in response.text.splitlines() if line]
    assert lines[-1] == "[DONE]"
    chunks = [json.loads(line) for line in lines[:-1]]
    assert chunks[-1]["usage"]["completion_tokens"] == 12 == world.attempts["gw-1:2"].output_tokens
    assert sum(bool(chunk["choices"] and chunk["choices"][0]["delta"].get("content")) for chunk in chunks) > 3


def test_a_prefix_is_reused_under_its_own_salt_only(world: World) -> None:
    def cached(attempt: str, salt: str) -> int:
        whose = {"ll_attempt": attempt, "ll_tenant": salt}
        response = world.run(world.post(attempt, BASE, "salted " * 80, salt=salt, vllm_xargs=whose))
        told = response.json()["usage"]["prompt_tokens_details"]["cached_tokens"]
        assert told == world.attempts[attempt].cached_tokens
        return int(told)

    first, second, stranger = cached("gw-1:3", "bank"), cached("gw-1:4", "bank"), cached("gw-1:5", "shop")
    assert (first, stranger) == (0, 0)
    assert second >= 7 * 32
    saved = sum(part.kv_saved_base_ns for part in world.attempts["gw-1:4"].slices)
    assert saved > 0


def test_base_output_in_a_mixed_batch_is_base_output(world: World, adapters: list[AdapterFiles]) -> None:
    names = [load(world, adapter) for adapter in adapters[:2]]

    async def together(models: list[str], first: int) -> list[str]:
        return await asyncio.gather(
            *(world.say(f"gw-1:{first + n}", model, salt=f"{first}") for n, model in enumerate(models))
        )

    pure = world.run(together([BASE] * 4, 10))
    mixed = world.run(together([BASE, names[0], BASE, names[1]], 20))
    assert mixed[0] == mixed[2] == pure[0]
    assert len({mixed[0], mixed[1], mixed[3]}) == 3


def test_eight_adapters_share_two_slots(world: World, adapters: list[AdapterFiles]) -> None:
    names = [load(world, adapter) for adapter in adapters]

    async def all_at_once() -> list[str]:
        return await asyncio.gather(*(world.say(f"gw-1:{30 + n}", name) for n, name in enumerate(names)))

    assert len(set(world.run(all_at_once()))) == 8
    assert world.door.resident() == set(names)
    assert len(world.door.state().slots) == 2


def test_a_full_host_tier_is_said_and_an_evicted_adapter_comes_back(world: World, adapters: list[AdapterFiles]) -> None:
    one_more = replace(adapters[0], name="one-more")
    with pytest.raises(AdapterLoadFailed, match="evict one first"):
        load(world, one_more)
    before = world.run(world.say("gw-1:40", adapters[7].served_name, salt="40"))
    world.run(world.door.evict_adapter(adapters[7].served_name))
    world.run(world.door.evict_adapter(adapters[7].served_name))
    assert adapters[7].served_name not in world.door.resident()
    assert world.run(world.post("gw-1:41", adapters[7].served_name, wait_s=0.1)).status_code == 404
    assert not world.door.knows("gw-1:41")
    load(world, adapters[7])
    assert world.run(world.say("gw-1:42", adapters[7].served_name, salt="42")) == before


def test_a_broken_adapter_is_refused_and_the_engine_lives(
    world: World, adapters: list[AdapterFiles], tmp_path: Path
) -> None:
    world.run(world.door.evict_adapter(adapters[6].served_name))
    gone = AdapterFiles("gone", tmp_path / "gone", "ff" * 32, 8, 1)
    with pytest.raises(AdapterLoadFailed, match="gone"):
        load(world, gone)
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "adapter_config.json").write_bytes((adapters[0].path / "adapter_config.json").read_bytes())
    (tmp_path / "torn" / "adapter_model.safetensors").write_bytes(b"torn")
    with pytest.raises(AdapterLoadFailed, match="torn"):
        load(world, AdapterFiles("torn", tmp_path / "torn", "ee" * 32, 8, 4))
    assert world.run(world.door.healthy())
    assert world.run(world.say("gw-1:50", BASE))
    assert {"gone@ffffffff", "torn@eeeeeeee"}.isdisjoint(world.door.resident())


def test_an_adapter_evicted_under_a_running_request_comes_back_by_itself(
    world: World, adapters: list[AdapterFiles]
) -> None:
    name = adapters[0].served_name

    async def evict_too_early() -> None:
        running = asyncio.create_task(world.say("gw-1:70", name, max_completion_tokens=60, ignore_eos=True))
        while not world.door.knows("gw-1:70"):
            await asyncio.sleep(0.005)
        await world.door.evict_adapter(name)
        assert name not in world.door.resident()
        assert await running
        timing = await asyncio.wait_for(world.door.load_adapter(adapters[0], LoadCause.REQUEST), 1)
        assert timing.engine_ns == 0, "it was there already"

    world.run(evict_too_early())
    assert name in world.door.resident()


def test_a_client_that_hangs_up_is_charged_for_what_was_computed(world: World) -> None:
    sent: list[bytes] = []

    async def hang_up() -> None:
        body = {
            "model": BASE,
            "messages": [{"role": "user", "content": PROMPT}],
            "max_completion_tokens": 500,
            "stream": True,
            "ignore_eos": True,
            "vllm_xargs": {"ll_attempt": "gw-1:60", "ll_tenant": "bank"},
        }
        first_chunk = asyncio.Event()
        messages = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]

        async def receive() -> Any:
            if messages:
                return messages.pop()
            await first_chunk.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.body" and message["body"]:
                sent.append(message["body"])
                first_chunk.set()

        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": "/v1/chat/completions",
            "raw_path": b"/v1/chat/completions",
            "query_string": b"",
            "root_path": "",
            "headers": [(b"content-type", b"application/json")],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 2),
        }
        await world.door.app(scope, receive, send)
        measured = await world.door.measured("gw-1:60", 5)
        assert measured is not None
        world.attempts["gw-1:60"] = measured

    world.run(hang_up())
    measured = world.attempts["gw-1:60"]
    assert sent
    assert 0 < measured.output_tokens < 500
    assert sum(part.measured_ns for part in measured.slices) > 0


def test_stopped_in_order_it_leaves_no_process_and_every_nanosecond_has_an_owner(
    world: World, adapters: list[AdapterFiles]
) -> None:
    world.run(world.door.stop())
    assert not world.run(world.door.healthy())
    left = [child for child in psutil.Process().children(recursive=True) if child.pid not in world.children]
    assert [child for child in left if not _ended(child)] == []

    windows = [value for value in world.values if isinstance(value, MeterWindow)]
    assert [window.seq for window in windows] == list(range(len(windows)))
    assert all(one.end_ns == other.start_ns for one, other in pairwise(windows))
    for window in windows:
        window.check()
    shares = [share for window in windows for share in window.shares]
    in_windows: dict[str, int] = {}
    for share in shares:
        in_windows[share.attempt] = (
            in_windows.get(share.attempt, 0) + share.base_ns + share.adapter_ns + share.recompute_ns
        )
    in_attempts = {key: sum(part.measured_ns for part in found.slices) for key, found in world.attempts.items()}
    assert in_windows == in_attempts

    lines = [value for value in world.values if isinstance(value, PrefixReshare)]
    assert [line.seq for line in lines] == list(range(len(lines)))
    for line in lines:
        line.check()
        assert line.tenant == "bank", "the other tenant sent the same prompt and found nothing"
        assert {move.attempt for move in line.moves} <= set(world.attempts)
        assert all(-move.ns <= in_attempts[move.attempt] for move in line.moves)
    (shared,) = (line for line in lines if "gw-1:4" in {move.attempt for move in line.moves})
    (payer, user) = shared.moves
    assert (payer.attempt, user.attempt, payer.ns) == ("gw-1:3", "gw-1:4", -user.ns)
    assert 0.05 < user.ns / in_attempts["gw-1:3"] < 0.5, "half of most of the prompt, and of no answer"

    loads = [value for value in world.values if isinstance(value, AdapterLoad)]
    by_cause = {cause: [one for one in loads if one.cause is cause and one.activate_ns] for cause in LoadCause}
    assert len(by_cause[LoadCause.WARM]) == 1
    assert len(by_cause[LoadCause.REQUEST]) == 8, "seven more adapters, and one that was evicted"
    assert all(one.adapter_hash in {adapter.hash for adapter in adapters} for one in by_cause[LoadCause.REQUEST])
    left = [value for value in world.values if isinstance(value, AdapterLeft)]
    assert [one.seq for one in left] == list(range(len(left)))
    assert {"adapter-6", "adapter-7"} <= {one.adapter for one in left}, [one.adapter for one in left]
    (reload,) = by_cause[LoadCause.RELOAD]
    assert (reload.adapter, reload.stalled) == ("adapter-0", ("gw-1:70",))
    assert sum(one.engine_ns for one in loads) == sum(ns for window in windows for ns in window.cold_ns.values())

    (counters,) = (value for value in world.values if isinstance(value, EngineCounters) and value.final)
    taken = world.attempts.values()
    counted = Counted(
        attempts=len(taken),
        prompt_tokens=sum(one.input_tokens for one in taken),
        output_tokens=sum(one.output_tokens for one in taken),
        cached_tokens=sum(one.cached_tokens or 0 for one in taken),
    )
    gaps = explain(counters, counted)
    assert [gap.unexplained for gap in gaps] == [0] * len(gaps), gaps
    assert sum(counters.requests.values()) == counters.meter["requests"] - counters.meter["aborted_requests"]
    assert counters.output_tokens > 0

    sessions = [value for value in world.values if isinstance(value, EngineSession)]
    told = [session.event for session in sessions if session.event is not SessionEvent.HEARTBEAT]
    assert told == [SessionEvent.STARTED, SessionEvent.UP, SessionEvent.STOPPED]
    assert [session.seq for session in sessions] == list(range(len(sessions)))
    state = world.door.state()
    assert (state.gaps, state.faults, state.owner_ns[TimeOwner.UNATTRIBUTED]) == (0, 0, 0)
    assert sum(state.owner_ns.values()) == windows[-1].end_ns - windows[0].start_ns


def test_an_engine_that_cannot_start_says_why_and_leaves_nothing(engine_home: Path, tmp_path: Path) -> None:
    values: list[EngineValue] = []
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text('{"model_type": "llama", "architectures": ["NoSuchModel"]}')
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    engine = Engine(id="cpu-1", gpu_type="demo-cpu")
    for path, fact in ((tmp_path / "gone", "no model directory"), (tmp_path / "model", "NoSuchModel")):
        with pytest.raises(EngineStartFailed, match=fact) as caught:
            asyncio.run(start_vllm(engine, BaseModelSpec(name=BASE, path=str(path)), engine_home, values.append))
        assert caught.value.log == str(engine_home / "engine-cpu-1.log")
    assert [value.event for value in values if isinstance(value, EngineSession)] == [
        SessionEvent.STARTED,
        SessionEvent.STOPPED,
    ] * 2
    children = psutil.Process().children(recursive=True)
    assert [child for child in children if child.pid not in before and not _ended(child)] == []

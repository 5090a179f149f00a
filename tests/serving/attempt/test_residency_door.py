"""The host tier under concurrent requests: one load each, never above capacity, one bad adapter hurts nobody else."""

from __future__ import annotations

import asyncio
import hashlib
import random
import selectors
from collections import Counter
from collections.abc import Callable, Coroutine
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.model import Adapter
from serving.attempt.limits import Clock, Limits
from serving.attempt.residency_door import ResidencyDoor, TierBusy
from serving.engine.door import AdapterFiles, EngineDoor, LoadTiming
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


class _NoWait(selectors.SelectSelector):
    """Passes time at once instead of waiting, so that a test of minutes takes milliseconds and always ends alike."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(0)
        if not ready:
            assert timeout is not None, "everything waits for something that never comes"
            self.now += timeout
        return ready


def passing(work: Coroutine[Any, Any, Any]) -> None:
    """Run `work` in a loop whose time passes by itself."""
    selector = _NoWait()
    loop = asyncio.SelectorEventLoop(selector)
    loop.time = lambda: selector.now  # type: ignore[method-assign]
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(work)


class Tier:
    """An engine of which only the host tier is there; loads and evictions take a while."""

    def __init__(self, capacity: int, load_s: float = 0.25) -> None:
        self.names: set[str] = set()
        self.loads: list[str] = []
        self.capacity, self.load_s = capacity, load_s
        self.held: Counter[str] = Counter()

    def resident(self) -> frozenset[str]:
        return frozenset(self.names)

    async def load_adapter(self, adapter: AdapterFiles, cause: LoadCause) -> LoadTiming:
        if adapter.served_name not in self.names:
            await asyncio.sleep(self.load_s)
            self.names.add(adapter.served_name)
            self.loads.append(adapter.name)
        assert len(self.names) <= self.capacity
        return LoadTiming(1, 1, 1, 1)

    async def evict_adapter(self, served_name: str) -> None:
        assert not self.held[served_name]
        self.names.discard(served_name)
        await asyncio.sleep(0.05)


def door_to(tier: Tier, room_s: float = 10.0) -> ResidencyDoor:
    def read(adapter: Adapter) -> AdapterFiles:
        digest = hashlib.sha256(adapter.path.encode()).hexdigest()
        return AdapterFiles(adapter.name, Path(adapter.path), digest, adapter.rank, 1000)

    loop = asyncio.get_running_loop()
    clock = Clock(lambda: int(loop.time() * 1e9), lambda: int(loop.time() * 1e9))
    door = ResidencyDoor(cast("EngineDoor", tier), read, tier.capacity, clock, room_s)

    async def at_once(adapter: Adapter) -> AdapterFiles:
        return read(adapter)

    # A thread would let time pass that nothing in the test measures.
    door._shelf.files = at_once  # type: ignore[method-assign]
    return door


def adapters(count: int, warm: int = 0) -> list[Adapter]:
    return [Adapter(name=f"a-{n}", path=f"/a/{n}", rank=8, warm=n < warm) for n in range(count)]


async def ask_once(door: ResidencyDoor, tier: Tier, adapter: Adapter, busy_s: float, room_s: float) -> bool:
    """Whether it was served; either way the answer came within `room_s`."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    try:
        held = await door.hold(adapter, LoadCause.REQUEST, Fraction(1))
    except TierBusy:
        assert loop.time() - begun <= room_s + 1e-6
        return False
    assert loop.time() - begun <= room_s + 1e-6
    name = held.files.served_name
    assert name in tier.names
    tier.held[name] += 1
    try:
        await asyncio.sleep(busy_s)
        assert name in tier.names
    finally:
        tier.held[name] -= 1
        door.release(name)
    return True


def no_trace(door: ResidencyDoor) -> None:
    assert not door._waiting
    assert not door._warming
    assert not door._loading
    assert not door._places
    assert (door._leaving, door._draining) == (None, None)
    assert not any(entry.in_flight for entry in door._tier.values())


def test_six_adapters_with_three_busy_clients_each_share_a_tier_of_four() -> None:
    async def test() -> None:
        tier = Tier(4)
        door = door_to(tier)
        served: Counter[str] = Counter()
        dice = random.Random(1)

        async def client(adapter: Adapter) -> None:
            for _ in range(100):
                done = await ask_once(door, tier, adapter, dice.uniform(0.5, 2), 10.0)
                served[adapter.name] += done

        everybody = adapters(6)
        await asyncio.gather(*(client(adapter) for adapter in everybody for _ in range(3)))
        # Nobody is ever idle, and still everybody is served every time: an adapter in use is let drain.
        assert served == {adapter.name: 300 for adapter in everybody}
        no_trace(door)

    passing(test())


def test_who_waits_for_a_place_that_never_comes_is_answered_in_time_and_in_order() -> None:
    async def test() -> None:
        tier = Tier(2)
        door = door_to(tier)
        one, two, three, four = adapters(4)
        for adapter in (one, two):
            asyncio.get_running_loop().create_task(ask_once(door, tier, adapter, 14.0, 10.0))
        await asyncio.sleep(1)
        late: list[str] = []

        async def ask(adapter: Adapter) -> bool:
            served = await ask_once(door, tier, adapter, 1.0, 10.0)
            late.append(adapter.name)
            return served

        first = [asyncio.create_task(ask(adapter)) for adapter in (three, three, four)]
        assert await asyncio.gather(*first) == [False, False, False]
        second = []
        for adapter in (four, three):
            second.append(asyncio.create_task(ask(adapter)))
            await asyncio.sleep(0.1)
        assert await asyncio.gather(*second) == [True, True]
        assert tier.loads[-2:] == ["a-3", "a-2"]
        no_trace(door)

    passing(test())


@settings(deadline=None, max_examples=150)
@given(
    capacity=st.integers(1, 4),
    room_s=st.sampled_from([0.5, 3.0, 10.0]),
    load_s=st.sampled_from([0.0, 0.25, 4.0]),
    calls=st.lists(
        st.tuples(
            st.integers(0, 6),
            st.floats(0, 20, allow_nan=False),
            st.floats(0, 15, allow_nan=False),
            st.none() | st.floats(0, 12, allow_nan=False),
        ),
        max_size=40,
    ),
    warms=st.lists(st.tuples(st.floats(0, 30, allow_nan=False), st.integers(0, 7)), max_size=3),
)
def test_everyone_is_answered_in_time_whoever_leaves_and_nothing_is_left_behind(
    capacity: int, room_s: float, load_s: float, calls: list[Any], warms: list[tuple[float, int]]
) -> None:
    async def test() -> None:
        tier = Tier(capacity, load_s)
        door = door_to(tier, room_s)
        everybody = adapters(7, warm=3)

        async def call(which: int, at: float, busy_s: float, gone_after: float | None) -> None:
            await asyncio.sleep(at)
            try:
                async with asyncio.timeout(gone_after):
                    await ask_once(door, tier, everybody[which], busy_s, room_s)
            except TimeoutError:
                pass

        async def reload(at: float, warm: int) -> None:
            await asyncio.sleep(at)
            listed = adapters(7, warm)
            door.adopt(listed)
            await door.warm([adapter for adapter in listed if adapter.warm], LoadCause.RELOAD)

        work = [*(call(*one) for one in calls), *(reload(at, warm) for at, warm in warms)]
        await asyncio.wait_for(asyncio.gather(*work), 1000)
        await asyncio.sleep(30)
        no_trace(door)
        assert set(door._tier) <= tier.names

    passing(test())


def test_more_warm_adapters_than_places_are_loaded_once_and_stay() -> None:
    async def test() -> None:
        tier = Tier(4)
        door = door_to(tier)
        listed = adapters(10, warm=8)
        warm = [adapter for adapter in listed if adapter.warm]
        await door.warm(warm, LoadCause.WARM)
        assert tier.loads == ["a-0", "a-1", "a-2", "a-3"]
        for _ in range(3):
            door.adopt(listed)
            await door.warm(warm, LoadCause.RELOAD)
        assert len(tier.loads) == 4
        # A request still gets its place, and the warm pool takes back none but that.
        assert await ask_once(door, tier, listed[9], 1.0, 10.0)
        for _ in range(3):
            door.adopt(listed)
            await door.warm(warm, LoadCause.RELOAD)
        assert len(tier.loads) == 6
        assert sorted(tier.names) == sorted(name for name in door._tier if door._tier[name].warm)
        no_trace(door)

    passing(test())


def test_an_older_version_of_a_warm_adapter_gives_way_to_the_newer() -> None:
    async def test() -> None:
        tier = Tier(1)
        door = door_to(tier)
        old = Adapter(name="law", path="/law/1", rank=8, warm=True)
        new = Adapter(name="law", path="/law/2", rank=8, warm=True)
        for adapter in (old, new):
            door.adopt([adapter])
            await door.warm([adapter], LoadCause.RELOAD)
        assert tier.loads == ["law", "law"]
        assert len(tier.names) == 1

    passing(test())


def test_a_load_that_takes_longer_goes_on_without_its_waiter() -> None:
    async def test() -> None:
        tier = Tier(2, load_s=15)
        door = door_to(tier)
        (adapter,) = adapters(1)
        with pytest.raises(TierBusy, match="within 10 s"):
            await door.hold(adapter, LoadCause.REQUEST, Fraction(1))
        assert await ask_once(door, tier, adapter, 1.0, 10.0)
        assert tier.loads == ["a-0"]
        no_trace(door)

    passing(test())

"""An engine that dies is replaced, at once for whoever asks and in time for whoever waits. No process, no clock."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from catalog.owners import TimeOwner
from serving.engine.door import AdapterFiles, EngineState, LoadTiming
from serving.engine.lasting_engine import LastingEngine
from serving.errors import EngineDown, EngineStartFailed
from serving.metering.accounting import Measured
from serving.policy.restarts import RestartPolicy
from telemetry.engine_time import LoadCause

OVER_NS = 1_790_000_000_000_000_000
ADAPTER: Any = object()
POLICY = RestartPolicy(first_s=4.0, spread=0.0)


class Mortal:
    """An engine that dies when it is told to."""

    def __init__(self, number: int) -> None:
        self.number, self.buried, self.stopped = number, False, False
        self.end: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.engine_id, self.base_model = "e", "base"

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": str(self.number).encode()})

    async def load_adapter(self, adapter: AdapterFiles, cause: LoadCause) -> LoadTiming:
        return LoadTiming(1, 1, 2, 3)

    async def evict_adapter(self, served_name: str) -> None:
        raise AssertionError(served_name)

    def resident(self) -> frozenset[str]:
        return frozenset({f"adapter@{self.number}"})

    async def count_tokens(self, path: str, body: Mapping[str, Any]) -> tuple[int, ...] | None:
        return (self.number,)

    async def measured(self, attempt: str, timeout_s: float) -> Measured | None:
        return f"figures of {self.number}"  # type: ignore[return-value]

    def knows(self, attempt: str) -> bool:
        return attempt == f"gw:{self.number}"

    def state(self) -> EngineState:
        return EngineState(7, 9, 1, 1, ("adapter@1",), 10, {TimeOwner.IDLE: self.number}, 0)

    async def healthy(self) -> bool:
        return True

    def retry_after_s(self) -> int | None:
        return None

    async def died(self) -> str:
        return await self.end

    async def bury(self) -> int:
        self.buried = True
        return OVER_NS

    async def stop(self) -> None:
        self.stopped = True


class World:
    """Starts that succeed or fail as told, and what was asked of them."""

    def __init__(self, policy: RestartPolicy | None = POLICY) -> None:
        self.starts: list[tuple[int | None, float]] = []
        self.lives: list[Mortal] = []
        self.fail: list[Exception] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.told: list[str] = []
        self.now_s = 0.0
        self.door = LastingEngine("e", "base", self._start, policy=policy, draw=lambda: 0.0, clock=lambda: self.now_s)
        self.door.on_up = lambda: self.told.append("up")
        self.door.on_lost = lambda: self.told.append("lost")

    async def _start(self, since_ns: int | None, delay_s: float) -> Mortal:
        self.starts.append((since_ns, delay_s))
        await self.gate.wait()
        if self.fail:
            raise self.fail.pop(0)
        self.lives.append(Mortal(len(self.lives)))
        return self.lives[-1]

    async def die(self) -> None:
        self.lives[-1].end.set_result("its process ended")
        await self.settle()

    async def settle(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    async def ask(self) -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(self.door.app), base_url="http://e") as client:
            return await client.get("/")


def run(story: Any) -> None:
    asyncio.run(story())


def test_the_next_request_is_answered_by_another_engine() -> None:
    async def story() -> None:
        world = World()
        await world.door.begin()
        assert (await world.ask()).text == "0"
        await world.die()
        assert world.lives[0].buried
        # Rented without a gap: the second life begins where the first was over, and waits as part of it.
        assert world.starts == [(None, 0.0), (OVER_NS, 4.0)]
        assert (await world.ask()).text == "1"
        assert world.told == ["up"]
        assert world.door.state().restarts == 1
        assert world.door.resident() == {"adapter@1"}

    run(story)


def test_while_there_is_no_engine_everybody_is_told_at_once() -> None:
    async def story() -> None:
        world = World()
        await world.door.begin()
        world.gate.clear()
        await world.die()
        assert world.door.retry_after_s() == 34
        reply = await world.ask()
        assert (reply.status_code, reply.headers["retry-after"]) == (503, "34")
        assert not await world.door.healthy()
        assert world.door.resident() == frozenset()
        assert await world.door.count_tokens("/", {}) is None
        await world.door.evict_adapter("gone")
        with pytest.raises(EngineDown):
            await world.door.load_adapter(ADAPTER, LoadCause.REQUEST)
        state = world.door.state()
        assert (state.kv_blocks_used, state.slots, state.owner_ns) == (0, (), {TimeOwner.IDLE: 0})
        world.now_s = 1000.0
        assert world.door.retry_after_s() == 1
        world.gate.set()
        await world.settle()
        assert world.door.retry_after_s() is None

    run(story)


def test_figures_of_the_dead_can_still_be_asked_for() -> None:
    async def story() -> None:
        world = World()
        await world.door.begin()
        world.gate.clear()
        await world.die()
        assert world.door.knows("gw:0")
        assert str(await world.door.measured("gw:0", 9)) == "figures of 0"
        assert await world.door.measured("gw:5", 9) is None
        world.gate.set()
        await world.settle()
        assert [str(await world.door.measured(f"gw:{n}", 9)) for n in (0, 1)] == ["figures of 0", "figures of 1"]

    run(story)


def test_it_dies_again_and_again_and_does_not_come_up_each_time() -> None:
    async def story() -> None:
        world = World()
        await world.door.begin()
        world.fail = [EngineStartFailed("e", "no memory"), RuntimeError("odd")]
        await world.die()
        await world.die()
        await world.die()
        assert [delay for _, delay in world.starts[1:]] == [4.0, 8.0, 16.0, 32.0, 60.0]
        assert world.door.state().restarts == 5
        assert (await world.ask()).text == "3"
        assert all(since is not None for since, _ in world.starts[1:])

    run(story)


def test_what_fails_beside_it_does_not_keep_the_engine_down() -> None:
    async def story() -> None:
        world = World()
        await world.door.begin()

        async def broken() -> int:
            raise OSError("no such process")

        def deaf() -> None:
            raise RuntimeError("deaf")

        world.lives[0].bury = broken  # type: ignore[method-assign]
        world.door.on_up = deaf
        await world.die()
        await world.die()
        assert (await world.ask()).text == "2"

    run(story)


def test_under_a_supervisor_nothing_is_started_again() -> None:
    async def story() -> None:
        world = World(policy=None)
        await world.door.begin()
        await world.die()
        assert world.lives[0].buried
        assert (world.told, world.door.lost, len(world.starts)) == (["lost"], "its process ended", 1)
        assert (await world.ask()).status_code == 503
        await world.door.stop()

    run(story)


def test_a_stop_ends_the_engine_or_breaks_its_start_off() -> None:
    async def story() -> None:
        world = World()
        await world.door.begin()
        world.gate.clear()
        await world.die()
        await world.door.stop()
        await world.door.stop()
        assert len(world.starts) == 2
        assert not world.lives[0].stopped
        other = World()
        await other.door.begin()
        await other.door.stop()
        assert other.lives[0].stopped

    run(story)

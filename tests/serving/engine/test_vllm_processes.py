"""Whether an engine lives, and that a start nobody waits for leaves nothing behind. No engine."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from serving.engine import vllm_processes
from serving.engine.vllm_processes import Pulse, started

SECOND = 1_000_000_000


class World:
    """An engine that answers when it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(vllm_processes, "SECOND_LOOK_S", 0)
        self.now = 100 * SECOND
        self.client = SimpleNamespace(errored=False, list_loras=self._answer)
        collector: Any = SimpleNamespace(heard_ns=self.now)
        self.collector = collector
        self.answers, self.asked = asyncio.Event(), 0
        self.pulse = Pulse(self.client, collector, 30, lambda: self.now)

    async def _answer(self) -> set[int]:
        self.asked += 1
        await self.answers.wait()
        return set()

    async def after(self, seconds: int) -> str | None:
        self.now += seconds * SECOND
        found = await self.pulse.lost()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return found


def test_an_engine_that_meters_is_never_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        world = World(monkeypatch)
        for _ in range(100):
            world.collector.heard_ns = world.now
            assert await world.after(4) is None
        assert world.asked == 0

    asyncio.run(story())


def test_a_quiet_engine_is_asked_now_and_then_and_lives_as_long_as_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        world = World(monkeypatch)
        world.answers.set()
        assert [await world.after(1) for _ in range(60)] == [None] * 60
        assert 5 <= world.asked <= 12

    asyncio.run(story())


def test_one_that_neither_meters_nor_answers_is_lost_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        world = World(monkeypatch)
        seconds, found = 0, None
        while found is None and seconds < 100:
            found, seconds = await world.after(1), seconds + 1
        assert found == "it has not answered for 30 s"
        assert 30 < seconds <= 37
        assert world.asked == 1

    asyncio.run(story())


def test_a_gateway_that_stood_still_does_not_take_its_engine_for_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        world = World(monkeypatch)
        assert await world.after(6) is None
        world.answers.set()
        assert await world.after(500) is None
        world.answers.clear()
        assert await world.after(6) is None
        world.now += 500 * SECOND
        world.collector.heard_ns = world.now
        assert await world.after(0) is None

    asyncio.run(story())


def test_a_process_that_ended_is_seen_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        world = World(monkeypatch)
        world.client.errored = True
        assert await world.after(0) == "its process ended"

    asyncio.run(story())


class Child:
    """A process that keeps a start waiting until it is killed."""

    def __init__(self, name: str) -> None:
        self.name, self.killed = name, threading.Event()

    def kill(self) -> None:
        self.killed.set()

    def join(self, timeout: float) -> None:
        pass


def stuck(monkeypatch: pytest.MonkeyPatch, *, comes_up: bool = False) -> tuple[Any, Child, Child, list[str]]:
    """A start that ends only with its child; another engine's child; the child; what was shut down."""
    other, child, shut = Child("EngineCore"), Child("EngineCore"), []
    children = [other]
    monkeypatch.setattr("multiprocessing.active_children", lambda: list(children))

    def start() -> Any:
        children.append(child)
        assert child.killed.wait(10)
        if not comes_up:
            raise RuntimeError("its process ended")
        return SimpleNamespace(shutdown=lambda: shut.append("client"))

    return start, other, child, shut


@pytest.mark.parametrize("comes_up", [False, True])
def test_a_start_that_takes_too_long_is_broken_off(monkeypatch: pytest.MonkeyPatch, comes_up: bool) -> None:
    start, other, child, shut = stuck(monkeypatch, comes_up=comes_up)
    with pytest.raises(TimeoutError, match="not up within"):
        asyncio.run(started(start, 0.05))
    assert (other.killed.is_set(), child.killed.is_set()) == (False, True)
    assert shut == ["client"] * comes_up


def test_a_start_that_nobody_waits_for_any_more_is_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    start, other, child, _ = stuck(monkeypatch)

    async def story() -> None:
        task = asyncio.create_task(started(start, 60))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(story())
    assert (other.killed.is_set(), child.killed.is_set()) == (False, True)


def test_a_start_that_succeeds_or_fails_by_itself_is_left_alone() -> None:
    assert asyncio.run(started(lambda: 7, 60)) == 7

    def fail() -> None:
        raise RuntimeError("no memory")

    with pytest.raises(RuntimeError, match="no memory"):
        asyncio.run(started(fail, 60))

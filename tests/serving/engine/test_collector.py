"""The collector's thread: figures arrive, whoever waits is answered, and no fault stops it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from catalog.owners import TimeOwner
from serving.engine.collector import Collector
from serving.engine.door import AdapterFiles
from serving.errors import AdapterLoadFailed
from serving.metering.accounting import Accountant
from serving.step_model.profile import DEFAULT_PROFILE
from serving.wire.channel import Occupancy, Receiver, Sender
from serving.wire.events import Bye, EngineStep, Entered, Hello, Loaded, LoadSpan, PrefixHit, StepRow, Woke
from telemetry.engine_time import AdapterLeft, AdapterLoad, LoadCause, MeterValue, MeterWindow, PrefixReshare

MS = 1_000_000
ADAPTER = AdapterFiles("law", Path("/nowhere"), "ab" * 32, 8, 99)


class Engine:
    """The other end: an engine process as the collector hears it, on the real clock."""

    def __init__(self, address: str) -> None:
        self.sender = Sender(address)
        self.seq = 0
        self.begin = time.monotonic_ns()

    def hello(self) -> None:
        self.sender.send(Hello("eng-1", "cpu-0", self.begin, time.time_ns()))

    def serve(self, request: str, steps: int = 2, tenant: str = "bank", payer: str = "") -> None:
        """One request, alone, from its entry to its last token; it found what `payer` had computed."""
        hits = (PrefixHit(request, f"gw-1:{payer}", 0, 3),) if payer else ()
        start = time.monotonic_ns()
        self.sender.send(Woke(start))
        self.sender.send(Entered(request, f"gw-1:{request}", tenant, "law", 4, start))
        for n in range(steps):
            rows = (StepRow(request, 4 if n == 0 else 1, 0 if n == 0 else 3 + n),)
            end, last = start + MS, n == steps - 1
            left = (request,) if last else ()
            self.sender.send(EngineStep(self.seq, start, end, rows, (), left, (), (), not last, hits=() if n else hits))
            self.seq, start = self.seq + 1, end
        time.sleep(steps * MS / 1e9)

    def load(self) -> None:
        at = time.monotonic_ns()
        time.sleep(0.004)
        read, activate = (
            LoadSpan("law", "read", at, at + 3 * MS, False, 99),
            LoadSpan("law", "activate", at + 3 * MS, at + 4 * MS, True, 0),
        )
        self.sender.send(Loaded((read, activate)))

    def bye(self) -> None:
        self.sender.send(Bye(time.monotonic_ns()))
        self.sender.close()


class World:
    def __init__(self, tmp_path: Path, sink: Callable[[MeterValue], None] | None = None) -> None:
        address = f"ipc://{tmp_path}/meter"
        self.values: list[MeterValue] = []
        self.collector = Collector(Receiver(address), Accountant(DEFAULT_PROFILE, "cpu-0"), sink or self.values.append)
        self.collector.start()
        self.engine = Engine(address)
        self.engine.hello()
        assert self.collector.up(5)

    def windows(self) -> list[MeterWindow]:
        return [value for value in self.values if isinstance(value, MeterWindow)]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.engine.sender.close()
    made.collector.stop(0)


def test_an_attempt_is_measured_once_it_left_and_windows_cover_the_engines_life(world: World) -> None:
    async def story() -> None:
        waiting = asyncio.create_task(world.collector.measured("gw-1:a", 5))
        await asyncio.sleep(0.01)
        await asyncio.to_thread(world.engine.serve, "a")
        found = await waiting
        assert found is not None
        assert sum(part.measured_ns for part in found.slices) == 2 * MS
        assert (found.input_tokens, found.output_tokens) == (4, 2)
        assert not world.collector.knows("gw-1:a")
        assert await world.collector.measured("gw-1:never", 0.05) is None

    asyncio.run(story())
    world.engine.bye()
    assert world.collector.stop(5)
    windows = world.windows()
    assert [window.seq for window in windows] == list(range(len(windows)))
    assert all(one.end_ns == other.start_ns for one, other in pairwise(windows))
    assert sum(window.end_ns - window.start_ns for window in windows) == sum(world.collector.totals().owners.values())
    assert world.collector.totals().owners[TimeOwner.TENANTS] == 2 * MS
    assert (world.collector.gaps, world.collector.faults) == (0, 0)


def test_a_load_is_told_with_who_asked_for_it(world: World) -> None:
    async def story() -> None:
        async def do() -> None:
            await asyncio.to_thread(world.engine.load)

        timing = await world.collector.load(ADAPTER, LoadCause.WARM, do, 5)
        assert timing is not None
        assert (timing.read_ns, timing.activate_ns, timing.engine_ns) == (3 * MS, MS, 4 * MS)

    asyncio.run(story())
    world.engine.load()
    world.engine.serve("a")
    world.engine.bye()
    assert world.collector.stop(5)
    asked, unasked = (value for value in world.values if isinstance(value, AdapterLoad))
    assert (asked.cause, asked.adapter_hash, asked.engine_ns) == (LoadCause.WARM, ADAPTER.hash, 4 * MS)
    assert (unasked.cause, unasked.adapter_hash) == (LoadCause.RELOAD, None)
    assert world.collector.totals().owners[TimeOwner.COLD] == 8 * MS


def test_an_adapter_that_left_is_told_once_no_version_of_it_is_held(world: World) -> None:
    for host in (("law@aa", "tone@bb"), ("law@aa", "law@cc", "tone@bb"), ("law@cc",), (), ("law@cc",)):
        world.engine.sender.send(Occupancy(0, 100, (), host))
    world.engine.bye()
    assert world.collector.stop(5)
    told = [value for value in world.values if isinstance(value, AdapterLeft)]
    assert [(left.emitter, left.seq, left.engine, left.adapter) for left in told] == [
        ("eng-1", 0, "cpu-0", "tone"),
        ("eng-1", 1, "cpu-0", "law"),
    ]
    assert told[0].at_ns <= told[1].at_ns
    assert abs(told[0].at_ns - time.time_ns()) < 60 * 10**9


def test_a_load_that_fails_or_says_nothing_leaves_nobody_waiting(world: World) -> None:
    async def fails() -> None:
        raise AdapterLoadFailed("law", "/nowhere", "no such directory")

    async def silent() -> None:
        return

    async def story() -> None:
        with pytest.raises(AdapterLoadFailed):
            await world.collector.load(ADAPTER, LoadCause.REQUEST, fails, 5)
        assert await world.collector.load(ADAPTER, LoadCause.REQUEST, silent, 0.05) is None

    asyncio.run(story())


def test_lost_and_refused_events_are_counted_and_the_rest_is_taken(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "serving.engine.collector")
    world.engine.sender.skip()
    world.engine.sender.send(Woke(0))
    world.engine.sender.send(Occupancy(3, 100, ("law@abababab",)))
    world.engine.serve("a")
    world.engine.bye()
    assert world.collector.stop(5)
    assert (world.collector.gaps, world.collector.faults) == (1, 1)
    assert world.collector.occupancy == Occupancy(3, 100, ("law@abababab",))
    assert world.collector.totals().owners[TimeOwner.TENANTS] == 2 * MS


def test_a_sink_that_fails_is_counted_and_gets_the_next_value(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "serving.engine.collector")
    taken: list[MeterValue] = []

    def sink(value: MeterValue) -> None:
        if isinstance(value, AdapterLoad):
            raise OSError("disk full")
        taken.append(value)

    world = World(tmp_path, sink)
    world.engine.load()
    world.engine.serve("a")
    world.engine.bye()
    assert world.collector.stop(5)
    assert world.collector.faults == 1
    assert taken


def test_a_re_shared_prefix_is_handed_on_and_one_across_tenants_is_said_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.engine.serve("a")
    world.engine.serve("b", payer="a")
    for request in "cd":
        world.engine.serve(request, tenant="shop", payer="a")
    world.engine.bye()
    assert world.collector.stop(5)
    (line,) = (value for value in world.values if isinstance(value, PrefixReshare))
    line.check()
    assert [move.attempt for move in line.moves if move.ns < 0] == ["gw-1:a"]
    assert [move.attempt for move in line.moves if move.ns > 0] == ["gw-1:b"]
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert ["tenant shop used a stored prefix that tenant bank computed" in message for message in said] == [True]
    assert world.collector.faults == 0


def test_an_engine_that_dies_without_a_word_is_measured_up_to_its_last_one(world: World) -> None:
    world.engine.serve("a")
    last = time.monotonic_ns()
    time.sleep(0.2)
    assert not world.collector.stop(0.1)
    measured = sum(window.end_ns - window.start_ns for window in world.windows())
    assert measured <= last - world.engine.begin + 100 * MS
    assert world.collector.totals().owners[TimeOwner.TENANTS] == 2 * MS

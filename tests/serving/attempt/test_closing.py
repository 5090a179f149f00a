"""Closing an attempt books it once, gives back what it held, and lets no failure of one part keep another."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from serving.attempt import closing, telling
from serving.attempt.attempt import Attempt
from serving.attempt.record import Facts
from serving.attempt.residency_door import Lease
from serving.engine.door import AdapterFiles
from serving.metering.attempts import Measured
from serving.protocol.response import Reply
from telemetry.usage import ErrorType, Slice, Status, UsageRecord

FILES = AdapterFiles("coder", Path("/coder"), "ab" * 32, 8, 1000)
METER = Measured((Slice(0, 5, 4, 3),), 31, 16, 11, 2, 11_000, 10_000, "m", "p")
TENANT, TAKEN = cast("Any", "clinic"), cast("Any", "what was taken")


class World:
    """An attempt that got to the engine, and what everybody around it is told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.records: list[UsageRecord] = []
        self.lines: list[str] = []
        self.released: list[str] = []
        self.settled: list[tuple[Any, ...]] = []
        self.observed: list[UsageRecord] = []
        self.restated: list[int] = []
        self.failures: list[Exception] = []
        self.meter: Measured | None = METER
        self.computed = True
        self.durable: Future[None] = Future()
        self.durable.set_result(None)
        trace = SimpleNamespace(close=self._closed)
        self.attempt = Attempt(
            Facts("gw-1", 7, "req-1", "clinic", 10_000, "tiny"), cast("Any", trace), count(500).__next__
        )
        self.attempt.facts.reached_engine = True
        self.attempt.lease, self.attempt.tenant, self.attempt.ask = Lease(FILES, "hit", None), TENANT, TAKEN
        self.answer = SimpleNamespace(status=200, reply=Reply(delivered=4), restate=self.restated.append)
        self.services = SimpleNamespace(
            door="door",
            limits=SimpleNamespace(meter_s=1.5, durable_s=0.05),
            spool=SimpleNamespace(note=self.lines.append),
            tracing=SimpleNamespace(count_failure=self.failures.append),
            metrics="metrics",
            residency=SimpleNamespace(release=self.released.append),
            quotas=SimpleNamespace(settle=lambda *given: self.settled.append(given)),
        )
        self.work: Callable[[], None] = lambda: None

        async def work(door: Any, attempt: Any, answer: Any, limit_s: float) -> tuple[Measured | None, bool]:
            assert (door, attempt, answer, limit_s) == ("door", self.attempt, self.answer, 1.5)
            self.work()
            return self.meter, self.computed

        monkeypatch.setattr(closing, "engine_work", work)
        monkeypatch.setattr(closing, "route_line", lambda attempt: "a decision")
        monkeypatch.setattr(telling, "describe", lambda attempt, record, meter: None)
        monkeypatch.setattr(closing, "observe", lambda metrics, record, facts: self.observed.append(record))

    def _closed(self, record: UsageRecord, http_status: int | None, end_ns: int) -> Future[None]:
        assert (http_status, end_ns) == (200, record.finished_ns)
        self.records.append(record)
        return self.durable

    def close(self) -> None:
        asyncio.run(closing.close(cast("Any", self.services), self.attempt, cast("Any", self.answer)))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_an_attempt_is_booked_once_and_all_that_it_held_is_given_back(world: World) -> None:
    world.attempt.end(Status.OK)
    world.close()
    world.close()
    (record,) = world.records
    assert (record.status, record.error_type, record.slices) == (Status.OK, None, METER.slices)
    assert (record.output_tokens_delivered, record.output_tokens_computed) == (4, 11)
    assert (world.lines, world.observed, world.failures) == (["a decision"], [record], [])
    assert world.released == [FILES.served_name]
    assert world.settled == [(TENANT, TAKEN, 42, 7, record)]
    assert world.restated == [16]


def test_an_attempt_that_nobody_ended_failed(world: World) -> None:
    world.close()
    assert (world.records[0].status, world.records[0].error_type) == (Status.SERVER_ERROR, ErrorType.ENGINE_ERROR)


@pytest.mark.parametrize(
    ("meter", "reached", "used", "restated"),
    [
        (None, True, None, []),
        (None, False, 0, []),
        (METER, False, 0, [16]),
        (replace(METER, cached_tokens=None), True, 42, []),
    ],
)
def test_quotas_get_back_what_was_not_used_and_what_nobody_measured_stays_taken(
    world: World, meter: Measured | None, reached: bool, used: int | None, restated: list[int]
) -> None:
    world.meter, world.attempt.facts.reached_engine = meter, reached
    world.close()
    assert [given[2] for given in world.settled] == [used]
    assert world.restated == restated


def test_what_an_attempt_never_held_is_not_given_back(world: World) -> None:
    world.attempt.lease = world.attempt.ask = None
    world.close()
    assert (world.released, world.settled, len(world.records)) == ([], [], 1)
    nobodys = world.attempt
    nobodys.closed, nobodys.ask, nobodys.tenant = False, TAKEN, None
    world.close()
    assert world.settled == []


def test_a_cancelled_closing_writes_its_record_and_gives_back_all_the_same(world: World) -> None:
    def cancelled() -> None:
        raise asyncio.CancelledError

    world.work = cancelled
    with pytest.raises(asyncio.CancelledError):
        world.close()
    (record,) = world.records
    assert (record.slices, world.released, world.settled) == (
        None,
        [FILES.served_name],
        [(TENANT, TAKEN, None, 7, record)],
    )


def test_no_failure_of_one_part_keeps_another(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*given: Any) -> None:
        raise ValueError("broken")

    for name in ("route_line", "observe"):
        monkeypatch.setattr(closing, name, broken)
    monkeypatch.setattr(telling, "describe", broken)
    world.services.residency.release = broken
    world.services.quotas.settle = broken
    world.attempt.facts.delivered = -1
    world.answer.reply = Reply(delivered=-1)
    world.close()
    assert len(world.records) == 1
    assert [str(failure) for failure in world.failures] == ["broken"]
    for said in ("contradicts itself: output_tokens_delivered is negative", "decision is not logged", "is not in the metrics", "adapter could not be given back", "quotas could not be given back"):  # fmt: skip
        assert said in caplog.text


def test_a_record_that_is_not_on_disk_is_said_and_one_that_is_says_nothing(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    world.close()
    assert caplog.text == ""
    world.attempt.closed, world.durable = False, Future()
    world.close()
    assert "record gw-1:7 is not on disk after 0.05 s" in caplog.text
    world.attempt.closed, world.durable = False, Future()
    world.durable.set_exception(OSError("no space"))
    world.close()
    assert "record gw-1:7 is not on disk: no space" in caplog.text


@pytest.mark.parametrize("how", [lambda late: late.set_exception(OSError("no space")), lambda late: late.cancel()])
def test_what_comes_of_a_record_when_nobody_waits_any_more_troubles_nobody(
    world: World, how: Callable[[Future[None]], Any]
) -> None:
    troubles: list[Any] = []
    world.durable = Future()

    async def late() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, told: troubles.append(told))
        await closing.close(cast("Any", world.services), world.attempt, cast("Any", world.answer))
        how(world.durable)
        for _ in range(5):
            await asyncio.sleep(0)
        world.durable = Future()
        gc.collect()

    asyncio.run(late())
    assert troubles == []

"""Whatever happens to telemetry, requests go on, and what is lost is counted where an alert sees it."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from serving.attempt.limits import Limits
from serving.attempt.measures import observe
from serving.attempt.record import Facts
from telemetry.forward import Forwarder
from telemetry.metrics import Metrics
from telemetry.names import DROPPED, LABEL_OVERFLOW, SPOOL_ERRORS
from telemetry.usage import Slice, Status, UsageRecord

Run = Callable[..., None]
Ask = Callable[..., dict[str, Any]]
REQUESTS = 20


async def serve(bench: Any, ask: Ask, count: int = REQUESTS) -> list[int]:
    replies = await asyncio.gather(*(bench.post(ask(f"request {n}", model="coder")) for n in range(count)))
    return [reply.status_code for reply in replies]


async def counted(bench: Any, name: str) -> float:
    text = (await bench.get("/metrics")).text
    return sum(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(name))


def dropped(what: str) -> str:
    return f'{DROPPED.name}{{what="{what}"}}'


def test_a_collector_that_is_down_costs_requests_nothing_and_its_spans_are_counted(run_bench: Run, ask: Ask) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        forwarder = Forwarder(f"http://127.0.0.1:{nobody.getsockname()[1]}", retry_s=0.001, tries=2)

        async def test(bench: Any) -> None:
            assert await counted(bench, dropped("collector")) == 0
            assert await serve(bench, ask) == [200] * REQUESTS
            assert len(bench.records()) == REQUESTS
            while forwarder.dropped < REQUESTS:
                await asyncio.sleep(0.01)
            assert await counted(bench, dropped("collector")) == REQUESTS

        run_bench(test, forwarder=forwarder)
        forwarder.close()


def test_a_collector_that_hangs_costs_requests_nothing(run_bench: Run, ask: Ask) -> None:
    hang = threading.Event()

    def post(message: bytes) -> int:
        hang.wait()
        return 200

    forwarder = Forwarder("http://collector.test", queue_bytes=20_000, post=post)

    async def test(bench: Any) -> None:
        assert await serve(bench, ask) == [200] * REQUESTS
        assert not hang.is_set(), "all were served while the collector hung"
        assert len(bench.records()) == REQUESTS
        assert 0 < await counted(bench, dropped("collector")) < REQUESTS

    run_bench(test, forwarder=forwarder)
    hang.set()
    forwarder.close()


def test_a_full_disk_fails_no_request_and_no_record_is_lost_once_there_is_room(run_bench: Run, ask: Ask) -> None:
    async def test(bench: Any) -> None:
        bench.disk.refuse = True
        assert await serve(bench, ask) == [200] * REQUESTS
        assert await counted(bench, SPOOL_ERRORS.name) > 0
        assert await counted(bench, dropped("spool")) == 0
        bench.disk.refuse = False
        while bench.spool.held_bytes:
            await asyncio.sleep(0.01)
        assert sorted(record.seq for record in bench.records()) == list(range(REQUESTS))

    run_bench(test)


def test_a_disk_that_stays_full_loses_records_only_when_memory_is_full_and_says_how_many(
    run_bench: Run, ask: Ask
) -> None:
    async def test(bench: Any) -> None:
        bench.disk.refuse = True
        assert await serve(bench, ask) == [200] * REQUESTS
        lost = await counted(bench, dropped("spool"))
        bench.disk.refuse = False
        while bench.spool.held_bytes:
            await asyncio.sleep(0.01)
        assert lost > 0
        assert len(bench.lines()) + lost == 3 * REQUESTS, "opened, route and spans of each attempt"

    run_bench(test, buffer_bytes=20_000)


def test_a_slow_disk_holds_a_reply_back_only_so_long_and_too_much_waiting_is_an_error(run_bench: Run, ask: Ask) -> None:
    async def test(bench: Any) -> None:
        bench.disk.on_sync = lambda: time.sleep(0.5)
        began = time.perf_counter()
        assert await serve(bench, ask) == [200] * REQUESTS
        assert time.perf_counter() - began < 10
        bench.disk.on_sync = lambda: None
        while bench.spool.held_bytes:
            await asyncio.sleep(0.01)
        lost = await counted(bench, dropped("spool"))
        assert lost > 0
        assert await counted(bench, SPOOL_ERRORS.name) > 0, "the alert about the spool sees it too"
        assert len(bench.lines()) + lost == 3 * REQUESTS

    run_bench(test, buffer_bytes=20_000, limits=Limits(durable_s=0.05))


def test_spans_that_cannot_be_made_are_counted_and_the_record_is_there(
    run_bench: Run, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(spans: object) -> str:
        raise RuntimeError("encoder broke")

    monkeypatch.setattr("telemetry.tracing.spans_line", broken)

    async def test(bench: Any) -> None:
        assert await serve(bench, ask, 3) == [200] * 3
        assert len(bench.records()) == 3
        assert await counted(bench, dropped("spans")) == 3

    run_bench(test)


def test_ten_thousand_label_values_neither_grow_a_scrape_nor_slow_it(run_bench: Run, ask: Ask) -> None:
    metrics = Metrics(cap=50)
    metrics.known("tenant", ["clinic"])
    began = time.process_time()
    for number in range(10_000):
        tenant, adapter = f"tenant-{number}", f"adapter-{number}"
        record = UsageRecord(
            "gw-1", number, "r", tenant, 0, 10**9, Status.OK, adapter=adapter, trace_id="ab" * 16, route_reason="hit",
            input_tokens=5, cached_tokens=1, output_tokens_delivered=2, slices=(Slice(0, 5, 2, 0),),
        )  # fmt: skip
        facts = Facts(
            "gw-1", number, "r", tenant, 0, "base", routed=True, reached_engine=True, route_policy="p", operation="chat"
        )
        observe(metrics, record, facts)
    text = metrics.render(None)[0].decode()
    assert time.process_time() - began < 20
    assert len(text) < 300_000
    assert "tenant-9999" not in text
    overflow = {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in text.splitlines() if line[0] != "#"}
    assert overflow[f'{LABEL_OVERFLOW.name}{{label="tenant"}}'] >= 10_000
    assert overflow[f'{LABEL_OVERFLOW.name}{{label="adapter"}}'] >= 10_000 - 50

    async def test(bench: Any) -> None:
        asked = [bench.post(ask(model=f"model-{number}")) for number in range(100)]
        assert {reply.status_code for reply in await asyncio.gather(*asked)} == {404}
        assert await serve(bench, ask) == [200] * REQUESTS
        assert "model-99" not in bench.scrape()

    run_bench(test)


@pytest.mark.parametrize(
    "broken",
    [
        "telemetry.metrics.Metrics.add",
        "telemetry.metrics.Metrics.observe",
        "serving.attempt.telling.describe",
        "telemetry.tracing.AttemptTrace.child",
        "telemetry.tracing.AttemptTrace.set",
        "opentelemetry.sdk.trace.Tracer.start_span",
        "serving.attempt.telling.RouteRecord",
        "serving.attempt.residency_door.ResidencyDoor.release",
        "serving.attempt.quotas.TenantQuotas.settle",
    ],
)
def test_the_record_is_on_disk_before_the_reply_ends_whatever_else_breaks(
    run_bench: Run, ask: Ask, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    def breaks(*args: object, **kwargs: object) -> None:
        raise RuntimeError("broken on purpose")

    async def test(bench: Any) -> None:
        monkeypatch.setattr(broken, breaks)
        bench.disk.on_sync = lambda: time.sleep(0.05)
        assert (await bench.post(ask(model="coder"))).status_code == 200
        (record,) = bench.records()
        assert (record.status, record.adapter, record.output_tokens_delivered) == (Status.OK, "coder", 4)
        assert (await bench.post(ask(), key="nobody")).status_code == 401

    run_bench(test)

"""Wrong keys: limited by address, told apart from tenants, and one record a minute whatever their number."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from serving.attempt.limits import Limits
from serving.gateway import unauthenticated
from telemetry.usage import ErrorType, Status

Ask = Callable[..., dict[str, Any]]
Run = Callable[..., None]


def test_a_loop_of_wrong_keys_is_two_records_and_all_of_them_are_counted(run_bench: Run, ask: Ask) -> None:
    async def test(bench: Any) -> None:
        replies = [await bench.post(ask(), "nobody") for _ in range(100)]
        assert [reply.status_code for reply in replies] == [401] * 30 + [429] * 70
        last = replies[-1]
        assert (last.json()["error"]["code"], last.headers["retry-after"]) == ("too_many_invalid_keys", "2")
        assert last.headers["connection"] == "close"
        assert (await bench.post(ask())).status_code == 200, "a good key is not held up by its neighbours"
        assert (await bench.get("/v1/models", None)).status_code == 429
        size = sum(map(len, bench.lines()))
        await bench.gateway.stop(0.0)
        first, one, good = sorted(bench.records(), key=lambda record: record.seq)
        assert [record.attempt for record in (first, one, good)] == [1, 99, 1]
        assert {opened.seq for opened in bench.opened()} == {0, 1, 2}, "no number is missing"
        assert (one.tenant, one.status, one.error_type) == ("unauthenticated", Status.REJECTED, ErrorType.REJECTED)
        assert (one.http_status, one.slices, one.problems()) == (401, (), [])
        assert {reply.headers["x-request-id"] for reply in replies[1:]} == {one.request_id}
        assert size < 20_000
        scrape = bench.scrape()
        assert 'lora_request_total{adapter="other",status="rejected",tenant="unauthenticated"} 100.0' in scrape
        assert 'loraledger_requests_in_flight{tenant="unauthenticated"} 0.0' in scrape

    run_bench(test)


def test_every_minute_has_its_own_record(run_bench: Run, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unauthenticated, "TOGETHER_S", 0.1)

    async def test(bench: Any) -> None:
        loop = asyncio.get_running_loop()
        began, sent = loop.time(), 0
        while loop.time() - began < 1:
            await bench.post(ask(), None)
            await asyncio.sleep(0)
            sent += 1
        await bench.gateway.stop(0.0)
        records = bench.records()
        assert sum(record.attempt for record in records) == sent > 50
        assert 3 <= len(records) <= 12
        assert sorted(record.seq for record in records) == list(range(len(records)))

    run_bench(test)


def test_addresses_are_limited_each_and_not_remembered_without_end(
    run_bench: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unauthenticated, "MOST_ADDRESSES", 10)

    async def test(bench: Any) -> None:
        def told(host: str) -> int:
            status: int = bench.gateway.app._unauthenticated.refusal({"client": (host, 1)}).http_status
            return status

        assert [told("10.0.0.1") for _ in range(3)] == [401, 401, 429]
        assert told("10.0.0.2") == 401
        assert [told(f"2001:db8::{n}") for n in range(3)] == [401, 401, 429], "one network is one address"
        bench.clock.advance(30 * 10**9)
        assert [told("10.0.0.1") for _ in range(2)] == [401, 429], "half a minute gives one more"
        for n in range(100):
            told(f"10.1.0.{n}")
        assert len(bench.gateway.app._unauthenticated._buckets) == 10

    run_bench(test, limits=Limits(unauthenticated_per_minute=2))

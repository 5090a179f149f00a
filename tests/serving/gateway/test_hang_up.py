"""A client that hangs up, at every moment there is: booked once, with what the engine really did."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest
import uvicorn

from telemetry.usage import ErrorType, Status

Ask = Callable[..., dict[str, Any]]
Run = Callable[..., None]


async def until(true: Callable[[], Any]) -> None:
    async with asyncio.timeout(5):
        while not true():
            await asyncio.sleep(0)


def test_before_the_body_is_there(run_bench: Run, raw: Any) -> None:
    async def test(bench: Any) -> None:
        call = raw(b"", body_given=True)
        call.hang_up.set()
        await bench.raw(call)
        record = bench.only_record()
        assert (record.status, record.error_type) == (Status.CLIENT_ABORT, ErrorType.CLIENT_ABORT)
        assert (record.slices, record.http_status, record.output_tokens_delivered) == ((), None, 0)
        assert call.sent == []

    run_bench(test)


def test_while_its_adapter_is_loaded(run_bench: Run, ask: Ask, raw: Any) -> None:
    async def test(bench: Any) -> None:
        bench.engine.switches.loading.clear()
        call = raw(json.dumps(ask(model="coder")).encode())
        task = asyncio.create_task(bench.raw(call))
        await asyncio.sleep(0.05)
        call.hang_up.set()
        await task
        record = bench.only_record()
        assert (record.status, record.slices, bench.engine.seen) == (Status.CLIENT_ABORT, (), [])
        # The load was not wasted: it goes on, and the next request finds the adapter there.
        bench.engine.switches.loading.set()
        await until(bench.engine.resident)
        await bench.post(ask(model="coder"))
        assert bench.records()[1].route_reason == "hit"

    run_bench(test)


@pytest.mark.parametrize("stream", [False, True])
def test_while_the_engine_works(stream: bool, run_bench: Run, ask: Ask, raw: Any) -> None:
    async def test(bench: Any) -> None:
        call = raw(json.dumps(ask(model="coder", stream=stream, max_tokens=1000)).encode())

        def after_three_tokens() -> bool:
            if stream:
                return sum('"content":"w' in line or '"content":" w' in line for line in call.text().split("\n")) >= 3
            return bool(bench.engine.state().kv_blocks_used) and bench.clock.mono_ns() > 5 * 10**7

        task = asyncio.create_task(bench.raw(call))
        await until(after_three_tokens)
        call.hang_up.set()
        await task
        record = bench.only_record()
        assert (record.status, record.error_type) == (Status.CLIENT_ABORT, ErrorType.CLIENT_ABORT)
        assert record.output_tokens_computed is not None
        assert record.output_tokens_delivered is not None
        shown = sum('"content":"w' in line or '"content":" w' in line for line in call.text().split("\n"))
        assert record.output_tokens_delivered == shown
        assert shown <= record.output_tokens_computed < 1000
        assert record.slices
        assert sum(s.measured_ns for s in record.slices) > 0
        assert bench.engine.state().kv_blocks_used == 0
        assert (
            'lora_request_error_total{adapter="coder",error_type="client_abort",tenant="clinic"} 1.0' in bench.scrape()
        )

    run_bench(test)


def test_while_a_finished_reply_waits_for_its_record(run_bench: Run, ask: Ask, raw: Any) -> None:
    async def test(bench: Any) -> None:
        disk = threading.Event()
        bench.disk.on_sync = disk.wait
        call = raw(json.dumps(ask()).encode())
        task = asyncio.create_task(bench.raw(call))
        await until(lambda: "loraledger_output_tokens_total{" in bench.scrape())
        call.hang_up.set()
        await asyncio.sleep(0)
        disk.set()
        await task
        assert bench.only_record().output_tokens_computed == 4

    run_bench(test)


def test_after_the_last_byte_it_is_a_success(run_bench: Run, ask: Ask, raw: Any) -> None:
    async def test(bench: Any) -> None:
        call = raw(json.dumps(ask(stream=True)).encode())

        def on_send(message: Any) -> None:
            if not message.get("more_body", True):
                call.hang_up.set()

        call.on_send = on_send
        await bench.raw(call)
        record = bench.only_record()
        assert (record.status, record.output_tokens_delivered) == (Status.OK, 4)

    run_bench(test)


def test_over_a_real_connection(run_bench: Run, ask: Ask) -> None:
    async def test(bench: Any) -> None:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            config = uvicorn.Config(bench.gateway.app, log_level="warning", lifespan="off")
            server = uvicorn.Server(config)
            serving = asyncio.create_task(server.serve([listener]))
            url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1/chat/completions"
            headers = {"authorization": "Bearer key-clinic"}
            await until(lambda: server.started)
            async with httpx.AsyncClient(trust_env=False) as client:
                whole = await client.post(url, json=ask(model="coder"), headers=headers)
                assert whole.status_code == 200
                body = ask(model="coder", stream=True, max_tokens=3000)
                async with client.stream("POST", url, json=body, headers=headers) as reply:
                    async for _ in reply.aiter_raw():
                        break
            await until(lambda: len(bench.records()) == 2)
            record = bench.records()[1]
            assert record.status is Status.CLIENT_ABORT
            assert 0 < record.output_tokens_delivered <= record.output_tokens_computed < 3000
            server.should_exit = True
            await serving

    from tests.fakes.fake_engine import Device

    run_bench(test, device=Device(pace_s=0.001))

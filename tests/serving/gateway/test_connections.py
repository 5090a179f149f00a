"""Clients that do not behave, over real sockets: idle, half sent, unread, too many, and none of them for long."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from serving.attempt.limits import Limits
from serving.gateway import connections, listening
from serving.gateway.clients import neighbourhood
from serving.gateway.connections import Connections
from telemetry.metrics import Metrics
from telemetry.usage import ErrorType, Status
from tests.fakes.fake_engine import Device

Ask = Callable[..., dict[str, Any]]
Run = Callable[..., None]
SHORT = Limits(idle_s=1.0, body_s=0.3, deliver_s=0.3, deliver_total_s=5, drain_s=5, hurry_s=0.2, engine_s=60)
FAST = Device(max_model_len=100_000, kv_blocks=1 << 20)
LONG = 90_000


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "SWEEP_S", 0.02)
    # The kernel must not swallow in this test what a client does not read.
    monkeypatch.setattr(listening, "SEND_BUFFER_BYTES", 4096)


class Server:
    """A gateway that listens; `end` stops it and tells how long that took."""

    def __init__(self, bench: Any, limits: Limits, proxies: tuple[str, ...]) -> None:
        self.bench, self.ending = bench, asyncio.Event()
        self.clients: list[socket.socket] = []
        listener = listening.listen("127.0.0.1", 0)
        self.port = listener.getsockname()[1]
        self.task = asyncio.create_task(
            listening.answer(
                bench.gateway, listener, self.ending, limits=limits, metrics=bench.metrics, proxies=proxies
            )
        )

    def connect(self) -> socket.socket:
        """A client with a tiny window, so that it stops the sender soon when it does not read."""
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", self.port))
        client.setblocking(False)
        self.clients.append(client)
        return client

    async def say(self, text: bytes) -> socket.socket:
        client = self.connect()
        await asyncio.get_running_loop().sock_sendall(client, text)
        return client

    async def end(self) -> float:
        began = time.monotonic()
        self.ending.set()
        await self.task
        for client in self.clients:
            client.close()
        return time.monotonic() - began


@contextlib.asynccontextmanager
async def serving(bench: Any, limits: Limits = SHORT, proxies: tuple[str, ...] = ()) -> AsyncIterator[Server]:
    server = Server(bench, limits, proxies)
    await asyncio.sleep(0.05)
    try:
        yield server
    finally:
        await server.end()


def request(
    body: Any, key: str = "clinic", path: str = "/v1/chat/completions", *headers: str, send: int = 1 << 30
) -> bytes:
    raw = json.dumps(body).encode()
    lines = [
        f"POST {path} HTTP/1.1",
        "host: x",
        f"authorization: Bearer key-{key}",
        f"content-length: {len(raw)}",
        *headers,
    ]
    return "\r\n".join([*lines, "", ""]).encode() + raw[:send]


async def read(client: socket.socket) -> bytes:
    """Everything until the server closes."""
    loop, got = asyncio.get_running_loop(), b""
    with contextlib.suppress(ConnectionResetError):
        while part := await loop.sock_recv(client, 65536):
            got += part
    return got


def booked(bench: Any) -> list[Any]:
    """Records so far; the spool begins with the first."""
    found: list[Any] = bench.records() if (bench.directory / "spool").exists() else []
    return found


async def until(true: Callable[[], Any], seconds: float = 5) -> None:
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.01)


def run_served(
    run_bench: Run, test: Callable[[Any, Server], Awaitable[None]], limits: Limits = SHORT, **given: Any
) -> None:
    async def main(bench: Any) -> None:
        async with serving(bench, limits) as server:
            await test(bench, server)

    run_bench(main, device=FAST, limits=limits, **given)


def test_a_client_that_stops_reading_is_cut_off_and_the_fault_is_its_own(run_bench: Run, ask: Ask) -> None:
    async def test(bench: Any, server: Server) -> None:
        bench.clock.advance(1)
        client = await server.say(request(ask(stream=True, max_tokens=LONG)))
        await until(lambda: booked(bench), 15)
        record = bench.only_record()
        assert (record.status, record.error_type) == (Status.CLIENT_ABORT, ErrorType.CLIENT_SLOW)
        assert 0 < record.output_tokens_delivered <= record.output_tokens_computed < LONG
        assert record.slices
        assert bench.engine.state().kv_blocks_used == 0, "the engine works on it no longer"
        scrape = bench.scrape()
        assert 'lora_request_slo_ratio_count{tenant="clinic"} 0.0' in scrape, "no promise is judged by it"
        await until(lambda: "loraledger_connections_open 0.0" in bench.scrape())
        assert 'loraledger_connections_closed_total{what="slow"} 1.0' in bench.scrape()
        assert not (await read(client)).endswith(b"0\r\n\r\n"), "what was not sent is dropped"

    run_served(run_bench, test)


def test_a_client_that_reads_a_byte_now_and_then_is_no_better(run_bench: Run, ask: Ask) -> None:
    async def test(bench: Any, server: Server) -> None:
        client = await server.say(request(ask(stream=True, max_tokens=LONG)))
        while not booked(bench):
            with contextlib.suppress(BlockingIOError):
                client.recv(1)
            await asyncio.sleep(0.02)
        assert bench.only_record().error_type is ErrorType.CLIENT_SLOW

    run_served(run_bench, test)


def test_a_client_that_pauses_and_goes_on_is_served_and_its_pause_is_not_held_against_us(
    run_bench: Run, ask: Ask
) -> None:
    async def test(bench: Any, server: Server) -> None:
        stepping = bench.engine.switches.stepping
        client = await server.say(
            request(ask(stream=True, max_tokens=2000), "clinic", "/v1/chat/completions", "connection: close")
        )
        await until(lambda: bench.gateway.app._clients._here)
        (blocked,) = bench.gateway.app._clients._here
        await until(lambda: blocked._waiting is not None and bench.engine.state().kv_blocks_used)
        await asyncio.sleep(0.2)
        stepping.clear()
        bench.clock.advance(20 * 10**9)
        stepping.set()
        assert (await read(client)).endswith(b"0\r\n\r\n")
        record = bench.only_record()
        assert (record.status, record.output_tokens_delivered) == (Status.OK, 2000)
        assert record.error_type is ErrorType.CLIENT_SLOW, "not the engine"
        assert record.finished_ns - record.arrival_ns > 20 * 10**9

    run_served(run_bench, test, Limits(deliver_s=10, engine_s=60))


def test_a_whole_reply_that_nobody_reads_is_booked_and_its_connection_closed(run_bench: Run, ask: Ask) -> None:
    async def test(bench: Any, server: Server) -> None:
        await server.say(request(ask(max_tokens=5000)))
        await until(lambda: booked(bench), 15)
        record = bench.only_record()
        assert (record.status, record.output_tokens_delivered) == (Status.OK, 5000), (
            "its record came before its last byte"
        )
        await until(lambda: "loraledger_connections_open 0.0" in bench.scrape(), 20)

    run_served(run_bench, test)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"POST /v1/chat/comp",
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nx-a: b\r\n",
        b"GET /nothing HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nhalf",
        b"GET /health HTTP/1.1\r\nhost: x\r\n\r\nGET /hea",
    ],
)
def test_an_idle_or_half_sent_connection_is_closed(sent: bytes, run_bench: Run) -> None:
    async def test(bench: Any, server: Server) -> None:
        clients = [await server.say(sent) for _ in range(40)]
        await until(lambda: "loraledger_connections_open 40.0" in bench.scrape())
        async with asyncio.timeout(3):
            await asyncio.gather(*map(read, clients))
        await until(lambda: "loraledger_connections_open 0.0" in bench.scrape())
        assert booked(bench) == [], "nothing whole came, so nothing is booked"

    run_served(run_bench, test)


def test_headers_sent_one_by_one_do_not_keep_a_connection(run_bench: Run) -> None:
    async def test(bench: Any, server: Server) -> None:
        client = await server.say(b"GET /v1/models HTTP/1.1\r\n")
        with contextlib.suppress(ConnectionError):
            for _ in range(3000):
                await asyncio.get_running_loop().sock_sendall(client, b"x-a: y\r\n")
                await asyncio.sleep(0.02)
            pytest.fail("three thousand headers were taken, each for itself")

    run_served(run_bench, test)


def test_a_refusal_can_be_read_though_the_request_was_not(run_bench: Run, ask: Ask) -> None:
    async def test(bench: Any, server: Server) -> None:
        loop = asyncio.get_running_loop()
        head, _, body = request(ask("x" * 200_000), "nobody").partition(b"\r\n\r\n")
        for _ in range(2):
            client = await server.say(head + b"\r\n\r\n")
            reply = await loop.sock_recv(client, 65536)
            for part in (body[:1000], body[1000:]):
                await loop.sock_sendall(client, part)
                await asyncio.sleep(0.05)
            while part := await loop.sock_recv(client, 65536):
                reply += part
            assert reply.startswith(b"HTTP/1.1 401")
            assert json.loads(reply.partition(b"\r\n\r\n")[2])["error"]["code"] == "invalid_api_key"

    run_served(run_bench, test)


def test_a_half_sent_body_is_a_bad_request_and_the_connection_closes(run_bench: Run, ask: Ask) -> None:
    async def test(bench: Any, server: Server) -> None:
        async with asyncio.timeout(3):
            reply = await read(await server.say(request(ask(), send=5)))
        assert reply.startswith(b"HTTP/1.1 408")
        assert b"connection: close" in reply
        assert bench.only_record().status is Status.BAD_REQUEST

    run_served(run_bench, test)


def test_a_client_that_closes_its_side_has_hung_up(run_bench: Run, ask: Ask) -> None:
    async def test(bench: Any, server: Server) -> None:
        for body in (ask(max_tokens=LONG), ask(stream=True, max_tokens=LONG)):
            client = await server.say(request(body))
            await until(lambda: bench.engine.state().kv_blocks_used)
            client.shutdown(socket.SHUT_WR)
            await until(lambda: not bench.engine.state().kv_blocks_used)
        await until(lambda: len(booked(bench)) == 2)
        assert {record.status for record in bench.records()} == {Status.CLIENT_ABORT}

    run_served(run_bench, test)


def test_floods_are_cut_off(run_bench: Run, ask: Ask) -> None:
    async def test(bench: Any, server: Server) -> None:
        async with asyncio.timeout(5):
            head = await server.say(b"GET / HTTP/1.1\r\nx-a: ")
            with contextlib.suppress(ConnectionError):
                await asyncio.get_running_loop().sock_sendall(head, b"a" * (1 << 20))
            assert (await read(head)).startswith((b"HTTP/1.1 431", b""))
            bench.engine.switches.stepping.clear()
            piped = await server.say(request(ask()) * 30)
            await read(piped)
        assert 'loraledger_connections_closed_total{what="flood"} 2.0' in bench.scrape()
        bench.engine.switches.stepping.set()
        large = await server.say(request(ask("word " * 40_000)))
        assert (await asyncio.get_running_loop().sock_recv(large, 100)).startswith(b"HTTP/1.1 200"), (
            "a large body is none"
        )

    run_served(run_bench, test)


def test_connections_are_bounded_by_address_and_in_total(run_bench: Run) -> None:
    async def test(bench: Any, server: Server) -> None:
        kept = [await server.say(b"GET ") for _ in range(3)]
        async with asyncio.timeout(3):
            refused = await read(await server.say(b""))
        assert refused.startswith(b"HTTP/1.1 503")
        assert b"too_many_connections" in refused
        assert b"retry-after: 1" in refused
        assert 'loraledger_connections_closed_total{what="address"} 1.0' in bench.scrape()
        kept.pop().close()
        await until(lambda: "loraledger_connections_open 2.0" in bench.scrape())
        other = await server.say(b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        assert (await read(other)).startswith(b"HTTP/1.1 200")

    run_served(run_bench, test, Limits(connections=10, connections_per_address=3, idle_s=20))


def test_what_counts_as_one_address() -> None:
    assert neighbourhood("10.0.0.7") == neighbourhood("::ffff:10.0.0.7") == "10.0.0.7"
    assert neighbourhood("2001:db8::1") == neighbourhood("2001:db8::ffff:2") != neighbourhood("2001:db8:0:1::1")
    assert neighbourhood("") == ""
    with pytest.raises(ValueError, match="not-a-network"):
        Connections(Limits(), Metrics(), ["not-a-network"])


def test_it_ends_in_time_and_in_order_with_ten_clients_that_do_not_read_and_ten_that_do_not_send(
    run_bench: Run, ask: Ask
) -> None:
    async def test(bench: Any) -> None:
        limits = Limits(hurry_s=0.3, drain_s=3)
        server = Server(bench, limits, ())
        await asyncio.sleep(0.05)
        await asyncio.gather(*[server.say(request(ask(stream=True, max_tokens=LONG))) for _ in range(10)])
        await asyncio.gather(*[server.say(request(ask(), send=9)) for _ in range(10)])
        for _ in range(10):
            server.connect()
        await server.say(request(ask(max_tokens=40_000)))
        await until(lambda: len(bench.gateway.app._clients._here) == 21)
        await asyncio.sleep(0.3)
        assert await server.end() < 8
        records = bench.records()
        assert len(bench.opened()) == len(records) == 21
        assert [record.error_type for record in records].count(ErrorType.CLIENT_SLOW) == 10
        assert {record.status for record in records} >= {Status.CLIENT_ABORT, Status.BAD_REQUEST}

    run_bench(test, device=FAST, limits=Limits(hurry_s=0.3, drain_s=3))


@pytest.mark.parametrize(("proxies", "limited"), [((), True), (("127.0.0.1",), False), (("127.0.0.0/8", "::1"), False)])
def test_wrong_keys_are_limited_by_the_address_that_a_trusted_proxy_names(
    proxies: tuple[str, ...], limited: bool, run_bench: Run, ask: Ask
) -> None:
    limits = Limits(unauthenticated_per_minute=2)

    async def test(bench: Any) -> None:
        async with serving(bench, limits, proxies) as server:
            statuses = []
            for n in range(6):
                where = f"x-forwarded-for: 9.9.9.{n}, 127.0.0.1"
                reply = await read(await server.say(request(ask(), "nobody", "/v1/chat/completions", where)))
                statuses.append(reply.split(b" ")[1])
            assert statuses == ([b"401"] * 2 + [b"429"] * 4 if limited else [b"401"] * 6)

    run_bench(test, limits=limits)

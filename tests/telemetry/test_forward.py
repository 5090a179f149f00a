from __future__ import annotations

import http.server
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from telemetry.forward import Both, Forwarder
from telemetry.otlp_decode import parse_line
from telemetry.otlp_encode import span_line
from telemetry.spool import Spool


def line(number: int) -> str:
    return span_line("a" * 32, f"{number + 1:016x}", "", f"span {number}", 10, 20, {"n": number}, {"service.name": "s"})


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not true():
        assert time.monotonic() < deadline, "waited 10 s in vain"
        time.sleep(0.002)


@contextmanager
def collector(answer: Callable[[bytes], int]) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            assert self.path == "/v1/traces"
            self.send_response(answer(body))
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *args: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_lines_arrive_as_one_message_after_another_and_none_twice(tmp_path: Any) -> None:
    got: list[bytes] = []

    def take(body: bytes) -> int:
        got.append(body)
        return 200

    with collector(take) as address:
        spool, forwarder = Spool(tmp_path), Forwarder(address)
        both = Both(spool, forwarder)
        for number in range(300):
            both.append(line(number))
        forwarder.close(5)
        spool.close()
    names = [span.span_name for body in got for span in parse_line(body).spans]
    assert names == [f"span {number}" for number in range(300)]
    assert (forwarder.sent, forwarder.dropped, spool.lines) == (300, 0, 300)


def test_a_collector_that_stumbles_gets_the_message_again_and_one_that_refuses_does_not() -> None:
    answers: Iterator[int | OSError] = iter([OSError("down"), 503, 429, 200, 400, 200])
    seen: list[bytes] = []

    def post(message: bytes) -> int:
        seen.append(message)
        answer = next(answers)
        if isinstance(answer, OSError):
            raise answer
        return answer

    forwarder = Forwarder("http://x.test", retry_s=0.001, post=post)
    for number, (sent, dropped) in enumerate([(1, 0), (1, 1), (2, 1)]):
        forwarder.offer(line(number))
        until(lambda sent=sent, dropped=dropped: (forwarder.sent, forwarder.dropped) == (sent, dropped))  # type: ignore[misc]
    forwarder.close()
    assert [json.loads(body)["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["name"] for body in seen] == [
        *["span 0"] * 4, "span 1", "span 2",
    ]  # fmt: skip


def test_a_collector_that_hangs_costs_nobody_time_and_every_line_is_accounted_for() -> None:
    hang = threading.Event()

    def post(message: bytes) -> int:
        hang.wait()
        return 200

    forwarder = Forwarder("http://x.test", queue_bytes=20 * len(line(0)), post=post)
    kept = sum(forwarder.offer(line(number % 10)) for number in range(5000))
    assert not hang.is_set(), "all were offered while the collector hung"
    assert 20 <= kept <= 21
    assert forwarder.dropped == 5000 - kept
    hang.set()
    forwarder.close(5)
    assert forwarder.sent + forwarder.dropped == 5000


def test_closing_before_a_dead_collector_ends_in_time_and_counts_the_rest() -> None:
    asked: list[bytes] = []

    def post(message: bytes) -> int:
        asked.append(message)
        raise ConnectionRefusedError("nobody there")

    forwarder = Forwarder("http://x.test", retry_s=60, post=post)
    for number in range(3):
        forwarder.offer(line(number))
    forwarder.close(0.05)
    assert len(asked) <= 1, "it did not wait for the next try"
    assert (forwarder.sent, forwarder.dropped) == (0, 3)
    assert not forwarder.offer(line(9))


@pytest.mark.parametrize("endpoint", ["127.0.0.1:4318", "grpc://x:4317", "http://"])
def test_an_endpoint_that_is_not_http_is_refused(endpoint: str) -> None:
    with pytest.raises(ValueError, match="4318"):
        Forwarder(endpoint)

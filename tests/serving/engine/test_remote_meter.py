"""An engine that stands alone: its meter's figures arrive at an OTLP endpoint, and a bad flag is named before it starts."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from serving.errors import ServingError
from serving.inside.recorder import Recorder
from serving.wire.channel import Sender
from serving.wire.events import Rows
from serving.wire.remote import start
from telemetry.engine_time import EngineSession, MeterWindow, SessionEvent
from telemetry.names import EventName
from telemetry.otlp_decode import EventRow, parse_line


class Endpoint(HTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.events: list[EventRow] = []
        self.refusals = 2
        self.over = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        self.server.refusals -= 1
        late = self.server.refusals >= 0
        if not late:
            assert self.path == "/v1/logs"
            self.server.events += parse_line(body).events
        self.send_response(503 if late else 200)
        self.end_headers()
        if any(SessionEvent.STOPPED in event.body for event in self.server.events):
            self.server.over.set()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as made:
        thread = threading.Thread(target=made.serve_forever, daemon=True)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def test_windows_and_sessions_arrive_after_a_collector_that_was_busy_and_join_by_attempt(endpoint: Endpoint) -> None:
    remote = start({"otlp_endpoint": endpoint.url, "engine": "gpu-7", "gpu_type": "h100", "gpu_count": 8})
    sender = Sender(remote.address)
    recorder = Recorder(sender.send)
    recorder.hello(remote.emitter, remote.engine)
    recorder.entered("chat-1", "gw-9:4", "bank", None, 4)
    for n in range(3):
        entry = time.monotonic_ns()
        recorder.began(n, entry, Rows(["chat-1"], [4 if n == 0 else 1], [0 if n == 0 else 3 + n]), (), ())
        time.sleep(0.002)
        if n == 2:
            recorder.left("chat-1")
        recorder.ended(n, time.monotonic_ns(), [n < 2].pop)
    recorder.bye()
    sender.close()
    assert endpoint.over.wait(60)
    deadline = time.monotonic() + 30
    while Path(remote.address.removeprefix("ipc://")).parent.exists():
        assert time.monotonic() < deadline, "it is over when the engine is"
        time.sleep(0.05)

    sessions = [EngineSession.from_json(e.body) for e in endpoint.events if e.name == EventName.SESSION]
    assert [moment.event for moment in sessions] == [SessionEvent.STARTED, SessionEvent.UP, SessionEvent.STOPPED]
    assert {(moment.emitter, moment.gpu_type, moment.gpu_count) for moment in sessions} == {(remote.emitter, "h100", 8)}
    windows = [MeterWindow.from_json(e.body) for e in endpoint.events if e.name == EventName.WINDOW]
    for window in windows:
        window.check()
    assert [window.seq for window in windows] == list(range(len(windows)))
    assert all(one.end_ns == other.start_ns for one, other in pairwise(windows))
    shares = [share for window in windows for share in window.shares]
    assert {(share.attempt, share.tenant) for share in shares} == {("gw-9:4", "bank")}
    assert sum(window.steps for window in windows) == 3


@pytest.mark.parametrize(
    ("settings", "fact"),
    [
        ({"otlp_endpoint": "http://x", "engine": "gpu-7"}, "gpu_type"),
        ({"otlp_endpoint": "http://x", "engine": "gpu-7", "gpu_type": "h100", "gpus": 8}, "gpus"),
    ],
)
def test_a_wrong_flag_is_named(settings: dict[str, Any], fact: str) -> None:
    with pytest.raises(ServingError, match=fact):
        start(settings)

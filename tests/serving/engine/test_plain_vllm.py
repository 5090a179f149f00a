"""A plain vLLM server with nothing of ours but the plugin and one flag: its figures arrive at an OTLP endpoint and add up."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest

from catalog.model import Engine
from loraledger import calibrate
from serving.engine.tiny_model import TinyModel, builtin_path
from serving.step_model.sample import StepSample
from telemetry.engine_time import AdapterLoad, EngineSession, MeterWindow, SessionEvent
from telemetry.names import EventName
from telemetry.otlp_decode import EventRow, parse_line

pytestmark = pytest.mark.engine

PATIENCE_S = 120.0
ADAPTER = "icd10-coder"
PHASES = 4


class Endpoint(ThreadingHTTPServer):
    """A collector that keeps the log events it is sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Logs)
        self.events: list[EventRow] = []
        self.over = threading.Event()


class _Logs(BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        assert self.path == "/v1/logs"
        events = parse_line(self.rfile.read(int(self.headers["content-length"])).decode()).events
        self.server.events += events
        self.send_response(200)
        self.end_headers()
        if any(SessionEvent.STOPPED in event.body for event in events):
            self.server.over.set()

    def log_message(self, *_: Any) -> None:
        pass


@dataclass(frozen=True)
class Heard:
    replies: dict[str, dict[str, Any]]
    sessions: list[EngineSession]
    windows: list[MeterWindow]
    loads: list[AdapterLoad]
    steps: list[StepSample]


def _command(model: str, adapter: str, port: int, endpoint: str, steps: Path) -> list[str]:
    meter = {"otlp_endpoint": endpoint, "engine": "gpu-7", "gpu_type": "h100", "gpu_count": 1, "steps": str(steps)}
    return [
        *(sys.executable, "-m", "vllm.entrypoints.launchers.api_server.entry"),
        *("--model", model, "--served-model-name", "tiny", "--host", "127.0.0.1", "--port", str(port)),
        *("--max-model-len", "512", "--max-num-seqs", "8", "--kv-cache-memory-bytes", str(32 << 20), "--enable-lora"),
        *("--distributed-executor-backend", "uni", "--max-lora-rank", "64", "--lora-modules", f"{ADAPTER}={adapter}"),
        *("--additional-config", json.dumps({"loraledger": meter})),
    ]


def _ask(client: httpx.Client, model: str, attempt: dict[str, str]) -> dict[str, Any]:
    body: dict[str, Any] = {"model": model, "max_tokens": 12, "ignore_eos": True}
    body |= {"messages": [{"role": "user", "content": "hello"}], "vllm_xargs": attempt}
    reply = client.post("/v1/chat/completions", json=body)
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


def _until_up(client: httpx.Client, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        assert server.poll() is None, log.read_text(errors="replace")[-3000:]
        try:
            if client.get("/health").status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.2)
    raise TimeoutError(log.read_text(errors="replace")[-3000:])


@pytest.fixture(scope="module")
def heard(tiny: TinyModel, tmp_path_factory: pytest.TempPathFactory) -> Heard:
    directory = tmp_path_factory.mktemp("plain")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environ = {
        **os.environ,
        "VLLM_PLUGINS": "loraledger",
        "VLLM_NO_USAGE_STATS": "1",
        "OMP_NUM_THREADS": "1",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    }
    environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    replies = {}
    with Endpoint() as endpoint:
        threading.Thread(target=endpoint.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{endpoint.server_port}"
        model, adapter = str(builtin_path("builtin:tiny", tiny)), str(builtin_path("builtin:adapter/0", tiny))
        log = directory / "server.log"
        with log.open("wb") as output:
            server = subprocess.Popen(
                _command(model, adapter, port, url, directory / "steps.jsonl"),
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environ,
            )
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
                _until_up(client, server, log)
                replies["bank"] = _ask(client, ADAPTER, {"ll_attempt": "gw-9:4", "ll_tenant": "bank"})
                replies["unknown"] = _ask(client, "tiny", {})
            calibrate.drive_by_http(
                f"http://127.0.0.1:{port}", Engine(id="gpu-7", gpu_type="h100"), PHASES, 1, lambda _: None
            )
        finally:
            server.send_signal(signal.SIGTERM)
            try:
                server.wait(60)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
        assert endpoint.over.wait(60), log.read_text(errors="replace")[-3000:]
        endpoint.shutdown()
    bodies: dict[str, list[str]] = {}
    for event in endpoint.events:
        bodies.setdefault(event.name, []).append(event.body)
    return Heard(
        replies,
        [EngineSession.from_json(body) for body in bodies[EventName.SESSION]],
        [MeterWindow.from_json(body) for body in bodies[EventName.WINDOW]],
        [AdapterLoad.from_json(body) for body in bodies.get(EventName.LOAD, [])],
        calibrate.read_steps([directory / "steps.jsonl"]),
    )


def test_its_steps_are_kept_for_a_calibration_by_http(heard: Heard) -> None:
    """Every step with rows is there once, in phases that the pauses between them part; the catalog's load was driven through."""
    assert 0 < len(heard.steps) <= sum(window.steps for window in heard.windows)
    assert {step.phase for step in heard.steps} >= set(range(PHASES))
    tokens = sum(row.prefill + row.decode for step in heard.steps for row in step.rows)
    assert tokens == sum(
        share.prefill_tokens + share.decode_tokens for window in heard.windows for share in window.shares
    )
    assert {row.adapter for step in heard.steps for row in step.rows} == {ADAPTER, None}
    assert all(step.duration_ns > 0 for step in heard.steps)


def test_the_life_of_the_engine_is_told(heard: Heard) -> None:
    assert [s.event for s in heard.sessions if s.event is not SessionEvent.HEARTBEAT] == [
        SessionEvent.STARTED,
        SessionEvent.UP,
        SessionEvent.STOPPED,
    ]
    assert {(s.engine, s.gpu_type, s.gpu_count) for s in heard.sessions} == {("gpu-7", "h100", 1)}


def test_its_windows_follow_each_other_and_every_nanosecond_has_an_owner(heard: Heard) -> None:
    for window in heard.windows:
        window.check()
        assert window.unattributed_ns == 0
    assert [window.seq for window in heard.windows] == list(range(len(heard.windows)))
    assert all(one.end_ns == other.start_ns for one, other in pairwise(heard.windows))


def test_shares_join_by_attempt_and_what_came_without_one_is_unknown(heard: Heard) -> None:
    calls = {row.key for step in heard.steps for row in step.rows if row.key.startswith("cmpl-")}
    shares = [share for window in heard.windows for share in window.shares if share.attempt not in calls]
    assert calls
    assert {(share.tenant, share.adapter) for share in shares} == {("bank", ADAPTER), ("unknown", None)}
    for tenant, reply in heard.replies.items():
        mine = [share for share in shares if share.tenant == tenant]
        assert sum(share.prefill_tokens for share in mine) == reply["usage"]["prompt_tokens"]
        # The token of the prefill step comes without a decode.
        assert sum(share.decode_tokens for share in mine) == reply["usage"]["completion_tokens"] - 1
        assert sum(share.base_ns for share in mine) > 0
        assert (sum(share.adapter_ns for share in mine) > 0) == (tenant == "bank")
    assert {share.attempt for share in shares if share.tenant == "bank"} == {"gw-9:4"}


def test_the_adapters_load_is_cold_time(heard: Heard) -> None:
    assert [load.adapter for load in heard.loads] == [ADAPTER]
    assert heard.loads[0].engine_ns == sum(window.cold_ns.get(ADAPTER, 0) for window in heard.windows) > 0

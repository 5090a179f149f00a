"""What telemetry costs a request: CPU time, and latency, each as a paired difference with its 95 % interval.

`python -m bench.telemetry_cost` sends pairs of equal requests through two gateways of one process, before one deterministic engine:
one with everything on (spans, record, events, metrics, a spool on a real disk, a collector over loopback), one in which all of
that does nothing. The order inside a pair is drawn. To the difference of a pair in the serving thread comes what the spool's writer and the sender to
the collector took, by their own CPU clocks, divided by the requests they worked for.
It is compared with the CPU time of a request on a real engine: `--server URL PID` sends the demo's traffic to a running
`loraledger serve` and reads the CPU time of its processes. Without it, the engine time of the recorded month (`examples/`) stands
in, which leaves out everything but the engine's steps. Both have a tiny model; a bigger one makes the share smaller.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import psutil

from catalog.load import parse
from loraledger.load import drive
from loraledger.recording import read_recording
from loraledger.traffic import calls
from serving.attempt.catalog_source import CatalogSource
from serving.attempt.limits import Clock
from serving.engine.door import AdapterFiles
from serving.gateway.build import Gateway, build_gateway
from telemetry.engine_time import Opened
from telemetry.forward import Both, Forwarder
from telemetry.metrics import Metrics
from telemetry.names import Attr
from telemetry.otlp_decode import parse_line
from telemetry.routes import RouteRecord
from telemetry.spool import Spool
from telemetry.tracing import Tracing
from telemetry.usage import UsageRecord
from tests.fakes.fake_engine import FakeEngine, ManualClock

ROOT: Final = Path(__file__).parents[1]
LIMIT: Final = 0.02
WARM_UP: Final = 50
BODY: Final = json.dumps(
    {
        "model": "icd10-coder",
        "max_tokens": 16,
        "messages": [{"role": "user", "content": "code this discharge letter " * 12}],
    }
).encode()
Took = tuple[int, int]
"""CPU and wall nanoseconds of one request."""
Pair = tuple[Took, Took]
"""With telemetry and without."""
SINK: Final = """
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()
    def log_message(self, *args): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""


def done() -> Future[None]:
    future: Future[None] = Future()
    future.set_result(None)
    return future


class Nothing:
    """Takes every call and does nothing. A future where one is waited for."""

    trace_id, sampled, traceparent = "0" * 32, False, ""
    lines = errors = dropped = held_bytes = encode_failures = 0
    refused = None

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: None

    def append(self, line: str) -> Future[None]:
        return done()

    def attempt(self, *args: Any) -> Nothing:
        return self

    def close(self, *args: Any) -> Future[None]:
        return done()


@contextmanager
def events_off() -> Iterator[None]:
    """The lines that the gateway itself writes for the spool are telemetry as well."""
    nothing: Any = lambda *args: ""  # noqa: E731
    with (
        patch("serving.attempt.telling.event_line", nothing),
        patch.object(Opened, "to_json", nothing),
        patch.object(RouteRecord, "to_json", nothing),
    ):
        yield


def gateway(
    home: Path, spool: Any, tracing: Any, metrics: Any, forwarder: Forwarder | None
) -> tuple[Gateway, FakeEngine]:
    clock = ManualClock()
    engine = FakeEngine(clock)

    def files(adapter: Any) -> AdapterFiles:
        return AdapterFiles(adapter.name, Path("/none"), "ab" * 32, adapter.rank, 1000)

    built = build_gateway(
        door=engine, source=CatalogSource(home / "catalog.yaml"), spool=spool, tracing=tracing, metrics=metrics, secret=b"s" * 32,
        read_adapter=files, clock=Clock(clock.utc_ns, clock.mono_ns), forwarder=forwarder,
    )  # fmt: skip
    return built, engine


async def ask(built: Gateway) -> Took:
    """One request: CPU nanoseconds of this thread and wall nanoseconds, until its last byte."""
    sent: list[Any] = []
    scope = {
        "type": "http", "method": "POST", "path": "/v1/chat/completions", "client": ("10.0.0.1", 1),
        "headers": [(b"authorization", b"Bearer demo-key-clinic")],
    }  # fmt: skip
    given = False

    async def receive() -> Any:
        nonlocal given
        if given:
            await asyncio.Event().wait()
        given = True
        return {"type": "http.request", "body": BODY, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    cpu, wall = time.thread_time_ns(), time.perf_counter_ns()
    await built.app(scope, receive, send)
    took = time.thread_time_ns() - cpu, time.perf_counter_ns() - wall
    assert sent[0]["status"] == 200, sent
    return took


def used_by(*threads: threading.Thread) -> int:
    """CPU nanoseconds that these threads have had."""
    return sum(time.clock_gettime_ns(time.pthread_getcpuclockid(one.ident)) for one in threads if one.ident is not None)


async def measure(pairs: int, seed: int, home: Path, collector: str) -> tuple[list[Pair], float]:
    """The pairs, and what the threads beside them took for one request, nanoseconds."""
    spool, forwarder = Spool(home / "spool"), Forwarder(collector)
    on, engine_on = gateway(home, spool, Tracing(Both(spool, forwarder)), Metrics(), forwarder)
    off, engine_off = gateway(home, Nothing(), Nothing(), Nothing(), None)
    await on.start()
    await off.start()
    drawn, found = random.Random(seed), []

    async def silent() -> Took:
        with events_off():
            return await ask(off)

    for _ in range(WARM_UP):  # fills caches
        await ask(on)
        await silent()
    before = used_by(spool._writer, forwarder._thread)
    for _ in range(pairs):
        if drawn.random() < 0.5:
            with_it, without = await ask(on), await silent()
        else:
            without, with_it = await silent(), await ask(on)
        found.append((with_it, without))
    await asyncio.sleep(1)  # the sender lingers
    beside = used_by(spool._writer, forwarder._thread) - before
    for built, engine in ((on, engine_on), (off, engine_off)):
        await built.stop(1.0)
        await engine.stop()
    spool.close()
    forwarder.close()
    assert spool.dropped == forwarder.dropped == 0
    return found, beside / pairs


def recorded_request_ns() -> float:
    """Mean engine time of the attempts of the recorded month that ran, nanoseconds."""
    times = []
    for line in read_recording(ROOT / "examples" / "recorded-month.jsonl.gz"):
        for span in parse_line(line).spans:
            if Attr.USAGE_RECORD in span.span_attributes:
                record = UsageRecord.from_json(span.span_attributes[Attr.USAGE_RECORD])
                if record.slices:
                    times.append(sum(part.measured_ns for part in record.slices))
    return statistics.mean(times)


def server_request_ns(url: str, pid: int, requests: int = 240) -> float:
    """CPU time of the server and its engine for one request of the demo's traffic, nanoseconds."""

    def used() -> float:
        process = psutil.Process(pid)
        times = [one.cpu_times() for one in (process, *process.children(recursive=True))]
        return float(sum(one.user + one.system for one in times))

    plan, before = calls(1, requests), used()
    report = asyncio.run(drive(url, plan, at_once=12, budget_s=120, done=lambda _: None))
    return (used() - before) / report.statuses.total() * 1e9


def interval(
    values: list[float], seed: int, of: Any = statistics.mean, draws: int = 1000
) -> tuple[float, float, float]:
    """The statistic and its 95 % bootstrap interval."""
    drawn = random.Random(seed)
    means = sorted(of(drawn.choices(values, k=len(values))) for _ in range(draws))
    return of(values), means[int(draws * 0.025)], means[int(draws * 0.975) - 1]


def result(pairs: int, seed: int, server: tuple[str, int] | None = None) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        text = (ROOT / "examples" / "catalog.yaml").read_text()
        parse(text, "examples/catalog.yaml")
        (home / "catalog.yaml").write_text(text.replace("cpu-0", "fake-0"))
        sink = subprocess.Popen([sys.executable, "-c", SINK], stdout=subprocess.PIPE, text=True)
        try:
            assert sink.stdout is not None
            found, beside = asyncio.run(
                measure(pairs, seed, home, f"http://127.0.0.1:{sink.stdout.readline().strip()}")
            )
        finally:
            sink.terminate()
            sink.wait(10)
            assert sink.stdout is not None
            sink.stdout.close()
    cpu = interval([(on[0] - off[0] + beside) / 1e6 for on, off in found], seed)
    wall = interval([(on[1] - off[1]) / 1e6 for on, off in found], seed, statistics.median)
    request = (server_request_ns(*server) if server else recorded_request_ns()) / 1e6
    return {
        "pairs": pairs,
        "cpu_ms": cpu,
        "of_it_beside_ms": beside / 1e6,
        "latency_ms": wall,
        "gateway_cpu_without_ms": statistics.mean(off[0] for _, off in found) / 1e6,
        "request_ms": request,
        "request_is": "CPU time on the given server" if server else "engine time in the recorded month",
        "share": [value / request for value in cpu],
        "limit": LIMIT,
        "met": cpu[2] / request <= LIMIT,
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--pairs", type=int, default=2000)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--server", nargs=2, metavar=("URL", "PID"), help="a running `loraledger serve`")
    options.add_argument("--json", action="store_true")
    chosen = options.parse_args()
    server = (chosen.server[0], int(chosen.server[1])) if chosen.server else None
    found = result(chosen.pairs, chosen.seed, server)
    if chosen.json:
        print(json.dumps(found, indent=1))
        return
    print(f"{found['pairs']} pairs; mean or median of the differences [95 % interval]")
    print("telemetry CPU    {:6.3f} ms a request [{:.3f}, {:.3f}]".format(*found["cpu_ms"]))
    print("latency, median  {:6.3f} ms a request [{:.3f}, {:.3f}]".format(*found["latency_ms"]))
    print(f"a request        {found['request_ms']:6.1f} ms ({found['request_is']}, tiny model)")
    share = " [{:.2%}, {:.2%}]".format(*found["share"][1:])
    print(f"share            {found['share'][0]:6.2%}{share}: {LIMIT:.0%} {'kept' if found['met'] else 'MISSED'}")


if __name__ == "__main__":
    main()

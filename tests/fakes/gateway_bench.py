"""A gateway before the fake engine, with everything it wrote in reach."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.types import Message, Scope

from catalog.model import Adapter
from serving.attempt.catalog_source import CatalogSource
from serving.attempt.limits import Clock, Limits
from serving.engine.door import AdapterFiles
from serving.errors import AdapterLoadFailed
from serving.gateway.build import Gateway, build_gateway
from telemetry.engine_time import Opened
from telemetry.forward import Both, Forwarder
from telemetry.metrics import Metrics
from telemetry.names import Attr, EventName
from telemetry.otlp_decode import EventRow, SpanRow, parse_line
from telemetry.routes import RouteRecord
from telemetry.spool import Spool, read_spool
from telemetry.spool_file import DiskFile, SpoolFile
from telemetry.tracing import Tracing
from telemetry.usage import UsageRecord
from tests.fakes.fake_engine import Device, FakeEngine, ManualClock

CHAT = "/v1/chat/completions"
TENANT = """
  - id: {id}
    name: {id}
    key_hashes: ["sha256:{key}"]
    slo: {{p99_seconds: "{slo}"}}
    plan: {{kind: cost_plus}}
    adapters: [{adapters}]
    {more}
"""
CATALOG = """
version: 1
base_model: {{name: tiny-llama}}
engines:
  - {{id: fake-0, gpu_type: demo, max_loras: 2, max_cpu_loras: {host_tier}, block_size: 16, max_model_len: 4096}}
adapters:
  - {{name: coder, path: /adapters/coder, rank: 8, owner: clinic, memory_budget_bytes: 1000000}}
  - {{name: tone, path: /adapters/tone, rank: 8, owner: clinic}}
  - {{name: lingo, path: /adapters/lingo, rank: 8, owner: bank, warm: true}}
  - {{name: risk, path: /adapters/risk, rank: 8, owner: bank}}
tenants:
{tenants}
routing:
  - {{id: explicit, kind: explicit}}
  - {{id: codes, kind: content, pattern: 'ICD', adapter: coder}}
  - {{id: default, kind: tenant_default}}
  - {{id: base, kind: base}}
prices:
  version: v1
  gpu_hours: [{{gpu_type: demo, start: 2026-01-01T00:00:00Z, per_hour: "1"}}]
seller: {{name: S, address: [A], tax_id: T, email: e@example.com}}
"""


def catalog_of(host_tier: int = 4, clinic: str = "", slo: str = "5") -> str:
    def tenant(name: str, adapters: str, more: str = "") -> str:
        key = hashlib.sha256(f"key-{name}".encode()).hexdigest()
        return TENANT.format(id=name, key=key, slo=slo, adapters=adapters, more=more)

    tenants = tenant("clinic", "coder, tone", clinic) + tenant("bank", "lingo, risk", "default_adapter: lingo")
    return CATALOG.format(host_tier=host_tier, tenants=tenants)


class Disk:
    """Opens spool files whose syncs can be watched, delayed or refused."""

    def __init__(self) -> None:
        self.refuse = False
        self.on_sync: Callable[[], None] = lambda: None

    def open(self, path: Path) -> SpoolFile:
        return _File(self, path)


class _File(DiskFile):
    def __init__(self, disk: Disk, path: Path) -> None:
        super().__init__(path)
        self._disk = disk

    def sync(self) -> None:
        self._disk.on_sync()
        if self._disk.refuse:
            raise OSError(28, "No space left on device")
        super().sync()


@dataclass
class Raw:
    """One request over bare ASGI, so that the test decides when the client hangs up."""

    body: bytes
    sent: list[Message] = field(default_factory=list)
    hang_up: asyncio.Event = field(default_factory=asyncio.Event)
    on_send: Callable[[Message], None] = lambda message: None
    body_given: bool = False

    async def receive(self) -> Message:
        if not self.body_given:
            self.body_given = True
            return {"type": "http.request", "body": self.body, "more_body": False}
        await self.hang_up.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self.sent.append(message)
        self.on_send(message)

    def text(self) -> str:
        return b"".join(m.get("body", b"") for m in self.sent).decode()


@dataclass
class Bench:
    """The gateway and its surroundings; `key` names whose key a call uses."""

    directory: Path
    clock: ManualClock
    engine: FakeEngine
    gateway: Gateway
    spool: Spool
    metrics: Metrics
    disk: Disk
    source: CatalogSource
    catalog_path: Path

    def client(self) -> httpx.AsyncClient:
        transport = httpx.ASGITransport(app=self.gateway.app, raise_app_exceptions=True)
        return httpx.AsyncClient(transport=transport, base_url="http://gateway")

    async def post(self, body: Any, key: str | None = "clinic", path: str = CHAT, **headers: str) -> httpx.Response:
        """`body` is sent as JSON, or as it is when it is bytes."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        if key is not None:
            headers["authorization"] = f"Bearer key-{key}"
        async with self.client() as client:
            return await client.post(path, content=content, headers=headers)

    async def get(self, path: str, key: str | None = "clinic", **headers: str) -> httpx.Response:
        if key is not None:
            headers["authorization"] = f"Bearer key-{key}"
        async with self.client() as client:
            return await client.get(path, headers=headers)

    async def raw(self, call: Raw, key: str = "clinic", path: str = CHAT) -> None:
        scope: Scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "headers": [(b"authorization", f"Bearer key-{key}".encode())],
            "client": ("10.0.0.1", 1),
        }
        await self.gateway.app(scope, call.receive, call.send)

    def lines(self) -> list[str]:
        return [line for _, line in read_spool(self.directory / "spool")]

    def spans(self) -> list[SpanRow]:
        return [span for line in self.lines() for span in parse_line(line).spans]

    def events(self, name: str) -> list[EventRow]:
        return [event for line in self.lines() for event in parse_line(line).events if event.name == name]

    def opened(self) -> list[Opened]:
        return [Opened.from_json(event.body) for event in self.events(EventName.OPENED)]

    def records(self) -> list[UsageRecord]:
        found = [span.span_attributes.get(Attr.USAGE_RECORD) for span in self.spans()]
        return [UsageRecord.from_json(text) for text in found if text is not None]

    def routes(self) -> list[RouteRecord]:
        return [RouteRecord.from_json(event.body) for event in self.events(EventName.ROUTE)]

    def only_record(self) -> UsageRecord:
        """The one attempt: opened once, closed once, sound."""
        (opened,), (record,) = self.opened(), self.records()
        assert (opened.emitter, opened.seq, opened.tenant) == (record.emitter, record.seq, record.tenant)
        assert record.problems() == []
        return record

    def scrape(self) -> str:
        return self.metrics.render(None)[0].decode()


RunBench = Callable[..., None]


@pytest.fixture
def run_bench(tmp_path: Path) -> RunBench:
    """Runs `test(bench)` in an event loop, with the gateway started and stopped around it; `home` sets a second one apart."""

    def run(
        test: Callable[[Bench], Awaitable[None]],
        *,
        catalog: str | None = None,
        device: Device = Device(),  # noqa: B008
        limits: Limits = Limits(),  # noqa: B008
        operator_token: str | None = None,
        start: bool = False,
        buffer_bytes: int = 64 << 20,
        forwarder: Forwarder | None = None,
        collect: Callable[[frozenset[str]], None] = lambda used: None,
        home: str = "",
    ) -> None:
        async def main() -> None:
            clock = ManualClock()
            own = tmp_path / home
            own.mkdir(exist_ok=True)
            path = own / "catalog.yaml"
            path.write_text(catalog or catalog_of())
            disk = Disk()
            spool = Spool(own / "spool", linger_s=0.0, retry_s=0.02, buffer_bytes=buffer_bytes, opener=disk.open)
            metrics = Metrics(clock=clock.mono_ns)
            engine = FakeEngine(clock, device=device)
            source = CatalogSource(path)

            def read(adapter: Adapter) -> AdapterFiles:
                if "missing" in adapter.path:
                    raise AdapterLoadFailed(adapter.name, adapter.path, "no such directory")
                digest = hashlib.sha256(adapter.path.encode()).hexdigest()
                return AdapterFiles(adapter.name, Path(adapter.path), digest, adapter.rank, 1000)

            gateway = build_gateway(
                door=engine,
                source=source,
                spool=spool,
                tracing=Tracing(Both(spool, forwarder) if forwarder is not None else spool),
                metrics=metrics,
                secret=b"s" * 32,
                read_adapter=read,
                snapshot_path=own / "snapshot.json",
                emitter="gw-test",
                clock=Clock(clock.utc_ns, clock.mono_ns),
                limits=limits,
                operator_token=operator_token,
                catalog_poll_s=0.01,
                collect_adapters=collect,
                forwarder=forwarder,
            )
            bench = Bench(own, clock, engine, gateway, spool, metrics, disk, source, path)
            try:
                if start:
                    await gateway.start()
                async with asyncio.timeout(20):
                    await test(bench)
            finally:
                disk.refuse = False
                await gateway.stop(0.0)
                await engine.stop()
                spool.close()

        asyncio.run(main())

    return run


def chat(text: str = "hello there", **fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], "max_tokens": 4, **fields}


@pytest.fixture
def ask() -> Callable[..., dict[str, Any]]:
    """A chat request of that text."""
    return chat


@pytest.fixture
def catalog_text() -> Callable[..., str]:
    """Catalog text with chosen details."""
    return catalog_of


@pytest.fixture
def raw() -> type[Raw]:
    """A request over bare ASGI."""
    return Raw

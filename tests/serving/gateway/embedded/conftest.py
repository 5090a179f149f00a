"""The gateway before the real engine: one of both for each file here."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("vllm")

from catalog.model import Adapter
from serving.attempt.catalog_source import CatalogSource
from serving.engine.adapter_store import AdapterStore
from serving.engine.door import AdapterFiles
from serving.engine.tiny_model import TinyModel, builtin_path
from serving.engine.vllm_engine import VllmEngine
from serving.engine.vllm_start import start_vllm
from serving.gateway.build import Gateway, build_gateway
from telemetry.engine_time import EngineValue
from telemetry.metrics import Metrics
from telemetry.names import Attr
from telemetry.otlp_decode import parse_line
from telemetry.spool import Spool, read_spool
from telemetry.tracing import Tracing
from telemetry.usage import UsageRecord

EXAMPLE = Path(__file__).parents[4] / "examples" / "catalog.yaml"
CHAT = "/v1/chat/completions"
PROMPT = "def total(values): return sum(values)  # " * 10


class World:
    """One engine and one gateway for the whole file."""

    def __init__(self, home: Path, directory: Path, tiny: TinyModel) -> None:
        self.runner = asyncio.Runner()
        self.values: list[EngineValue] = []
        self.directory = directory
        self.spool = Spool(directory)
        self.home, self.tiny = home, tiny
        self.store = AdapterStore(home)
        self.log_level = logging.getLogger().level
        self.door: VllmEngine
        self.gateway: Gateway

    async def start(self) -> None:
        source = CatalogSource(EXAMPLE)
        catalog = source.view.catalog
        self.door = await start_vllm(catalog.engines[0], catalog.base_model, self.home, self.values.append)
        self.gateway = build_gateway(
            door=self.door,
            source=source,
            spool=self.spool,
            tracing=Tracing(self.spool),
            metrics=Metrics(),
            secret=b"s" * 32,
            read_adapter=self.read,
        )
        await self.gateway.start()

    def read(self, adapter: Adapter) -> AdapterFiles:
        return self.store.read(adapter.name, builtin_path(adapter.path, self.tiny), adapter.rank)

    async def stop(self) -> None:
        await self.gateway.stop(1.0)
        await self.door.stop()
        self.spool.close()

    def run(self, coroutine: Any) -> Any:
        return self.runner.run(coroutine)

    async def post(self, key: str, path: str = CHAT, **fields: Any) -> httpx.Response:
        body = {"max_tokens": 12, "temperature": 0, "ignore_eos": True, **fields}
        if path == CHAT:
            body.setdefault("messages", [{"role": "user", "content": PROMPT}])
        return await self.ask("POST", path, key, json.dumps(body))

    async def ask(self, method: str, path: str, key: str, body: str | bytes = b"") -> httpx.Response:
        headers = {"authorization": f"Bearer demo-key-{key}"}
        transport = httpx.ASGITransport(app=self.gateway.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway", timeout=60) as client:
            return await client.request(method, path, content=body, headers=headers)

    def sums(self) -> tuple[int, int, int]:
        """The engine's own totals of prompt, cached and output tokens, as its front end has counted them a moment after."""
        self.run(asyncio.sleep(0.2))
        session = self.door._session
        assert session is not None
        totals = session.totals
        assert totals is not None
        return totals.prompt_tokens, totals.cached_tokens, totals.output_tokens

    def records(self) -> list[UsageRecord]:
        spans = [span for _, line in read_spool(self.directory) for span in parse_line(line).spans]
        found = [span.span_attributes.get(Attr.USAGE_RECORD) for span in spans]
        return [UsageRecord.from_json(text) for text in found if text is not None]


@pytest.fixture(scope="module")
def world(engine_home: Path, tiny: TinyModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = World(engine_home, tmp_path_factory.mktemp("spool"), tiny)
    with world.runner:
        world.run(world.start())
        yield world
        world.run(world.stop())
    del world
    # vLLM's start-up handshake leaves its context to the garbage collector: let that happen here.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()

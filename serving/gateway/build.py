"""Puts a gateway together from its parts, and runs what goes on beside the requests."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

from catalog.durations import SECOND_NS
from catalog.model import Adapter, Catalog
from serving.attempt.catalog_source import CatalogSource, View
from serving.attempt.limits import Clock, Limits
from serving.attempt.quotas import SnapshotFile, TenantQuotas
from serving.attempt.residency_door import ResidencyDoor
from serving.attempt.services import Services
from serving.attempt.steps import Steps
from serving.attempt.telling import guarded
from serving.engine.door import AdapterFiles, EngineDoor
from serving.gateway import gauges
from serving.gateway.app import GatewayApp
from serving.gateway.pages import Pages
from telemetry.engine_time import LoadCause
from telemetry.forward import Forwarder
from telemetry.metrics import Metrics
from telemetry.spool import Spool
from telemetry.tracing import Tracing

DEFAULT_HOST_TIER: Final = 8
MIN_SECRET_BYTES: Final = 16
TIDY_S: Final = 60.0


class Gateway:
    """The handle of a running gateway: `app` is served by any ASGI server, in the event loop that called `start`."""

    def __init__(
        self,
        app: GatewayApp,
        source: CatalogSource,
        residency: ResidencyDoor,
        metrics: Metrics,
        poll_s: float,
        collect_adapters: Callable[[frozenset[str]], None],
    ) -> None:
        self.app = app
        self._source, self._residency, self._metrics, self._poll_s = source, residency, metrics, poll_s
        self._collect_adapters = collect_adapters
        self._background: set[asyncio.Task[None]] = set()
        self._reloading = asyncio.Lock()

    async def start(self) -> None:
        """Load the warm adapters, then watch the catalog. A warm adapter that fails is logged, not fatal."""
        await self._residency.warm(_warm(self._source.view.catalog), LoadCause.WARM)
        self._spawn(self._watch())
        self._spawn(self._tidy())

    async def reload(self) -> bool:
        """Read the catalog file now; whether a new catalog is in force."""
        return await self._look(self._source.read)

    def reload_soon(self) -> None:
        """Read the catalog file beside what else goes on. Call from the gateway's event loop."""
        self._spawn(self._reload_once())

    def rewarm(self) -> None:
        """Another engine has taken over, without adapters: load the warm ones again. Call from the gateway's event loop."""
        self._spawn(self._residency.warm(_warm(self._source.view.catalog), LoadCause.RELOAD))

    async def stop(self, grace_s: float) -> None:
        """Refuse new attempts, give open ones `grace_s` to end, then end them; every record is written on return."""
        self.app.refuse_new()
        for task in tuple(self._background):
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        await self.app.drain(grace_s)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._poll_s)
            with guarded("the gateway's watch failed once"):
                await self._look(self._source.poll)
                await self.app.pages.engine_up()

    async def _reload_once(self) -> None:
        with guarded("the catalog could not be read again"):
            await self.reload()

    async def _look(self, look: Callable[[], View | None]) -> bool:
        """Look at the catalog's file and prepare what is new in a thread: that takes long and must hold nobody up."""
        async with self._reloading:
            view = await asyncio.to_thread(look)
            if view is None:
                return False
            await asyncio.to_thread(gauges.declare, self._metrics, view.catalog)
            before = self._source.view.catalog
            self._source.adopt(view)
        self._adopt(before, view.catalog)
        return True

    def _adopt(self, before: Catalog, catalog: Catalog) -> None:
        self._residency.adopt(catalog.adapters)
        had = {adapter.name for adapter in before.adapters}
        warm = _warm(catalog)
        new = [adapter for adapter in warm if adapter.name not in had]
        self._spawn(self._residency.warm(new, LoadCause.REGISTRATION))
        self._spawn(self._residency.warm([a for a in warm if a not in new], LoadCause.RELOAD))

    async def _tidy(self) -> None:
        """Let go of adapter copies that neither the catalog nor the engine uses any more."""
        while True:
            await asyncio.sleep(TIDY_S)
            with guarded("old adapter copies could not be collected"):
                await asyncio.to_thread(self._collect_adapters, self._residency.copies())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)


def _warm(catalog: Catalog) -> list[Adapter]:
    return [adapter for adapter in catalog.adapters if adapter.warm]


def build_gateway(
    *,
    door: EngineDoor,
    source: CatalogSource,
    spool: Spool,
    tracing: Tracing,
    metrics: Metrics,
    secret: bytes,
    read_adapter: Callable[[Adapter], AdapterFiles],
    snapshot_path: Path | None = None,
    emitter: str | None = None,
    clock: Clock | None = None,
    limits: Limits | None = None,
    operator_token: str | None = None,
    catalog_poll_s: float = 2.0,
    collect_adapters: Callable[[frozenset[str]], None] = lambda used: None,
    forwarder: Forwarder | None = None,
) -> Gateway:
    """A gateway before one engine.

    `secret` keys the tenants' cache salts (32 random bytes, the same for all gateways of one engine). `read_adapter`
    checks and copies a catalog adapter's files; `collect_adapters` removes copies of all other hashes than it is given;
    both run in a thread. `emitter` names this process in the ledger and must
    never be used twice. Without `operator_token`, /metrics, the details of /health and /v1/traces are for this host
    only. `forwarder` is what `tracing` also sends its lines to; it is only counted here.
    """
    if len(secret) < MIN_SECRET_BYTES:
        raise ValueError(f"could not build the gateway: its secret has {len(secret)} bytes, needs {MIN_SECRET_BYTES}")
    clock, limits = clock or Clock(), limits or Limits()
    engine = source.view.catalog.engine(door.engine_id)
    capacity = engine.max_cpu_loras if engine is not None else DEFAULT_HOST_TIER
    residency = ResidencyDoor(door, read_adapter, capacity, clock, limits.room_s)
    emitter = emitter or "gw-" + secrets.token_hex(6)
    snapshot = SnapshotFile(snapshot_path)
    services = Services(
        door=door,
        engine=engine,
        spool=spool,
        tracing=tracing,
        metrics=metrics,
        residency=residency,
        quotas=TenantQuotas(clock, snapshot, emitter, engine, int(limits.hold_s * SECOND_NS)),
        clock=clock,
        emitter=emitter,
        limits=limits,
        snapshot=snapshot,
        forwarder=forwarder,
    )
    gauges.declare(metrics, source.view.catalog)
    app = GatewayApp(services, source, Steps(services, secret), Pages(services, source, operator_token))
    return Gateway(app, source, residency, metrics, catalog_poll_s, collect_adapters)

"""The gateway's own pages: a tenant's models; for operators, health and metrics."""

from __future__ import annotations

import asyncio
import hmac
import json
from typing import Final

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from catalog.durations import SECOND_NS
from catalog.model import Tenant
from serving.attempt.catalog_source import CatalogSource, View
from serving.attempt.limits import Limits
from serving.attempt.services import Services
from serving.attempt.snapshot import SnapshotFile
from serving.engine.gpu_memory import Devices
from serving.gateway import gauges
from serving.gateway.drops import count_drops
from serving.gateway.otlp import SpanIntake
from serving.gateway.replies import reply
from serving.gateway.routes import MODELS
from serving.protocol import errors

LOOPBACK: Final = frozenset({"127.0.0.1", "::1"})


class Pages:
    """Answers that are no attempts. `operator_token` None: operators are who comes from this host directly."""

    def __init__(
        self,
        services: Services,
        source: CatalogSource,
        snapshot: SnapshotFile,
        limits: Limits,
        operator_token: str | None,
    ) -> None:
        self._services, self._source, self._snapshot = services, source, snapshot
        self._limits, self._operator_token = limits, operator_token
        self._devices = Devices(services.engine.gpu_count if services.engine is not None else 1)
        self._intake = SpanIntake(services.spool, limits, services.clock)
        self._scraping = asyncio.Lock()
        self._created = services.clock.utc_ns() // SECOND_NS

    async def models(self, scope: Scope, send: Send, view: View, tenant: Tenant) -> None:
        """The tenant's own models: the base model and what it is granted."""
        base = view.catalog.base_model.name
        models = {name: self._model(name, None if name == base else base) for name in (base, *tenant.adapters)}
        if scope["path"] == MODELS:
            await reply(send, 200, json.dumps({"object": "list", "data": list(models.values())}).encode())
            return
        wanted = scope["path"].removeprefix(MODELS + "/")
        if wanted in models:
            await reply(send, 200, json.dumps(models[wanted]).encode())
        else:
            await reply(send, 404, errors.unknown_model(wanted).body())

    def _model(self, name: str, parent: str | None) -> dict[str, object]:
        created = {"object": "model", "created": self._created, "owned_by": "loraledger"}
        return {"id": name, **created, "root": name, "parent": parent}

    async def health(self, scope: Scope, send: Send, stopping: bool) -> None:
        """200 while requests can be served. Details are for operators: they name tenants and files."""
        up = await self.engine_up()
        spool, refused = self._services.spool, self._source.last_error
        status = "down" if not up or stopping else "degraded" if refused or spool.refused else "ok"
        body: dict[str, object] = {"status": status}
        if self._operator(scope):
            body |= {
                "engine": {
                    "id": self._services.door.engine_id,
                    "up": up,
                    "resident": sorted(self._services.door.resident()),
                },
                "catalog": {
                    "version": self._source.view.policy.version,
                    "last_error": None if refused is None else refused.problems,
                },
                "spool": {"lines": spool.lines, "errors": spool.errors, "refused": spool.refused},
                "emitter": self._services.emitter,
                "stopping": stopping,
            }
        await reply(send, 503 if status == "down" else 200, json.dumps(body).encode())

    async def engine_up(self) -> bool:
        """Whether the engine answers now; sets its gauge."""
        try:
            async with asyncio.timeout(self._limits.health_s):
                up = await self._services.door.healthy()
        except Exception:
            up = False
        gauges.engine_up(self._services.metrics, self._services.door.engine_id, up)
        return up

    async def metrics(self, scope: Scope, send: Send) -> None:
        """The scrape. It shows every tenant's figures, so it is for operators only; to others there is nothing here."""
        if not self._operator(scope):
            await reply(send, 404, errors.error_body(404, "not_found", "There is nothing here."))
            return
        services = self._services
        await self.engine_up()
        # Many tenants and adapters make many series: what needs no state of the loop's is done beside it, one scrape at a time.
        async with self._scraping:
            catalog, state, now_ns = self._source.view.catalog, services.door.state(), services.clock.utc_ns()
            await asyncio.to_thread(
                gauges.refresh,
                services.metrics,
                catalog,
                services.door.engine_id,
                state,
                self._devices,
                services.spool,
                self._snapshot,
                now_ns,
            )
            await gauges.budgets(services.metrics, catalog, services.quotas)
            gauges.catalog_valid(services.metrics, self._source.last_error is None)
            count_drops(services.metrics, services.spool, services.tracing, services.forwarder)
            body, content_type = await asyncio.to_thread(services.metrics.render, Headers(scope=scope).get("accept"))
        await reply(send, 200, body, {"content-type": content_type})

    async def traces(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Spans of other services, from operators; to others there is nothing here."""
        if self._operator(scope):
            await self._intake.take(scope, receive, send)
        else:
            await reply(send, 404, errors.error_body(404, "not_found", "There is nothing here."))

    def _operator(self, scope: Scope) -> bool:
        """Whether the caller may see all tenants: it holds the operator's token, or comes from this host directly."""
        headers = Headers(scope=scope)
        if self._operator_token:
            given = headers.get("authorization", "").removeprefix("Bearer ")
            return hmac.compare_digest(given.encode(), self._operator_token.encode())
        host = (scope.get("client") or ("",))[0]
        return host in LOOPBACK and "x-forwarded-for" not in headers and "forwarded" not in headers

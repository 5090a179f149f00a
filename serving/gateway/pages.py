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
from serving.attempt.services import Services
from serving.engine.gpu_memory import Devices
from serving.gateway import gauges
from serving.gateway.clients import reply
from serving.gateway.otlp import TRACES, SpanIntake
from serving.gateway.routes import HEALTH, METRICS, MODELS
from serving.protocol import errors
from telemetry import names

LOOPBACK: Final = frozenset({"127.0.0.1", "::1"})


class Pages:
    """Answers that are no attempts. `operator_token` None: operators are who comes from this host directly."""

    def __init__(self, services: Services, source: CatalogSource, operator_token: str | None) -> None:
        self._services, self._source, self._operator_token = services, source, operator_token
        self.stopping = False
        self.keyless: Final = {HEALTH: self._health, METRICS: self._metrics, TRACES: self._traces}
        """By path: what asks for no tenant's key."""
        self._devices = Devices(services.engine.gpu_count if services.engine is not None else 1)
        self._intake = SpanIntake(services)
        self._scraping = asyncio.Lock()
        self._created = services.clock.utc_ns() // SECOND_NS

    async def models(self, scope: Scope, send: Send, view: View, tenant: Tenant) -> None:
        """The tenant's own models: the base model and what it is granted. Raises Refusal (404) for another."""
        base = view.catalog.base_model.name
        models = {name: self._model(name, None if name == base else base) for name in (base, *tenant.adapters)}
        if scope["path"] == MODELS:
            await reply(send, 200, json.dumps({"object": "list", "data": list(models.values())}).encode())
            return
        wanted = scope["path"].removeprefix(MODELS + "/")
        if wanted not in models:
            raise errors.unknown_model(wanted)
        await reply(send, 200, json.dumps(models[wanted]).encode())

    def _model(self, name: str, parent: str | None) -> dict[str, object]:
        created = {"object": "model", "created": self._created, "owned_by": "loraledger"}
        return {"id": name, **created, "root": name, "parent": parent}

    async def _health(self, scope: Scope, receive: Receive, send: Send) -> None:
        """200 while requests can be served. Details are for operators: they name tenants and files."""
        up = await self.engine_up()
        spool, refused = self._services.spool, self._source.last_error
        status = "down" if not up or self.stopping else "degraded" if refused or spool.refused else "ok"
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
                "stopping": self.stopping,
            }
        await reply(send, 503 if status == "down" else 200, json.dumps(body).encode())

    async def engine_up(self) -> bool:
        """Whether the engine answers now; sets its gauge."""
        try:
            async with asyncio.timeout(self._services.limits.health_s):
                up = await self._services.door.healthy()
        except Exception:
            up = False
        self._services.metrics.set(names.ENGINE_UP, int(up), engine=self._services.door.engine_id)
        return up

    async def _metrics(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The scrape. It shows every tenant's figures, so it is for operators only."""
        self._for_operators(scope)
        services = self._services
        await self.engine_up()
        # Many tenants and adapters make many series: what needs no state of the loop's is done beside it, one scrape at a time.
        async with self._scraping:
            catalog, state, now_ns = self._source.view.catalog, services.door.state(), services.clock.utc_ns()
            await asyncio.to_thread(gauges.refresh, services, catalog, state, self._devices, now_ns)
            await gauges.budgets(services, catalog)
            services.metrics.set(names.CATALOG_VALID, int(self._source.last_error is None))
            body, content_type = await asyncio.to_thread(services.metrics.render, Headers(scope=scope).get("accept"))
        await reply(send, 200, body, {"content-type": content_type})

    async def _traces(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Spans of other services, from operators."""
        self._for_operators(scope)
        await self._intake.take(scope, receive, send)

    def _for_operators(self, scope: Scope) -> None:
        """To others there is nothing here: raises Refusal (404)."""
        if not self._operator(scope):
            raise errors.not_found()

    def _operator(self, scope: Scope) -> bool:
        """Whether the caller may see all tenants: it holds the operator's token, or comes from this host directly."""
        headers = Headers(scope=scope)
        if self._operator_token:
            given = headers.get("authorization", "").removeprefix("Bearer ")
            return hmac.compare_digest(given.encode(), self._operator_token.encode())
        host = (scope.get("client") or ("",))[0]
        return host in LOOPBACK and "x-forwarded-for" not in headers and "forwarded" not in headers

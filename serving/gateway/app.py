"""The gateway's ASGI application: tells requests apart by the table of routes, and callers by their keys."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from catalog.model import Tenant
from serving.attempt.catalog_source import CatalogSource, View
from serving.attempt.limits import Limits
from serving.attempt.services import Services
from serving.attempt.steps import Steps
from serving.gateway.attempts import Attempts
from serving.gateway.clients import Clients
from serving.gateway.otlp import TRACES
from serving.gateway.pages import Pages
from serving.gateway.passthrough import Passthrough
from serving.gateway.replies import reply
from serving.gateway.routes import HEALTH, METRICS, Served, route_of
from serving.gateway.unauthenticated import Unauthenticated
from serving.policy.credentials import authorization
from serving.protocol import errors


class GatewayApp:
    """ASGI."""

    def __init__(self, services: Services, source: CatalogSource, steps: Steps, pages: Pages, limits: Limits) -> None:
        self._services, self._source = services, source
        self.pages = pages
        self._passthrough = Passthrough(services.door, limits)
        self._clients = Clients(limits, services.metrics, services.clock.mono_ns)
        self._attempts = Attempts(services, steps, limits)
        self._unauthenticated = Unauthenticated(
            limits.unauthenticated_per_minute,
            services.clock.mono_ns,
            services.metrics,
            self._attempts.open_for_nobody,
            self._attempts.close_for_nobody,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection event."""
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1000, "reason": ""})
            return
        path, method = scope["path"], scope["method"]
        route = route_of(path)
        if route is None or route.served is Served.CLOSED:
            text = f"There is nothing here: {route.why}." if route is not None else "There is nothing here."
            await reply(send, 404, errors.error_body(404, "not_found", text))
        elif method not in route.methods:
            allowed = ", ".join(route.methods)
            body = errors.error_body(405, "method_not_allowed", f"Use {allowed}.")
            await reply(send, 405, body, {"allow": allowed})
        elif route.served is Served.PASSED:
            await self._pass_on(scope, receive, send)
        elif route.served is Served.METERED:
            await self._attempt(scope, receive, send)
        elif path == HEALTH:
            await self.pages.health(scope, send, self._attempts.stopping)
        elif path == METRICS:
            await self.pages.metrics(scope, send)
        elif path == TRACES:
            await self.pages.traces(scope, receive, send)
        else:
            await self._models(scope, send)

    def refuse_new(self) -> None:
        """From now on new attempts are refused."""
        self._attempts.stopping = True

    async def drain(self, grace_s: float) -> None:
        """Wait `grace_s` for open attempts, then cancel them and wait until their records are written.

        Nobody waits long for a client meanwhile.
        """
        self._clients.hurry()
        await self._attempts.end(grace_s)
        await self._unauthenticated.end()
        await self._attempts.ended()

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A request that is passed on beside the attempts."""
        view, tenant = self._caller(scope)
        if tenant is None:
            await self._turn_away(scope, send, {})
            return
        client = self._clients.admit(scope, receive, send)
        try:
            await self._passthrough.serve(scope, client, view, tenant)
        finally:
            await self._clients.dismiss(client)

    async def _attempt(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A metered request; of many without a good key only the first is an attempt of its own."""
        view, tenant = self._caller(scope)
        refusal = None
        if tenant is None:
            self._unauthenticated.count()
            if not self._unauthenticated.alone():
                await self._turn_away(scope, send, {"x-request-id": self._unauthenticated.join()})
                return
            refusal = self._unauthenticated.refusal(scope)
        client = self._clients.admit(scope, receive, send)
        try:
            await self._attempts.serve(scope, client, view, tenant, refusal)
        finally:
            await self._clients.dismiss(client)

    async def _models(self, scope: Scope, send: Send) -> None:
        view, tenant = self._caller(scope)
        if tenant is None:
            await self._turn_away(scope, send, {})
        else:
            await self.pages.models(scope, send, view, tenant)

    def _caller(self, scope: Scope) -> tuple[View, Tenant | None]:
        """The catalog in force, and whose key the request has; None for no good one."""
        view = self._source.view
        return view, view.keys.tenant(authorization(Headers(scope=scope)))

    async def _turn_away(self, scope: Scope, send: Send, headers: Mapping[str, str]) -> None:
        """Answer somebody without a good key."""
        refusal = self._unauthenticated.refusal(scope)
        await reply(send, refusal.http_status, refusal.body(), {**refusal.headers(), **headers})


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": message["type"] + ".complete"})
        if message["type"] == "lifespan.shutdown":
            return

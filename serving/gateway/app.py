"""The gateway's ASGI application: tells requests apart by the table of routes, and callers by their keys."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from serving.attempt.catalog_source import CatalogSource
from serving.attempt.services import Services
from serving.attempt.steps import Steps
from serving.gateway.attempts import Attempts
from serving.gateway.clients import Clients, reply
from serving.gateway.pages import Pages
from serving.gateway.passthrough import Passthrough
from serving.gateway.routes import Served, route_of
from serving.gateway.unauthenticated import Unauthenticated
from serving.policy.credentials import caller
from serving.protocol import errors
from serving.protocol.errors import Refusal


class GatewayApp:
    """ASGI."""

    def __init__(self, services: Services, source: CatalogSource, steps: Steps, pages: Pages) -> None:
        self._source = source
        self.pages = pages
        self._passthrough = Passthrough(services.door, services.limits)
        self._clients = Clients(services)
        self._attempts = Attempts(services, steps)
        self._unauthenticated = Unauthenticated(services, self._attempts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection event."""
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1000, "reason": ""})
        else:
            try:
                await self._request(scope, receive, send)
            except Refusal as refusal:
                await reply(send, refusal.http_status, refusal.body(), refusal.headers())

    def refuse_new(self) -> None:
        """From now on new attempts are refused."""
        self._attempts.stopping = self.pages.stopping = True

    async def drain(self, grace_s: float) -> None:
        """Wait `grace_s` for open attempts, then cancel them and wait until their records are written.

        Nobody waits long for a client meanwhile.
        """
        self._clients.hurry()
        await self._attempts.end(grace_s)
        await self._unauthenticated.end()
        await self._attempts.ended()

    async def _request(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request by the table of routes. Raises Refusal."""
        path = scope["path"]
        route = route_of(path)
        if route is None or route.served is Served.CLOSED:
            raise errors.not_found(route.why if route is not None else None)
        if scope["method"] not in route.methods:
            raise errors.wrong_method(route.methods)
        if page := self.pages.keyless.get(path):
            await page(scope, receive, send)
            return
        view = self._source.view
        tenant = caller(view.keys, Headers(scope=scope))
        refusal = None
        if tenant is None:
            refusal = self._refusal(scope, route.served is Served.METERED)
        elif route.served is Served.OWN:
            await self.pages.models(scope, send, view, tenant)
            return
        async with self._clients.served(scope, receive, send) as client:
            if tenant is not None and route.served is Served.PASSED:
                await self._passthrough.serve(scope, client, view, tenant)
            else:
                await self._attempts.serve(scope, client, view, tenant, refusal)

    def _refusal(self, scope: Scope, metered: bool) -> Refusal:
        """What somebody without a good key is told by an attempt of its own. Raises it where there is none.

        Of many that would be metered only the first is an attempt of its own.
        """
        stands_for_it = self._unauthenticated.count() if metered else None
        refusal = self._unauthenticated.refusal(scope)
        if stands_for_it is not None:
            refusal.named = {"x-request-id": stands_for_it}
        if not metered or stands_for_it is not None:
            raise refusal
        return refusal


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": message["type"] + ".complete"})
        if message["type"] == "lifespan.shutdown":
            return

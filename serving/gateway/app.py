"""The gateway's ASGI application: opens each attempt, sees it through, books it, and only then lets the last byte go."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope, Send

from serving.attempt.answer import Answer
from serving.attempt.attempt import Attempt, Desk
from serving.attempt.catalog_source import CatalogSource
from serving.attempt.client import Client, Patience, abort_of
from serving.attempt.limits import Limits
from serving.attempt.steps import Steps
from serving.gateway.aside import Aside
from serving.gateway.knocks import Knocks
from serving.gateway.otlp import TRACES
from serving.gateway.pages import Pages
from serving.gateway.replies import reply
from serving.gateway.routes import HEALTH, METRICS, Served, route_of
from serving.policy.credentials import authorization
from serving.protocol import errors
from serving.protocol.errors import ClientGone, Refusal
from serving.protocol.operations import OPERATIONS
from telemetry.engine_time import Opened
from telemetry.names import CONNECTIONS_CLOSED, IN_FLIGHT, EventName
from telemetry.otlp import event_line
from telemetry.usage import UNAUTHENTICATED, ErrorType, Status

log = logging.getLogger(__name__)


class GatewayApp:
    """ASGI. While `stopping`, new attempts are refused (and booked)."""

    def __init__(self, desk: Desk, source: CatalogSource, steps: Steps, pages: Pages, limits: Limits) -> None:
        self._desk, self._source, self._steps, self._limits = desk, source, steps, limits
        self.pages = pages
        self._passed_on = Aside(desk.door, limits)
        self._seq = 0
        self.stopping = False
        self._serving: set[asyncio.Task[Any]] = set()
        self._clients: set[Client] = set()
        self._closing: set[asyncio.Task[Any]] = set()
        self._knocks = Knocks(
            limits.knocks_per_minute, desk.clock.mono_ns, desk.metrics, self._open_for_nobody, self._close_for_nobody
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
            await self._aside(scope, receive, send)
        elif route.served is Served.METERED:
            with _listed(self._serving):
                await self._attempt(scope, receive, send)
        elif path == HEALTH:
            await self.pages.health(scope, send, self.stopping)
        elif path == METRICS:
            await self.pages.metrics(scope, send)
        elif path == TRACES:
            await self.pages.traces(scope, receive, send)
        else:
            await self._models(scope, send)

    async def _aside(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A request that is passed on beside the attempts."""
        view = self._source.view
        tenant = view.keys.tenant(authorization(Headers(scope=scope)))
        if tenant is None:
            await self._turn_away(scope, send, {})
            return
        client = self._client(scope, receive, send)
        try:
            await self._passed_on.serve(scope, client, view, tenant)
        finally:
            await self._dismiss(client)

    async def _attempt(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One attempt, from its opening to the last byte of its reply."""
        headers, path = Headers(scope=scope), scope["path"]
        view = self._source.view
        tenant = view.keys.tenant(authorization(headers))
        if tenant is None:
            self._knocks.count()
            if not self._knocks.alone():
                await self._turn_away(scope, send, {"x-request-id": self._knocks.join()})
                return
        tenant_id = tenant.id if tenant is not None else UNAUTHENTICATED
        attempt = self._open(path, tenant_id, headers.get("traceparent"))
        self._desk.metrics.add(IN_FLIGHT, 1, tenant=tenant_id)
        client = self._client(scope, receive, send)
        answer = Answer(client, attempt.facts.request_id, OPERATIONS[path].dialect)
        cancelled = False
        try:
            if self.stopping:
                raise errors.shutting_down()
            if tenant is None:
                raise self._knocks.refusal(scope)
            await self._steps.serve(scope, view, tenant, attempt, client, answer)
        except Refusal as refusal:
            attempt.end_refused(refusal)
            answer.refuse(refusal)
        except ClientGone:
            attempt.end(Status.CLIENT_ABORT, ErrorType.CLIENT_SLOW if client.slow else ErrorType.CLIENT_ABORT)
        except asyncio.CancelledError:
            cancelled = True
            self._fail(attempt, answer, errors.shutting_down())
        except Exception:
            log.exception("attempt %s failed", attempt.facts.attempt_key)
            self._fail(attempt, answer, errors.engine_failed(attempt.facts.request_id))
        attempt.note_client(client.waited_ns)
        if client.gone.is_set() and not answer.streaming:
            attempt.note_undelivered()
        closing = asyncio.create_task(self._close(attempt, answer))
        closing.add_done_callback(lambda _: self._desk.metrics.add(IN_FLIGHT, -1, tenant=tenant_id))
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            cancelled = True
            await asyncio.wait({closing}, timeout=self._limits.durable_s)
        try:
            await answer.finish()
        finally:
            await self._dismiss(client)
        if cancelled and not self.stopping:  # what we ended ourselves has ended well
            raise asyncio.CancelledError

    async def _models(self, scope: Scope, send: Send) -> None:
        view = self._source.view
        tenant = view.keys.tenant(authorization(Headers(scope=scope)))
        if tenant is None:
            await self._turn_away(scope, send, {})
        else:
            await self.pages.models(scope, send, view, tenant)

    async def _turn_away(self, scope: Scope, send: Send, headers: Mapping[str, str]) -> None:
        """Answer somebody without a good key."""
        refusal = self._knocks.refusal(scope)
        await reply(send, refusal.http_status, refusal.body(), {**refusal.headers(), **headers})

    def _open_for_nobody(self) -> Attempt:
        attempt = self._open("/v1/*", UNAUTHENTICATED, None)
        attempt.end_refused(errors.unauthenticated())
        return attempt

    async def _close_for_nobody(self, attempt: Attempt) -> None:
        answer = Answer(Client(_silence, _nowhere), attempt.facts.request_id)
        answer.refuse(errors.unauthenticated())
        attempt.facts.finished_ns = attempt.now()
        await self._close(attempt, answer)

    def _client(self, scope: Scope, receive: Receive, send: Send) -> Client:
        limits = self._limits
        client = Client(
            receive,
            send,
            patience=Patience(limits.deliver_s, limits.deliver_total_s),
            abort=abort_of(scope),
            mono_ns=self._desk.clock.mono_ns,
        )
        if self.stopping:
            client.hurry(limits.hurry_s)
        self._clients.add(client)
        return client

    async def _dismiss(self, client: Client) -> None:
        self._clients.discard(client)
        client.close()
        if client.slow:
            self._desk.metrics.add(CONNECTIONS_CLOSED, what="slow")
            # The server hears of the closed connection in the loop's next turn, and would miss an answer before.
            await asyncio.sleep(0)

    def _open(self, path: str, tenant_id: str, traceparent: str | None) -> Attempt:
        seq, self._seq = self._seq, self._seq + 1
        attempt = Attempt(self._desk, seq, uuid4().hex, tenant_id, path, traceparent)
        facts = attempt.facts
        opened = Opened(
            emitter=facts.emitter,
            seq=seq,
            request_id=facts.request_id,
            tenant=tenant_id,
            arrival_ns=facts.arrival_ns,
            trace_id=facts.trace_id,
            engine=self._desk.door.engine_id,
        )
        line = event_line(EventName.OPENED, opened.to_json(), facts.arrival_ns, {}, facts.emitter, seq)
        self._desk.spool.append(line)
        return attempt

    async def _close(self, attempt: Attempt, answer: Answer) -> None:
        with _listed(self._closing):
            try:
                await attempt.close(answer)
            except Exception:
                log.exception("attempt %s could not be closed", attempt.facts.attempt_key)

    async def drain(self, grace_s: float) -> None:
        """Wait `grace_s` for open attempts, then cancel them and wait until their records are written.

        Nobody waits long for a client meanwhile: one that does not send or take its part is given up at once.
        """
        for client in self._clients:
            client.hurry(self._limits.hurry_s)
        if self._serving:
            await asyncio.wait(self._serving, timeout=grace_s)
        for task in self._serving:
            task.cancel()
        await self._knocks.end()
        while tasks := self._serving | self._closing:
            await asyncio.wait(tasks)

    def _fail(self, attempt: Attempt, answer: Answer, refusal: Refusal) -> None:
        attempt.end_refused(refusal)
        answer.refuse(refusal)


@contextmanager
def _listed(tasks: set[asyncio.Task[Any]]) -> Iterator[None]:
    """Keep the running task in `tasks` meanwhile."""
    task = asyncio.current_task()
    assert task is not None
    tasks.add(task)
    try:
        yield
    finally:
        tasks.discard(task)


async def _silence() -> Message:
    """The receiving side of nobody."""
    return {"type": "http.disconnect"}


async def _nowhere(message: Message) -> None:
    """The sending side of nobody."""


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": message["type"] + ".complete"})
        if message["type"] == "lifespan.shutdown":
            return

"""Opens each attempt, sees it through, books it, and only then lets the last byte of its reply go."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from starlette.datastructures import Headers
from starlette.types import Scope

from catalog.model import Tenant
from serving.attempt.answer import Answer
from serving.attempt.attempt import Attempt
from serving.attempt.catalog_source import View
from serving.attempt.client import Client
from serving.attempt.closing import close
from serving.attempt.record import Facts
from serving.attempt.services import Services
from serving.attempt.steps import Steps
from serving.attempt.telling import guarded, opened_line
from serving.protocol import errors
from serving.protocol.errors import ClientGone, Refusal
from serving.protocol.operations import OPERATIONS
from telemetry.names import IN_FLIGHT
from telemetry.usage import UNAUTHENTICATED, ErrorType, Status

log = logging.getLogger(__name__)


class Attempts:
    """All attempts of one gateway process. While `stopping`, new ones are refused (and booked)."""

    def __init__(self, services: Services, steps: Steps) -> None:
        self._services, self._steps = services, steps
        self._seq = 0
        self.stopping = False
        self._serving: set[asyncio.Task[Any]] = set()
        self._closing: set[asyncio.Task[Any]] = set()

    async def serve(
        self, scope: Scope, client: Client, view: View, tenant: Tenant | None, refusal: Refusal | None
    ) -> None:
        """One attempt, from its opening to the last byte of its reply; with a `refusal` that is all it gets."""
        with _listed(self._serving):
            path, tenant_id = scope["path"], tenant.id if tenant is not None else UNAUTHENTICATED
            attempt = self.open(path, tenant_id, Headers(scope=scope).get("traceparent"))
            self._in_flight(1, tenant_id)
            answer = Answer(client, attempt.facts.request_id, OPERATIONS[path].dialect)
            said: Refusal | None = None
            cancelled = False
            try:
                if self.stopping:
                    raise errors.shutting_down()
                if refusal is not None or tenant is None:
                    raise refusal or errors.unauthenticated()
                await self._steps.serve(scope, view, tenant, attempt, client, answer)
            except Refusal as raised:
                said = raised
            except ClientGone:
                attempt.end(Status.CLIENT_ABORT, ErrorType.CLIENT_SLOW if client.slow else ErrorType.CLIENT_ABORT)
            except asyncio.CancelledError:
                cancelled = True
                said = errors.shutting_down()
            except Exception:
                log.exception("attempt %s failed", attempt.facts.attempt_key)
                said = errors.engine_failed(attempt.facts.request_id)
            if said is not None:
                attempt.end(said.status, said.error_type)
                answer.refuse(said)
            attempt.note_client(client.waited_ns, client.gone.is_set() and not answer.streaming)
            cancelled |= await self._booked(attempt, answer)
            await answer.finish()
        if cancelled and not self.stopping:  # what we ended ourselves has ended well
            raise asyncio.CancelledError

    async def _booked(self, attempt: Attempt, answer: Answer) -> bool:
        """Close the attempt, also when this is cancelled meanwhile; whether it was."""
        closing = asyncio.create_task(self.close(attempt, answer))
        closing.add_done_callback(lambda _: self._in_flight(-1, attempt.facts.tenant))
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            await asyncio.wait({closing}, timeout=self._services.limits.durable_s)
            return True
        return False

    def open(self, path: str, tenant_id: str, traceparent: str | None) -> Attempt:
        """A new attempt, which the spool knows of."""
        services, engine = self._services, self._services.engine
        seq, self._seq = self._seq, self._seq + 1
        arrival_ns = services.clock.utc_ns()
        trace = services.tracing.attempt("POST", path, traceparent, arrival_ns)
        facts = Facts(
            emitter=services.emitter,
            seq=seq,
            request_id=uuid4().hex,
            tenant=tenant_id,
            arrival_ns=arrival_ns,
            base_model=services.door.base_model,
            engine=services.door.engine_id,
            gpu_type=engine.gpu_type if engine is not None else None,
            gpu_count=engine.gpu_count if engine is not None else None,
            trace_id=trace.trace_id,
        )
        attempt = Attempt(facts, trace, services.clock.mono_ns)
        services.spool.note(opened_line(attempt))
        return attempt

    async def close(self, attempt: Attempt, answer: Answer) -> None:
        """Book an attempt; see `serving.attempt.closing`."""
        with _listed(self._closing), guarded("attempt %s could not be closed", attempt.facts.attempt_key):
            await close(self._services, attempt, answer)

    async def end(self, grace_s: float) -> None:
        """Wait `grace_s` for open attempts, then cancel them; `ended` waits for their records."""
        if self._serving:
            await asyncio.wait(self._serving, timeout=grace_s)
        for task in self._serving:
            task.cancel()

    async def ended(self) -> None:
        """Wait until every attempt is booked."""
        while tasks := self._serving | self._closing:
            await asyncio.wait(tasks)

    def _in_flight(self, change: int, tenant_id: str) -> None:
        with guarded("an attempt is missing in the metrics of those in flight"):
            self._services.metrics.add(IN_FLIGHT, change, tenant=tenant_id)


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

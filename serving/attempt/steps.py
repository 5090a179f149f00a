"""What happens to one attempt between its opening and its end: body, route, admission, residency, engine."""

from __future__ import annotations

import asyncio
import logging
from fractions import Fraction
from typing import Final

from starlette.datastructures import Headers
from starlette.types import Scope

from catalog.model import Adapter, Catalog, Tenant
from serving.attempt.answer import Answer
from serving.attempt.attempt import Attempt
from serving.attempt.catalog_source import View
from serving.attempt.client import Client, declared_length, offload
from serving.attempt.counting import given_tokens, prompt_tokens
from serving.attempt.engine_call import call_engine, engine_scope, refusal_of
from serving.attempt.quotas import counts_tokens
from serving.attempt.residency_door import TierBusy
from serving.attempt.services import Services
from serving.attempt.telling import traceparent
from serving.errors import EngineDown, EngineError
from serving.policy.admission import Demand
from serving.policy.credentials import cache_salt
from serving.policy.residency import HIT, MISS
from serving.policy.routing import Denial, decide, observe
from serving.protocol import errors
from serving.protocol.errors import ClientGone, Refusal
from serving.protocol.request import Call, read_call
from serving.protocol.response import Names
from serving.protocol.rewrite import Orders, engine_body, engine_headers
from serving.wire.request_context import RequestContext
from telemetry.engine_time import LoadCause
from telemetry.usage import Status

log = logging.getLogger(__name__)

NOT_FOUND: Final = 404
UNLIMITED_TOKENS: Final = 1 << 20
"""The longest sequence of an engine that the catalog says nothing about."""
BLOCK_TOKENS: Final = 16


class Steps:
    """The way of an attempt through the gateway; the same for every attempt of a process."""

    def __init__(self, services: Services, secret: bytes) -> None:
        self._services, self._secret, self._limits = services, secret, services.limits

    async def serve(
        self, scope: Scope, view: View, tenant: Tenant, attempt: Attempt, client: Client, answer: Answer
    ) -> None:
        """Everything between the opening and the end. Raises Refusal or ClientGone; anything else is our fault."""
        headers, limits = Headers(scope=scope), self._limits
        attempt.note_tenant(tenant)
        raw = await client.body(declared_length(headers), limits.body_bytes, limits.body_s)
        call = await offload(len(raw), read_call, scope["path"], raw)
        attempt.note_call(call)
        adapter = await self._route(view, tenant, attempt, call, headers)
        if (wait_s := self._services.door.retry_after_s()) is not None:
            raise errors.engine_down(wait_s)
        bound = await self._admit(view.catalog, tenant, attempt, client, call)
        if adapter is not None:
            hold = self._hold(attempt, adapter, tenant)
            await (hold if self._services.residency.ready(adapter) else client.unless_gone(hold))
        else:
            attempt.note_residency(HIT, None, attempt.now(), False)
        if client.gone.is_set():
            raise ClientGone
        context = RequestContext(
            attempt.facts.attempt_key, tenant.id, cache_salt(self._secret, tenant), tenant.slo.weight
        )
        public = adapter.name if adapter is not None else view.catalog.base_model.name
        answer.expect(call, Names(attempt.served_name, public), context, attempt.note_first_token)
        orders = Orders(
            served_name=attempt.served_name,
            context=context,
            request_id=attempt.facts.request_id,
            traceparent=traceparent(attempt),
            output_tokens=bound,
        )
        await self._engine(scope, attempt, client, answer, call, orders, len(raw))

    async def _route(
        self, view: View, tenant: Tenant, attempt: Attempt, call: Call, headers: Headers
    ) -> Adapter | None:
        start = attempt.now()
        sticky = headers.get("x-session-id") or call.user or attempt.facts.request_id
        asked = await offload(len(call.text), observe, view.policy, tenant.id, call.model, sticky, call.text)
        decision = decide(view.policy, asked)
        attempt.note_route(asked, decision, start)
        if isinstance(decision, Denial):
            raise errors.unknown_model(call.model)
        return view.catalog.adapter(decision.adapter) if decision.adapter is not None else None

    async def _admit(
        self, catalog: Catalog, tenant: Tenant, attempt: Attempt, client: Client, call: Call
    ) -> int | None:
        """Take what the request needs from the quotas; the bound on its output that the engine must be told, if any."""
        start = attempt.now()
        engine = self._services.engine
        try:
            asked, cap = call.choices * call.prompts, tenant.quotas.max_choices
            if asked > cap:
                raise errors.too_many_choices(asked, call.prompts, cap, "n" if call.choices > 1 else "prompt")
            prompts = (0,) * call.prompts
            if counts_tokens(tenant.quotas):
                prompts = await prompt_tokens(self._services.door, call, self._limits.count_s)
                if client.gone.is_set():
                    raise ClientGone
            limit = engine.max_model_len if engine is not None else UNLIMITED_TOKENS
            if (longest := max(given_tokens(call) or (0,))) > limit:
                raise errors.beyond_model(longest, limit)
            demand = Demand(
                prompts,
                call.choices,
                limit=limit,
                block=engine.block_size if engine is not None else BLOCK_TOKENS,
                output=call.output_tokens,
            )
            grant = self._services.quotas.admit(catalog, tenant, demand, attempt.facts.seq, call.output_field)
        except Refusal:
            attempt.note_admission(None, start)
            raise
        attempt.note_admission(grant.ask, start)
        return grant.output_tokens

    async def _hold(self, attempt: Attempt, adapter: Adapter, tenant: Tenant) -> None:
        start = attempt.now()
        try:
            strictness = Fraction(1) / Fraction(tenant.slo.p99_seconds)
            lease = await self._services.residency.hold(adapter, LoadCause.REQUEST, strictness)
        except EngineError as error:
            log.error("attempt %s: %s", attempt.facts.attempt_key, error)
            attempt.note_load_failure(start)
            if isinstance(error, EngineDown):
                raise errors.engine_down(self._services.door.retry_after_s() or 1) from error
            raise errors.load_failed(adapter.name, busy=isinstance(error, TierBusy)) from error
        except asyncio.CancelledError:
            attempt.note_residency(MISS, None, start, adapter.warm)
            raise
        attempt.note_residency(lease.outcome, lease, start, adapter.warm)

    async def _engine(
        self, scope: Scope, attempt: Attempt, client: Client, answer: Answer, call: Call, orders: Orders, size: int
    ) -> None:
        """Ask the engine. `size` is the length of the client's body."""
        try:
            body = await offload(size, engine_body, call, orders)
        except RecursionError as error:
            raise errors.bad_body("The request body is nested too deeply.") from error
        inner = engine_scope(scope, call.path, engine_headers(scope["headers"], orders, len(body)))
        context = orders.context
        attempt.note_engine(context)
        limits = self._limits
        broke: Exception | None = None
        try:
            await call_engine(
                self._services.door.app,
                inner,
                body,
                client,
                answer.engine_send,
                context,
                limit_s=limits.engine_s,
                grace_s=limits.abort_grace_s,
            )
        except (ClientGone, Refusal):
            raise
        except Exception as error:
            # vLLM refuses some requests only once their stream has begun, and can then only break.
            answer.complete = False
            broke = error
        refusal = refusal_of(answer, context, attempt.facts.request_id)
        if refusal is not None and answer.status != NOT_FOUND and await self._unread(context):
            fact = broke or "it said no more"
            log.error("attempt %s: vLLM could not read its body: %s", attempt.facts.attempt_key, fact)
            raise errors.unreadable()
        if broke is not None and (refusal is None or refusal.status is Status.SERVER_ERROR):
            raise broke
        if refusal is not None:
            raise refusal
        attempt.end(Status.OK if answer.status == 200 else Status.BAD_REQUEST)

    async def _unread(self, context: RequestContext) -> bool:
        """Whether vLLM's front end broke before it got as far as the engine's entry: while the engine is up, on the body."""
        untouched = context.watched and not context.entered and context.refused is None
        return untouched and await self._services.door.healthy()

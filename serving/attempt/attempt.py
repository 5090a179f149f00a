"""One attempt at a request: opened exactly once, closed exactly once, whatever happens in between."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final

from catalog.durations import SECOND_NS
from catalog.model import Engine, Tenant
from serving.attempt.answer import Answer
from serving.attempt.clock import Clock
from serving.attempt.measures import Ended, observe
from serving.attempt.quotas import QuotaDesk
from serving.attempt.record import Facts, usage_record
from serving.attempt.residency_door import Held, ResidencyDoor
from serving.engine.door import EngineDoor
from serving.metering.accounting import Measured
from serving.policy.admission import Ask
from serving.policy.routing import Decision, Denial, RouteInput, RouteRecord
from serving.protocol.errors import Refusal
from serving.wire.tickets import Ticket
from telemetry.forward import Forwarder
from telemetry.metrics import Metrics
from telemetry.names import Attr, EventName, SpanName
from telemetry.otlp import event_line
from telemetry.spool import Spool
from telemetry.tracing import Tracing
from telemetry.usage import ErrorType, Status, UsageRecord

log = logging.getLogger(__name__)

LATE_LOOK_S: Final = 0.05
LATE_LOOKS: Final = 10


@dataclass(frozen=True, slots=True)
class Desk:
    """What every attempt of one gateway process works with. Timeouts are seconds."""

    door: EngineDoor
    engine: Engine | None
    spool: Spool
    tracing: Tracing
    metrics: Metrics
    residency: ResidencyDoor
    quotas: QuotaDesk
    clock: Clock
    emitter: str
    meter_timeout_s: float
    durable_timeout_s: float
    forwarder: Forwarder | None = None


class Attempt:
    """The life of one attempt. `note_*` and `end*` say what happened; `close` books it."""

    def __init__(self, desk: Desk, seq: int, request_id: str, tenant: str, path: str, traceparent: str | None) -> None:
        self._desk = desk
        self._mono0 = desk.clock.mono_ns()
        arrival = desk.clock.utc_ns()
        self._trace = desk.tracing.attempt("POST", path, traceparent, arrival)
        self.facts = Facts(
            emitter=desk.emitter,
            seq=seq,
            request_id=request_id,
            tenant=tenant,
            arrival_ns=arrival,
            base_model=desk.door.base_model,
            trace_id=self._trace.trace_id,
        )
        self._operation = ""
        self._tenant: Tenant | None = None
        self._ask: Ask | None = None
        self._held: Held | None = None
        self._decision: Decision | Denial | None = None
        self._asked: RouteInput | None = None
        self._cold_ns: int | None = None
        self._warm = False
        self._engine_from_ns = 0
        self._ticket: Ticket | None = None
        self._undelivered = False
        self._closed = False
        self._record: UsageRecord | None = None

    def now(self) -> int:
        """UTC nanoseconds that never go back within this attempt."""
        return self.facts.arrival_ns + self._desk.clock.mono_ns() - self._mono0

    def note_tenant(self, tenant: Tenant) -> None:
        """The key was good."""
        self._tenant = tenant
        self.facts.slo_seconds = tenant.slo.p99_seconds

    def note_call(self, operation: str, stream: bool) -> None:
        """The body was read."""
        self._operation = operation
        self._trace.set(Attr.REQUEST_STREAM, stream)

    def note_route(self, asked: RouteInput, decision: Decision | Denial, start_ns: int) -> None:
        """Routing ended, one way or the other."""
        facts, end = self.facts, self.now()
        self._asked, self._decision = asked, decision
        facts.route_policy, facts.route_ns = decision.policy, end - start_ns
        match decision:
            case Decision(adapter=adapter, rule=rule):
                facts.routed, facts.adapter, facts.route_rule = True, adapter, rule
                facts.engine = self._desk.door.engine_id
                if self._desk.engine is not None:
                    facts.gpu_type, facts.gpu_count = self._desk.engine.gpu_type, self._desk.engine.gpu_count
                self._trace.client(self._operation, adapter or facts.base_model)
                self._trace.child(
                    SpanName.ROUTE, start_ns, end, {Attr.ROUTE_RULE: rule, Attr.ROUTE_POLICY: decision.policy}
                )
            case Denial(reason=reason):
                facts.route_reason = reason
                self._trace.child(
                    SpanName.ROUTE, start_ns, end, {Attr.ROUTE_REASON: reason, Attr.ROUTE_POLICY: decision.policy}
                )

    def note_admission(self, ask: Ask | None, start_ns: int) -> None:
        """Quotas were asked; `ask` is what was taken, None when they refused."""
        end = self.now()
        self._trace.child(SpanName.ADMISSION, start_ns, end, {})
        self._ask = ask
        if ask is None:
            self.facts.route_reason = "rejected"
        else:
            self.facts.admitted_ns = end

    def note_residency(self, outcome: str, held: Held | None, start_ns: int, warm: bool) -> None:
        """The adapter is there (`held`), or could not be had. `held` None with the base model means nothing was needed."""
        end = self.now()
        self.facts.route_reason, self._held, self._warm = outcome, held, warm
        if held is None:
            return
        self.facts.adapter_hash = held.files.hash
        if held.timing is not None:
            self._cold_ns = end - start_ns
            attributes: dict[str, Any] = {Attr.ADAPTER_HASH: held.files.hash, Attr.LOAD_READ_NS: held.timing.read_ns}
            if held.timing.activate_ns is not None:
                attributes[Attr.LOAD_ACTIVATE_NS] = held.timing.activate_ns
            self._trace.child(SpanName.ADAPTER_LOAD, start_ns, end, attributes)

    def note_load_failure(self, start_ns: int) -> None:
        """The adapter could not be loaded."""
        self.facts.route_reason = "miss"
        self._trace.child(SpanName.ADAPTER_LOAD, start_ns, self.now(), {Attr.ERROR_TYPE: ErrorType.LOAD_FAILED.value})

    def note_engine(self, ticket: Ticket) -> None:
        """The engine is called next, with that ticket."""
        self._ticket = ticket
        self.facts.reached_engine = True
        self._engine_from_ns = self.now()

    def note_first_token(self) -> None:
        """The first token goes to the client."""
        self.facts.first_token_ns = self.now()

    def end(self, status: Status, error_type: ErrorType | None = None) -> None:
        """The outcome; the first one said holds."""
        if self.facts.status is None:
            self.facts.status, self.facts.error_type = status, error_type
            self.facts.finished_ns = self.now()

    def end_refused(self, refusal: Refusal) -> None:
        """The outcome of a refusal."""
        self.end(refusal.status, refusal.error_type)

    def note_client(self, waited_ns: int) -> None:
        """So long the attempt waited for its client alone, to send its request or to take its reply."""
        self.facts.client_ns = waited_ns

    def note_undelivered(self) -> None:
        """The client left before it got anything of the reply: a success was not one for it."""
        self._undelivered = True
        if self.facts.status is Status.OK:
            self.facts.status, self.facts.error_type = Status.CLIENT_ABORT, ErrorType.CLIENT_ABORT

    @property
    def traceparent(self) -> str:
        """The W3C header for the engine."""
        return self._trace.traceparent

    @property
    def served_name(self) -> str:
        """What the engine knows the routed model as."""
        return self._held.files.served_name if self._held is not None else self.facts.base_model

    async def close(self, answer: Answer) -> None:
        """Book the attempt; returns when the record is on disk, or when that takes too long or fails (said loudly).

        A cancellation hurries it along, and the record is written all the same.
        """
        if self._closed:
            return
        self._closed = True
        facts, reply = self.facts, answer.reply
        self.end(Status.SERVER_ERROR, ErrorType.ENGINE_ERROR)
        facts.http_status = None if self._undelivered else answer.status
        facts.input_tokens, facts.cached_tokens = reply.input_tokens, reply.cached_tokens
        facts.output_tokens = reply.output_tokens
        facts.delivered = 0 if self._undelivered else reply.delivered
        meter: Measured | None = None
        computed = facts.reached_engine
        try:
            meter, computed = await self._ask_meter(answer)
        finally:
            try:
                durable = self._book(meter, computed, reply.response_id, reply.finish_reasons)
            finally:
                self._give_back(meter)
        waiting = asyncio.wrap_future(durable)
        waiting.add_done_callback(lambda future: future.cancelled() or future.exception())
        done, _ = await asyncio.wait({waiting}, timeout=self._desk.durable_timeout_s)
        if not done:
            log.critical("record %s is not on disk after %g s", facts.attempt_key, self._desk.durable_timeout_s)
        for future in done:
            if (error := future.exception()) is not None:
                log.critical("record %s is not on disk: %s", facts.attempt_key, error)
        if meter is not None and meter.cached_tokens is not None:
            answer.restate(meter.cached_tokens)

    async def _ask_meter(self, answer: Answer) -> tuple[Measured | None, bool]:
        """The meter's figures, and whether the engine worked on the attempt at all."""
        door, key = self._desk.door, self.facts.attempt_key
        if not self.facts.reached_engine:
            return None, False
        try:
            if not await self._entered(answer):
                return None, False
            return await door.measured(key, self._desk.meter_timeout_s), True
        except Exception:
            log.exception("record %s: the meter could not be asked", key)
            return None, True

    async def _entered(self, answer: Answer) -> bool:
        """Whether the engine's scheduler ever saw the attempt; what an engine broke on, or a client left, may never get there.

        Where nobody stands at the engine's entry the meter's word may come a moment after the engine's, so it is given that moment.
        """
        door, key = self._desk.door, self.facts.attempt_key
        ticket = self._ticket
        if ticket is not None and ticket.watched and not ticket.entered:
            return False
        worked = answer.reply.delivered > 0 or (
            answer.complete and answer.status == 200 and answer.reply.failure is None
        )
        if worked or door.knows(key):
            return True
        seen = ticket is not None and ticket.entered > 0
        if not seen and answer.complete and self.facts.status is Status.BAD_REQUEST:
            return False
        for _ in range(LATE_LOOKS):
            await asyncio.sleep(LATE_LOOK_S)
            if door.knows(key):
                return True
        return False

    def _book(
        self, meter: Measured | None, computed: bool, response_id: str | None, reasons: tuple[str, ...]
    ) -> Future[None]:
        facts = self.facts
        record = self._record = usage_record(facts, meter, computed)
        if problems := record.problems():
            log.error("record %s contradicts itself: %s", record.attempt_key, "; ".join(problems))
        self._log_route()
        attributes: Mapping[str, Any] = {
            Attr.RESPONSE_ID: response_id,
            Attr.FINISH_REASONS: list(reasons) or None,
            Attr.COLD_START: self._cold_ns is not None,
            Attr.RESPONSE_MODEL: (facts.adapter or facts.base_model) if facts.routed else None,
        }
        if facts.first_token_ns is not None:
            self._trace.set(Attr.TIME_TO_FIRST_CHUNK, (facts.first_token_ns - facts.arrival_ns) / SECOND_NS)
        for name, value in attributes.items():
            if value is not None:
                self._trace.set(name, value)
        if facts.reached_engine:
            start = meter.entered_ns if meter is not None else self._engine_from_ns
            end = record.finished_ns or start
            engine: dict[str, Any] = {Attr.ENGINE: facts.engine}
            if record.queue_ns is not None:
                engine[Attr.QUEUE_NS] = record.queue_ns
            if record.slices is not None:
                engine[Attr.BASE_NS] = sum(s.base_ns for s in record.slices)
                engine[Attr.ADAPTER_NS] = sum(s.adapter_ns for s in record.slices)
            # The engine's clock was tied to UTC at another moment than ours; a child stays inside its root.
            self._trace.child(SpanName.ENGINE, max(facts.arrival_ns, min(start, end)), end, engine)
        durable = self._trace.close(record, facts.http_status, record.finished_ns or facts.arrival_ns)
        observe(self._desk.metrics, Ended(record, facts, self._operation, self._cold_ns, self._warm))
        return durable

    def _log_route(self) -> None:
        if self._asked is None or self._decision is None:
            return
        facts = self.facts
        line = RouteRecord(
            asked=self._asked,
            adapter=facts.adapter,
            rule=facts.route_rule,
            policy=self._decision.policy,
            engine=self._desk.door.engine_id,
            reason=facts.route_reason or "client_abort",
        )
        at = facts.arrival_ns + (facts.route_ns or 0)
        self._desk.spool.append(event_line(EventName.ROUTE, line.to_json(), at, {}, facts.emitter, facts.seq))

    def _give_back(self, meter: Measured | None) -> None:
        if self._held is not None:
            self._desk.residency.release(self._held.files.served_name)
        if self._ask is not None and self._tenant is not None:
            used = meter.input_tokens + meter.output_tokens if meter is not None else None
            if not self.facts.reached_engine:
                used = 0
            self._desk.quotas.settle(self._tenant, self._ask, used, self.facts.seq, self._record)

"""The state of one attempt: what is known of it, what it holds, and the stages that it has gone through. It tells nobody.

`closing` books it: `record` makes the usage record of it, `spans` the trace, `measures` the metrics, `lines` the decision log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from catalog.model import Tenant
from serving.attempt.record import Facts
from serving.attempt.residency_door import Lease
from serving.policy.admission import Ask
from serving.policy.routing import Decision, Denial
from serving.protocol.request import Call
from serving.protocol.response import Reply
from serving.wire.request_context import RequestContext
from telemetry.names import Attr, SpanName
from telemetry.routes import RouteInput
from telemetry.tracing import AttemptTrace
from telemetry.usage import ErrorType, Status


class Stage(NamedTuple):
    """A part of an attempt's way that is over; `name` is one of SpanName. Instants are UTC nanoseconds."""

    name: str
    start_ns: int
    end_ns: int
    attributes: Mapping[str, Any]


class Attempt:
    """The life of one attempt. `note_*` and `end*` say what happened, when it does. `trace` is not written to before the end."""

    def __init__(self, facts: Facts, trace: AttemptTrace, mono_ns: Callable[[], int]) -> None:
        self.facts, self.trace = facts, trace
        self._mono_ns, self._mono0 = mono_ns, mono_ns()
        self.trail: list[Stage] = []
        self.tenant: Tenant | None = None
        self.ask: Ask | None = None
        self.lease: Lease | None = None
        self.asked: RouteInput | None = None
        self.context: RequestContext | None = None
        self.engine_from_ns = 0
        self.closed = False
        self._undelivered = False

    def now(self) -> int:
        """UTC nanoseconds that never go back within this attempt."""
        return self.facts.arrival_ns + self._mono_ns() - self._mono0

    @property
    def served_name(self) -> str:
        """What the engine knows the routed model as."""
        return self.lease.files.served_name if self.lease is not None else self.facts.base_model

    def note_tenant(self, tenant: Tenant) -> None:
        """The key was good."""
        self.tenant = tenant
        self.facts.slo_seconds = tenant.slo.p99_seconds

    def note_call(self, call: Call) -> None:
        """The body was read."""
        self.facts.operation, self.facts.stream = call.operation.name, call.stream

    def note_route(self, asked: RouteInput, decision: Decision | Denial, start_ns: int) -> None:
        """Routing ended, one way or the other."""
        facts, attributes = self.facts, {Attr.ROUTE_POLICY: decision.policy}
        self.asked, facts.route_policy = asked, decision.policy
        match decision:
            case Decision(adapter=adapter, rule=rule):
                facts.routed, facts.adapter, facts.route_rule = True, adapter, rule
                attributes = {Attr.ROUTE_RULE: rule} | attributes
            case Denial(reason=reason):
                facts.route_reason = reason
                attributes = {Attr.ROUTE_REASON: reason} | attributes
        facts.route_ns = self._passed(SpanName.ROUTE, start_ns, attributes) - start_ns

    def note_admission(self, ask: Ask | None, start_ns: int) -> None:
        """Quotas were asked; `ask` is what was taken, None when they refused."""
        end_ns = self._passed(SpanName.ADMISSION, start_ns, {})
        self.ask = ask
        if ask is None:
            self.facts.route_reason = "rejected"
        else:
            self.facts.admitted_ns = end_ns

    def note_residency(self, outcome: str, lease: Lease | None, start_ns: int, warm: bool) -> None:
        """The adapter is there (`lease`), or could not be had. `lease` None with the base model means nothing was needed."""
        facts = self.facts
        facts.route_reason, facts.warm, self.lease = outcome, warm, lease
        if lease is None:
            return
        facts.adapter_hash = lease.files.hash
        if (timing := lease.timing) is not None:
            attributes = {
                Attr.ADAPTER_HASH: lease.files.hash,
                Attr.LOAD_READ_NS: timing.read_ns,
                Attr.LOAD_ACTIVATE_NS: timing.activate_ns,
            }
            facts.cold_ns = self._passed(SpanName.ADAPTER_LOAD, start_ns, attributes) - start_ns

    def note_load_failure(self, start_ns: int) -> None:
        """The adapter could not be loaded."""
        self.facts.route_reason = "miss"
        self._passed(SpanName.ADAPTER_LOAD, start_ns, {Attr.ERROR_TYPE: ErrorType.LOAD_FAILED.value})

    def note_engine(self, context: RequestContext) -> None:
        """The engine is called next, with that context."""
        self.context, self.facts.reached_engine, self.engine_from_ns = context, True, self.now()

    def note_first_token(self) -> None:
        """The first token goes to the client."""
        self.facts.first_token_ns = self.now()

    def note_client(self, waited_ns: int, undelivered: bool) -> None:
        """So long the attempt waited for its client alone; one that left before it got anything had no success."""
        facts, self._undelivered = self.facts, undelivered
        facts.client_ns = waited_ns
        if undelivered and facts.status is Status.OK:
            facts.status, facts.error_type = Status.CLIENT_ABORT, ErrorType.CLIENT_ABORT

    def note_reply(self, http_status: int | None, reply: Reply) -> None:
        """What the client was told in the end."""
        facts, undelivered = self.facts, self._undelivered
        facts.http_status = None if undelivered else http_status
        facts.input_tokens, facts.cached_tokens = reply.input_tokens, reply.cached_tokens
        facts.output_tokens = reply.output_tokens
        facts.delivered = 0 if undelivered else reply.delivered
        facts.response_id, facts.finish_reasons = reply.response_id, reply.finish_reasons

    def end(self, status: Status, error_type: ErrorType | None = None) -> None:
        """The outcome; the first one said holds."""
        if self.facts.status is None:
            self.facts.status, self.facts.error_type = status, error_type
            self.facts.finished_ns = self.now()

    def _passed(self, name: str, start_ns: int, attributes: Mapping[str, Any]) -> int:
        """A stage is over now; the instant."""
        end_ns = self.now()
        self.trail.append(Stage(name, start_ns, end_ns, attributes))
        return end_ns

"""The spool lines of an attempt beside its record: that it was opened, and how it was routed."""

from __future__ import annotations

from serving.attempt.attempt import Attempt
from telemetry.engine_time import Opened
from telemetry.names import EventName
from telemetry.otlp import event_line
from telemetry.routes import RouteRecord


def opened_line(attempt: Attempt) -> str:
    """An attempt of that number is under way, whatever becomes of it."""
    facts = attempt.facts
    opened = Opened(
        emitter=facts.emitter,
        seq=facts.seq,
        request_id=facts.request_id,
        tenant=facts.tenant,
        arrival_ns=facts.arrival_ns,
        trace_id=facts.trace_id,
        engine=facts.engine,
    )
    return event_line(EventName.OPENED, opened.to_json(), facts.arrival_ns, {}, facts.emitter, facts.seq)


def route_line(attempt: Attempt) -> str | None:
    """The attempt's line of the decision log; None when it was never routed."""
    facts = attempt.facts
    if attempt.asked is None or facts.route_policy is None:
        return None
    route = RouteRecord(
        asked=attempt.asked,
        adapter=facts.adapter,
        rule=facts.route_rule,
        policy=facts.route_policy,
        engine=facts.engine,
        reason=facts.route_reason or "client_abort",
    )
    at_ns = facts.arrival_ns + (facts.route_ns or 0)
    return event_line(EventName.ROUTE, route.to_json(), at_ns, {}, facts.emitter, facts.seq)

"""An attempt notes what happened when it did; its first outcome holds, and a reply that nobody got delivered nothing."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pytest

from catalog.model import Tenant
from serving.attempt.attempt import Attempt, Stage
from serving.attempt.record import Facts
from serving.attempt.residency_door import Lease
from serving.engine.door import AdapterFiles, LoadTiming
from serving.policy.routing import Decision, Denial
from serving.protocol.request import read_call
from serving.protocol.response import Reply
from serving.wire.request_context import RequestContext
from telemetry.names import Attr, SpanName
from telemetry.usage import ErrorType, Status

FILES = AdapterFiles("coder", Path("/coder"), "ab" * 32, 8, 1000)
TAKEN = cast("Any", "what was taken")
ASKED = cast("Any", "what was asked")


class Time:
    """Monotonic time that a test moves."""

    now = 500

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def attempt(time: Time) -> Attempt:
    return Attempt(Facts("gw-1", 7, "req-1", "clinic", 10_000, "tiny"), cast("Any", None), time)


def test_its_clock_goes_on_from_its_arrival(attempt: Attempt, time: Time) -> None:
    assert attempt.now() == 10_000
    time.now += 7
    assert attempt.now() == 10_007
    assert (attempt.closed, attempt.trail, attempt.engine_from_ns) == (False, [], 0)
    facts = attempt.facts
    assert (facts.routed, facts.reached_engine, facts.warm) == (False, False, False)
    assert (facts.delivered, facts.client_ns, facts.tries) == (0, 0, 1)


def test_the_tenants_promise_and_what_was_asked_are_noted(attempt: Attempt) -> None:
    tenant = Tenant.model_validate(
        {"id": "clinic", "name": "C", "slo": {"p99_seconds": "1.5"}, "plan": {"kind": "cost_plus"}}
    )
    attempt.note_tenant(tenant)
    attempt.note_call(read_call("/v1/completions", b'{"prompt": "a", "stream": true}'))
    assert (attempt.tenant, attempt.facts.slo_seconds) == (tenant, Decimal("1.5"))
    assert (attempt.facts.operation, attempt.facts.stream) == ("text_completion", True)


def test_a_route_is_noted_with_its_rule_and_a_refusal_with_its_reason(attempt: Attempt, time: Time) -> None:
    time.now += 30
    attempt.note_route(ASKED, Decision("clinic", "coder", "explicit", "p1"), 10_010)
    facts = attempt.facts
    assert (facts.routed, facts.adapter, facts.route_rule, facts.route_policy) == (True, "coder", "explicit", "p1")
    assert (facts.route_ns, facts.route_reason, attempt.asked) == (20, None, ASKED)
    assert attempt.trail == [
        Stage(SpanName.ROUTE, 10_010, 10_030, {Attr.ROUTE_RULE: "explicit", Attr.ROUTE_POLICY: "p1"})
    ]
    denied = Attempt(replace(facts, routed=False, adapter=None), cast("Any", None), time)
    denied.note_route(ASKED, Denial("clinic", "risk", "denied", "p1"), 10_000)
    assert (denied.facts.routed, denied.facts.route_reason, denied.facts.adapter) == (False, "denied", None)
    assert denied.trail[0].attributes == {Attr.ROUTE_REASON: "denied", Attr.ROUTE_POLICY: "p1"}


def test_admission_is_an_instant_or_a_refusal(attempt: Attempt, time: Time) -> None:
    time.now += 5
    attempt.note_admission(TAKEN, 10_002)
    assert (attempt.ask, attempt.facts.admitted_ns, attempt.facts.route_reason) == (TAKEN, 10_005, None)
    attempt.note_admission(None, 10_002)
    assert (attempt.ask, attempt.facts.route_reason) == (None, "rejected")
    assert [(stage.name, stage.start_ns, stage.end_ns) for stage in attempt.trail] == [
        (SpanName.ADMISSION, 10_002, 10_005)
    ] * 2


def test_an_adapter_that_had_to_be_loaded_was_waited_for_and_one_that_was_there_was_not(
    attempt: Attempt, time: Time
) -> None:
    assert attempt.served_name == "tiny"
    attempt.note_residency("hit", None, 10_000, False)
    assert (attempt.facts.route_reason, attempt.facts.adapter_hash, attempt.trail) == ("hit", None, [])
    attempt.note_residency("hit", Lease(FILES, "hit", None), 10_000, True)
    assert (attempt.facts.adapter_hash, attempt.facts.cold_ns, attempt.facts.warm) == (FILES.hash, None, True)
    assert (attempt.served_name, attempt.trail) == (FILES.served_name, [])
    time.now += 40
    attempt.note_residency("miss", Lease(FILES, "miss", LoadTiming(11, 12, 30, 1000)), 10_010, False)
    assert (attempt.facts.cold_ns, attempt.facts.route_reason, attempt.facts.warm) == (30, "miss", False)
    said = {Attr.ADAPTER_HASH: FILES.hash, Attr.LOAD_READ_NS: 11, Attr.LOAD_ACTIVATE_NS: 12}
    assert attempt.trail == [Stage(SpanName.ADAPTER_LOAD, 10_010, 10_040, said)]


def test_a_load_that_failed_is_a_stage_with_its_error(attempt: Attempt, time: Time) -> None:
    time.now += 9
    attempt.note_load_failure(10_001)
    assert attempt.facts.route_reason == "miss"
    assert attempt.trail == [Stage(SpanName.ADAPTER_LOAD, 10_001, 10_009, {Attr.ERROR_TYPE: "load_failed"})]


def test_engine_and_first_token_are_instants(attempt: Attempt, time: Time) -> None:
    context = RequestContext("gw-1:7", "clinic", "salt")
    time.now += 3
    attempt.note_engine(context)
    time.now += 3
    attempt.note_first_token()
    assert (attempt.context, attempt.facts.reached_engine, attempt.engine_from_ns) == (context, True, 10_003)
    assert attempt.facts.first_token_ns == 10_006


REPLY = Reply(input_tokens=3, cached_tokens=1, output_tokens=4, delivered=4, response_id="r", finish_reasons=("stop",))


@pytest.mark.parametrize(("undelivered", "http", "delivered"), [(False, 200, 4), (True, None, 0)])
def test_of_a_reply_that_nobody_got_nothing_was_delivered(
    attempt: Attempt, undelivered: bool, http: int | None, delivered: int
) -> None:
    attempt.end(Status.OK)
    attempt.note_client(17, undelivered)
    attempt.note_reply(200, REPLY)
    facts = attempt.facts
    assert (facts.http_status, facts.delivered, facts.client_ns) == (http, delivered, 17)
    assert (facts.input_tokens, facts.cached_tokens, facts.output_tokens) == (3, 1, 4)
    assert (facts.response_id, facts.finish_reasons) == ("r", ("stop",))
    aborted = (Status.CLIENT_ABORT, ErrorType.CLIENT_ABORT)
    assert (facts.status, facts.error_type) == (aborted if undelivered else (Status.OK, None))


def test_a_reply_of_which_no_client_was_said_to_leave_was_delivered(attempt: Attempt) -> None:
    attempt.note_reply(200, REPLY)
    assert (attempt.facts.http_status, attempt.facts.delivered) == (200, 4)


def test_a_failure_stays_one_when_the_client_has_gone(attempt: Attempt) -> None:
    attempt.end(Status.SERVER_ERROR, ErrorType.OOM)
    attempt.note_client(0, True)
    assert (attempt.facts.status, attempt.facts.error_type) == (Status.SERVER_ERROR, ErrorType.OOM)


def test_the_first_outcome_holds_with_its_instant(attempt: Attempt, time: Time) -> None:
    time.now += 1
    attempt.end(Status.TIMEOUT, ErrorType.ENGINE_ERROR)
    time.now += 1
    attempt.end(Status.OK)
    assert (attempt.facts.status, attempt.facts.error_type) == (Status.TIMEOUT, ErrorType.ENGINE_ERROR)
    assert attempt.facts.finished_ns == 10_001

"""Books an attempt that is over: its record is on disk before its reply ends, whatever else fails."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Future

from serving.attempt import telling
from serving.attempt.answer import Answer
from serving.attempt.attempt import Attempt
from serving.attempt.engine_call import engine_work
from serving.attempt.measures import observe
from serving.attempt.record import usage_record
from serving.attempt.services import Services
from serving.attempt.telling import guarded, route_line
from serving.metering.accounting import Measured
from telemetry.usage import ErrorType, Status, UsageRecord

log = logging.getLogger(__name__)


async def close(services: Services, attempt: Attempt, answer: Answer) -> None:
    """Book the attempt, once; returns when the record is on disk, or when that takes too long or fails (said loudly).

    A cancellation hurries it along, and the record is written all the same.
    """
    if attempt.closed:
        return
    attempt.closed = True
    facts, key = attempt.facts, attempt.facts.attempt_key
    attempt.end(Status.SERVER_ERROR, ErrorType.ENGINE_ERROR)
    attempt.note_reply(answer.status, answer.reply)
    meter, computed, record = None, facts.reached_engine, None
    try:
        meter, computed = await engine_work(services.door, attempt, answer, services.limits.meter_s)
    finally:
        try:
            record = usage_record(facts, meter, computed)
            durable = _book(services, attempt, key, record, meter)
        finally:
            _give_back(services, attempt, key, meter, record)
    await _on_disk(durable, key, services.limits.durable_s)
    if meter is not None and meter.cached_tokens is not None:
        answer.restate(meter.cached_tokens)


def _book(services: Services, attempt: Attempt, key: str, record: UsageRecord, meter: Measured | None) -> Future[None]:
    """Hand the record to the disk, and tell the decision log, the trace and the metrics, each of which may fail by itself."""
    facts = attempt.facts
    if problems := record.problems():
        log.error("record %s contradicts itself: %s", key, "; ".join(problems))
    # Before the record, since lines reach the disk in order: where the record is, the decision is too.
    with guarded("record %s: its routing decision is not logged", key):
        if (line := route_line(attempt)) is not None:
            services.spool.note(line)
    try:
        telling.describe(attempt, record, meter)
    except Exception as error:
        services.tracing.count_failure(error)
    durable = attempt.trace.close(record, facts.http_status, record.finished_ns or facts.arrival_ns)
    with guarded("record %s is not in the metrics", key):
        observe(services.metrics, record, facts)
    return durable


def _give_back(
    services: Services, attempt: Attempt, key: str, meter: Measured | None, record: UsageRecord | None
) -> None:
    """Let go of what the attempt held."""
    facts = attempt.facts
    if attempt.lease is not None:
        with guarded("attempt %s: its adapter could not be given back", key):
            services.residency.release(attempt.lease.files.served_name)
    if attempt.ask is not None and attempt.tenant is not None:
        used = meter.input_tokens + meter.output_tokens if meter is not None else None
        if not facts.reached_engine:
            used = 0
        with guarded("attempt %s: its quotas could not be given back", key):
            services.quotas.settle(attempt.tenant, attempt.ask, used, facts.seq, record)


async def _on_disk(durable: Future[None], key: str, timeout_s: float) -> None:
    waiting = asyncio.wrap_future(durable)
    waiting.add_done_callback(lambda future: future.cancelled() or future.exception())
    done, _ = await asyncio.wait({waiting}, timeout=timeout_s)
    if not done:
        log.critical("record %s is not on disk after %g s", key, timeout_s)
    for future in done:
        if (error := future.exception()) is not None:
            log.critical("record %s is not on disk: %s", key, error)

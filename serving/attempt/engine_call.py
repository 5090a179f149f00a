"""Calls the engine's ASGI app for one attempt, sees to it that the call ends, and tells what came of it: reply and work."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from starlette.types import ASGIApp, Message, Scope, Send

from serving.attempt.answer import Answer
from serving.attempt.attempt import Attempt
from serving.attempt.client import Client
from serving.engine.door import EngineDoor
from serving.metering.accounting import Measured
from serving.protocol import errors
from serving.protocol.errors import Refusal
from serving.wire.request_context import REQUEST_CONTEXT, RequestContext
from telemetry.usage import ErrorType, Status

log = logging.getLogger(__name__)

OUT_OF_MEMORY: Final = "out of memory"
NOT_IMPLEMENTED: Final = 501
"""vLLM's word for what this model cannot do: the request was wrong to ask."""
LATE_LOOK_S: Final = 0.05
LATE_LOOKS: Final = 10


def engine_scope(scope: Scope, path: str, headers: list[tuple[bytes, bytes]]) -> Scope:
    """What the engine's app is told about the connection: a plain POST to `path`, nothing else of the client's."""
    return {
        "type": "http",
        "asgi": scope.get("asgi", {"version": "3.0"}),
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": headers,
        "client": None,
        "server": scope.get("server"),
        "state": {},
    }


async def call_engine(
    app: ASGIApp,
    scope: Scope,
    body: bytes,
    client: Client,
    send: Send,
    context: RequestContext | None,
    *,
    limit_s: float,
    grace_s: float,
) -> None:
    """Run `app` to its end, for the attempt that holds `context`, or for none.

    It hears of a hang-up by `http.disconnect`, and is cancelled when it does not end then.

    Raises what the app raised, ClientGone when the client hung up first, Refusal (504) after `limit_s`. The app has ended
    whenever this returns or raises.
    """
    told = False

    async def receive() -> Message:
        nonlocal told
        if not told:
            told = True
            return {"type": "http.request", "body": body, "more_body": False}
        await client.gone.wait()
        return {"type": "http.disconnect"}

    async def call() -> None:
        REQUEST_CONTEXT.set(context)
        await app(scope, receive, send)

    try:
        await client.unless_gone(call(), limit_s=limit_s, grace_s=grace_s)
    except TimeoutError:
        raise errors.timed_out(limit_s) from None


def refusal_of(answer: Answer, context: RequestContext, request_id: str) -> Refusal | None:
    """What the client must read instead of the engine's reply, and the ledger books; None when the reply stands. Pure.

    It goes by everything that is known of the reply, not by its HTTP status alone: a reply stands when it came to its end, and
    neither it nor the engine said anywhere that something went wrong; also when vLLM refuses the request by an HTTP status.
    Words about the client's own request are passed on, all others stay inside.
    """
    status, failure, refused = answer.status, answer.reply.failure, context.refused
    # A 404 would be about the adapter, which we made resident ourselves: not the client's fault.
    bad_status = status is None or status >= 500 or status == 404
    sound = failure is None and not context.unfinished
    if answer.complete and not bad_status and (status != 200 or sound):
        return None
    if refused is not None and refused.clients_fault:
        return errors.refused_by_engine(refused.http_status, answer.names.restored(refused.message), refused.param)
    if failure is not None and failure.clients_fault and status == 200:
        return errors.refused_by_engine(
            failure.http_status or 400, answer.names.restored(failure.message), failure.param
        )
    if status == NOT_IMPLEMENTED and failure is not None:
        return errors.refused_by_engine(400, answer.names.restored(failure.message), failure.param)
    failed = errors.engine_failed(request_id)
    if failure is not None and OUT_OF_MEMORY in failure.message.lower():
        failed.error_type = ErrorType.OOM
    return failed


async def engine_work(
    door: EngineDoor, attempt: Attempt, answer: Answer, timeout_s: float
) -> tuple[Measured | None, bool]:
    """What the engine did for an attempt: the meter's figures, and whether the engine worked on the attempt at all."""
    if not attempt.facts.reached_engine:
        return None, False
    key = attempt.facts.attempt_key
    try:
        if not await _entered(door, attempt, answer):
            return None, False
        return await door.measured(key, timeout_s), True
    except Exception:
        log.exception("record %s: the meter could not be asked", key)
        return None, True


async def _entered(door: EngineDoor, attempt: Attempt, answer: Answer) -> bool:
    """Whether the engine's scheduler ever saw the attempt; what an engine broke on, or a client left, may never get there.

    Where nobody watches the engine's entry the meter's word may come a moment after the engine's, so it is given that moment.
    """
    key, context, reply = attempt.facts.attempt_key, attempt.context, answer.reply
    if context is not None and context.watched and not context.entered:
        return False
    worked = reply.delivered > 0 or (answer.complete and answer.status == 200 and reply.failure is None)
    if worked or door.knows(key):
        return True
    seen = context is not None and context.entered > 0
    if not seen and answer.complete and attempt.facts.status is Status.BAD_REQUEST:
        return False
    for _ in range(LATE_LOOKS):
        await asyncio.sleep(LATE_LOOK_S)
        if door.knows(key):
            return True
    return False

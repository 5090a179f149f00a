"""Calls the engine's ASGI app for one attempt, sees to it that the call ends, and tells what its reply means."""

from __future__ import annotations

from typing import Final

from starlette.types import ASGIApp, Message, Scope, Send

from serving.attempt.answer import Answer
from serving.attempt.client import Client
from serving.protocol import errors
from serving.protocol.errors import Refusal
from serving.wire.request_context import REQUEST_CONTEXT, RequestContext
from telemetry.usage import ErrorType

OUT_OF_MEMORY: Final = "out of memory"
NOT_IMPLEMENTED: Final = 501
"""vLLM's word for what this model cannot do: the request was wrong to ask."""


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

    It goes by everything that is known of the reply, not by its HTTP status alone.
    A reply stands when it came to its end, and neither it nor the engine said anywhere that something went wrong; also when vLLM refuses the request by
    an HTTP status. Words about the client's own request are passed on, all others stay inside.
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

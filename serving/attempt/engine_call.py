"""Calls the engine's ASGI app for one attempt and sees to it that the call ends."""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Scope, Send

from serving.attempt.client import Client
from serving.protocol.errors import ClientGone
from serving.wire.request_context import REQUEST_CONTEXT, RequestContext


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

    Raises what the app raised, ClientGone when the client hung up first, TimeoutError after `limit_s`. The app has ended
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

    task = asyncio.create_task(call())
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    leaving = asyncio.create_task(client.gone.wait())
    try:
        await asyncio.wait({task, leaving}, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        if not task.done() and client.gone.is_set():
            await asyncio.wait({task}, timeout=grace_s)
    finally:
        leaving.cancel()
        late = not task.done()
        if late:
            task.cancel()
            await asyncio.wait({task}, timeout=grace_s)
    if client.gone.is_set():
        raise ClientGone
    if late:
        raise TimeoutError
    task.result()

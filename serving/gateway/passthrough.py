"""Passes on what makes the engine compute nothing: text to tokens and back, a count of tokens, vLLM's version.

No attempt: nothing is metered, nothing is booked, and nothing of it may enter the engine.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final
from uuid import uuid4

import msgspec
from starlette.datastructures import Headers
from starlette.types import Message, Scope

from catalog.model import Tenant
from serving.attempt.catalog_source import View
from serving.attempt.client import Client, declared_length, offload
from serving.attempt.engine_call import call_engine, engine_scope
from serving.attempt.limits import Limits
from serving.engine.door import EngineDoor
from serving.gateway.clients import reply
from serving.gateway.routes import COUNT, VERSION
from serving.protocol import errors
from serving.protocol.dialects import CHOICES, MESSAGES
from serving.protocol.errors import ClientGone, Refusal
from serving.protocol.fields import read_object
from serving.protocol.json_body import LARGE
from serving.protocol.rewrite import permitted

log = logging.getLogger(__name__)

AT_ONCE: Final = 4
"""How many are in vLLM's front end together: a long text holds a thread of the tokenizer's."""
AT_ONCE_EACH: Final = 8
"""How many a tenant may have there or waiting."""
TEXT_BYTES: Final = LARGE
"""The longest body whose every token is told: vLLM makes the reply in the event loop."""
TIMEOUT_S: Final = 30.0


class Passthrough:
    """Serves those routes for one gateway process."""

    def __init__(self, door: EngineDoor, limits: Limits) -> None:
        self._door, self._limits = door, limits
        self._seats = asyncio.Semaphore(AT_ONCE)
        self._inside: Counter[str] = Counter()

    async def serve(self, scope: Scope, client: Client, view: View, tenant: Tenant) -> None:
        """One request of `tenant`, from its body to its reply."""
        headers: Mapping[str, str] = {}
        try:
            with self._counted(tenant):
                status, body = await self._answer(scope, client, view, tenant)
        except Refusal as refusal:
            dialect = MESSAGES if scope["path"] == COUNT else CHOICES
            status, body, headers = refusal.http_status, dialect.error_body(refusal.body()), refusal.headers()
        except ClientGone:
            return
        await reply(client.send, status, body, headers)

    @contextmanager
    def _counted(self, tenant: Tenant) -> Iterator[None]:
        if self._inside[tenant.id] >= AT_ONCE_EACH:
            raise errors.over_quota("requests_beside", f"{AT_ONCE_EACH} requests of this kind at once", 1)
        self._inside[tenant.id] += 1
        try:
            yield
        finally:
            self._inside[tenant.id] -= 1

    async def _answer(self, scope: Scope, client: Client, view: View, tenant: Tenant) -> tuple[int, bytes]:
        path, method = scope["path"], scope["method"]
        limit = self._limits.body_bytes if path == COUNT else min(TEXT_BYTES, self._limits.body_bytes)
        raw = await client.body(declared_length(Headers(scope=scope)), limit, self._limits.body_s)
        body = b"" if path == VERSION else await offload(len(raw), self._body, raw, view, tenant)
        heard: list[Message] = []

        async def hear(message: Message) -> None:
            heard.append(message)

        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        inner = {**engine_scope(scope, path, headers), "method": method}
        try:
            async with self._seats:
                await call_engine(
                    self._door.app,
                    inner,
                    body,
                    client,
                    hear,
                    None,
                    limit_s=TIMEOUT_S,
                    grace_s=self._limits.abort_grace_s,
                )
        except (ClientGone, Refusal):
            raise
        except Exception as error:
            raise await self._failed(path, error) from None
        status: int = heard[0]["status"] if heard else 500
        if status >= 500:
            raise await self._failed(path, None)
        return status, b"".join(message.get("body", b"") for message in heard)

    def _body(self, raw: bytes, view: View, tenant: Tenant) -> bytes:
        """The client's body for the base model: all models of an engine have its tokenizer and its chat template."""
        body = read_object(raw)
        model = body.get("model")
        if model is not None and not isinstance(model, str):
            raise errors.bad_body("`model` must be a string.", "model")
        if model is not None and model not in (view.catalog.base_model.name, "auto", *tenant.adapters):
            raise errors.unknown_model(model)
        return msgspec.json.encode(permitted(body) | {"model": self._door.base_model})

    async def _failed(self, path: str, error: Exception | None) -> Refusal:
        """Nothing entered the engine: while it is up, what its front end broke on is the body."""
        request_id = uuid4().hex
        log.error("request %s: vLLM could not answer %s: %s", request_id, path, error or "it said no more")
        if await self._door.healthy():
            return errors.unreadable()
        return errors.engine_failed(request_id)

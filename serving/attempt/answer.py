"""One reply on its way to the client: rewritten as it passes, its end held back until the attempt's record is on disk.

Its beginning is held back too, until an event shows that the engine is at work: what fails before that is a plain error reply.
"""

from __future__ import annotations

from collections.abc import Callable

from starlette.types import Message

from serving.attempt.client import Client
from serving.protocol.dialects import CHOICES, Dialect
from serving.protocol.errors import Refusal
from serving.protocol.request import Call
from serving.protocol.response import EventStream, Names, Reply, restated, rewrite_json
from serving.wire.request_context import RequestContext

EVENT_STREAM = b"text/event-stream"


class Answer:
    """Takes what the engine's app sends (`engine_send`) or a refusal; `finish` sends what was held back.

    `status` is None until there is a reply; `complete` once the engine said its last word to a client that was there;
    `streaming` once the client got the beginning of a stream. `names` are the model's, as engine and client know it.
    """

    def __init__(self, client: Client, request_id: str, dialect: Dialect = CHOICES) -> None:
        self._client, self._request_id, self._dialect = client, request_id, dialect
        self.names = Names("", "")
        self._stream: EventStream | None = None
        self._events: EventStream | None = None
        self._on_first_token: Callable[[], None] = lambda: None
        self._content_type = b"application/json"
        self._extra_headers: dict[str, str] = {}
        self._whole = b""
        self._prelude = b""
        self._held = b""
        self.streaming = self._several = False
        self.status: int | None = None
        self.complete = False
        self.reply = Reply()

    def expect(self, call: Call, names: Names, context: RequestContext, on_first_token: Callable[[], None]) -> None:
        """Prepare for the engine's reply to `call`; `on_first_token` is called when the first token goes out."""
        self.names, self._on_first_token = names, on_first_token
        self._several = call.prompts * call.choices > 1
        self._stream = EventStream(
            names,
            call.include_usage,
            call.continuous_usage,
            self.reply,
            self._dialect,
            lambda: context.handed if context.watched else None,
        )

    async def engine_send(self, message: Message) -> None:
        """The `send` given to the engine's app."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = {name.lower(): value for name, value in message.get("headers", ())}
            self._content_type = headers.get(b"content-type", self._content_type)
            if self._content_type.startswith(EVENT_STREAM) and self.status == 200:
                self._events = self._stream
        elif message["type"] == "http.response.body":
            last = not message.get("more_body", False)
            if self._events is not None:
                await self._pass_on(self._events, message.get("body", b""))
            else:
                self._whole += message.get("body", b"")
            if last and not self._client.gone.is_set():
                self._end()

    async def _pass_on(self, events: EventStream, body: bytes) -> None:
        before = self.reply.delivered
        out = events.feed(body)
        if self._client.gone.is_set():
            self.reply.delivered = before
            return
        if not self.streaming and not events.begun:
            self._prelude += out
            return
        if out:
            if not before and self.reply.delivered:
                self._on_first_token()
            await self._start(None)
            out, self._prelude = self._prelude + out, b""
            await self._client.send({"type": "http.response.body", "body": out, "more_body": True})

    def _end(self) -> None:
        self.complete = True
        if self._events is not None:
            self._held = self._events.end()
        else:
            self._held = rewrite_json(self._whole, self.names, self.reply, self._dialect)

    def restate(self, cached_tokens: int) -> None:
        """Let the reply say what was measured as cached, where vLLM's word is of one of several prompts or choices."""
        if self._several and self.reply.failure is None:
            self._held = restated(self._held, cached_tokens)

    def refuse(self, refusal: Refusal) -> None:
        """Answer with an error instead; inside a stream that has begun, as its last event."""
        self._prelude = b""
        if self.streaming:
            self._held = self._dialect.error_event(refusal.body())
            return
        self.status = refusal.http_status
        self._content_type = b"application/json"
        self._extra_headers = dict(refusal.headers())
        self._events = None
        self._held = self._dialect.error_body(refusal.body())

    async def finish(self) -> None:
        """Send the end of the reply."""
        if self.status is None:
            return
        body = self._prelude + self._held
        await self._start(None if self._events is not None else len(body))
        await self._client.send({"type": "http.response.body", "body": body, "more_body": False})

    async def _start(self, length: int | None) -> None:
        if self.streaming:
            return
        self.streaming = True
        headers = [
            (b"content-type", self._content_type),
            (b"x-request-id", self._request_id.encode()),
            *((name.encode(), value.encode()) for name, value in self._extra_headers.items()),
            (b"cache-control", b"no-cache") if length is None else (b"content-length", str(length).encode()),
        ]
        await self._client.send({"type": "http.response.start", "status": self.status, "headers": headers})

"""The OTLP endpoint: spans of other services, so that one trace is in one place. For operators; requests come first.

What it takes is on disk before it says so. When the disk refuses or too much waits, the sender is told to come again: the
spool's memory is for usage records.
"""

from __future__ import annotations

import asyncio
import json
import logging
import zlib
from typing import Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from serving.attempt.client import Client, declared_length
from serving.attempt.services import Services
from serving.gateway.clients import reply
from serving.protocol.errors import ClientGone, Refusal
from telemetry.errors import LineInvalid, SpoolWriteFailed
from telemetry.otlp_receive import Received, received

log = logging.getLogger(__name__)

TRACES: Final = "/v1/traces"
PROTOBUF: Final = "application/x-protobuf"
JSON: Final = "application/json"
MOST_AT_ONCE: Final = 8
"""Messages in hand at once; senders beyond are told to come again."""
HELD_BYTES: Final = 8 << 20
"""With more lines than this waiting for the disk, spans of others are not taken."""
RETRY_AFTER_S: Final = 5
_INVALID, _UNAVAILABLE = 3, 14
_MESSAGE_BYTES: Final = 120


class SpanIntake:
    """Takes OTLP/HTTP trace messages, protobuf or JSON, gzipped or not, and appends their spans to the spool."""

    def __init__(self, services: Services) -> None:
        self._spool, self._limits, self._clock = services.spool, services.limits, services.clock
        self._in_hand = 0
        self._parsing = asyncio.Semaphore(1)
        self.spans = 0
        """Spans taken."""
        self.rejected = 0
        """Spans of taken messages that were not."""
        self.refused = 0
        """Messages refused."""

    async def take(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One message, answered as OTLP/HTTP asks for: 200, 4xx when it is no good, 503 to come again."""
        headers = Headers(scope=scope)
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        client = Client(receive, send)
        self._in_hand += 1
        try:
            taken = await self._take(client, headers, kind)
        except Refusal as refused:
            self.refused += 1
            await _refuse(send, kind, refused)
        except ClientGone:
            self.refused += 1
        else:
            self.spans += taken.spans
            self.rejected += taken.rejected
            await _thank(send, kind, taken)
        finally:
            self._in_hand -= 1
            client.close()

    async def _take(self, client: Client, headers: Headers, kind: str) -> Received:
        if kind not in (PROTOBUF, JSON):
            raise Refusal(415, "invalid_argument", f"send {PROTOBUF} or {JSON}")
        self._must_have_room()
        limits = self._limits
        body = await client.body(declared_length(headers), limits.body_bytes, limits.body_s)
        try:
            # One at a time and off the event loop: requests that are being served must not wait for a parser.
            async with self._parsing:
                taken = await asyncio.to_thread(
                    _read,
                    body,
                    headers.get("content-encoding", ""),
                    kind == PROTOBUF,
                    limits.body_bytes,
                    self._clock.utc_ns(),
                )
        except LineInvalid as error:
            raise Refusal(400, "invalid_argument", error.reason) from error
        if taken.line is not None:
            self._must_have_room()
            await self._store(taken.line)
        return taken

    def _must_have_room(self) -> None:
        if self._in_hand > MOST_AT_ONCE:
            raise Refusal(503, "unavailable", "too many messages at once")
        if self._spool.refused is not None or self._spool.held_bytes > HELD_BYTES:
            raise Refusal(503, "unavailable", "the spool cannot take more now")

    async def _store(self, line: str) -> None:
        try:
            await asyncio.wait_for(asyncio.wrap_future(self._spool.append(line)), self._limits.durable_s)
        except (SpoolWriteFailed, TimeoutError) as error:
            raise Refusal(503, "unavailable", "not on disk yet") from error


def _read(body: bytes, encoding: str, protobuf: bool, limit: int, now_ns: int) -> Received:
    if encoding not in ("", "identity", "gzip"):
        raise LineInvalid(f"content-encoding {encoding!r} is not gzip")
    if encoding == "gzip":
        try:
            unpacker = zlib.decompressobj(31)
            body = unpacker.decompress(body, limit + 1)
        except zlib.error as error:
            raise LineInvalid("not gzip") from error
        if len(body) > limit:
            raise LineInvalid(f"more than {limit} bytes when unpacked")
        if not unpacker.eof:
            raise LineInvalid("the gzip data ends too early")
    return received(body, protobuf=protobuf, now_ns=now_ns)


async def _thank(send: Send, kind: str, taken: Received) -> None:
    """An ExportTraceServiceResponse; what was not taken is its partial success, which the sender must not send again."""
    if taken.note:
        log.warning("spans sent to %s: %d taken, %d rejected: %s", TRACES, taken.spans, taken.rejected, taken.note)
    if kind == JSON:
        partial = {"rejectedSpans": str(taken.rejected), "errorMessage": taken.note}
        body = json.dumps({"partialSuccess": partial} if taken.note else {}).encode()
    else:
        answer = ExportTraceServiceResponse()
        if taken.note:
            answer.partial_success.rejected_spans = taken.rejected
            answer.partial_success.error_message = taken.note
        body = answer.SerializeToString()
    await reply(send, 200, body, {"content-type": kind})


async def _refuse(send: Send, kind: str, refused: Refusal) -> None:
    """A google.rpc.Status, in the sender's own encoding. 503 asks the sender to come again; the others say that it need not."""
    code = _UNAVAILABLE if refused.http_status == 503 else _INVALID
    text = refused.message.encode("utf-8", "replace")[:_MESSAGE_BYTES]
    headers = {"content-type": kind if kind == PROTOBUF else JSON}
    if refused.http_status == 503:
        headers["retry-after"] = str(RETRY_AFTER_S)
    if kind == PROTOBUF:
        body = bytes([0x08, code, 0x12, len(text)]) + text
    else:
        body = json.dumps({"code": code, "message": text.decode("utf-8", "ignore")}).encode()
    await reply(send, refused.http_status, body, headers)

"""How each family of operations words its replies, its stream events and its errors. Pure functions of JSON values."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from serving.wire.request_context import BROKEN

DONE: Final = "[DONE]"
"""The last event of OpenAI's older streams; it is no JSON and has no type."""
FAILED: Final = frozenset({"failed", "cancelled"})
"""The same as the status of a response."""


class Usage(NamedTuple):
    """Tokens of a whole reply, in its own words; `input_tokens` includes the cached ones. None: it did not say."""

    input_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None


@dataclass(frozen=True, slots=True)
class Failure:
    """That a reply ended in an error. `http_status` None: it did not say whose fault it was."""

    message: str
    http_status: int | None = None
    param: str | None = None

    @property
    def clients_fault(self) -> bool:
        """Whether the reply itself says that the request was wrong."""
        return self.http_status is not None and 400 <= self.http_status < 500

    @classmethod
    def of(cls, error: Any) -> Failure:
        """An error object of any shape."""
        if not isinstance(error, dict):
            return cls(str(error))
        code, param = error.get("code"), error.get("param")
        status = code if isinstance(code, int) and not isinstance(code, bool) else None
        message = error.get("message")
        return cls(
            message if isinstance(message, str) else str(error), status, param if isinstance(param, str) else None
        )


@dataclass(frozen=True, slots=True)
class Dialect:
    """One family's words.

    `inner` names the field of an event that holds the reply object with its id, model and usage; None: the event is the object.
    `prelude` are event types that come before the engine took the request, `last` those that end a stream in order.
    `error_event` makes the event that ends a stream otherwise, from OpenAI's error body; `error_body` a whole reply.
    """

    usage: Callable[[Mapping[str, Any]], Usage]
    error_event: Callable[[bytes], bytes]
    error_body: Callable[[bytes], bytes]
    last: frozenset[str]
    inner: str | None = None
    prelude: frozenset[str] = frozenset()

    def objects(self, value: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """A body or event, and the reply object inside it."""
        yield value
        if self.inner is not None and isinstance(held := value.get(self.inner), dict):
            yield held

    def failure(self, value: dict[str, Any]) -> Failure | None:
        """What a body or event says went wrong, whatever its words: an error is one also when it is empty."""
        for part in self.objects(value):
            if part.get("error") is not None:
                return Failure.of(part["error"])
            if part.get("object") == "response" and part.get("status") in FAILED:
                return Failure(f"status {part['status']}")
            for reason in _finish_reasons(part):
                if reason in BROKEN:
                    return Failure(f"finish_reason {reason}")
        if value.get("type") in ("error", "response.failed"):
            return Failure.of(value)
        return None

    def finish_reasons(self, value: dict[str, Any]) -> tuple[str, ...]:
        """Why generation ended, as far as this body or event says."""
        return tuple(reason for part in self.objects(value) for reason in _finish_reasons(part))


def choices_of(value: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The choices of a body or chunk; none in other dialects."""
    choices = value.get("choices")
    return [choice for choice in choices if isinstance(choice, dict)] if isinstance(choices, list) else []


def _finish_reasons(part: Mapping[str, Any]) -> Iterator[str]:
    delta = part.get("delta")
    found = [choice.get("finish_reason") for choice in choices_of(part)]
    found += [part.get("stop_reason"), delta.get("stop_reason") if isinstance(delta, dict) else None]
    if part.get("object") == "response" and part.get("status") not in ("in_progress", "queued"):
        details = part.get("incomplete_details")
        found.append(details.get("reason") if isinstance(details, dict) else part.get("status"))
    return (reason for reason in found if isinstance(reason, str))


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _openai_usage(inputs: str, outputs: str, usage: Mapping[str, Any]) -> Usage:
    details = usage.get(f"{inputs}_details")
    cached = _count(details.get("cached_tokens")) if isinstance(details, dict) else None
    return Usage(_count(usage.get(inputs)), cached, _count(usage.get(outputs)))


def _message_usage(usage: Mapping[str, Any]) -> Usage:
    """Anthropic's `input_tokens` leaves out what was read from the cache and what was written to it."""
    cached, fresh = _count(usage.get("cache_read_input_tokens")), _count(usage.get("input_tokens"))
    written = _count(usage.get("cache_creation_input_tokens")) or 0
    total = None if fresh is None else fresh + (cached or 0) + written
    return Usage(total, cached, _count(usage.get("output_tokens")))


def _choices_error(body: bytes) -> bytes:
    return b"data: " + body + b"\n\ndata: " + DONE.encode() + b"\n\n"


def _typed_error(body: bytes) -> bytes:
    error = json.loads(body)["error"]
    return b"event: error\ndata: " + json.dumps({"type": "error", **error, "error": error}).encode() + b"\n\n"


def _message_body(body: bytes) -> bytes:
    return json.dumps({"type": "error", **json.loads(body)}).encode()


def _message_error(body: bytes) -> bytes:
    return b"event: error\ndata: " + _message_body(body) + b"\n\n"


CHOICES: Final = Dialect(
    partial(_openai_usage, "prompt_tokens", "completion_tokens"), _choices_error, bytes, frozenset({DONE})
)
"""Chat and text completions."""
RESPONSES: Final = Dialect(
    partial(_openai_usage, "input_tokens", "output_tokens"),
    _typed_error,
    bytes,
    frozenset({"response.completed", "response.incomplete"}),
    inner="response",
    prelude=frozenset({"response.created", "response.queued", "response.in_progress"}),
)
"""OpenAI's responses."""
MESSAGES: Final = Dialect(
    _message_usage,
    _message_error,
    _message_body,
    frozenset({"message_stop"}),
    inner="message",
    prelude=frozenset({"ping"}),
)
"""Anthropic's messages."""

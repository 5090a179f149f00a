"""What the client reads instead of what the engine said: public names back in, internals out; and what was delivered, counted.

Pure: bytes in, bytes out. Nothing is buffered but an unfinished event and the end of the stream.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

HIDDEN: Final = ("kv_transfer_params", "ec_transfer_params", "metrics")
"""Top-level fields of replies and chunks that say things about the engine."""
BROKEN: Final = frozenset({"abort", "error"})
"""Finish reasons that mean the engine gave up."""
DONE: Final = b"[DONE]"
FAILED: Final = {
    "message": "The engine could not complete the request.",
    "type": "server_error",
    "param": None,
    "code": 500,
}
"""What a client reads when the engine breaks inside a stream; the engine's own words stay inside."""


@dataclass(frozen=True, slots=True)
class Names:
    """One model: as the engine knows it and as the tenant does."""

    served: str
    public: str


@dataclass(slots=True)
class Reply:
    """What was learned from a reply. None: it did not say. `delivered` counts output tokens handed to the client.

    `failure` is the engine's error text when it reported one.
    """

    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    delivered: int = 0
    response_id: str | None = None
    finish_reasons: tuple[str, ...] = ()
    failure: str | None = None

    def learn(self, chunk: Mapping[str, Any]) -> None:
        """Take identity, finish reasons and errors from a body or chunk."""
        if isinstance(chunk.get("id"), str):
            self.response_id = chunk["id"]
        for choice in _choices(chunk):
            if isinstance(reason := choice.get("finish_reason"), str):
                self.finish_reasons = (*self.finish_reasons, reason)
                if reason in BROKEN:
                    self.failure = self.failure or f"finish_reason {reason}"
        if error := chunk.get("error"):
            self.failure = str(error.get("message", error)) if isinstance(error, dict) else str(error)

    def learn_usage(self, usage: Mapping[str, Any]) -> None:
        """Take the whole reply's usage."""
        self.input_tokens, self.output_tokens = usage.get("prompt_tokens"), usage.get("completion_tokens")
        if isinstance(details := usage.get("prompt_tokens_details"), dict):
            self.cached_tokens = details.get("cached_tokens")


def rewrite_json(raw: bytes, names: Names, reply: Reply) -> bytes:
    """A whole JSON reply as the client may see it; facts go to `reply`. What is not JSON only has its names restored."""
    try:
        body: Any = json.loads(raw)
    except ValueError:
        return _restored(raw, names)
    if not isinstance(body, dict):
        return _restored(raw, names)
    reply.learn(body)
    if isinstance(usage := body.get("usage"), dict):
        reply.learn_usage(usage)
        reply.delivered = usage.get("completion_tokens") or 0
    return _public(body, names)


@dataclass(slots=True)
class EventStream:
    """Rewrites a stream of server-sent events as it passes; `[DONE]` is kept for `end`.

    `wants_usage` and `wants_continuous` are what the client itself asked for.
    """

    names: Names
    wants_usage: bool
    wants_continuous: bool
    reply: Reply = field(default_factory=Reply)
    _rest: bytes = b""
    _end: bytes = b""
    _by_choice: dict[int, int] = field(default_factory=dict)

    def feed(self, raw: bytes) -> bytes:
        """The complete events of `raw` and what came before, rewritten; may be empty."""
        *events, self._rest = (self._rest + raw).split(b"\n\n")
        return b"".join(self._event(event) for event in events)

    def end(self) -> bytes:
        """What closes the stream."""
        return self._end + (_restored(self._rest, self.names) if self._rest else b"")

    def _event(self, event: bytes) -> bytes:
        if not event.startswith(b"data:"):
            return event + b"\n\n" if event else b""
        data = event[5:].strip()
        if data == DONE:
            self._end += event + b"\n\n"
            return b""
        try:
            chunk: Any = json.loads(data)
        except ValueError:
            return _restored(event, self.names) + b"\n\n"
        if not isinstance(chunk, dict):
            return event + b"\n\n"
        return b"data: " + kept + b"\n\n" if (kept := self._chunk(chunk)) else b""

    def _chunk(self, chunk: dict[str, Any]) -> bytes:
        self.reply.learn(chunk)
        usage = chunk.get("usage")
        choices = _choices(chunk)
        if "error" in chunk and not _clients_fault(chunk["error"]):
            chunk["error"] = FAILED
        if isinstance(usage, dict) and not choices:
            self.reply.learn_usage(usage)
            if not self.wants_usage:
                return b""
        elif choices:
            self._count(choices, usage)
            if not self.wants_continuous:
                chunk.pop("usage", None)
        return _public(chunk, self.names)

    def _count(self, choices: list[dict[str, Any]], usage: Any) -> None:
        """Delivered tokens: by the chunk's running usage of its choice; one a chunk with text when there is none."""
        for choice in choices:
            index = choice.get("index", 0)
            if isinstance(usage, dict) and isinstance(usage.get("completion_tokens"), int):
                self._by_choice[index] = max(self._by_choice.get(index, 0), usage["completion_tokens"])
                self.reply.input_tokens = usage.get("prompt_tokens") if len(self._by_choice) == 1 else None
            elif choice.get("text") or (choice.get("delta") or {}).get("content"):
                self._by_choice[index] = self._by_choice.get(index, 0) + 1
        self.reply.delivered = sum(self._by_choice.values())


def _choices(chunk: Mapping[str, Any]) -> list[dict[str, Any]]:
    choices = chunk.get("choices")
    return [c for c in choices if isinstance(c, dict)] if isinstance(choices, list) else []


def _clients_fault(error: Any) -> bool:
    code = error.get("code") if isinstance(error, dict) else None
    return isinstance(code, int) and 400 <= code < 500


def _public(body: dict[str, Any], names: Names) -> bytes:
    for name in HIDDEN:
        body.pop(name, None)
    if "model" in body:
        body["model"] = names.public
    raw = _encoded(body)
    return _restored(raw, names) if "error" in body else raw


def _encoded(body: dict[str, Any]) -> bytes:
    try:
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:  # half of a character pair at a chunk's edge: only an escape can carry it
        return json.dumps(body, separators=(",", ":")).encode()


def _restored(raw: bytes, names: Names) -> bytes:
    return raw.replace(names.served.encode(), names.public.encode())

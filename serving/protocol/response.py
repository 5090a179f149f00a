"""What the client reads instead of what the engine said: public names back in, internals out; and what was delivered, counted.

Pure: bytes in, bytes out. Nothing is buffered but an unfinished event and the end of the stream.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from serving.protocol.dialects import CHOICES, DONE, Dialect, Failure, choices_of

HIDDEN: Final = ("kv_transfer_params", "ec_transfer_params", "metrics")
"""Fields of replies and events that say things about the engine."""
_FLAG: Final = re.compile(r"--([a-z][a-z0-9]*(?:-[a-z0-9]+)+)\b")
_TOOLS: Final = "tool-call-parser"


@dataclass(frozen=True, slots=True)
class Names:
    """One model: as the engine knows it and as the tenant does."""

    served: str
    public: str

    def restored(self, text: str) -> str:
        """The engine's own words with the tenant's name in them."""
        return text.replace(self.served, self.public)


@dataclass(slots=True)
class Reply:
    """What was learned from a reply. None: it did not say. `delivered` counts output tokens handed to the client.

    `failure` is set when it ended in an error, however that was worded, or did not end at all.
    """

    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    delivered: int = 0
    response_id: str | None = None
    finish_reasons: tuple[str, ...] = ()
    failure: Failure | None = None

    def learn(self, value: dict[str, Any], dialect: Dialect) -> None:
        """Take identity, finish reasons and errors from a body or event."""
        for part in dialect.objects(value):
            if isinstance(part.get("id"), str):
                self.response_id = part["id"]
        self.finish_reasons += dialect.finish_reasons(value)
        self.failure = self.failure or dialect.failure(value)

    def learn_usage(self, usage: dict[str, Any], dialect: Dialect) -> None:
        """Take the whole reply's usage."""
        self.input_tokens, self.cached_tokens, self.output_tokens = dialect.usage(usage)


def rewrite_json(raw: bytes, names: Names, reply: Reply, dialect: Dialect = CHOICES) -> bytes:
    """A whole JSON reply as the client may see it; facts go to `reply`. What is no JSON object is a failure."""
    body = _read(raw)
    if not isinstance(body, dict):
        reply.failure = Failure("the reply is not a JSON object")
        return _restored(raw, names)
    reply.learn(body, dialect)
    if isinstance(usage := body.get("usage"), dict):
        reply.learn_usage(usage, dialect)
        reply.delivered = reply.output_tokens or 0
    if body.get("error") is None:
        return _public(body, names, dialect)
    # A request that is no such request is refused in OpenAI's words on every route.
    return dialect.error_body(_public(body, names, dialect, in_words=True))


@dataclass(slots=True)
class EventStream:
    """Rewrites a stream of server-sent events as it passes; what ends it is kept for `end`.

    `wants_usage` and `wants_continuous` are what the client itself asked for. `handed`, where somebody knows, tells how many
    tokens the engine has handed over, for events that do not say. `begun` once an event passed that only an engine at work can have caused. Nothing
    passes from the first sign of a failure on.
    """

    names: Names
    wants_usage: bool
    wants_continuous: bool
    reply: Reply = field(default_factory=Reply)
    dialect: Dialect = CHOICES
    handed: Callable[[], int | None] = lambda: None
    begun: bool = False
    _rest: bytes = b""
    _end: bytes = b""
    _ended: bool = False
    _by_choice: dict[int, int] = field(default_factory=dict)

    def feed(self, raw: bytes) -> bytes:
        """The complete events of `raw` and what came before, rewritten; may be empty."""
        *events, self._rest = (self._rest + raw).split(b"\n\n")
        return b"".join(self._event(event) for event in events)

    def end(self) -> bytes:
        """What closes the stream. One that broke off before its last event failed."""
        if not self._ended:
            self.reply.failure = self.reply.failure or Failure("the stream broke off")
        return self._end

    def _event(self, event: bytes) -> bytes:
        name, data = _parts(event)
        if not event or self.reply.failure is not None:
            return b""
        if data is None:
            return event + b"\n\n"
        if data == DONE.encode():
            return self._last(event + b"\n\n")
        value = _read(data)
        if not isinstance(value, dict):
            self.reply.failure = Failure("an event is not a JSON object")
            return b""
        kept = self._value(value)
        if not kept:
            return b""
        out = (b"event: " + name + b"\n" if name else b"") + b"data: " + kept + b"\n\n"
        kind = value.get("type")
        self.begun = self.begun or kind not in self.dialect.prelude
        if kind in self.dialect.last:
            return self._last(out)
        if self._end or (self.dialect is CHOICES and isinstance(value.get("usage"), dict) and not choices_of(value)):
            # The usage of a whole stream waits with its end: what was measured may correct it.
            self._end += out
            return b""
        return out

    def _last(self, event: bytes) -> bytes:
        self._ended = True
        self._end += event
        return b""

    def _value(self, value: dict[str, Any]) -> bytes:
        reply, dialect = self.reply, self.dialect
        reply.learn(value, dialect)
        if reply.failure is not None:
            return b""
        if dialect is not CHOICES:
            self._count_handed(value)
            return _public(value, self.names, dialect)
        usage, choices = value.get("usage"), choices_of(value)
        if isinstance(usage, dict) and not choices:
            reply.learn_usage(usage, dialect)
            if not self.wants_usage:
                return b""
        elif choices:
            self._count(choices, usage)
            if not self.wants_continuous:
                value.pop("usage", None)
        return _public(value, self.names, dialect)

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

    def _count_handed(self, value: dict[str, Any]) -> None:
        """Delivered tokens: what the engine has handed over by now, or one a delta; in the end what the usage says."""
        kind, reply = str(value.get("type")), self.reply
        if kind in self.dialect.prelude:
            return
        handed = self.handed()
        reply.delivered = handed if handed is not None else reply.delivered + kind.endswith("delta")
        for part in self.dialect.objects(value):
            if isinstance(usage := part.get("usage"), dict):
                reply.learn_usage(usage, self.dialect)
                reply.delivered = reply.output_tokens or reply.delivered


def restated(end: bytes, cached_tokens: int) -> bytes:
    """A whole reply or the end of a stream with what was measured as cached; vLLM tells that of one prompt or choice only."""
    events = end.split(b"\n\n")
    return b"\n\n".join(_restated(event, cached_tokens) for event in events)


def _restated(event: bytes, cached_tokens: int) -> bytes:
    lead = b"data: " if event.startswith(b"data: ") else b""
    if b'"cached_tokens"' not in event:
        return event
    body = _read(event.removeprefix(lead))
    usage = body.get("usage")
    if isinstance(usage, dict) and isinstance(details := usage.get("prompt_tokens_details"), dict):
        details["cached_tokens"] = cached_tokens
        return lead + _encoded(body)
    return event


def _read(raw: bytes) -> Any:
    """What the engine wrote; None where it is no JSON. Half of a character pair and NaN are read by the slower of the two readers."""
    for read in (msgspec.json.decode, json.loads):
        with suppress(ValueError, RecursionError):
            return read(raw)
    return None


def _parts(event: bytes) -> tuple[bytes, bytes | None]:
    """The name and the data of a server-sent event; data None for a comment."""
    name, data = b"", []
    for line in event.split(b"\n"):
        if line.startswith(b"event:"):
            name = line[6:].strip()
        elif line.startswith(b"data:"):
            data.append(line[5:].strip())
    return name, b"\n".join(data) if data else None


def _public(body: dict[str, Any], names: Names, dialect: Dialect, in_words: bool = False) -> bytes:
    for part in dialect.objects(body):
        for name in HIDDEN:
            part.pop(name, None)
        if "model" in part:
            part["model"] = names.public
        error = part.get("error")
        if isinstance(error, dict) and isinstance(error.get("message"), str):
            error["message"] = plain(error["message"])
    raw = _encoded(body)
    return _restored(raw, names) if in_words else raw


def _encoded(body: dict[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:  # half of a character pair at a chunk's edge: only an escape can carry it
        return json.dumps(body, separators=(",", ":")).encode()


def _restored(raw: bytes, names: Names) -> bytes:
    return raw.replace(names.served.encode(), names.public.encode())


def plain(message: str) -> str:
    """The message with vLLM's flags named as options of the engine, and who can set them; unchanged when it names none.

    vLLM's refusals speak to whoever typed its command line; a tenant reads here what can be done about it.
    """
    flags = _FLAG.findall(message)
    if not flags:
        return message
    told = _FLAG.sub(lambda found: f"`{found[1].replace('-', '_')}`", message).rstrip(". ")
    advice = 'Without it, send `tool_choice`: "none", or no `tools`. ' if _TOOLS in flags else ""
    return (
        f"{told}. {advice}The operator of this service sets it for the engine, in the catalog under `engines[].vllm`."
    )

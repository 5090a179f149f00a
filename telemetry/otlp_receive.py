"""What other services send to our OTLP endpoint, as a line of the spool: spans only, and none that could be taken for a bill."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from telemetry.errors import LineInvalid
from telemetry.names import Attr
from telemetry.otlp_decode import parse_message, protobuf_message
from telemetry.otlp_encode import dumps
from telemetry.otlp_values import items

_OURS: Final = frozenset({Attr.USAGE_RECORD})
"""Attributes that only a gateway's own spool may carry: the ledger books what it finds there."""


@dataclass(frozen=True, slots=True)
class Received:
    """One message: its line (None when it holds no span), how many spans, and how many attributes were taken out of them."""

    line: str | None
    spans: int
    stripped: int


def received(body: bytes, *, protobuf: bool) -> Received:
    """The spans of an ExportTraceServiceRequest, binary or JSON. LineInvalid when any part is unsound; then nothing is taken.

    Anything beside spans is left out: a log record sent here could otherwise pass for an event of the ledger.
    """
    raw = protobuf_message(body) if protobuf else _json(body)
    message = {"resourceSpans": items(raw, "resourceSpans")}
    spans = parse_message(message).spans
    if not spans:
        return Received(None, 0, 0)
    stripped = sum(
        _strip(span)
        for resource in message["resourceSpans"]
        for scope in items(resource, "scopeSpans")
        for span in items(scope, "spans")
    )
    return Received(dumps(message), len(spans), stripped)


def _json(body: bytes) -> dict[str, Any]:
    try:
        raw = json.loads(body)
    except RecursionError as error:
        raise LineInvalid("nested too deeply") from error
    except ValueError as error:
        raise LineInvalid(f"not JSON: {error}") from error
    if not isinstance(raw, dict):
        raise LineInvalid("not an object")
    return raw


def _strip(span: dict[str, Any]) -> int:
    attributes = items(span, "attributes")
    kept = [one for one in attributes if one.get("key") not in _OURS]
    if len(kept) < len(attributes):
        span["attributes"] = kept
    return len(attributes) - len(kept)

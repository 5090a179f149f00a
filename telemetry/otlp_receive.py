"""What other services send to our OTLP endpoint, as a line of the spool: sound spans only, and none that could be taken for a bill."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

from telemetry.errors import LineInvalid
from telemetry.names import Attr
from telemetry.otlp_decode import SpanRow, json_message, protobuf_message, sift
from telemetry.otlp_values import items
from telemetry.values import json_line, misplaced

_OURS: Final = frozenset({Attr.USAGE_RECORD})
"""Attributes that only a gateway's own spool may carry: the ledger books what it finds there."""
MOST_SPANS: Final = 10_000
"""Of one message; the rest is rejected."""
MOST_PARTS: Final = 512
"""Attributes, events or links of one span; OpenTelemetry's own limit is 128."""
_NOTED: Final = 3
_NOTE_LETTERS: Final = 200


@dataclass(frozen=True, slots=True)
class Received:
    """One message: its line (None when it holds no span), how many spans, how many were rejected and why, and how many usage records were taken out."""

    line: str | None
    spans: int = 0
    rejected: int = 0
    stripped: int = 0
    note: str = ""
    """For the sender; empty when all is well."""


def received(body: bytes, *, protobuf: bool, now_ns: int) -> Received:
    """The sound spans of an ExportTraceServiceRequest, binary or JSON. LineInvalid when it is none.

    Anything beside spans is left out: a log record sent here could otherwise pass for an event of the ledger. So are spans that the ledger
    could not place: of a time before 2020 or ahead of `now_ns`, or larger than any span is.
    """
    raw = protobuf_message(body) if protobuf else json_message(body)
    if not isinstance(raw, dict):
        raise LineInvalid("not an object")
    batch = sift({"resourceSpans": raw.get("resourceSpans")})
    bad = {id(one.raw) for one in batch.rejected}
    reasons = Counter(one.reason for one in batch.rejected)
    rows, kept, count, stripped = iter(batch.spans), list[dict[str, Any]](), 0, 0
    for of_resource in raw.get("resourceSpans") or ():
        scopes = []
        for of_scope in () if id(of_resource) in bad else items(of_resource, "scopeSpans", of=object):
            spans = []
            for span in () if id(of_scope) in bad else items(of_scope, "spans", of=object):
                if id(span) in bad:
                    continue
                if fault := _fault(next(rows), count, now_ns):
                    reasons[fault] += 1
                    continue
                stripped += _strip(span)
                spans.append(span)
                count += 1
            scopes += [{**of_scope, "spans": spans}] if spans else []
        kept += [{**of_resource, "scopeSpans": scopes}] if scopes else []
    try:
        line = json_line({"resourceSpans": kept}) if kept else None
    except RecursionError as error:
        raise LineInvalid("nested too deeply") from error
    return Received(line, count, reasons.total(), stripped, _note(reasons, stripped))


def _fault(span: SpanRow, taken: int, now_ns: int) -> str | None:
    """Why a span that is sound in itself is not for the ledger."""
    if taken >= MOST_SPANS:
        return f"more than {MOST_SPANS} spans in one message"
    instants = [("startTimeUnixNano", span.timestamp), *(("event timeUnixNano", one.timestamp) for one in span.events)]
    for name, at_ns in instants:
        if wrong := misplaced(name, at_ns, now_ns):
            return wrong[0]
    for name, part in (("attributes", span.span_attributes), ("events", span.events), ("links", span.links)):
        if len(part) > MOST_PARTS:
            return f"more than {MOST_PARTS} {name} in one span"
    return None


def _strip(span: dict[str, Any]) -> int:
    attributes = items(span, "attributes")
    kept = [one for one in attributes if one.get("key") not in _OURS]
    if len(kept) < len(attributes):
        span["attributes"] = kept
    return len(attributes) - len(kept)


def _note(reasons: Counter[str], stripped: int) -> str:
    """What a person needs to mend the sender: the most frequent reasons, each short."""
    said = [f"{count} x {reason[:_NOTE_LETTERS]}" for reason, count in reasons.most_common(_NOTED)]
    if stripped:
        said.append(f"{stripped} usage records were taken out")
    return "; ".join(said).encode("ascii", "backslashreplace").decode()

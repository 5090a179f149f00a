"""What a line is to the ledger: spans, events, usage records, what must wait in quarantine, and what is not ours and left out.

Only facts of the ledger are gated: its events and its usage records. A span that carries no record says nothing about money, so one that is unsound,
or of a time that cannot be, is dropped and counted, whoever sent it; a record on such a span is judged by itself.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec.structs import replace

from billing.store.intake.quarantine import Entry
from billing.store.intake.sources import LONGEST_LINE, Line
from billing.store.intake.usage import Candidate
from catalog.durations import MINUTE_NS
from telemetry.engine_time import (
    AdapterLeft,
    AdapterLoad,
    EngineCounters,
    EngineSession,
    MeterWindow,
    Opened,
    PrefixReshare,
)
from telemetry.engine_time import NotConserved as WindowNotConserved
from telemetry.errors import LineInvalid
from telemetry.names import Attr, EventName
from telemetry.otlp_decode import EventRow, Rejected, SpanRow, json_message, sift
from telemetry.values import MOST, Value, misplaced, negatives

_OTLP: Final = ('"resourceSpans"', '"resourceLogs"', '"resourceMetrics"', '"resourceProfiles"')
_OURS: Final = "loraledger"
"""In every line that can matter: the schema of a record, the names of our attributes and events."""
_BEGINNING: Final = 4096
_BODIES: Final[dict[str, tuple[type[Value], str | None]]] = {
    EventName.WINDOW: (MeterWindow, "end_ns"),
    EventName.LOAD: (AdapterLoad, "start_ns"),
    EventName.LEFT: (AdapterLeft, "at_ns"),
    EventName.SESSION: (EngineSession, "at_ns"),
    EventName.COUNTERS: (EngineCounters, None),
    EventName.RESHARE: (PrefixReshare, "at_ns"),
    EventName.OPENED: (Opened, "arrival_ns"),
}
"""What the bodies of events are, and the instant in them that has to be one."""


@dataclass(slots=True)
class Sorted:
    """What some lines hold. `dropped` counts what is left out, by reason."""

    spans: list[SpanRow] = field(default_factory=list)
    events: list[EventRow] = field(default_factory=list)
    records: list[Candidate] = field(default_factory=list)
    bad: list[Entry] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    lines: int = 0
    size: int = 0


def sort(line: Line, name: str, into: Sorted, now_ns: int) -> None:
    """Add what `line` of the file `name` holds; nothing that can be in a line raises."""
    into.lines += 1
    into.size += len(line.text)
    source, text = f"{name}, byte {line.end}", line.text
    if line.size > LONGEST_LINE:
        reason = f"line of {line.size} bytes, longer than {LONGEST_LINE}"
        into.bad.append(Entry("line", source, reason, text[:_BEGINNING]))
    elif not any(mark in text for mark in _OTLP):
        into.records.append(Candidate(text, source, plain=True))
    else:
        try:
            batch = sift(json_message(text))
        except LineInvalid as error:
            if _OURS in text:
                into.bad.append(Entry("line", source, error.reason, text))
            else:
                into.dropped[error.reason] += 1
            return
        for span in batch.spans:
            _span(span, source, into, now_ns)
        for event in batch.events:
            _event(event, source, into, now_ns)
        for rejected in batch.rejected:
            _rejected(rejected, source, into)


def event_fault(event: EventRow, now_ns: int) -> str | None:
    """Why the event's body is not the value that its name promises; None when it is, and for names that the ledger only keeps."""
    if wrong := misplaced("timeUnixNano", event.at_ns, now_ns):
        return wrong[0]
    try:
        return _body_fault(event, now_ns)
    except WindowNotConserved as error:
        return str(error)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        return f"{type(error).__name__}: {error}"


def _span(span: SpanRow, source: str, into: Sorted, now_ns: int) -> None:
    wrong = misplaced("startTimeUnixNano", span.timestamp, now_ns)
    wrong += [fault for event in span.events for fault in misplaced("event timeUnixNano", event.timestamp, now_ns)]
    if not wrong:
        into.spans.append(span)
        return
    into.dropped[f"span: {wrong[0]}"] += 1
    if record := span.span_attributes.get(Attr.USAGE_RECORD):
        into.records.append(Candidate(record, source))


def _event(event: EventRow, source: str, into: Sorted, now_ns: int) -> None:
    if (fault := event_fault(event, now_ns)) is None:
        into.events.append(event)
        return
    placed = None if misplaced("", event.at_ns, now_ns) else event.at_ns
    reason = f"{event.name} {event.emitter}:{event.seq}: {fault}"
    into.bad.append(Entry("line", source, reason, event.body, placed, "", event.emitter, event.seq))


def _rejected(rejected: Rejected, source: str, into: Sorted) -> None:
    if rejected.event:
        into.bad.append(Entry("line", source, rejected.reason, _as_line(rejected.raw)))
        return
    into.dropped[rejected.reason] += 1
    for record in _records(rejected.raw):
        into.records.append(Candidate(record, source))


def _records(span: Any) -> list[str]:
    """Usage records that an unsound span carries all the same."""
    listed = span.get("attributes") if isinstance(span, dict) else None
    values = [
        pair.get("value")
        for pair in (listed if isinstance(listed, list) else ())
        if isinstance(pair, dict) and pair.get("key") == Attr.USAGE_RECORD
    ]
    texts = [value.get("stringValue") for value in values if isinstance(value, dict)]
    return [text for text in texts if isinstance(text, str)]


def _as_line(record: Any) -> str:
    """The log record as a line of its own, to be tried again."""
    try:
        return json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]})
    except RecursionError:
        return "(nested too deeply)"


def _body_fault(event: EventRow, now_ns: int) -> str | None:
    if event.name not in _BODIES:
        return None
    kind, instant = _BODIES[event.name]
    body = kind.from_json(event.body)
    if isinstance(body, MeterWindow | PrefixReshare):
        body.check()
    # The moves of a re-share line add up to 0, so some are below it.
    if wrong := negatives(replace(body, moves=()) if isinstance(body, PrefixReshare) else body):
        return wrong[0]
    if isinstance(body, EngineSession) and not 0 < body.gpu_count <= MOST:
        return f"gpu_count of engine {body.engine} is {body.gpu_count}, not between 1 and {MOST}"
    if instant and (wrong := misplaced(instant, getattr(body, instant), now_ns)):
        return wrong[0]
    if isinstance(body, MeterWindow) and not 0 < body.end_ns - body.start_ns <= MINUTE_NS - body.start_ns % MINUTE_NS:
        return f"window [{body.start_ns}, {body.end_ns}) is not inside one UTC minute"
    return None

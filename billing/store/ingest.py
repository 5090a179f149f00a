"""Takes spool files and plain usage lines into the ledger: resumable by file offset, idempotent by record identity."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from pathlib import Path
from typing import Final

from billing.attempts import misplaced
from billing.periods import to_ns
from billing.store import quarantine
from billing.store.clickhouse import Ledger
from billing.store.errors import StoreError
from billing.store.quarantine import Entry
from billing.store.usage import Booked, Candidate, book, readable
from catalog.model import Catalog
from telemetry.engine_time import (
    MINUTE_NS,
    AdapterLoad,
    EngineCounters,
    EngineSession,
    MeterWindow,
    Opened,
    PrefixReshare,
)
from telemetry.engine_time import NotConserved as WindowNotConserved
from telemetry.names import Attr, EventName
from telemetry.otlp import COLUMNS, EventRow, LineInvalid, SpanRow, parse_line
from telemetry.spool import read_spool

Progress = Callable[[int, int], None]
"""Called with bytes done and bytes in all."""

_BATCH_LINES: Final = 2_000
_BATCH_BYTES: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class IngestReport:
    """What was taken. `records` are new usage records, `duplicates` what was there already, `torn` files with an unfinished last line."""

    files: int = 0
    lines: int = 0
    spans: int = 0
    events: int = 0
    records: int = 0
    duplicates: int = 0
    quarantined: int = 0
    torn: int = 0

    def __add__(self, other: IngestReport) -> IngestReport:
        return IngestReport(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


class SourceMissing(StoreError):
    """A path to ingest does not exist or cannot be read."""

    def __init__(self, path: Path, fact: str) -> None:
        self.path = path
        super().__init__(f"could not ingest {path}: {fact}; give a spool directory or a .jsonl file")


@dataclass(slots=True)
class _Batch:
    spans: list[SpanRow] = field(default_factory=list)
    events: list[EventRow] = field(default_factory=list)
    plain: list[Candidate] = field(default_factory=list)
    bad: list[Entry] = field(default_factory=list)
    lines: int = 0
    size: int = 0


def ingest(
    ledger: Ledger, paths: Iterable[Path], catalog: Catalog, now: datetime, progress: Progress | None = None
) -> IngestReport:
    """Take everything new under `paths` (files, or directories of `.jsonl` files); memory stays bounded.

    A bad line goes to quarantine with its reason and stops nothing. SourceMissing when a path is not there.
    """
    files = [file for path in paths for file in _files(path)]
    total = sum(file.stat().st_size for file in files)
    report, done = IngestReport(files=len(files)), 0
    for file in files:
        before = done

        def at(offset: int, before: int = before) -> None:
            if progress is not None:
                progress(before + offset, total)

        report += _file(ledger, file, catalog, now, at)
        done = before + file.stat().st_size
        if progress is not None:
            progress(min(done, total), total)
    return report


def take_again(ledger: Ledger, line: str, source: str, catalog: Catalog, now: datetime) -> bool:
    """Take one whole line that could not be read before; whether it can be read now. Otherwise nothing happens.

    What a line of usage says is judged as ever: a record with a fault waits in quarantine as such.
    """
    batch = _Batch()
    _sort(line, source, batch, to_ns(now))
    if batch.bad or any(not readable(candidate) for candidate in batch.plain):
        return False
    _store(ledger, batch, catalog, now)
    return True


def take_event(ledger: Ledger, event: EventRow, now: datetime) -> bool:
    """Take one event that was not what its name promises; whether it is now. Otherwise nothing happens."""
    if _fault(event, to_ns(now)):
        return False
    _insert_events(ledger, _new_events(ledger, [event]))
    return True


def _files(path: Path) -> Sequence[Path]:
    try:
        if path.is_dir():
            return sorted(path.glob("*.jsonl"))
        path.open("rb").close()
    except OSError as error:
        raise SourceMissing(path, error.strerror or str(error)) from error
    return [path]


def _file(ledger: Ledger, path: Path, catalog: Catalog, now: datetime, at: Callable[[int], None]) -> IngestReport:
    with path.open("rb") as stream:
        first = stream.readline()
        if not first.endswith(b"\n"):
            return IngestReport(torn=1 if first else 0)
        identity = hashlib.sha256(first).hexdigest()
        offset, prefix = _resume(ledger, identity, path)
        report, batch, end = IngestReport(), _Batch(), offset
        stream.seek(offset)

        def commit() -> None:
            nonlocal report, batch, offset
            if batch.lines:
                report += _store(ledger, batch, catalog, now)
                prefix.update(stream.read(end - offset))
                batch, offset = _Batch(), end
                _remember(ledger, identity, offset, prefix.hexdigest(), path, now)
                at(offset)

        for end, line in read_spool(path, offset):
            _sort(line, f"{path.name}, byte {end}", batch, to_ns(now))
            batch.size += len(line)
            if batch.lines >= _BATCH_LINES or batch.size >= _BATCH_BYTES:
                commit()
        commit()
        tail = stream.readline()
        return report + IngestReport(torn=1 if tail and not tail.endswith(b"\n") else 0)


def _sort(line: str, source: str, batch: _Batch, now_ns: int) -> None:
    batch.lines += 1
    if '"resourceSpans"' not in line and '"resourceLogs"' not in line:
        batch.plain.append(Candidate(line, source, plain=True))
        return
    try:
        parsed = parse_line(line)
    except LineInvalid as error:
        batch.bad.append(Entry("line", source, error.reason, line))
        return
    for span in parsed.spans:
        wrong = misplaced("startTimeUnixNano", span.timestamp, now_ns)
        wrong += [fault for event in span.events for fault in misplaced("timeUnixNano", event.timestamp, now_ns)]
        if wrong:
            reason = f"span {span.trace_id}:{span.span_id}: {'; '.join(wrong)}"
            batch.bad.append(Entry("line", source, reason, json.dumps(asdict(span), sort_keys=True)))
        else:
            batch.spans.append(span)
    for event in parsed.events:
        if fault := _fault(event, now_ns):
            placed = None if misplaced("", event.at_ns, now_ns) else event.at_ns
            reason = f"{event.name} {event.emitter}:{event.seq}: {fault}"
            batch.bad.append(Entry("line", source, reason, event.body, placed, "", event.emitter, event.seq))
        else:
            batch.events.append(event)


def _fault(event: EventRow, now_ns: int) -> str | None:
    """Why the event's body is not the value that its name promises; None when it is, and for names that the ledger only keeps."""
    if wrong := misplaced("timeUnixNano", event.at_ns, now_ns):
        return wrong[0]
    try:
        match event.name:
            case EventName.WINDOW:
                window = MeterWindow.from_json(event.body)
                window.check()
                if wrong := misplaced("end_ns", window.end_ns, now_ns):
                    return wrong[0]
                if not 0 < window.end_ns - window.start_ns <= MINUTE_NS - window.start_ns % MINUTE_NS:
                    return f"window [{window.start_ns}, {window.end_ns}) is not inside one UTC minute"
            case EventName.LOAD:
                load = AdapterLoad.from_json(event.body)
                return next(iter(misplaced("start_ns", load.start_ns, now_ns)), None)
            case EventName.SESSION:
                session = EngineSession.from_json(event.body)
                return next(iter(misplaced("at_ns", session.at_ns, now_ns)), None)
            case EventName.COUNTERS:
                EngineCounters.from_json(event.body)
            case EventName.RESHARE:
                line = PrefixReshare.from_json(event.body)
                line.check()
                return next(iter(misplaced("at_ns", line.at_ns, now_ns)), None)
            case EventName.OPENED:
                opened = Opened.from_json(event.body)
                return next(iter(misplaced("arrival_ns", opened.arrival_ns, now_ns)), None)
    except WindowNotConserved as error:
        return str(error)
    except (KeyError, TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def _store(ledger: Ledger, batch: _Batch, catalog: Catalog, now: datetime) -> IngestReport:
    spans, events = _new_spans(ledger, batch.spans), _new_events(ledger, batch.events)
    ledger.insert("otel_traces", COLUMNS, [list(span.as_row().values()) for span in spans])
    _insert_events(ledger, events)
    on_spans = sum(Attr.USAGE_RECORD in span.span_attributes for span in spans)
    booked = book(ledger, batch.plain, catalog, now) if batch.plain else Booked()
    return IngestReport(
        lines=batch.lines,
        spans=len(spans),
        events=len(events),
        records=booked.records + on_spans,
        duplicates=booked.duplicates + len(batch.spans) - len(spans) + len(batch.events) - len(events),
        quarantined=booked.quarantined + quarantine.put(ledger, batch.bad, now),
    )


def _insert_events(ledger: Ledger, events: Sequence[EventRow]) -> None:
    ledger.insert(
        "ledger_event_versions",
        ["name", "emitter", "seq", "at", "body"],
        [[e.name, e.emitter, e.seq, e.at_ns, e.body] for e in events],
    )


def _new_events(ledger: Ledger, events: Sequence[EventRow]) -> list[EventRow]:
    if not events:
        return []
    seqs = [event.seq for event in events]
    bounds = {"emitters": sorted({event.emitter for event in events}), "low": min(seqs), "high": max(seqs)}
    known = {(row["name"], row["emitter"], row["seq"]) for row in ledger.read("known_events", bounds)}
    fresh = {(e.name, e.emitter, e.seq): e for e in reversed(events) if (e.name, e.emitter, e.seq) not in known}
    return list(reversed(fresh.values()))


def _new_spans(ledger: Ledger, spans: Sequence[SpanRow]) -> list[SpanRow]:
    if not spans:
        return []
    starts = [span.timestamp for span in spans]
    window = {"start_ns": min(starts), "end_ns": max(starts), "traces": sorted({span.trace_id for span in spans})}
    known = {(row["TraceId"], row["SpanId"]) for row in ledger.read("known_spans", window)}
    fresh = {(s.trace_id, s.span_id): s for s in reversed(spans) if (s.trace_id, s.span_id) not in known}
    return list(reversed(fresh.values()))


def _resume(ledger: Ledger, identity: str, path: Path) -> tuple[int, hashlib._Hash]:
    """Where to go on: the longest part of this very file that was read before, recognised by its content."""
    for row in ledger.read("ingested_offsets", {"file": identity}):
        prefix, left = hashlib.sha256(), row["read_offset"]
        with path.open("rb") as stream:
            while left and (chunk := stream.read(min(left, 1 << 20))):
                prefix.update(chunk)
                left -= len(chunk)
        if not left and prefix.hexdigest() == row["prefix_hash"]:
            return row["read_offset"], prefix
    return 0, hashlib.sha256()


def _remember(ledger: Ledger, identity: str, offset: int, prefix_hash: str, path: Path, now: datetime) -> None:
    ledger.insert(
        "ingested_file_versions",
        ["file", "read_offset", "prefix_hash", "path", "at"],
        [[identity, offset, prefix_hash, str(path), now]],
    )

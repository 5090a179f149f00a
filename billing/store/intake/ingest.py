"""Takes spool files and plain usage lines into the ledger: resumable by file offset, idempotent by record identity.

What waits in quarantine is tried again: its cause may be gone, by another catalog or another version of this program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from billing.exact.canonical import text_hash
from billing.exact.periods import to_ns
from billing.store.catalog_history import remember_catalog
from billing.store.clickhouse import Ledger
from billing.store.cost.late import remember_hours
from billing.store.intake import quarantine
from billing.store.intake.sorting import Sorted, event_fault, sort
from billing.store.intake.sources import Line, Skipped, Source, SourceMissing, SourceUnreadable, find, size
from billing.store.intake.usage import Booked, Candidate, book, retry_usage, tried
from billing.store.rows import looked_for
from catalog.durations import DAY_NS, MINUTE_NS
from catalog.model import Catalog
from telemetry.names import Attr
from telemetry.otlp_decode import EventRow, SpanRow

__all__ = ["IngestReport", "Skipped", "SourceMissing", "ingest", "retry"]

Progress = Callable[[int, int], None]
"""Called with bytes done and bytes in all."""

_BATCH_LINES: Final = 2_000
_BATCH_BYTES: Final = 16 << 20
_DAYS: Final = 50
"""Of spans in one insert: the engine refuses a block that is spread over more than a hundred partitions, and one is a day."""
_REASONS: Final = 20


@dataclass(frozen=True, slots=True)
class IngestReport:
    """What was taken. `records` are new usage records, `duplicates` what was there already, `torn` files with an unfinished last line.

    `dropped` counts spans and lines that are unsound and no facts of the ledger; `reasons` says why. `skipped` are files that could not be read.
    """

    files: int = 0
    lines: int = 0
    spans: int = 0
    events: int = 0
    records: int = 0
    duplicates: int = 0
    quarantined: int = 0
    torn: int = 0
    dropped: int = 0
    reasons: tuple[str, ...] = ()
    skipped: tuple[Skipped, ...] = ()

    def __add__(self, other: IngestReport) -> IngestReport:
        sums = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)}
        return IngestReport(**{**sums, "reasons": tuple(dict.fromkeys(sums["reasons"]))[:_REASONS]})


def ingest(
    ledger: Ledger, paths: Iterable[Path], catalog: Catalog, now: datetime, progress: Progress | None = None
) -> IngestReport:
    """Take everything new under `paths` (files, or directories of `.jsonl` files); memory stays bounded.

    A fact that cannot be booked goes to quarantine with its reason, what is not ours and unsound is dropped, a file that cannot be read is
    skipped, and none of them stops anything. The catalog is remembered with them, so that what holds then is known later.
    SourceMissing when a path is not there.
    """
    files, skipped = find(paths)
    remember_catalog(ledger, catalog, now)
    total = sum(size(file) for file in files)
    report, done = IngestReport(files=len(files), skipped=tuple(skipped)), 0
    for file in files:
        before = done

        def at(offset: int, before: int = before) -> None:
            if progress is not None:
                progress(before + offset, total)

        try:
            for part in _file(ledger, file, catalog, now, at):
                report += part
        except SourceUnreadable as error:
            report += IngestReport(skipped=(Skipped(str(file), error.fact),))
        done = before + size(file)
        if progress is not None:
            progress(min(done, total), total)
    return report


def retry(
    ledger: Ledger, ids: Sequence[str], catalog: Catalog, now: datetime
) -> tuple[list[quarantine.Waiting], list[quarantine.Waiting]]:
    """Take what can be taken now, of these entries or (none named) of all open ones; what was taken, and what still waits.

    Nothing that still waits changes. EntryMissing as in `quarantine.chosen`.
    """
    named = quarantine.chosen(ledger, ids) if ids else quarantine.listed(ledger)
    entries = [entry for entry in named if not entry.resolution]
    rows = {row["id"]: row for row in ledger.read("quarantine_entries", {"ids": [entry.id for entry in entries]})}
    if any(entry.kind == "usage" for entry in entries):
        retry_usage(ledger, catalog, now)
    lines = [entry for entry in entries if entry.kind == "line"]
    taken = [entry.id for entry in lines if _taken(ledger, rows[entry.id], catalog, now)]
    quarantine.resolve(ledger, dict.fromkeys(taken, quarantine.ACCEPTED), now)
    waiting = {entry.id for entry in quarantine.listed(ledger)}
    return [e for e in entries if e.id not in waiting], [e for e in entries if e.id in waiting]


def _taken(ledger: Ledger, row: Mapping[str, Any], catalog: Catalog, now: datetime) -> bool:
    """An entry of an event holds its body, its name and number begin the reason; any other holds its line."""
    name, _, rest = row["reason"].partition(" ")
    if not rest.startswith(f"{row['emitter']}:{row['seq']}: "):
        return _take_again(ledger, row["content"], row["source"], catalog, now)
    if row["event_time"] is None:
        return False
    return _take_event(ledger, EventRow(name, row["emitter"], row["seq"], row["event_time"], row["content"]), now)


def _take_again(ledger: Ledger, line: str, source: str, catalog: Catalog, now: datetime) -> bool:
    """Take one whole line that could not be read before; whether it can be read now. Otherwise nothing happens.

    What a line of usage says is judged as ever: a record with a fault waits in quarantine as such.
    """
    found = Sorted()
    sort(Line(0, line, len(line)), source, found, to_ns(now))
    if found.bad or found.dropped or any(tried(candidate) is None for candidate in found.records):
        return False
    _store(ledger, found, catalog, now)
    return True


def _take_event(ledger: Ledger, event: EventRow, now: datetime) -> bool:
    """Take one event that was not what its name promises; whether it is now. Otherwise nothing happens."""
    if event_fault(event, to_ns(now)):
        return False
    _insert_events(ledger, _new_events(ledger, [event]), now)
    return True


def _file(
    ledger: Ledger, path: Path, catalog: Catalog, now: datetime, at: Callable[[int], None]
) -> Iterator[IngestReport]:
    """What each batch brought: a file that breaks in the middle has brought those before."""
    with Source(path) as source:
        if not (identity := source.identity()):
            yield IngestReport(torn=int(identity is None))
            return
        offset, prefix = source.resume(ledger.read("ingested_offsets", {"file": identity}))
        batch, end = Sorted(), offset

        def commit() -> IngestReport:
            nonlocal batch, offset
            report = _store(ledger, batch, catalog, now)
            source.hashed(prefix, offset, end)
            batch, offset = Sorted(), end
            row = {
                "file": identity,
                "read_offset": offset,
                "prefix_hash": prefix.hexdigest(),
                "path": str(path),
                "at": now,
            }
            ledger.insert("ingested_file_versions", [row])
            at(offset)
            return report

        for line in source.lines(offset):
            end = line.end
            sort(line, path.name, batch, to_ns(now))
            if batch.lines >= _BATCH_LINES or batch.size >= _BATCH_BYTES:
                yield commit()
        if batch.lines:
            yield commit()
        yield IngestReport(torn=int(source.torn(offset)))


def _store(ledger: Ledger, batch: Sorted, catalog: Catalog, now: datetime) -> IngestReport:
    spans, displaced = _new_spans(ledger, batch.spans)
    events = _new_events(ledger, batch.events)
    recorded = [span.timestamp for span in spans if Attr.USAGE_RECORD in span.span_attributes]
    remember_hours(ledger, recorded, now)
    _insert_spans(ledger, spans)
    _insert_events(ledger, events, now)
    candidates = [*batch.records, *displaced]
    booked = book(ledger, candidates, catalog, now) if candidates else Booked()
    waiting = len(batch.spans) - len(displaced) - len(spans)
    return IngestReport(
        lines=batch.lines,
        spans=len(spans),
        events=len(events),
        records=booked.records + len(recorded),
        duplicates=booked.duplicates + waiting + len(batch.events) - len(events),
        quarantined=booked.quarantined + quarantine.put(ledger, batch.bad, now),
        dropped=batch.dropped.total(),
        reasons=tuple(reason for reason, _ in batch.dropped.most_common(_REASONS)),
    )


def _insert_spans(ledger: Ledger, spans: Sequence[SpanRow]) -> None:
    days = [list(one) for _, one in groupby(sorted(spans, key=_day), _day)]
    for first in range(0, len(days), _DAYS):
        ledger.insert("otel_traces", [span.as_row() for day in days[first : first + _DAYS] for span in day])


def _day(span: SpanRow) -> int:
    return span.timestamp // DAY_NS


def _insert_events(ledger: Ledger, events: Sequence[EventRow], now: datetime) -> None:
    rows = [{"name": e.name, "emitter": e.emitter, "seq": e.seq, "at": e.at_ns, "body": e.body} for e in events]
    # First, or a process that dies in between leaves facts of which no close hears; a window is up to a minute before its event.
    remember_hours(ledger, [at for event in events for at in (event.at_ns - MINUTE_NS, event.at_ns)], now)
    ledger.insert("ledger_event_versions", rows)


def _new_events(ledger: Ledger, events: Sequence[EventRow]) -> list[EventRow]:
    if not events:
        return []
    known = {(row["name"], row["emitter"], row["seq"]) for row in ledger.read("known_events", looked_for(events))}
    fresh = {(e.name, e.emitter, e.seq): e for e in reversed(events) if (e.name, e.emitter, e.seq) not in known}
    return list(reversed(fresh.values()))


def _new_spans(ledger: Ledger, spans: Sequence[SpanRow]) -> tuple[list[SpanRow], list[Candidate]]:
    """Spans that are not there yet, and the records of those whose place another span took: ids are no secret, and whoever sends a span of
    ours before we do must not displace a bill."""
    if not spans:
        return [], []
    starts = [span.timestamp for span in spans]
    asked = {"start_ns": min(starts), "end_ns": max(starts), "traces": sorted({span.trace_id for span in spans})}
    taken = {
        (row["TraceId"], row["SpanId"], row["record"])
        for row in ledger.read("known_spans", {**asked, "attribute": Attr.USAGE_RECORD})
    }
    places = {(trace, span) for trace, span, _ in taken}
    fresh, displaced = list[SpanRow](), list[Candidate]()
    for span in spans:
        place, record = (span.trace_id, span.span_id), span.span_attributes.get(Attr.USAGE_RECORD, "")
        if place not in places:
            fresh.append(span)
            places.add(place)
            taken.add((*place, text_hash(record) if record else ""))
        elif record and (*place, text_hash(record)) not in taken:
            displaced.append(Candidate(record, f"trace {span.trace_id}"))
    return fresh, displaced

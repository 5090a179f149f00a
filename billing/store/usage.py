"""Books usage records: from root spans, from plain lines, from quarantine once its cause is gone, and the lost ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, NamedTuple

from billing.attempts import Life, absurdities, faults, is_lost, lost_record, misplaced
from billing.periods import to_ns
from billing.store import quarantine
from billing.store.clickhouse import Ledger
from billing.store.quarantine import Entry
from billing.store.rows import USAGE_COLUMNS, text_hash, usage_record, usage_row
from catalog.model import Catalog
from telemetry.engine_time import Opened
from telemetry.names import Attr, EventName
from telemetry.usage import Status, UsageInvalid, UsageRecord

_DAY_NS: Final = 24 * 3600 * 1_000_000_000


class Candidate(NamedTuple):
    """A usage record as text; `source` says where it was found, `plain` that it came as a line of its own."""

    text: str
    source: str
    plain: bool = False


@dataclass(frozen=True, slots=True)
class Booked:
    """What became of some candidates."""

    records: int = 0
    duplicates: int = 0
    quarantined: int = 0

    def __add__(self, other: Booked) -> Booked:
        return Booked(
            self.records + other.records, self.duplicates + other.duplicates, self.quarantined + other.quarantined
        )


def book(ledger: Ledger, candidates: Iterable[Candidate], catalog: Catalog, now: datetime) -> Booked:
    """Add records that are new and sound; a copy changes nothing, a contradiction or a fault goes to quarantine.

    A closed record replaces a lost one. Two different records of one identity: the first stays, the second is quarantined.
    """
    now_ns = to_ns(now)
    entries: list[Entry] = []
    parsed: list[tuple[UsageRecord, Candidate]] = []
    for candidate in candidates:
        try:
            parsed.append((_record(candidate), candidate))
        except UsageInvalid as error:
            entries.append(Entry("line", candidate.source, str(error), candidate.text))
    known = _booked(ledger, [record for record, _ in parsed])
    fresh: dict[tuple[str, int], tuple[UsageRecord, str]] = {}
    duplicates = 0
    for record, candidate in parsed:
        before = known.get(record.identity)
        reasons = faults(record, catalog) + absurdities(record, now_ns)
        if before is not None and replace(before, source=record.source) == record:
            duplicates += 1
            continue
        if before is not None and before.status is not Status.LOST:
            reasons = [f"another record of {record.attempt_key} is booked already, and differs"]
        if reasons:
            entries.append(_entry(record, candidate, reasons, now_ns))
        else:
            known[record.identity] = record
            fresh[record.identity] = record, text_hash(candidate.text)
    ledger.insert(
        "usage_versions", USAGE_COLUMNS, [usage_row(record, text, to_ns(now)) for record, text in fresh.values()]
    )
    return Booked(len(fresh), duplicates, quarantine.put(ledger, entries, now))


def readable(candidate: Candidate) -> bool:
    """Whether the text is a usage record at all, sound or not."""
    try:
        _record(candidate)
    except UsageInvalid:
        return False
    return True


def book_spans(ledger: Ledger, start_ns: int, end_ns: int, catalog: Catalog, now: datetime) -> Booked:
    """Book the records of root spans that began in [start_ns, end_ns), a day at a time, and whatever waits in quarantine."""
    result = Booked()
    for day_ns in range(start_ns - start_ns % _DAY_NS, end_ns, _DAY_NS):
        window = {
            "attribute": Attr.USAGE_RECORD,
            "start_ns": max(start_ns, day_ns),
            "end_ns": min(end_ns, day_ns + _DAY_NS),
        }
        found = ledger.read("usage_root_records", window)
        result += book(
            ledger, [Candidate(row["record"], f"otel_traces, trace {row['trace_id']}") for row in found], catalog, now
        )
    return result + retry_usage(ledger, catalog, now)


def book_lost(ledger: Ledger, lives: Sequence[Life], catalog: Catalog, now: datetime) -> int:
    """Book attempts that opened and will never close, with status lost; how many."""
    now_ns = to_ns(now)
    opened = [
        Opened.from_json(row["body"])
        for row in ledger.read("usage_open", {"opened": EventName.OPENED, "before_ns": now_ns})
    ]
    lost = [lost_record(one).to_json() for one in opened if is_lost(one, lives, now_ns)]
    return book(ledger, [Candidate(text, "ledger_events, opened") for text in lost], catalog, now).records


def retry_usage(ledger: Ledger, catalog: Catalog, now: datetime) -> Booked:
    """Book the records that wait in quarantine and have no fault any more."""
    good = []
    for entry_id, source, content in quarantine.open_usage(ledger):
        candidate = Candidate(content, source)
        try:
            record = _record(candidate)
            if not faults(record, catalog) and not absurdities(record, to_ns(now)):
                good.append((entry_id, candidate))
        except UsageInvalid:
            continue
    result = book(ledger, [candidate for _, candidate in good], catalog, now)
    booked = [entry_id for entry_id, candidate in good if _is_booked(ledger, candidate)]
    quarantine.resolve(ledger, dict.fromkeys(booked, quarantine.ACCEPTED), now)
    return result


def _is_booked(ledger: Ledger, candidate: Candidate) -> bool:
    record = _record(candidate)
    before = _booked(ledger, [record]).get(record.identity)
    return before is not None and replace(before, source=record.source) == record


def _record(candidate: Candidate) -> UsageRecord:
    record = UsageRecord.from_json(candidate.text)
    if candidate.plain and '"source"' not in candidate.text:
        return replace(record, source="plain")
    return record


def _booked(ledger: Ledger, records: Sequence[UsageRecord]) -> dict[tuple[str, int], UsageRecord]:
    if not records:
        return {}
    seqs = [record.seq for record in records]
    rows = ledger.read(
        "usage_by_identity",
        {"emitters": sorted({record.emitter for record in records}), "low": min(seqs), "high": max(seqs)},
    )
    return {(row["emitter"], row["seq"]): usage_record(row) for row in rows}


def _entry(record: UsageRecord, candidate: Candidate, reasons: list[str], now_ns: int) -> Entry:
    """An instant that cannot be is none: nobody knows which month the entry belongs to, so it holds up every one."""
    return Entry(
        "usage",
        candidate.source,
        "; ".join(reasons),
        record.to_json(),
        None if misplaced("", record.arrival_ns, now_ns) else record.arrival_ns,
        record.tenant,
        record.emitter,
        record.seq,
    )

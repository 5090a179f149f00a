"""Books usage records: from root spans, from plain lines, from quarantine once its cause is gone, and the lost ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, NamedTuple

from msgspec.structs import replace

from billing.cost.attempts import Life, absurdities, faults, is_lost, lost_record
from billing.exact.canonical import text_hash
from billing.exact.periods import to_ns
from billing.store.clickhouse import Ledger
from billing.store.intake import quarantine
from billing.store.intake.quarantine import Entry
from billing.store.rows import REPLACED, looked_for, usage_record, usage_row
from catalog.durations import DAY_NS
from catalog.model import Catalog
from telemetry.engine_time import Opened
from telemetry.names import Attr, EventName
from telemetry.otlp_values import whole
from telemetry.usage import Status, UsageInvalid, UsageRecord
from telemetry.values import misplaced


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
    foreign: int = 0
    """On spans of nobody we know; they stay where they are and count for nothing."""

    def __add__(self, other: Booked) -> Booked:
        return Booked(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))


def book(ledger: Ledger, candidates: Iterable[Candidate], catalog: Catalog, now: datetime) -> Booked:
    """Add records that are new and sound; a copy changes nothing, a contradiction or a fault goes to quarantine.

    A closed record replaces a lost one, also one of another tenant. Two different records of one identity: the first stays, the second is quarantined.
    """
    now_ns = to_ns(now)
    entries: list[Entry] = []
    parsed: list[tuple[UsageRecord, Candidate]] = []
    for candidate in candidates:
        try:
            parsed.append((_record(candidate), candidate))
        except UsageInvalid as error:
            entries.append(_unread(candidate, error, now_ns))
    known = _booked(ledger, [record for record, _ in parsed])
    judge = _judge(ledger, [record for record, _ in parsed], catalog, now)
    fresh: dict[tuple[str, int], tuple[UsageRecord, str]] = {}
    moved: list[UsageRecord] = []
    duplicates = 0
    for record, candidate in parsed:
        before = known.get(record.identity)
        reasons = judge(record)
        if before is not None and replace(before, source=record.source) == record:
            duplicates += 1
            continue
        if before is not None and before.status is not Status.LOST:
            reasons = [f"another record of {record.attempt_key} is booked already, and differs"]
        if reasons:
            entries.append(_entry(record, candidate, reasons, now_ns))
        else:
            if before is not None and before.tenant != record.tenant and record.identity not in fresh:
                moved.append(before)
            known[record.identity] = record
            fresh[record.identity] = record, text_hash(candidate.text)
    replaced = [usage_row(record, "", now_ns) | {"status": REPLACED} for record in moved]
    ledger.insert("usage_versions", replaced + [usage_row(record, text, now_ns) for record, text in fresh.values()])
    return Booked(len(fresh), duplicates, quarantine.put(ledger, entries, now))


def tried(candidate: Candidate) -> UsageRecord | None:
    """The usage record, sound or not; None when the text is none at all."""
    try:
        return _record(candidate)
    except UsageInvalid:
        return None


def book_spans(ledger: Ledger, start_ns: int, end_ns: int, catalog: Catalog, now: datetime) -> Booked:
    """Book the records of root spans that began in [start_ns, end_ns), a day at a time, and whatever waits in quarantine.

    Any collector may have written a span. A record is not ours, and is left alone, when it says another tenant or request than the attempt that
    it claims to be said when it opened; or when it cannot be booked and its emitter never wrote an event: what is not ours holds nothing up.
    """
    result = Booked()
    for day_ns in range(start_ns - start_ns % DAY_NS, end_ns, DAY_NS):
        window = {
            "attribute": Attr.USAGE_RECORD,
            "start_ns": max(start_ns, day_ns),
            "end_ns": min(end_ns, day_ns + DAY_NS),
        }
        found = ledger.read("usage_root_records", window)
        candidates = [Candidate(row["record"], f"otel_traces, trace {row['trace_id']}") for row in found]
        ours = _ours(ledger, candidates, catalog, now)
        result += book(ledger, ours, catalog, now) + Booked(foreign=len(candidates) - len(ours))
    return result + retry_usage(ledger, catalog, now)


def _ours(ledger: Ledger, candidates: Sequence[Candidate], catalog: Catalog, now: datetime) -> list[Candidate]:
    read = [(candidate, tried(candidate)) for candidate in candidates]
    records = [record for _, record in read if record is not None]
    claims = [record.emitter if record else _text(_fields(one.text).get("emitter")) for one, record in read]
    known = set()
    if emitters := sorted(set(claims) - {""}):
        known = {row["emitter"] for row in ledger.read("known_emitters", {"emitters": emitters})}
    opened = {(row["emitter"], row["seq"]): (row["tenant"], row["request_id"]) for row in _opened(ledger, records)}
    judge = _judge(ledger, records, catalog, now)
    ours = []
    for (candidate, record), emitter in zip(read, claims, strict=True):
        if record is None:
            genuine = emitter in known
        elif record.identity in opened:
            genuine = opened[record.identity] == (record.tenant, record.request_id)
        else:
            genuine = emitter in known or not judge(record)
        ours += [candidate] if genuine else []
    return ours


def _opened(ledger: Ledger, records: Sequence[UsageRecord]) -> list[dict[str, Any]]:
    if not records:
        return []
    return ledger.read("opened_by_identity", {"opened": EventName.OPENED, **looked_for(records)})


def _unread(candidate: Candidate, error: UsageInvalid, now_ns: int) -> Entry:
    """An entry for a record that cannot be read, with as much of whom and when as can."""
    found = _fields(candidate.text)
    at_ns: Any = found.get("arrival_ns")
    placed = at_ns if type(at_ns) is int and not misplaced("", at_ns, now_ns) else None
    emitter, seq = _text(found.get("emitter")), found.get("seq")
    number = seq if type(seq) is int and 0 <= seq < 2**63 else -1
    return Entry(
        "line", candidate.source, str(error), candidate.text, placed, _text(found.get("tenant")), emitter, number
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) and value == whole(value) else ""


def _fields(text: str) -> dict[str, Any]:
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return raw if isinstance(raw, dict) else {}


def open_attempts(ledger: Ledger, start_ns: int, end_ns: int) -> list[Opened]:
    """Attempts that arrived in the window and have no record, not even a lost one or one in quarantine."""
    asked = {"opened": EventName.OPENED, "start_ns": start_ns, "end_ns": end_ns}
    return [Opened.from_json(row["body"]) for row in ledger.read("usage_open", asked)]


def book_lost(ledger: Ledger, lives: Sequence[Life], catalog: Catalog, now: datetime) -> int:
    """Book attempts that opened and will never close, with status lost; how many."""
    now_ns = to_ns(now)
    lost = [lost_record(one).to_json() for one in open_attempts(ledger, 0, now_ns) if is_lost(one, lives, now_ns)]
    return book(ledger, [Candidate(text, "ledger_events, opened") for text in lost], catalog, now).records


def retry_usage(ledger: Ledger, catalog: Catalog, now: datetime) -> Booked:
    """Book the records that wait in quarantine and have no fault any more."""
    waiting = [
        (entry["id"], candidate, record)
        for entry in ledger.read("quarantine_open", {"kind": "usage"})
        if (record := tried(candidate := Candidate(entry["content"], entry["source"]))) is not None
    ]
    judge = _judge(ledger, [record for _, _, record in waiting], catalog, now)
    good = [(entry_id, candidate) for entry_id, candidate, record in waiting if not judge(record)]
    result = book(ledger, [candidate for _, candidate in good], catalog, now)
    booked = [entry_id for entry_id, candidate in good if _is_booked(ledger, candidate)]
    quarantine.resolve(ledger, dict.fromkeys(booked, quarantine.ACCEPTED), now)
    return result


def _judge(
    ledger: Ledger, records: Iterable[UsageRecord], catalog: Catalog, now: datetime
) -> Callable[[UsageRecord], list[str]]:
    """What says why one of these records cannot be booked: the one rule set, however a record comes."""
    strange = sorted({r.engine for r in records if r.engine is not None and catalog.engine(r.engine) is None})
    seen: set[str] = set()
    if strange:
        asked = {"engines": strange, "session": EventName.SESSION, "window": EventName.WINDOW}
        seen = {row["engine"] for row in ledger.read("engines_seen", asked)}
    return lambda record: faults(record, catalog, seen) + absurdities(record, to_ns(now))


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
    rows = ledger.read("usage_by_identity", looked_for(records))
    return {(row["emitter"], row["seq"]): usage_record(row) for row in rows}


def _entry(record: UsageRecord, candidate: Candidate, reasons: list[str], now_ns: int) -> Entry:
    """An instant that cannot be is none: nobody knows which month the entry belongs to, so it touches every one."""
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

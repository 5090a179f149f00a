"""Whatever a line holds, the rest is ingested, and what was not is in quarantine once, with its reason and its place."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from billing.exact.periods import to_ns
from billing.store.clickhouse import Ledger
from billing.store.finance import waiting
from billing.store.intake.ingest import ingest
from billing.store.intake.usage import book_spans
from catalog.model import Catalog
from telemetry.engine_time import EngineSession, MeterWindow, SessionEvent, Share
from telemetry.names import Attr, EventName
from telemetry.otlp_decode import parse_line
from telemetry.otlp_encode import event_line, span_line
from telemetry.usage import Slice, Status, UsageRecord

S = 1_000_000_000
ARRIVED = 1_790_000_000 * S
FUTURE = 2**62
SOUND = UsageRecord(
    "crm", 1, "req-1", "bank", ARRIVED, ARRIVED + S, Status.OK, input_tokens=9, output_tokens_delivered=4, slices=()
)


def usage(**changes: Any) -> str:
    return replace(SOUND, **changes).to_json()


def raw(**changes: Any) -> str:
    return json.dumps(json.loads(SOUND.to_json()) | changes)


def span(start_ns: int, **attributes: str) -> str:
    return span_line("ab" * 16, "cd" * 8, "", "POST", start_ns, start_ns + 1, attributes, {"service.name": "x"})


def session(at_ns: int, gpus: int = 1) -> str:
    value = EngineSession("meter-9", 0, "cpu-0", "run-9", SessionEvent.STARTED, at_ns, "demo-cpu", gpus)
    return event_line(EventName.SESSION, value.to_json(), ARRIVED, None, "meter-9", 0)


def window(idle_ns: int, base_ns: int) -> str:
    share = Share("crm:1", "bank", None, base_ns, 0, 0, 1, 1)
    value = MeterWindow("meter-9", 0, "cpu-0", ARRIVED, ARRIVED + S, 1, idle_ns, shares=(share,))
    return event_line(EventName.WINDOW, value.to_json(), ARRIVED, None, "meter-9", 0)


BAD: dict[str, tuple[str | bytes, str]] = {
    "no JSON": ("{", "not JSON"),
    "bytes that are no text": (b"\xff\xfe{}", "not JSON"),
    "JSON that is no object": ("[1,2,3]", "Expected `object`, got `array`"),
    "an unknown version": (raw(schema="loraledger.usage/9"), "schema is not loraledger.usage/1"),
    "an unknown field": (raw(colour="red"), "unknown field `colour`"),
    "an unknown status": (raw(status="fine"), "Invalid enum value 'fine' - at `$.status`"),
    "half a nanosecond": (raw(arrival_ns=1.5), "got `float` - at `$.arrival_ns`"),
    "more than 64 bits": (raw(input_tokens=2**63), "Expected `int` <= 9223372036854775807 - at `$.input_tokens`"),
    "a negative count": (usage(input_tokens=-1), "input_tokens is negative (-1)"),
    "an end before the beginning": (usage(finished_ns=ARRIVED - 1), "finished before it arrived"),
    "more cached than there were": (usage(cached_tokens=10), "cached_tokens 10 > input_tokens 9"),
    "tokens beyond reason": (usage(output_tokens_delivered=10**12), "output_tokens_delivered is 1000000000000, more than"),
    "engine time beyond reason": (usage(slices=(Slice(ARRIVED - ARRIVED % (900 * S), 2**60, 0, 0),)), "more than a day"),
    "engine time of another day": (usage(slices=(Slice(900 * S, 5, 0, 0),)), "not of an attempt that arrived at"),
    "an attempt of a week": (usage(finished_ns=ARRIVED + 7 * 86400 * S), "longer than a day"),
    "usage from the future": (usage(arrival_ns=FUTURE, finished_ns=FUTURE + 1), f"arrival_ns {FUTURE} is in the future"),
    "usage from 1970": (usage(arrival_ns=1, finished_ns=2), "arrival_ns 1 is before 2020"),
    "a tenant nobody knows": (usage(tenant="ghost"), "tenant 'ghost' is not in the catalog"),
    "more delivered than computed": (usage(output_tokens_computed=3), "output_tokens_delivered 4 > output_tokens_computed 3"),
    "an attempt before the first": (usage(attempt=-1), "attempt is -1, not between 1 and"),
    "more attempts than a column takes": (usage(attempt=2**31), "attempt is 2147483648, not between 1 and"),
    "an instant before there were any": (usage(admitted_ns=-5), "admitted_ns is negative (-5)"),
    "a first token before there were any": (usage(first_token_ns=-5), "first_token_ns is negative (-5)"),
    "no GPU at all": (usage(gpu_count=0), "gpu_count is 0, not between 1 and"),
    "a status of no protocol": (usage(http_status=7), "http_status is 7"),
    "an engine nobody knows": (usage(engine="ghost-gpu"), "engine 'ghost-gpu' is not in the catalog, and never told of itself"),
    "an engine without a GPU": (session(ARRIVED, 0), "gpu_count of engine cpu-0 is 0, not between 1 and"),
    "a window with less than no idle time": (window(-S, 2 * S), "idle_ns is negative (-1000000000)"),
    "a window with less than no share": (window(2 * S, -S), "shares.0.base_ns is negative (-1000000000)"),
    "a session from the future": (session(FUTURE), f"at_ns {FUTURE} is in the future"),
}  # fmt: skip
TIMELESS = ("usage from", "no JSON", "bytes", "JSON that", "half")
FOREIGN: dict[str, tuple[str, str]] = {
    "a torn line in the middle": ('{"resourceSpans":[{"scopeSpans":[', "not JSON"),
    "OTLP with a list for an object": ('{"resourceSpans":[[]]}', "resourceSpans"),
    "OTLP with a number for a name": ('{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":1}]}]}]}', "startTimeUnixNano"),
    "nested beyond reason": ('{"resourceSpans":' + "[" * 100_000, "nested too deeply"),
    "a span from the future": (span(FUTURE), f"startTimeUnixNano {FUTURE} is in the future"),
    "a span from 1970": (span(1), "startTimeUnixNano 1 is before 2020"),
}  # fmt: skip


@pytest.mark.parametrize("order", [1, -1])
def test_bad_lines_are_named_one_by_one_and_the_rest_is_ingested(
    ledger: Ledger, example: Catalog, now: datetime, tmp_path: Path, order: int
) -> None:
    bad = {name: line if isinstance(line, bytes) else line.encode() for name, (line, _) in BAD.items()}
    sound = [usage(seq=seq).encode() for seq in range(2, 2 + len(bad))]
    path, ends, text = tmp_path / "mixed.jsonl", {}, b""
    for (name, line), good in zip(list(bad.items())[::order], sound, strict=True):
        text += line + b"\n"
        ends[name] = len(text)
        text += good + b"\n"
    path.write_bytes(text)
    report = ingest(ledger, [path], example, now)
    assert (report.lines, report.records, report.quarantined) == (2 * len(bad), len(sound), len(bad))
    found = {row["source"]: row for row in ledger.ask("SELECT * FROM quarantine").dicts()}
    for name, (_, reason) in BAD.items():
        entry = found.pop(f"mixed.jsonl, byte {ends[name]}")
        assert reason in entry["reason"], name
        assert entry["content"] != "", name
    assert found == {}
    assert ledger.ask("SELECT seq FROM usage ORDER BY seq").rows == [(seq,) for seq in range(2, 2 + len(bad))]

    ingest(ledger, [path], example, now)
    path.with_name("again.jsonl").write_bytes(sound[0] + b"\n" + text)
    again = ingest(ledger, [tmp_path / "again.jsonl"], example, now)
    assert (again.records, again.quarantined) == (0, 0)


def test_what_is_not_ours_is_dropped_with_a_count_and_holds_up_nothing(
    ledger: Ledger, example: Catalog, now: datetime, tmp_path: Path
) -> None:
    sound = [usage(seq=seq) for seq in range(2, 2 + len(FOREIGN))]
    lines = [line for (text, _), good in zip(FOREIGN.values(), sound, strict=True) for line in (text, good)]
    (tmp_path / "mixed.jsonl").write_text("\n".join([*lines, ""]))
    report = ingest(ledger, [tmp_path], example, now)
    assert (report.records, report.quarantined, report.dropped) == (len(sound), 0, len(FOREIGN))
    said = " ".join(report.reasons)
    assert all(reason in said for _, reason in FOREIGN.values()), said
    assert waiting(ledger, 0, FUTURE) == []


def test_spans_of_more_days_than_the_engine_takes_at_once_are_taken(
    ledger: Ledger, example: Catalog, now: datetime, tmp_path: Path
) -> None:
    spans = [
        span_line(f"{day + 1:032x}", "cd" * 8, "", "POST", ARRIVED - day * 86400 * S, ARRIVED, {}, {})
        for day in range(230)
    ]
    (tmp_path / "days.jsonl").write_text("\n".join([*spans, ""]))
    assert ingest(ledger, [tmp_path], example, now).spans == 230


def test_a_record_is_booked_though_another_has_taken_the_place_of_its_span(
    ledger: Ledger, traffic: Any, example: Catalog, ns: Callable[..., int], now: datetime, tmp_path: Path
) -> None:
    t0 = ns(2026, 10, 5, 10)
    record = traffic.serve("campus", t0, 1000)
    path = traffic.write(tmp_path / "spool")
    (own,) = [s for line in path.read_text().splitlines() if "resourceSpans" in line for s in parse_line(line).spans]
    thief = span_line(
        own.trace_id, own.span_id, "", "theirs", own.timestamp, own.timestamp + 1, {}, {"service.name": "x"}
    )
    path.write_text(thief + "\n" + path.read_text())
    report = ingest(ledger, [path], example, now)
    assert (report.records, report.quarantined) == (1, 0)
    assert ledger.ask("SELECT emitter, seq FROM usage").rows == [record.identity]
    again = path.with_name("again.jsonl")
    again.write_text("\n".join(reversed(path.read_text().splitlines())) + "\n")
    assert ingest(ledger, [again], example, now).records == 0


def test_a_forged_record_in_a_collectors_table_neither_bills_nor_blocks(
    ledger: Ledger, traffic: Any, example: Catalog, ns: Callable[..., int], now: datetime, tmp_path: Path
) -> None:
    t0 = ns(2026, 10, 5, 10)
    record = traffic.serve("campus", t0, 1000)
    forged = [
        replace(record, tenant="bank", output_tokens_delivered=10**6).to_json(),
        replace(record, emitter="nobody", tenant="ghost").to_json(),
        replace(record, emitter="nobody", input_tokens=-1).to_json(),
        "not a record",
        "[1]",
    ]
    rows = [
        parse_line(span_line(f"{i + 1:032x}", "cd" * 8, "", "x", t0, t0 + 1, {Attr.USAGE_RECORD: text}, {})).spans[0]
        for i, text in enumerate(forged)
    ]
    ledger.insert("otel_traces", [row.as_row() for row in rows])
    ingest(ledger, [traffic.write(tmp_path / "spool")], example, now)
    booked = book_spans(ledger, t0, to_ns(now), example, now)
    assert (booked.records, booked.quarantined, booked.foreign) == (1, 0, len(forged))
    assert ledger.ask("SELECT emitter, seq, tenant FROM usage").rows == [(*record.identity, "campus")]
    assert waiting(ledger, 0, FUTURE) == []


def test_what_has_no_believable_instant_holds_up_every_month(
    ledger: Ledger, example: Catalog, now: datetime, tmp_path: Path
) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(b"".join((line if isinstance(line, bytes) else line.encode()) + b"\n" for line, _ in BAD.values()))
    ingest(ledger, [path], example, now)
    timeless = sum(count for _, count in waiting(ledger, 0, 1))
    assert timeless == sum(name.startswith(TIMELESS) for name in BAD)
    assert sum(count for _, count in waiting(ledger, ARRIVED - S, ARRIVED + S)) == len(BAD)


def test_a_record_on_a_span_is_held_to_the_same(
    ledger: Ledger, traffic: Any, example: Catalog, ns: Callable[..., int], now: datetime, tmp_path: Path
) -> None:
    t0 = ns(2026, 10, 5, 10)
    good = traffic.serve("campus", t0, 1000)
    traffic.close(
        replace(traffic.open("campus", t0 + S), finished_ns=t0 + 2 * S, status=Status.OK, input_tokens=10**15)
    )
    report = ingest(ledger, [traffic.write(tmp_path / "spool")], example, now)
    booked = book_spans(ledger, t0, to_ns(now), example, now)
    assert (report.spans, booked.records, booked.quarantined) == (2, 1, 1)
    assert ledger.ask("SELECT seq FROM usage").rows == [(good.seq,)]

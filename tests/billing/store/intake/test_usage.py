from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import fields, replace

from billing.cost.attempts import Life
from billing.store.clickhouse import Ledger
from billing.store.intake.ingest import ingest
from billing.store.intake.usage import Booked, Candidate, book, book_lost, book_spans
from catalog.durations import QUARTER_NS
from catalog.load import parse
from catalog.model import Catalog
from telemetry.usage import ErrorType, Slice, Status, UsageRecord

S = 1_000_000_000
HOUR = 3600 * S
T0 = 1_790_002_800 * S
FULL = UsageRecord(
    "gw-1", 0, "req", "clinic", T0 + 1, T0 + 5_000_000_007, Status.TIMEOUT, 2, "a" * 32, "icd10-coder", "ab" * 32, "tiny-llama",
    "cpu-0", "demo-cpu", 1, "p1", "explicit", "hit", T0 + 2, T0 + 3, ErrorType.SLO_VIOLATION, 200, 30, 10, 20, 19, 0, 11, 12,
    (Slice(T0 - T0 % QUARTER_NS, 1, 2, 3, 4, 5), Slice(T0 - T0 % QUARTER_NS + QUARTER_NS, 6, 7, 8, 9, 10)), "engine-step/1", "0123456789ab",
)  # fmt: skip


def bookings(ledger: Ledger, *records: UsageRecord, catalog: Catalog, now: datetime) -> Booked:
    return book(ledger, [Candidate(record.to_json(), "test") for record in records], catalog, now)


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(FULL, id="every field set"),
        pytest.param(replace(FULL, slices=(), engine=None, adapter=None), id="never ran"),
        pytest.param(replace(FULL, slices=None), id="not measured"),
        pytest.param(UsageRecord("gw-1", 1, "r", "bank", T0, T0, Status.REJECTED), id="every optional field null"),
    ],
)
def test_a_record_comes_back_as_it_was_booked(
    ledger: Ledger, example: Catalog, now: datetime, record: UsageRecord
) -> None:
    assert all(getattr(FULL, field.name) is not None for field in fields(FULL))
    assert bookings(ledger, record, catalog=example, now=now) == Booked(records=1)
    assert bookings(ledger, record, catalog=example, now=now) == Booked(duplicates=1)


def test_the_same_identity_with_other_content_keeps_the_first_and_quarantines_the_second(
    ledger: Ledger, example: Catalog, now: datetime
) -> None:
    other = replace(FULL, output_tokens_delivered=20)
    assert bookings(ledger, FULL, other, catalog=example, now=now) == Booked(records=1, quarantined=1)
    assert bookings(ledger, other, catalog=example, now=now) == Booked()
    assert ledger.ask("SELECT output_tokens_delivered FROM usage").rows == [(19,)]
    assert ledger.ask("SELECT reason FROM quarantine").rows == [
        ("another record of gw-1:0 is booked already, and differs",)
    ]


def test_the_same_number_of_another_emitter_is_another_record(ledger: Ledger, example: Catalog, now: datetime) -> None:
    bookings(ledger, FULL, replace(FULL, emitter="gw-2"), catalog=example, now=now)
    assert ledger.ask("SELECT count() FROM usage").rows == [(2,)]


def test_root_spans_are_booked_once_however_often_they_are_read(
    ledger: Ledger, traffic: Any, example: Catalog, now: datetime, tmp_path: Path
) -> None:
    traffic.serve("campus", T0, 1000)
    traffic.serve("clinic", T0 + S, 1000, adapter="icd10-coder")
    ingest(ledger, [traffic.write(tmp_path)], example, now)
    assert book_spans(ledger, T0, T0 + HOUR, example, now) == Booked(records=2)
    assert book_spans(ledger, T0 - 48 * HOUR, T0 + 48 * HOUR, example, now) == Booked()
    assert ledger.ask("SELECT count(), any(source) FROM usage").rows == [(2, "gateway")]


def test_what_was_quarantined_is_booked_once_its_cause_is_gone(ledger: Ledger, example: Catalog, now: datetime) -> None:
    ghost = replace(FULL, tenant="ghost", adapter=None)
    assert bookings(ledger, ghost, catalog=example, now=now) == Booked(quarantined=1)
    assert book_spans(ledger, T0, T0 + HOUR, example, now) == Booked()
    text = example.model_dump_json().replace('"tenants":[{"id":"clinic"', '"tenants":[{"id":"ghost"')
    text = text.replace('"owner":"clinic"', '"owner":"ghost"')
    assert book_spans(ledger, T0, T0 + HOUR, parse(text, "test"), now) == Booked(records=1)
    assert ledger.ask("SELECT count() FROM quarantine").rows == [(0,)]
    assert ledger.ask("SELECT resolution FROM quarantine_versions FINAL").rows == [("accepted by a later run",)]
    assert ledger.ask("SELECT tenant FROM usage").rows == [("ghost",)]


def test_an_attempt_that_never_closed_is_lost_with_null_times_until_its_record_turns_up(
    ledger: Ledger, traffic: Any, example: Catalog, now: datetime, ns: Callable[..., int], tmp_path: Path
) -> None:
    t0 = ns(2026, 11, 10, 7, 59)
    young, old = traffic.open("bank", t0), traffic.open("bank", t0 - 2 * HOUR)
    ingest(ledger, [traffic.write(tmp_path)], example, now)
    assert book_lost(ledger, [], example, now) == 1
    assert book_lost(ledger, [Life("cpu-0", t0 - S, t0 + S, True, "demo-cpu", 1)], example, now) == 1
    assert book_lost(ledger, [], example, now) == 0
    assert ledger.ask("SELECT seq, status, finished, base_ns, input_tokens FROM usage ORDER BY seq").rows == [
        (young.seq, "lost", None, None, None),
        (old.seq, "lost", None, None, None),
    ]
    closed = replace(old, status=Status.OK, finished_ns=t0, slices=())
    assert bookings(ledger, closed, catalog=example, now=datetime(2026, 11, 10, 9, tzinfo=now.tzinfo)) == Booked(
        records=1
    )
    assert ledger.ask("SELECT status FROM usage ORDER BY seq").rows == [("lost",), ("ok",)]


def test_an_attempt_lost_as_one_tenants_and_closed_as_anothers_is_one_attempt(
    ledger: Ledger, example: Catalog, now: datetime
) -> None:
    lost = UsageRecord("gw-1", 0, "req", "bank", T0 + 1, None, Status.LOST)
    closed = replace(FULL, tenant="clinic")
    one = "SELECT emitter, seq, tenant, status FROM usage"
    assert bookings(ledger, lost, catalog=example, now=now) == Booked(records=1)
    assert bookings(ledger, closed, closed, catalog=example, now=now) == Booked(records=1, duplicates=1)
    assert ledger.ask(one).rows == [("gw-1", 0, "clinic", "timeout")]
    assert bookings(ledger, lost, catalog=example, now=now).records == 0
    assert ledger.ask(one).rows == [("gw-1", 0, "clinic", "timeout")]


def test_copies_in_unmerged_parts_count_once_wherever_they_are_read(
    ledger: Ledger, traffic: Any, example: Catalog, now: datetime, tmp_path: Path
) -> None:
    """The canary: with merges stopped, every copy is a part of its own, and FINAL inside WITH and joins must still see one."""
    for table in ("usage_versions", "ledger_event_versions", "otel_traces"):
        ledger.execute(f"SYSTEM STOP MERGES {table}", "stop merges")
    traffic.serve("campus", T0, 1000)
    ingest(ledger, [traffic.write(tmp_path)], example, now)
    book_spans(ledger, T0, T0 + HOUR, example, now)
    for table in ("usage_versions", "ledger_event_versions", "otel_traces"):
        before = ledger.ask(f"SELECT count() FROM {table}").rows[0][0]
        for _ in range(3):
            ledger.execute(
                f"INSERT INTO {table} SELECT * FROM {table} LIMIT 1000 SETTINGS insert_deduplicate = 0", "copies"
            )
        parts = ledger.ask(f"SELECT count() FROM system.parts WHERE active AND table = '{table}'").rows[0][0]
        assert ledger.ask(f"SELECT count() FROM {table}").rows == [(before * 4,)]
        assert parts > 1
    assert ledger.ask("SELECT count(), sum(base_ns) FROM usage").rows == [(1, 1000)]
    assert ledger.ask(
        "WITH once AS (SELECT * FROM usage) SELECT count() FROM once JOIN once AS again USING (emitter, seq)"
    ).rows == [(1,)]
    assert ledger.ask("SELECT count() FROM ledger_events").rows == [(2,)]
    assert ledger.ask("SELECT count() FROM otel_traces FINAL").rows == [(1,)]
    assert book_spans(ledger, T0, T0 + HOUR, example, now) == Booked()

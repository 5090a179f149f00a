from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from billing.store.clickhouse import Ledger
from billing.store.errors import MigrationsInvalid
from billing.store.migrate import Migration, again, migrate, migrations, parse, pending

NOW = datetime(2026, 10, 1, tzinfo=UTC)
COLLECTOR = {
    "Timestamp": "DateTime64(9)",
    "TraceId": "String",
    "SpanId": "String",
    "ParentSpanId": "String",
    "TraceState": "String",
    "SpanName": "LowCardinality(String)",
    "SpanKind": "LowCardinality(String)",
    "ServiceName": "LowCardinality(String)",
    "ResourceAttributes": "Map(LowCardinality(String), String)",
    "ScopeName": "String",
    "ScopeVersion": "String",
    "SpanAttributes": "Map(LowCardinality(String), String)",
    "Duration": "UInt64",
    "StatusCode": "LowCardinality(String)",
    "StatusMessage": "String",
    "Events.Timestamp": "Array(DateTime64(9))",
    "Events.Name": "Array(LowCardinality(String))",
    "Events.Attributes": "Array(Map(LowCardinality(String), String))",
    "Links.TraceId": "Array(String)",
    "Links.SpanId": "Array(String)",
    "Links.TraceState": "Array(String)",
    "Links.Attributes": "Array(Map(LowCardinality(String), String))",
}


def test_the_schema_is_what_the_committed_list_says(shared_ledger: Ledger) -> None:
    found = shared_ledger.ask(
        "SELECT table, name, type FROM system.columns WHERE database = 'loraledger' ORDER BY table, position"
    )
    lines = "".join(f"{table}.{name}: {kind}\n" for table, name, kind in found.rows)
    expected = (Path(__file__).parent / "schema.txt").read_text()
    assert lines == expected, (
        "the schema changed: review, then write this into tests/billing/store/schema.txt\n" + lines
    )


def test_spans_stand_as_the_collector_writes_them(shared_ledger: Ledger) -> None:
    found = shared_ledger.ask(
        "SELECT name, type FROM system.columns WHERE database = 'loraledger' AND table = 'otel_traces' AND default_kind = '' ORDER BY position"
    )
    assert dict(found.rows) == COLLECTOR


def test_running_again_runs_nothing(shared_ledger: Ledger) -> None:
    assert migrate(shared_ledger, NOW) == []
    found = shared_ledger.ask("SELECT count(), max(number) FROM schema_migrations").rows
    assert found == [(len(migrations()), len(migrations()))]


def test_a_landed_file_that_changed_is_refused(shared_ledger: Ledger) -> None:
    files = migrations()
    files[4] = replace(files[4], statement=files[4].statement + " ")
    with pytest.raises(MigrationsInvalid, match=r"0005_create_ledger_event_versions was changed after it ran"):
        migrate(shared_ledger, NOW, files)


def test_a_ledger_of_a_newer_version_is_refused(shared_ledger: Ledger) -> None:
    with pytest.raises(MigrationsInvalid, match="use the newer version"):
        migrate(shared_ledger, NOW, migrations()[:-1])


def test_only_what_is_missing_runs_in_order() -> None:
    files = [Migration(n, "create_x", f"-- blocking: no.\nSELECT {n}") for n in (1, 2, 3)]
    assert pending(files, {1: files[0].hash}) == files[1:]


@pytest.mark.parametrize("migration", migrations(), ids=lambda m: f"{m.number:04d}_{m.name}")
def test_every_migration_can_be_run_again(shared_ledger: Ledger, migration: Migration) -> None:
    tables = "SELECT name, create_table_query FROM system.tables WHERE database = 'loraledger' ORDER BY name"
    before = shared_ledger.ask(tables).rows
    shared_ledger.execute(again(migration.statement), migration.name)
    assert shared_ledger.ask(tables).rows == before


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        pytest.param({"1_x.sql": "-- blocking: no.\n"}, "not named", id="a name without a number of four digits"),
        pytest.param({"0001_create_x.sql": "SELECT 1"}, "blocking", id="a file that does not say whether it blocks"),
        pytest.param(
            {"0001_create_x.sql": "-- blocking: no.\nSELECT 1;\nSELECT 2"}, "more than one", id="two statements"
        ),
        pytest.param(
            {"0001_drop_x.sql": "-- blocking: no.\nDROP VIEW x"}, "cannot be run again", id="a drop of what is gone"
        ),
        pytest.param(
            {"0001_add_x.sql": "-- blocking: no.\nALTER TABLE y\n    ADD COLUMN x Int8"},
            "cannot be run again",
            id="a second column of one name",
        ),
        pytest.param(
            {"0001_fill_x.sql": "-- blocking: no.\nINSERT INTO x SELECT 1"}, "cannot be run again", id="rows twice"
        ),
        pytest.param({"0002_create_x.sql": "-- blocking: no.\n"}, "without gaps", id="a gap"),
        pytest.param(
            {"0001_create_x.sql": "-- blocking: no.\n", "0001_create_y.sql": "-- blocking: no.\n"},
            "without gaps",
            id="a repeat",
        ),
    ],
)
def test_files_that_are_not_as_agreed_are_refused(files: dict[str, str], problem: str) -> None:
    with pytest.raises(MigrationsInvalid, match=problem):
        parse(files)

from __future__ import annotations

import pytest

from billing.store.clickhouse import Ledger
from billing.store.cluster import on_cluster
from billing.store.migrate import Migration, migrations

TABLE = """-- blocking: no.
CREATE TABLE rows
(
    tenant String,
    at DateTime64(3, 'UTC'),
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(at)
ORDER BY (tenant, toStartOfHour(at))
"""


def test_a_table_becomes_a_replicated_one_on_every_node_and_one_spread_over_them() -> None:
    local, spread = on_cluster(TABLE, "east", "loraledger")
    assert local == TABLE.replace("CREATE TABLE rows", "CREATE TABLE rows_local ON CLUSTER 'east'").replace(
        "ENGINE = ReplacingMergeTree(version)",
        "ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/loraledger/rows_local', '{replica}', version)",
    )
    assert spread == (
        "CREATE TABLE rows ON CLUSTER 'east' AS rows_local\n"
        "ENGINE = Distributed('east', 'loraledger', 'rows_local', cityHash64(tenant, toStartOfHour(at)))\n"
    )


def test_a_view_reads_the_spread_tables_and_a_materialized_one_feeds_from_its_own_shard() -> None:
    assert on_cluster("-- x\nCREATE VIEW v AS\nSELECT 1\nFROM rows\n", "east", "d") == [
        "-- x\nCREATE VIEW v ON CLUSTER 'east' AS\nSELECT 1\nFROM rows\n"
    ]
    assert on_cluster("-- x\nCREATE OR REPLACE VIEW v AS\nSELECT 1\n", "east", "d") == [
        "-- x\nCREATE OR REPLACE VIEW v ON CLUSTER 'east' AS\nSELECT 1\n"
    ]
    assert on_cluster("-- x\nCREATE MATERIALIZED VIEW v TO sums\nAS SELECT 1\nFROM rows\n", "east", "d") == [
        "-- x\nCREATE MATERIALIZED VIEW v ON CLUSTER 'east' TO sums_local\nAS SELECT 1\nFROM rows_local\n"
    ]


def test_an_index_is_added_where_the_rows_are() -> None:
    assert on_cluster("-- x\nALTER TABLE rows\nADD INDEX i at TYPE minmax\n", "east", "d") == [
        "-- x\nALTER TABLE rows_local ON CLUSTER 'east'\nADD INDEX i at TYPE minmax\n"
    ]


@pytest.mark.parametrize("statement", ["SELECT 1", "-- x\nCREATE TABLE t (a Int8)\nENGINE = Memory\n"])
def test_what_cannot_be_spread_is_an_error(statement: str) -> None:
    with pytest.raises(ValueError, match="could not spread"):
        on_cluster(statement, "east", "d")


@pytest.mark.parametrize("migration", migrations(), ids=lambda m: f"{m.number:04d}_{m.name}")
def test_every_migration_has_a_cluster_form_that_the_engine_can_read(
    shared_ledger: Ledger, migration: Migration
) -> None:
    for statement in on_cluster(migration.statement, "east", "loraledger"):
        assert "ON CLUSTER 'east'" in statement
        assert shared_ledger.ask(f"EXPLAIN AST {statement}").rows

"""The real engine judges the queries on the real schema."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from billing.store.clickhouse import Ledger
from billing.store.cost.engine_time import write_cold_starts, write_engine_time
from billing.store.cost.tenant_cost import write_tenant_cost
from billing.store.intake.ingest import ingest
from billing.store.intake.usage import book_spans
from catalog.model import Catalog
from dashboards.sql_files import sql_queries
from telemetry.engine_time import SessionEvent
from tests.dashboards.macros import expand_macros

if TYPE_CHECKING:
    from tests.conftest import Traffic

NOW = datetime(2026, 10, 5, 12, tzinfo=UTC)


def test_macros_become_what_the_plugin_sends() -> None:
    sql = "SELECT $__timeInterval(quarter) AS time WHERE $__timeFilter(quarter) AND $__conditionalAll(tenant IN (${tenant:singlequote}), $tenant) AND a > $__fromTime"
    start = datetime(1970, 1, 1, tzinfo=UTC)
    assert expand_macros(sql, start, start + timedelta(hours=1)) == (
        "SELECT toStartOfInterval(toDateTime(quarter), INTERVAL 60 second) AS time"
        " WHERE quarter >= toDateTime(0) AND quarter <= toDateTime(3600) AND 1=1 AND a > toDateTime(0)"
    )


def test_every_query_expands_completely_and_says_what_it_answers() -> None:
    for name, sql in sql_queries().items():
        assert sql.startswith("-- "), name
        assert "$" not in expand_macros(sql, NOW - timedelta(days=1), NOW), name


def test_every_query_runs_on_an_empty_ledger(ledger: Ledger) -> None:
    for sql in sql_queries().values():
        ledger.ask(expand_macros(sql, NOW - timedelta(days=1), NOW))


@pytest.fixture
def booked(
    ledger: Ledger, traffic: Traffic, example: Catalog, ns: Callable[..., int], now: datetime, tmp_path: Path
) -> Ledger:
    """An hour of two tenants, with a cold start, a cached prefix and idle time, from spool to cost."""
    start, second = ns(2026, 10, 5, 10), 1_000_000_000
    traffic.session(SessionEvent.STARTED, start)
    traffic.serve(
        "clinic",
        start + 20 * second,
        300_000_001,
        50_000_000,
        adapter="icd10-coder",
        cold_ns=7_000_003,
        system_ns=11,
        saved=(5, 3),
    )
    traffic.serve("campus", start + 21 * second, 400_000_001, recompute_ns=5)
    traffic.idle(start + 22 * second, start + 120 * second)
    traffic.session(SessionEvent.STOPPED, start + 120 * second)
    ingest(ledger, [traffic.write(tmp_path / "spool")], example, now)
    end = start + 3600 * second
    book_spans(ledger, start, end, example, now)
    write_engine_time(ledger, start, end, example, now)
    write_cold_starts(ledger, start, end, now)
    write_tenant_cost(ledger, start, end, example, now)
    return ledger


def test_the_money_panels_agree_with_each_other(booked: Ledger) -> None:
    start = datetime(2026, 10, 5, 10, tzinfo=UTC)
    asked = {
        name: booked.ask(expand_macros(sql, start, start + timedelta(hours=1))).dicts()
        for name, sql in sql_queries().items()
    }
    (whole,) = asked["cost_total"]
    assert whole["cost"] > 0
    assert math.isclose(sum(row["cost"] for row in asked["cost_by_tenant"]), whole["cost"])
    assert math.isclose(sum(row["margin"] for row in asked["margin_by_tenant"]), whole["margin"])
    assert math.isclose(sum(row["total_cost"] for row in asked["terms_by_tenant"]), whole["cost"])
    for row in asked["terms_by_tenant"]:
        assert math.isclose(
            row["T_B_seconds"] + row["T_A_seconds"] - row["T_kv_seconds"] + row["T_cold_seconds"],
            row["measured_seconds"],
        )
    assert math.isclose(sum(row["gpu_percent"] for row in asked["margin_by_tenant"]), 100)
    assert asked["reconciliation_missing"] == [{"missing_ns_sum": 0, "missing_money": 0}]
    assert math.isclose(
        sum(row["cost_sum"] for row in asked["engine_cost_by_owner"]), asked["reconciliation"][0]["rented_money"]
    )
    assert [row["missing"] for row in asked["record_gaps"]] == [0]
    assert (
        {row["tenant"] for row in asked["unit_price"]}
        == {"clinic", "campus"}
        == {row["tenant"] for row in asked["tenant_months"]}
    )
    assert [(row["adapter"], row["loads"]) for row in asked["cold_starts_by_adapter"]] == [("icd10-coder", 1)]

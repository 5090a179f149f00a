from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg

from pipelines.definitions import defs

ROOT = Path(__file__).parent.parent.parent


def test_everything_is_listed_and_nothing_runs_by_itself() -> None:
    graph = defs.resolve_asset_graph()
    parents = {
        key.to_user_string(): sorted(p.to_user_string() for p in graph.get(key).parent_keys)
        for key in graph.get_all_asset_keys()
    }
    assert parents == {
        "otel_traces": [],
        "usage": ["otel_traces"],
        "engine_time": ["otel_traces"],
        "cold_starts": ["otel_traces"],
        "tenant_cost": ["engine_time", "usage"],
        "gateway_snapshot": ["tenant_cost"],
        "invoices": ["tenant_cost"],
    }
    assert sorted(key.name for key in graph.asset_check_keys) == [
        "cost_is_conserved",
        "counters_are_explained",
        "quarantine_is_empty",
        "usage_is_complete",
    ]
    assert [s.default_status for s in defs.schedules or ()] == [dg.DefaultScheduleStatus.STOPPED] * 2


def test_a_range_of_hours_is_one_run() -> None:
    graph = defs.resolve_asset_graph()
    for key in graph.get_all_asset_keys():
        assert graph.get(key).backfill_policy == dg.BackfillPolicy.single_run()


def test_schedules_ask_for_what_is_over() -> None:
    schedules = {schedule.name: schedule for schedule in defs.schedules or ()}
    at = datetime(2026, 11, 4, 6, 20, tzinfo=UTC)
    asked = {}
    for name, schedule in schedules.items():
        assert isinstance(schedule, dg.ScheduleDefinition)
        with dg.build_schedule_context(
            scheduled_execution_time=at, repository_def=defs.get_repository_def()
        ) as context:
            (asked[name],) = schedule.evaluate_tick(context).run_requests or ()
    assert asked["every_hour"].tags["dagster/asset_partition_range_start"] == "2026-11-04-04:00"
    assert asked["every_hour"].tags["dagster/asset_partition_range_end"] == "2026-11-04-05:00"
    assert asked["every_month"].partition_key == "2026-10-01"
    assert asked["every_month"].run_config == {"ops": {"invoices": {"config": {"issue": True}}}}


def test_dagster_accepts_the_project_as_it_stands(tmp_path: Path) -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("LORALEDGER_")}
    environ |= {"DAGSTER_DISABLE_TELEMETRY": "yes", "DAGSTER_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "dagster", "definitions", "validate"],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr

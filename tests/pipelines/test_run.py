from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from msgspec import structs

from billing.store.clickhouse import Ledger
from billing.store.errors import CloseRefused, LedgerUnreachable
from catalog.load import CatalogInvalid, load
from pipelines.assets import WorkResource, invoices_asset
from pipelines.definitions import build
from pipelines.partitions import months_from
from pipelines.run import ChecksFailed, run_hours, run_month
from pipelines.settings import Settings
from pipelines.steps import HOURLY
from telemetry.engine_time import SessionEvent
from telemetry.usage import Status

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "catalog.yaml"
S = 1_000_000_000
DAY = 24 * 3600 * S
HOURS = (datetime(2026, 10, 5, 10, tzinfo=UTC), datetime(2026, 10, 5, 12, tzinfo=UTC))


@pytest.fixture
def settings(tmp_path: Path, empty_ledger: Path) -> Settings:
    shutil.copytree(empty_ledger, tmp_path / "ledger", symlinks=True)
    return Settings(
        f"chdb://{tmp_path}/ledger", tmp_path / "spool", EXAMPLE, tmp_path / "out", tmp_path / "snapshot.json"
    )


@pytest.fixture
def served(traffic: Any, settings: Settings, ns: Callable[..., int]) -> Any:
    """Two days with an hour of traffic each, an attempt that never closed, and a cold load."""
    for t0 in (ns(2026, 10, 5, 10), ns(2026, 10, 20, 10)):
        traffic.meter = f"meter-{t0}"
        traffic.windows = traffic.sessions = traffic.loads = 0
        traffic.session(SessionEvent.STARTED, t0, f"run-{t0}")
        traffic.serve(
            "clinic", t0 + S, 700_000_000, 50_000_000, adapter="icd10-coder", cold_ns=30_000_000, saved=(50, 5)
        )
        traffic.serve("campus", t0 + 2 * S, 400_000_001)
        lost = traffic.open("bank", t0 + 3 * S, "ledger-lingo")
        traffic.window(t0 + 3 * S, t0 + 4 * S, (traffic.share(lost, 5),))
        traffic.session(SessionEvent.STOPPED, t0 + 60 * S, f"run-{t0}")
    traffic.write(settings.spool)
    return traffic


def ask(settings: Settings, sql: str) -> list[Any]:
    with Ledger.open(settings.dsn) as ledger:
        return ledger.ask(sql).rows


def files(settings: Settings) -> dict[str, bytes]:
    return {
        str(path.relative_to(settings.out)): path.read_bytes()
        for path in sorted(settings.out.rglob("*"))
        if path.is_file()
    }


def test_what_is_skipped_or_dropped_is_in_the_runs_metadata_and_stops_nothing(
    served: Any, settings: Settings, now: datetime
) -> None:
    (settings.spool / "a.jsonl").symlink_to("nowhere")
    (settings.spool / "b.jsonl").write_text('{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"0"}]}]}]}\n')
    made = run_hours(settings, *HOURS, now).made["otel_traces"]
    assert made["skipped"] == [{"path": str(settings.spool / "a.jsonl"), "reason": "is a link to nothing"}]
    assert (made["dropped"], made["reasons"]) == (1, ["span without startTimeUnixNano"])
    assert made["records"] == len([one for one in served.lines if "resourceSpans" in one])


def test_a_month_goes_from_the_spool_to_numbered_invoices_and_a_second_run_changes_nothing(
    served: Any, settings: Settings, now: datetime
) -> None:
    told: list[str] = []
    drafts = run_month(settings, "2026-10", False, now, lambda what, _done, _total: told.append(what))
    assert drafts.warnings == ()
    assert drafts.made["otel_traces"]["records"] == 4
    assert drafts.made["usage"] == {"records": 4, "lost": 2, "quarantined": 0, "foreign": 0}
    assert set(told) == {step.name for step in HOURLY} | {"invoices"}
    assert {name for name in files(settings) if "clinic" in name} == {
        f"2026-10/clinic-draft.{form}" for form in ("pdf", "csv", "json")
    }

    run_month(settings, "2026-10", True, now)
    issued, rows = files(settings), ask(settings, "SELECT * FROM invoice_versions ORDER BY ALL")
    assert [name for name in issued if name.endswith(".pdf")] == [
        "2026-10/campus-LL-2026-0001.pdf",
        "2026-10/clinic-LL-2026-0002.pdf",
    ]
    assert json.loads(issued["2026-10/clinic-LL-2026-0002.json"])["state"] == "issued"
    assert ask(settings, "SELECT count() FROM invoices WHERE status = 'draft'") == [(0,)], (
        "the bank's attempts were lost"
    )

    again = run_month(settings, "2026-10", True, now + timedelta(days=1))
    assert files(settings) == issued
    assert ask(settings, "SELECT * FROM invoice_versions ORDER BY ALL") == rows
    assert again.made["tenant_cost"] == again.made["engine_time"] == {"changed": 0, "faults": []}


def test_hours_are_derived_alone(served: Any, settings: Settings, now: datetime) -> None:
    report = run_hours(settings, *HOURS, now)
    assert "invoices" not in report.made
    assert ask(settings, "SELECT count(), min(quarter) FROM tenant_cost") == [(4, HOURS[0])]
    figures = json.loads(settings.snapshot.read_text())
    assert figures["published_at"] == now.isoformat()
    assert figures["tenants"].keys() == {tenant.id for tenant in load(EXAMPLE).tenants}
    assert run_hours(settings, *HOURS, now).made["tenant_cost"] == {"changed": 0, "faults": []}


def test_partitions_of_an_orchestrator_make_the_same_rows_in_one_run(
    served: Any, settings: Settings, now: datetime
) -> None:
    run_hours(settings, *HOURS, now)
    in_process = ask(settings, "SELECT * FROM tenant_cost ORDER BY ALL")
    with Ledger.open(settings.dsn) as ledger:
        ledger.execute("TRUNCATE TABLE tenant_cost_versions", "clearing")
    work = WorkResource(replace(settings, start="2026-10-01"), lambda: now)
    defs = build(work)
    assets = [
        asset
        for asset in defs.assets or ()
        if isinstance(asset, dg.AssetsDefinition) and asset.key.to_user_string() != "invoices"
    ]
    with dg.DagsterInstance.ephemeral() as instance:
        result = dg.materialize(
            [*assets, *(defs.asset_checks or ())],
            instance=instance,
            resources={"work": work},
            run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
            tags={
                "dagster/asset_partition_range_start": "2026-10-05-10:00",
                "dagster/asset_partition_range_end": "2026-10-05-11:00",
            },
        )
    assert result.success
    assert len(result.get_asset_materialization_events()) == 6 * 2
    assert all(check.passed for check in result.get_asset_check_evaluations())
    assert ask(settings, "SELECT * FROM tenant_cost ORDER BY ALL") == in_process


def test_an_orchestrator_drafts_a_months_invoices(served: Any, settings: Settings, now: datetime) -> None:
    run_hours(settings, *HOURS, now)
    work = WorkResource(replace(settings, start="2026-10-01"), lambda: now)
    with dg.DagsterInstance.ephemeral() as instance:
        result = dg.materialize(
            [invoices_asset(months_from(work.settings.start))],
            instance=instance,
            resources={"work": work},
            run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
            partition_key="2026-10-01",
        )
    (made,) = result.asset_materializations_for_node("invoices")
    assert made.metadata["documents"].value == 3
    assert made.metadata["waiting"].value == []
    assert {name for name in files(settings) if name.endswith(".pdf")} == {
        f"2026-10/{tenant}-draft.pdf" for tenant in ("bank", "campus", "clinic")
    }


def test_quarantine_warns_and_stops_nothing(
    served: Any, settings: Settings, ns: Callable[..., int], now: datetime
) -> None:
    t0 = ns(2026, 10, 5, 10)
    ghost = served.open("ghost", t0, engine=None)
    served.close(structs.replace(ghost, status=Status.OK, finished_ns=t0 + 1, slices=()))
    served.write(settings.spool, "spool-2.jsonl")
    report = run_hours(settings, *HOURS, now)
    assert report.warnings == ("quarantine_is_empty: 1 x tenant 'ghost' is not in the catalog",)


def test_a_gap_is_red_and_what_could_be_made_was_made(
    served: Any, settings: Settings, ns: Callable[..., int], now: datetime
) -> None:
    t0 = ns(2026, 10, 5, 10)
    served.seq += 2
    refused = served.open("campus", t0 + 5 * S, engine=None)
    served.close(structs.replace(refused, status=Status.REJECTED, finished_ns=t0 + 6 * S, slices=()))
    served.write(settings.spool, "spool-2.jsonl")
    with pytest.raises(ChecksFailed, match=r"usage_is_complete: 2 missing of attempts gw-0123456789ab"):
        run_hours(settings, *HOURS, now)
    assert ask(settings, "SELECT sum(requests) FROM tenant_cost") == [(4,)]


def test_what_the_rooms_raise_comes_through_as_it_is(
    served: Any, settings: Settings, now: datetime, tmp_path: Path
) -> None:
    with pytest.raises(CloseRefused, match="the month is not over"):
        run_month(settings, "2026-11", True, now)
    with pytest.raises(CloseRefused, match="grace: late records are awaited until 2026-11-20T08:00:00"):
        run_month(settings, "2026-10", True, now, grace_hours=19 * 24 + 8)
    with pytest.raises(CatalogInvalid, match="cannot be read"):
        run_hours(replace(settings, catalog=tmp_path / "nowhere.yaml"), *HOURS, now)
    with pytest.raises(LedgerUnreachable, match=r"could not open ledger http://127\.0\.0\.1:9"):
        run_hours(replace(settings, dsn="http://127.0.0.1:9"), *HOURS, now)

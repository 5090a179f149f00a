from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from billing.store.catalog_history import remember_catalog
from billing.store.clickhouse import Ledger
from billing.store.cost.engine_time import write_engine_time
from billing.store.cost.tenant_cost import write_tenant_cost
from billing.store.finance import demo_table, month_window, publish_snapshot
from billing.store.intake.ingest import ingest
from billing.store.intake.usage import book_spans
from catalog.load import parse
from catalog.model import Catalog, PerToken
from telemetry.engine_time import SessionEvent

S = 1_000_000_000


def test_shares_of_gpu_time_and_revenue_stand_side_by_side_and_the_gateway_gets_the_costs(
    ledger: Ledger, traffic: Any, example: Catalog, ns: Callable[..., int], tmp_path: Path
) -> None:
    t0, now = ns(2026, 10, 5, 10), datetime.fromisoformat("2026-10-05T11:00:00+00:00")
    traffic.session(SessionEvent.STARTED, t0)
    traffic.serve("freeride", t0, 600_000_000, adapter="brand-voice", tokens=(0, 0, 100))
    traffic.serve("clinic", t0 + S, 350_000_000, 50_000_000, adapter="icd10-coder", tokens=(1000, 0, 50))
    traffic.session(SessionEvent.STOPPED, t0 + 60 * S)
    ingest(ledger, [traffic.write(tmp_path / "spool")], example, now)
    window = month_window("2026-10", example)
    book_spans(ledger, *window, example, now)
    write_engine_time(ledger, *window, example, now)
    write_tenant_cost(ledger, *window, example, now)

    rows = {row["tenant"]: row for row in demo_table(ledger, "2026-10")}
    assert list(rows) == ["freeride", "clinic"]
    assert [rows[t]["gpu_share"] for t in rows] == [0.6, 0.4]
    freeride = example.tenant("freeride")
    assert freeride is not None
    assert isinstance(freeride.plan, PerToken)
    assert rows["freeride"]["revenue"] == freeride.plan.output * 100 / 1_000_000
    assert rows["clinic"]["t_a_ns"] == 50_000_000
    assert rows["clinic"]["revenue"] == rows["clinic"]["cost"] * Decimal("1.25")
    assert sum(row["revenue_share"] for row in rows.values()) == 1
    assert ledger.ask("SELECT tenant, gpu_share FROM finance_margin ORDER BY tenant").rows == [
        ("clinic", 0.4),
        ("freeride", 0.6),
    ]

    path = tmp_path / "state" / "snapshot.json"
    publish_snapshot(ledger, example, path, now)
    snapshot = json.loads(path.read_text())
    assert snapshot["published_at"] == now.isoformat()
    assert snapshot["tenants"]["freeride"] == {
        "cost_per_million_tokens": "6000.000012",
        "memory_cost_per_hour": "0.000000",
        "cost": str(rows["freeride"]["cost"]),
        "revenue": f"{rows['freeride']['revenue']:.18f}",
        "month": "2026-10",
        "charged": f"{rows['freeride']['revenue']:.18f}",
    }
    assert snapshot["tenants"]["bank"]["cost"] == snapshot["tenants"]["bank"]["revenue"] == "0"
    assert snapshot["ledger"] == {
        "quarantine_records": 0,
        "record_gaps": 0,
        "close_overdue_ns": 0,
        "price_missing_ns": 0,
    }
    assert snapshot["tenants"]["clinic"]["memory_cost_per_hour"] == "900.000000"
    assert snapshot["tenants"]["bank"]["cost_per_million_tokens"] is None
    assert [entry.name for entry in path.parent.iterdir()] == ["snapshot.json"]


def test_the_window_of_a_month_holds_it_for_every_time_zone(example: Catalog, ns: Callable[..., int]) -> None:
    assert month_window("2026-10", example) == (ns(2026, 9, 30, 18), ns(2026, 11, 1))


def test_the_catalog_is_remembered_when_its_content_changes(ledger: Ledger, example: Catalog, now: datetime) -> None:
    assert remember_catalog(ledger, example, now) == 1 + 6 + 8
    assert remember_catalog(ledger, example, now) == 0
    dearer = parse(example.model_dump_json().replace('"per_hour":"3600.00"', '"per_hour":"3601.00"'), "test")
    assert remember_catalog(ledger, dearer, now) == 1
    assert ledger.ask("SELECT count(), uniqExact(start) FROM prices").rows == [(2, 1)]
    assert "key_hashes" not in ledger.ask("SELECT document FROM tenants LIMIT 1").rows[0][0]

"""Every ClickHouse query of the boards on a small ledger made by hand: its answer against what plain Python makes of the same rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

import pytest

from billing.store.clickhouse import Ledger
from dashboards.sql_files import sql_queries
from tests.dashboards.macros import expand_macros
from tests.ledger_world import (
    COST,
    FILES,
    HELD,
    INVOICES,
    LOADS,
    MINUTES,
    OWNED,
    START,
    USAGE,
    Row,
    after,
    differences,
    grouped,
    p99,
    write_world,
)

END = START + timedelta(hours=1)
OWNERS = ("tenants", "cold", "recompute", "system", "idle", "down", "unattributed")
NS = 10**9


def shown(rows: Iterable[Row], instant: str) -> list[Row]:
    """What Grafana's time filter lets through: both ends of the range."""
    return [row for row in rows if START <= row[instant] <= END]


def bar(moment: datetime) -> datetime:
    return moment.replace(second=0, microsecond=0)


def total(rows: Iterable[Row], *columns: str) -> float:
    return float(sum(row[column] for row in rows for column in columns))


def count(rows: Iterable[Row], *columns: str) -> int:
    return sum(row[column] for row in rows for column in columns)


def bars(
    rows: Iterable[Row], instant: str, label: Callable[[Row], str], name: str, value: Callable[[list[Row]], float]
) -> list[Row]:
    """One row for each minute and label, a label's bars in the order of time."""
    return [
        {"time": time, name.split()[0]: text, name.split()[1]: value(part)}
        for (time, text), part in grouped(shown(rows, instant), lambda row: (bar(row[instant]), label(row))).items()
    ]


def _measured(rows: list[Row]) -> int:
    return count(rows, "base_ns", "adapter_ns", "cold_ns")


def _margins() -> list[Row]:
    rows = shown(COST, "quarter")
    everything, asked = _measured(rows), total(rows, "revenue")
    found = [
        {
            "tenant": tenant, "cost": total(part, "cost"), "revenue": total(part, "revenue"), "margin": total(part, "revenue") - total(part, "cost"),
            "gpu_percent": 100 * _measured(part) / everything, "revenue_percent": 100 * total(part, "revenue") / asked, "currency": currency,
        }
        for (tenant, currency), part in grouped(rows, lambda row: (row["tenant"], row["currency"])).items()
    ]  # fmt: skip
    return sorted(found, key=lambda row: row["margin"])


def _terms(rows: list[Row], last: str, sign: int = 1) -> Row:
    names = ("T_B", "T_A", last, "T_cold")
    columns = (("base_ns", "kv_saved_base_ns"), ("adapter_ns", "kv_saved_adapter_ns"), ("kv_saved_base_ns", "kv_saved_adapter_ns"), ("cold_ns",))  # fmt: skip
    signs = (1, 1, sign, 1)
    return {name: sign * count(rows, *parts) / NS for name, parts, sign in zip(names, columns, signs, strict=True)}


def _terms_by_tenant() -> list[Row]:
    found = []
    for (tenant, adapter, currency), part in grouped(
        shown(COST, "quarter"), lambda row: (row["tenant"], row["adapter"], row["currency"])
    ).items():
        seconds = {f"{name}_seconds": value for name, value in _terms(part, "T_kv").items()}
        found.append({
            "tenant": tenant, "adapter": adapter, **seconds, "measured_seconds": _measured(part) / NS,
            "requests_ended": count(part, "requests"), "unmeasured_requests": count(part, "unmeasured"),
            "gpu_hours_used": total(part, "base_gpu_hours", "adapter_gpu_hours", "cold_gpu_hours"),
            "total_cost": total(part, "cost"), "currency": currency,
        })  # fmt: skip
    return sorted(found, key=lambda row: -row["total_cost"])


def _cold_starts() -> list[Row]:
    found = []
    for (adapter, cause), part in grouped(shown(LOADS, "start"), lambda row: (row["adapter"], row["cause"])).items():
        sizes = [row["size_bytes"] for row in part if row["size_bytes"] is not None]
        phases = {phase: p99(row[f"{phase}_ns"] for row in part) for phase in ("engine", "fetch", "read", "activate")}
        found.append({
            "adapter": adapter, "cause": cause, "loads": len(part),
            **{f"{phase}_p99_ms": None if value is None else value / 1e6 for phase, value in phases.items()},
            "largest_bytes": max(sizes, default=None), "stalled_attempts": sum(len(row["stalled"]) for row in part),
        })  # fmt: skip
    return sorted(found, key=lambda row: -row["loads"])


def _reconciliation() -> list[Row]:
    """Missing money: what engine-hours say of tenants and loads, less what tenants' rows say."""
    found = []
    hours = grouped(MINUTES, lambda row: (row["minute"].replace(minute=0), row["engine"]))
    for (hour, engine), minutes in hours.items():
        owned = [row for row in OWNED if (row["hour"], row["engine"]) == (hour, engine)]
        tenants = [row for row in COST if (row["quarter"].replace(minute=0), row["engine"]) == (hour, engine)]
        theirs = [row for row in owned if row["owner"] in ("tenants", "cold")]
        found.append({
            "engine": engine, "hour": hour, "rented_seconds": count(minutes, "wall_ns", "down_ns") / NS,
            **{f"{owner}_seconds": count(minutes, f"{owner}_ns") / NS for owner in OWNERS}, "missing_ns": 0,
            "rented_money": total(owned, "cost"), "attributed_money": total(tenants, "cost"),
            "missing_money": total(theirs, "cost") - total(tenants, "cost"), "currency": owned[0]["currency"] if owned else "",
        })  # fmt: skip
    return sorted(shown(found, "hour"), key=lambda row: (-row["hour"].timestamp(), row["engine"]))


def _quarantine() -> list[Row]:
    found = []
    for (reason, kind, tenant), part in grouped(HELD, lambda row: (row["reason"], row["kind"], row["tenant"])).items():
        instants = [row["event_time"] for row in part if row["event_time"] is not None]
        found.append({
            "reason": reason, "kind": kind, "tenant": tenant, "records": len(part), "first": min(instants, default=None),
            "last": max(instants, default=None),
        })  # fmt: skip
    return sorted(found, key=lambda row: -row["records"])


def _gaps() -> list[Row]:
    found = [
        {
            "emitter": emitter, "records": len(part), "expected": max(row["seq"] for row in part) + 1,
            "missing": max(row["seq"] for row in part) + 1 - len(part),
            "first": min(row["arrival"] for row in part), "last": max(row["arrival"] for row in part),
        }
        for emitter, part in grouped(USAGE, lambda row: row["emitter"]).items()
    ]  # fmt: skip
    return sorted(found, key=lambda row: (-row["missing"], -row["last"].timestamp()))


def _newest_first(rows: list[Row], months: tuple[str, ...], rest: Callable[[Row], Any]) -> list[Row]:
    kept = [row for row in rows if row["billing_month"] in months]
    return sorted(sorted(kept, key=rest), key=lambda row: months.index(row["billing_month"]))


def _months(*months: str) -> list[Row]:
    found = []
    for (month, tenant, currency), part in grouped(
        COST, lambda row: (row["billing_month"], row["tenant"], row["currency"])
    ).items():
        figures = {
            name: count(part, name)
            for name in ("requests", "unmeasured", "input_tokens", "cached_tokens", "output_tokens")
        }
        cost, revenue = total(part, "cost"), total(part, "revenue")
        found.append({
            "billing_month": month, "tenant": tenant, **figures,
            "hours": total(part, "base_gpu_hours", "adapter_gpu_hours", "cold_gpu_hours"),
            "cost_total": cost, "revenue_total": revenue, "margin_total": revenue - cost, "currency": currency,
        })  # fmt: skip
    return _newest_first(found, months, lambda row: -row["cost_total"])


def _unit_prices(*months: str) -> list[Row]:
    found = []
    for (month, tenant, adapter, currency), part in grouped(
        COST, lambda row: (row["billing_month"], row["tenant"], row["adapter"], row["currency"])
    ).items():
        tokens, cost = count(part, "output_tokens"), total(part, "cost")
        found.append({
            "billing_month": month, "tenant": tenant, "adapter": adapter, "output_tokens": tokens, "cost_total": cost,
            "per_million": cost * 1_000_000 / tokens if tokens else None, "currency": currency,
        })  # fmt: skip
    return _newest_first(found, months, lambda row: -row["cost_total"])


def _documents(*months: str) -> list[Row]:
    found = [
        {
            **{
                name: row[name]
                for name in ("billing_month", "tenant", "kind", "number", "status", "issued_at", "currency")
            },
            **{f"{name}_amount": float(row[name]) for name in ("net", "tax", "gross")},
        }
        for row in INVOICES
    ]
    return _newest_first(found, months, lambda row: (row["tenant"], row["number"]))


def _system_causes() -> list[Row]:
    rows = [
        {"minute": row["minute"], "cause": cause, "seconds": nanoseconds / NS}
        for row in MINUTES
        for cause, nanoseconds in row["system_causes"].items()
    ]
    return bars(rows, "minute", lambda row: row["cause"], "cause seconds", lambda part: total(part, "seconds"))


def _costs() -> list[Row]:
    rows = shown(COST, "quarter")
    cost, revenue = total(rows, "cost"), total(rows, "revenue")
    return [{"cost": cost, "revenue": revenue, "margin": revenue - cost}]


ANSWERS: dict[str, Callable[[], list[Row]]] = {
    "attempts_by_status": lambda: bars(USAGE, "arrival", lambda row: row["status"], "status attempts", len),
    "cold_starts_by_adapter": _cold_starts,
    "cold_time_by_adapter": lambda: bars(
        LOADS, "start", lambda row: row["adapter"], "adapter seconds", lambda part: count(part, "engine_ns") / NS
    ),
    "cost_by_tenant": lambda: bars(
        COST,
        "quarter",
        lambda row: f"{row['tenant']} {row['currency']}",
        "payer cost",
        lambda part: total(part, "cost"),
    ),
    "cost_total": _costs,
    "engine_cost_by_owner": lambda: bars(
        OWNED, "hour", lambda row: row["owner"], "owner cost_sum", lambda part: total(part, "cost")
    ),
    "ingested_files": lambda: [
        {"path": row["path"], "read_bytes": row["read_offset"], "at": row["at"]} for row in reversed(FILES)
    ],
    "invoices": lambda: _documents("2026-10"),
    "margin_by_tenant": _margins,
    "quarantine_reasons": _quarantine,
    "reconciliation": _reconciliation,
    "reconciliation_missing": lambda: [
        {"missing_ns_sum": 0, "missing_money": sum(abs(row["missing_money"]) for row in _reconciliation())}
    ],
    "record_gaps": _gaps,
    "system_causes": _system_causes,
    "tenant_months": lambda: _months("2026-10"),
    "tenants_known": lambda: [{"tenant": tenant} for tenant in ("t1", "t2", "t3")],
    "terms_by_tenant": _terms_by_tenant,
    "terms_over_time": lambda: [
        {"time": time, **_terms(part, "minus_T_kv", -1)}
        for time, part in grouped(shown(COST, "quarter"), lambda row: row["quarter"]).items()
    ],
    "unit_price": lambda: _unit_prices("2026-10"),
}


@pytest.fixture(scope="module")
def world(shared_ledger: Ledger) -> Ledger:
    write_world(shared_ledger)
    return shared_ledger


def _asked(ledger: Ledger, sql: str, start: datetime = START) -> list[Row]:
    rows = ledger.ask(expand_macros(sql, start, END)).dicts()
    return sorted(rows, key=lambda row: (row["time"], *map(str, row.values()))) if rows and "time" in rows[0] else rows


def test_the_books_of_this_world_do_not_balance_so_that_signs_show() -> None:
    assert {row["missing_money"] > 0 for row in _reconciliation()} == {True, False}


def test_every_query_has_its_answer_here() -> None:
    assert {*ANSWERS, "ledger_freshness"} == set(sql_queries())


@pytest.mark.parametrize("name", ANSWERS)
def test_a_query_says_what_the_rows_say(world: Ledger, name: str) -> None:
    expected = ANSWERS[name]()
    assert len(expected) > 0
    key = (lambda row: (row["time"], *map(str, row.values()))) if "time" in expected[0] else None
    found = _asked(world, sql_queries()[name])
    assert differences(found, sorted(expected, key=key) if key else expected) == []


def test_months_that_a_range_touches_come_newest_first(world: Ledger) -> None:
    for name, answer in (("tenant_months", _months), ("unit_price", _unit_prices), ("invoices", _documents)):
        found = _asked(world, sql_queries()[name], START - timedelta(days=7))
        assert differences(found, answer("2026-10", "2026-09")) == [], name


def test_freshness_is_counted_from_the_newest_minute_and_the_newest_quarter(world: Ledger) -> None:
    now = f"toDateTime({int(after(10000).timestamp())})"
    (found,) = world.ask(sql_queries()["ledger_freshness"].replace("now()", now)).dicts()
    assert found == {"engine_time_age": 10000 - 3660, "tenant_cost_age": 10000 - 4500}


def test_only_chosen_tenants_are_shown_where_a_query_asks_for_them(world: Ledger) -> None:
    for name, sql in sql_queries().items():
        if "$__conditionalAll" not in sql or name == "terms_over_time":
            continue
        chosen = sql.replace("$__conditionalAll(tenant IN (${tenant:singlequote}), $tenant)", "tenant IN ('t2')")
        every, some = _asked(world, sql), _asked(world, chosen)
        if name == "cost_total":
            assert differences(some, [{"cost": 3.5 + 0.1640625, "revenue": 1.25, "margin": 1.25 - 3.6640625}]) == []
        else:
            theirs = [row for row in every if (row.get("tenant") or row["payer"].split()[0]) == "t2"]
            assert some == theirs != every, name

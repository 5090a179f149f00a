"""Queries that decide whose time it was, who is counted and what is reported, on a small ledger made by hand: each answer against what
plain Python makes of the same rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any

import pytest

from billing.store.clickhouse import Ledger
from billing.store.cost.engine_time import cut_parameters
from tests.ledger_world import (
    COST,
    HELD,
    LOADS,
    MINUTES,
    OWNED,
    PERIODS,
    PROMISED,
    START,
    USAGE,
    WINDOWS,
    Row,
    S,
    after,
    differences,
    grouped,
    ns,
    write_world,
)

FROM, TO, DAY, QUARTER = ns(START), ns(START) + 3600 * S, 86400 * S, 900 * S
RANGE = {"start_ns": FROM, "end_ns": TO}
BOOKED = {"window": "loraledger.meter.window", "base": "base", "tenant": "", **RANGE, **cut_parameters({})}
NOBODY = ("", 0, "")


@pytest.fixture(scope="module")
def world(shared_ledger: Ledger) -> Ledger:
    write_world(shared_ledger)
    return shared_ledger


def inside(rows: Iterable[Row], instant: str) -> list[Row]:
    """Of the half-open hour."""
    return [row for row in rows if FROM <= ns(row[instant]) < TO]


def recent() -> list[Row]:
    """Attempts that arrived before the hour's end, a day before its start at the most."""
    return [row for row in USAGE if FROM - DAY <= ns(row["arrival"]) < TO]


def count(rows: Iterable[Row], *columns: str) -> int:
    return sum(row[column] or 0 for row in rows for column in columns)


def quarter(instant_ns: int) -> int:
    return instant_ns // QUARTER * QUARTER


def identity(row: Row, tenant: str) -> tuple[str, int, str]:
    return (row["emitter"], row["seq"], row["request_id"]) if tenant else NOBODY


def rows_of(groups: dict[Any, list[Row]], names: str, **columns: Any) -> list[Row]:
    """One row per group: the parts of its key by these names, and what each column says of the group's rows."""
    return [
        dict(zip(names.split(), key, strict=True)) | {name: column(part) for name, column in columns.items()}
        for key, part in groups.items()
    ]


def summed(column: str) -> Any:
    return lambda part: count(part, column)


OWNER = "tenant adapter_name engine_id status quarter_ns identity"
IN_ORDER = ("tenant", "quarter_ns", "adapter_name", "engine_id", "status", "identity")


def ordered(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: tuple(row[name] for name in IN_ORDER))


def windows() -> Iterator[tuple[Row, int]]:
    for row in WINDOWS:
        body = json.loads(row["body"])
        if FROM <= body["start_ns"] < TO:
            yield body, quarter(body["start_ns"])


def measured(tenant: str) -> list[Row]:
    known = {f"{row['emitter']}:{row['seq']}": row for row in recent()}
    shares = [
        {**share, "record": known.get(share["attempt"]), "engine": body["engine"], "quarter": at}
        for body, at in windows()
        for share in body["shares"]
        if tenant in ("", share["tenant"])
    ]
    groups = grouped(
        [share for share in shares if share["record"] or not tenant],
        lambda share: (
            share["tenant"], (share["adapter"] or "base").split("@")[0], share["engine"],
            share["record"]["status"] if share["record"] else "", share["quarter"],
            identity(share["record"], tenant) if share["record"] else NOBODY,
        ),
    )  # fmt: skip
    return ordered(rows_of(groups, OWNER, base_ns=summed("base_ns"), adapter_ns=summed("adapter_ns")))


@pytest.mark.parametrize("tenant", ["", "t1", "t2", "t3"])
def test_measured_time_is_of_the_tenant_in_the_window_with_the_status_of_its_record(world: Ledger, tenant: str) -> None:
    expected = measured(tenant)
    assert len(expected) >= 2 or tenant == "t3"
    assert differences(world.read("measured_quarters", {**BOOKED, "tenant": tenant}), expected) == []


@pytest.mark.parametrize("tenant", ["", "t1", "t3", "unauthenticated"])
def test_attempts_are_counted_in_the_quarter_hour_they_ended_in(world: Ledger, tenant: str) -> None:
    ended = [
        {**row, "at": ns(row["finished"] or row["arrival"]), "ran": bool(row["slices.start_ns"])}
        for row in recent()
        if tenant in ("", row["tenant"])
    ]
    groups = grouped(
        [row for row in ended if FROM <= row["at"] < TO],
        lambda row: (
            row["tenant"],
            row["adapter"] or "base",
            row["engine"] or "",
            row["status"],
            quarter(row["at"]),
            identity(row, tenant),
        ),
    )
    untold = ("input_tokens", "output_tokens_delivered")
    expected = rows_of(
        groups,
        OWNER,
        requests=lambda part: sum(row["attempt"] if row["tenant"] == "unauthenticated" else 1 for row in part),
        input_tokens=summed("input_tokens"),
        cached_tokens=summed("cached_tokens"),
        output_tokens=summed("output_tokens_delivered"),
        unmeasured=lambda part: sum(
            not row["measured"] or (row["ran"] and None in [row[name] for name in untold]) for row in part
        ),
    )
    assert {row["unmeasured"] > 0 for row in expected} == ({True, False} if tenant in ("", "t1", "t3") else {False})
    assert differences(world.read("request_quarters", {**BOOKED, "tenant": tenant}), ordered(expected)) == []


@pytest.mark.parametrize("tenant", ["", "t1"])
def test_savings_are_of_the_quarter_hour_of_their_slice(world: Ledger, tenant: str) -> None:
    slices = [
        {**row, "at": at, "base": base, "lora": lora}
        for row in recent()
        if tenant in ("", row["tenant"])
        for at, base, lora in zip(
            row["slices.start_ns"], row["slices.kv_saved_base_ns"], row["slices.kv_saved_adapter_ns"], strict=True
        )
        if FROM <= at < TO and base + lora
    ]
    groups = grouped(
        slices,
        lambda row: (
            row["tenant"],
            row["adapter"] or "base",
            row["engine"],
            row["status"],
            row["at"],
            identity(row, tenant),
        ),
    )
    expected = rows_of(groups, OWNER, kv_saved_base_ns=summed("base"), kv_saved_adapter_ns=summed("lora"))
    assert differences(world.read("estimated_quarters", {**BOOKED, "tenant": tenant}), ordered(expected)) == []


def test_cold_time_is_shared_by_the_attempts_that_entered_an_engine(world: Ledger) -> None:
    entered = [
        row
        for row in inside(USAGE, "arrival")
        if row["engine"]
        and (row["slices.start_ns"] or not row["measured"])
        and row["status"] not in ("rejected", "bad_request")
    ]
    expected = rows_of(
        grouped(entered, lambda row: (row["adapter"] or "base", row["tenant"])), "adapter_name tenant", requests=len
    )
    assert {"x", "y", "base"} == {row["adapter_name"] for row in expected}
    assert differences(world.read("requests_by_adapter", BOOKED), expected) == []


def test_cold_time_is_that_of_the_windows_by_adapter_whatever_its_version(world: Ledger) -> None:
    loads = [
        {"key": (body["engine"], name.split("@")[0], at), "took": took}
        for body, at in windows()
        for name, took in body["cold_ns"].items()
    ]
    expected = rows_of(grouped(loads, lambda load: load["key"]), "engine adapter quarter_ns", cold_ns=summed("took"))
    assert len(expected) == 4
    assert differences(world.read("cold_loads", BOOKED), expected) == []


def test_days_with_anything_to_derive_are_found_by_every_fact(world: Ledger) -> None:
    instants = [ns(row["finished"] or row["arrival"]) for row in USAGE if row["arrival"] >= START - timedelta(days=9)]
    days = sorted({instant // DAY * DAY for instant in instants})
    found = world.read("active_days", {"start_ns": FROM - 3 * DAY, "end_ns": FROM + DAY})
    assert [row["day_ns"] for row in found] == days


SLO = {"slo_ns": 1.0, "yellow_ns": 1.1, "red_ns": 1.3}


def test_a_promise_is_broken_by_lateness_and_failure_and_by_nothing_else(world: Ledger) -> None:
    """A hang-up counts only when it was late already; what the client itself took never does."""
    judged: list[float] = []
    for took, status, error in PROMISED:
        if status in ("timeout", "server_error"):
            judged.append(float("inf"))
        elif status == "ok":
            judged.append(1.0 if error == "client_slow" else took)
        elif status == "client_abort" and error != "client_slow" and took > 1:
            judged.append(took)
    good = sorted(round(took * 1e6) * 1000 for took, status, _ in PROMISED if status == "ok")

    def rank(percent: int) -> int:
        return good[-(-len(good) * percent // 100) - 1]

    asked = {name: [round(bound * S)] for name, bound in SLO.items()}
    (found,) = world.read("report_promises", {"tenants": ["t4"], **asked, "from_ns": [FROM], "to_ns": [TO], **RANGE})
    assert found == {
        "tenant": "t4", "judged_attempts": len(judged), "failed_attempts": 2, "above_slo": sum(late > 1 for late in judged),
        "above_yellow": sum(late > 1.1 for late in judged), "above_red": sum(late > 1.3 for late in judged),
        "p50_ns": rank(50), "p99_ns": rank(99), "max_ns": good[-1],
    }  # fmt: skip
    part = world.read(
        "report_promises",
        {"tenants": ["t4"], **asked, "from_ns": [FROM + 2001 * S], "to_ns": [FROM + 2004 * S], **RANGE},
    )
    assert [row["judged_attempts"] for row in part] == [3]


def test_loads_are_summed_by_adapter_with_the_lower_median(world: Ledger) -> None:
    groups = grouped(inside(LOADS, "start"), lambda row: (row["adapter"],))
    expected = rows_of(
        groups,
        "adapter",
        loads=len,
        ahead=lambda part: sum(row["cause"] != "request" for row in part),
        engine_sum_ns=summed("engine_ns"),
        engine_median_ns=lambda part: sorted(row["engine_ns"] for row in part)[(len(part) - 1) // 2],
    )
    assert differences(world.read("report_cold_starts", RANGE), expected) == []


def test_a_month_is_open_until_it_is_said_to_be_closed_whatever_else_is_said(world: Ledger) -> None:
    closed = {row["billing_month"]: row["closed_at"] for row in PERIODS if row["status"] == "closed"}
    months = sorted({row["billing_month"] for row in COST})
    assert (
        differences(
            world.read("report_periods"), [{"billing_month": month, "closed_at": closed.get(month)} for month in months]
        )
        == []
    )
    assert months[0] in closed
    assert world.read("oldest_open_month") == [{"month": next(month for month in months if month not in closed)}]


def test_money_of_a_window_is_of_its_half_open_range(world: Ledger) -> None:
    costs = inside(COST, "quarter")
    assert differences(world.read("attributed_cost_window", RANGE), [{"cost_sum": count(costs, "cost")}]) == []
    owners = rows_of(grouped(inside(OWNED, "hour"), lambda row: (row["owner"],)), "owner", cost_sum=summed("cost"))
    found = sorted(world.read("owner_costs_window", RANGE), key=lambda row: str(row["owner"]))
    assert differences(found, [{**row, "currency": "EUR"} for row in owners]) == []
    newest: datetime = max(row["quarter"] for row in COST)
    assert world.read("charged_until") == [{"until_ns": ns(newest) + QUARTER}]


def test_what_waits_in_quarantine_touches_its_window_or_every_one(world: Ledger) -> None:
    open_entries = [row for row in HELD if row["event_time"] is None or FROM <= ns(row["event_time"]) < TO]
    expected = rows_of(grouped(open_entries, lambda row: (row["reason"],)), "reason", entries=len)
    assert world.read("quarantine_reasons", RANGE) == sorted(expected, key=lambda row: (-row["entries"], row["reason"]))


def test_causes_of_system_time_are_summed_over_the_window(world: Ledger) -> None:
    minutes = inside(MINUTES, "minute")
    causes = {
        cause: sum(row["system_causes"].get(cause, 0) for row in minutes) for cause in ("loop", "stall", "empty_step")
    }
    busy = count(minutes, "tenants_ns", "cold_ns", "recompute_ns", "system_ns", "unattributed_ns")
    assert world.read("system_causes", RANGE) == [{"causes": causes, "busy_ns": busy}]
    assert {row["minute"] for row in world.read("engine_time_window", RANGE)} == {row["minute"] for row in minutes}
    assert after(3600) not in {row["minute"] for row in minutes}


def test_the_report_shows_the_loads_of_the_day_and_the_newest_before_it(world: Ledger) -> None:
    """Of each process the newest load of each adapter before the day, since the month began; older ones say nothing about it."""
    asked = {"since_ns": FROM - 60 * S, "start_ns": FROM + 61 * S, "end_ns": TO}
    begun = [row for row in LOADS if asked["since_ns"] <= ns(row["start"]) < TO]
    before = grouped(
        [row for row in begun if ns(row["start"]) < asked["start_ns"]], lambda row: (row["emitter"], row["adapter"])
    )
    kept = [row for row in begun if ns(row["start"]) >= asked["start_ns"]]
    kept += [max(rows, key=lambda row: row["start"]) for rows in before.values()]
    expected = [
        {name: row[name] for name in ("adapter", "engine", "emitter", "cause", "engine_ns", "read_ns", "activate_ns")}
        | {"start_ns": ns(row["start"])}
        for row in sorted(kept, key=lambda row: (row["start"], row["adapter"]))
    ]
    assert len(expected) == 4
    assert differences(world.read("report_loads", asked), expected) == []


def test_an_adapter_is_in_use_from_the_first_arrival_to_the_last_end_of_each_stretch(world: Ledger) -> None:
    step = 300 * S
    used = [row for row in inside(USAGE, "arrival") if row["adapter"] and row["slices.start_ns"]]
    groups = grouped(used, lambda row: (row["engine"], row["adapter"], (ns(row["arrival"]) - FROM) // step))
    expected = rows_of(
        groups,
        "engine_id adapter_name stretch",
        first_ns=lambda part: min(ns(row["arrival"]) for row in part),
        last_ns=lambda part: max(ns(row["finished"] or row["arrival"]) for row in part),
        attempts=len,
    )
    assert expected
    assert differences(world.read("report_uses", {"step_ns": step, **RANGE}), expected) == []


def test_the_months_table_has_every_tenants_figures_and_shares(world: Ledger) -> None:
    rows = [row for row in COST if row["billing_month"] == "2026-10" and row["tenant"] != "t3"]
    everyone, asked_of_all = count(rows, "base_ns", "adapter_ns", "cold_ns"), count(rows, "revenue")
    expected = []
    for tenant, part in grouped(rows, lambda row: row["tenant"]).items():
        tokens, cost = count(part, "output_tokens"), count(part, "cost")
        expected.append({
            "tenant": tenant, "currency": "EUR", "requests": count(part, "requests"), "input_tokens": count(part, "input_tokens"),
            "output_tokens": tokens, "t_b_ns": count(part, "base_ns", "kv_saved_base_ns"), "t_a_ns": count(part, "adapter_ns", "kv_saved_adapter_ns"),
            "t_kv_ns": count(part, "kv_saved_base_ns", "kv_saved_adapter_ns"), "t_cold_ns": count(part, "cold_ns"),
            "measured_ns": count(part, "base_ns", "adapter_ns", "cold_ns"), "cost": cost, "revenue": count(part, "revenue"),
            "cost_per_million_tokens": Fraction(int(cost * 10**24 // tokens), 10**18),
            "gpu_share": count(part, "base_ns", "adapter_ns", "cold_ns") / everyone,
            "revenue_share": float(count(part, "revenue")) / float(asked_of_all),
        })  # fmt: skip
    found = world.read("demo_table", {"month": "2026-10", "provider": "t3"})
    assert differences(found, sorted(expected, key=lambda row: -row["cost"])) == []


def test_a_tenants_rows_of_a_window_are_its_own_in_the_order_of_the_invoice(world: Ledger) -> None:
    for tenant in ("", "t1"):
        rows = [row for row in inside(COST, "quarter") if tenant in ("", row["tenant"])]
        places = ("tenant", "quarter", "adapter", "engine", "status")
        expected = sorted(rows, key=lambda row: tuple(row[name] for name in places))
        found = world.read("tenant_cost_window", {"tenant": tenant, **RANGE})
        kept = [name for name in found[0] if name in expected[0]]
        assert len(kept) == len(found[0])
        assert differences(found, [{name: row[name] for name in kept} for row in expected]) == []

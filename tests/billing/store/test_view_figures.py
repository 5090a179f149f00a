"""The views that people read, on a small ledger made by hand: each against what plain Python makes of the rows under it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from billing.store.clickhouse import Ledger
from tests.ledger_world import (
    COST,
    FILES,
    HELD,
    INVOICES,
    LOADS,
    MINUTES,
    OWNED,
    PERIODS,
    USAGE,
    Row,
    after,
    differences,
    grouped,
    ns,
    write_world,
)

POSTED = [
    {
        "tenant": tenant, "position": place, "entry": 1, "version": 1, "document": document, "kind": kind, "account": account, "line": None,
        "item": None, "rate": None, "billing_month": "2026-10", "booked_on": date(2026, 11, 3), "invoice": invoice, "currency": "EUR",
        "debit": Decimal(debit), "credit": Decimal(credit), "previous_hash": "", "hash": "",
    }
    for place, (tenant, document, kind, account, invoice, debit, credit) in enumerate((
        ("t1", "LL-2", "invoice", "revenue", "LL-2", 0, 100), ("t1", "LL-2", "invoice", "receivable", "LL-2", 119, 0),
        ("t1", "LL-2", "invoice", "revenue", "LL-2", 7, 0), ("t1", "LL-3", "invoice", "revenue", "LL-2", 3, 0),
        ("t1", "LL-3", "invoice", "revenue", "LL-2", 0, 11), ("t1", "CN-1", "credit_note", "revenue", "LL-2", 20, 0),
        ("t1", "CN-1", "credit_note", "revenue", "LL-2", 0, 1), ("t2", "LL-4", "invoice", "revenue", "LL-4", 0, 5),
    ))
]  # fmt: skip
MOVES = [("t1", "gw-1:0", 30), ("t1", "gw-1:1", -30), ("t1", "gw-1:0", 4), ("t2", "gw-1:1", 999)]
"""Tenant, attempt and nanoseconds that shared prefixes move; the last is another tenant's line that names a strange attempt."""


@pytest.fixture(scope="module")
def world(shared_ledger: Ledger) -> Ledger:
    write_world(shared_ledger)
    shared_ledger.insert("posting_versions", POSTED)
    lines = [
        {"tenant": tenant, "adapter": "x", "engine": "e1", "moves": [{"attempt": attempt, "ns": moved}]}
        for tenant, attempt, moved in MOVES
    ]
    shared_ledger.insert(
        "ledger_event_versions",
        [
            {
                "name": "loraledger.prefix.reshare",
                "emitter": "gw-1",
                "seq": seq,
                "at": after(seq),
                "body": json.dumps(line),
            }
            for seq, line in enumerate(lines)
        ],
    )
    return shared_ledger


def total(rows: Iterable[Row], *columns: str) -> Any:
    return sum(row[column] for row in rows for column in columns)


def each(rows: Iterable[Row], names: str, **columns: Callable[[Row], Any]) -> list[Row]:
    return [
        {name: row[name] for name in names.split()} | {name: of(row) for name, of in columns.items()} for row in rows
    ]


def sums(
    rows: Iterable[Row], key: Callable[[Row], tuple[Any, ...]], names: str, **columns: Callable[[list[Row]], Any]
) -> list[Row]:
    return [
        dict(zip(names.split(), group, strict=True)) | {name: of(part) for name, of in columns.items()}
        for group, part in grouped(rows, key).items()
    ]


def plus(*columns: str) -> Callable[[Any], Any]:
    return lambda row: total(row if isinstance(row, list) else [row], *columns)


TERMS = {
    "t_b_ns": plus("base_ns", "kv_saved_base_ns"),
    "t_a_ns": plus("adapter_ns", "kv_saved_adapter_ns"),
    "t_kv_ns": plus("kv_saved_base_ns", "kv_saved_adapter_ns"),
    "t_cold_ns": plus("cold_ns"),
    "measured_ns": plus("base_ns", "adapter_ns", "cold_ns"),
    "gpu_hours": plus("base_gpu_hours", "adapter_gpu_hours", "cold_gpu_hours"),
}
COUNTS = {
    name: plus(name)
    for name in ("requests", "input_tokens", "cached_tokens", "output_tokens", "unmeasured", "cost", "revenue")
}


def attempts() -> list[Row]:
    sliced = ("base_ns", "adapter_ns", "recompute_ns", "kv_saved_base_ns", "kv_saved_adapter_ns")

    def told(name: str) -> Callable[[Row], int | None]:
        return lambda row: sum(row[f"slices.{name}"]) if row["measured"] else None

    return each(
        USAGE,
        "tenant emitter seq status input_tokens output_tokens_delivered measured",
        latency_ns=lambda row: None if row["finished"] is None else ns(row["finished"]) - ns(row["arrival"]),
        **{name: told(name) for name in sliced},
    )


def engine_minutes() -> list[Row]:
    return each(
        MINUTES,
        "engine minute wall_ns idle_ns tenants_ns down_ns gpu_count steps predicted_ns",
        busy_ns=plus("tenants_ns", "cold_ns", "recompute_ns", "system_ns", "unattributed_ns"),
        rented_ns=plus("wall_ns", "down_ns"),
    )


def hourly() -> list[Row]:
    return sums(
        COST,
        lambda row: (row["tenant"], row["quarter"].replace(minute=0), row["adapter"], row["engine"], row["currency"]),
        "tenant hour adapter engine currency",
        **TERMS, **COUNTS,
    )  # fmt: skip


def months() -> list[Row]:
    return sums(
        COST,
        lambda row: (row["billing_month"], row["tenant"], row["currency"]),
        "billing_month tenant currency",
        **TERMS, **COUNTS, margin=lambda part: total(part, "revenue") - total(part, "cost"),
    )  # fmt: skip


def margins() -> list[Row]:
    hours = grouped(COST, lambda row: row["quarter"].replace(minute=0))
    found = sums(
        COST,
        lambda row: (row["quarter"].replace(minute=0), row["tenant"], row["currency"]),
        "hour tenant currency",
        measured_ns=TERMS["measured_ns"], cost=plus("cost"), revenue=plus("revenue"),
        margin=lambda part: total(part, "revenue") - total(part, "cost"),
    )  # fmt: skip
    for row in found:
        everyone = hours[row["hour"]]
        row["gpu_share"] = row["measured_ns"] / TERMS["measured_ns"](everyone)
        row["revenue_share"] = float(row["revenue"]) / float(total(everyone, "revenue"))
    return found


def unit_prices() -> list[Row]:
    def price(part: list[Row]) -> Fraction | None:
        """Cut off after 18 places, as the division of decimals is."""
        tokens = total(part, "output_tokens")
        return Fraction(int(total(part, "cost") * 10**24 // tokens), 10**18) if tokens else None

    return sums(
        COST,
        lambda row: (row["billing_month"], row["tenant"], row["adapter"], row["currency"]),
        "billing_month tenant adapter currency",
        output_tokens=plus("output_tokens"), cost=plus("cost"), cost_per_million_tokens=price,
    )  # fmt: skip


def reconciled() -> list[Row]:
    owners = ("tenants", "cold", "recompute", "system", "idle", "unattributed", "down")
    found = []
    for (engine, hour), minutes in grouped(
        MINUTES, lambda row: (row["engine"], row["minute"].replace(minute=0))
    ).items():
        owned = [row for row in OWNED if (row["engine"], row["hour"]) == (engine, hour)]
        theirs = total(
            [row for row in COST if (row["engine"], row["quarter"].replace(minute=0)) == (engine, hour)], "cost"
        )
        cost = {owner: total([row for row in owned if row["owner"] == owner], "cost") for owner in owners}
        found.append({
            "engine": engine, "hour": hour, "gpu_count": minutes[0]["gpu_count"], **{f"{owner}_ns": total(minutes, f"{owner}_ns") for owner in owners},
            "rented_ns": total(minutes, "wall_ns", "down_ns"), "rented_gpu_ns": total(minutes, "wall_ns", "down_ns") * minutes[0]["gpu_count"],
            "missing_ns": 0, "tenants_cost": cost["tenants"], "cold_cost": cost["cold"],
            "provider_cost": sum(cost.values()) - cost["tenants"] - cost["cold"], "rented_cost": sum(cost.values()),
            "attributed_cost": theirs, "missing_cost": cost["tenants"] + cost["cold"] - theirs,
        })  # fmt: skip
    return found


def standings() -> list[Row]:
    def net(part: list[Row], which: Callable[[Row], bool]) -> Decimal:
        return sum((row["credit"] - row["debit"] for row in part if which(row)), Decimal(0))

    return sums(
        [row for row in POSTED if row["account"] == "revenue"],
        lambda row: (row["tenant"], row["billing_month"], row["currency"]),
        "tenant billing_month currency",
        issued=lambda part: net(part, lambda row: row["kind"] == "invoice" and row["document"] == row["invoice"]),
        corrected=lambda part: net(part, lambda row: row["kind"] == "invoice" and row["document"] != row["invoice"]),
        credited=lambda part: -net(part, lambda row: row["kind"] == "credit_note"),
        standing=lambda part: net(part, lambda _: True),
    )


def reshared() -> list[Row]:
    """An attempt that no line moves has a line of nothing."""
    found = []
    for row in attempts():
        moved = sum(
            moved
            for tenant, attempt, moved in MOVES
            if (tenant, attempt) == (row["tenant"], f"{row['emitter']}:{row['seq']}")
        )
        measured = row["base_ns"] + row["adapter_ns"] if row["measured"] else None
        found.append({
            "tenant": row["tenant"], "emitter": row["emitter"], "seq": row["seq"], "measured_ns": measured, "reshare_ns": moved,
            "as_if_shared_ns": None if measured is None else measured + moved,
        })  # fmt: skip
    return found


VIEWS: dict[str, Callable[[], list[Row]]] = {
    "usage": attempts,
    "engine_time": engine_minutes,
    "tenant_cost": lambda: each(
        COST, "tenant quarter adapter engine status billing_month charged_to", **TERMS, **COUNTS
    ),
    "tenant_cost_hourly": hourly,
    "engine_cost": lambda: each(OWNED, "engine hour owner ns gpu_hours price cost currency"),
    "cold_starts": lambda: each(
        LOADS, "adapter emitter seq cause start engine_ns fetch_ns read_ns activate_ns size_bytes stalled"
    ),
    "invoices": lambda: each(INVOICES, "tenant billing_month number status issued_at net tax gross currency"),
    "quarantine": lambda: each(HELD, "id kind event_time tenant reason"),
    "billing_periods": lambda: each(PERIODS, "billing_month status closed_at documents cost"),
    "ingested_files": lambda: each(FILES, "file read_offset path at"),
    "finance_tenant_month": months,
    "finance_margin": margins,
    "finance_unit_price": unit_prices,
    "finance_reconciliation": reconciled,
    "finance_standing": standings,
    "finance_request_reshare": reshared,
}


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_says_what_the_rows_under_it_say(world: Ledger, view: str) -> None:
    expected = VIEWS[view]()
    names = list(expected[0])
    found = world.ask(f"SELECT {', '.join(names)} FROM {view}").dicts()
    assert differences(sorted(found, key=_order(names)), sorted(expected, key=_order(names))) == []


def _order(names: list[str]) -> Callable[[Row], tuple[str, ...]]:
    """By what is neither a figure nor null."""
    return lambda row: tuple(
        str(row[name])
        for name in names
        if not isinstance(row[name], float | Decimal | Fraction) and row[name] is not None
    )

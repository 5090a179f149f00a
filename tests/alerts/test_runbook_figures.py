"""Every query of a runbook on a small ledger made by hand, an hour after its start: each answer against what plain Python makes of the
same rows. On-call believes these figures at night."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from billing.store.clickhouse import Ledger
from tests.ledger_world import (
    COST,
    HELD,
    LOADS,
    MINUTES,
    PERIODS,
    PRICES,
    USAGE,
    Row,
    after,
    differences,
    grouped,
    ns,
    p99,
    write_world,
)

RUNBOOKS = Path(__file__).parents[2] / "alerts" / "runbooks"
QUERIES = {
    path.stem: re.findall(r'loraledger sql "([^"]+)"', path.read_text()) for path in sorted(RUNBOOKS.glob("*.md"))
}
HOUR, DAY = 3600, 86400
NOW = after(HOUR)
SESSIONS: list[Row] = [
    {"name": name, "emitter": "run-1", "seq": seq, "at": after(at), "body": f'{{"event":"{seq}"}}'}
    for seq, (name, at) in enumerate((
        ("loraledger.engine.session", -DAY), ("loraledger.engine.session", HOUR - DAY), ("loraledger.engine.session", 7),
        ("loraledger.engine.session", HOUR - DAY + 1), ("loraledger.engine.counters", 8),
    ))
]  # fmt: skip
BLOCKS: list[Row] = [
    {
        "billing_month": month, "id": number, "version": version, "deleted": deleted, "kind": "records", "what": what, "tenants": ["t1", "t2"],
        "waiting": ["t1"], "engine": "", "records": None, "tokens": None, "engine_ns": None, "cost": None, "advice": "",
    }
    for month, number, version, deleted, what in (
        ("2026-10", "b1", 1, 0, "old"), ("2026-10", "b1", 2, 0, "new"), ("2026-09", "b2", 1, 0, "other"), ("2026-10", "b3", 1, 0, "gone"),
        ("2026-10", "b3", 2, 1, "gone"),
    )
]  # fmt: skip


@pytest.fixture(scope="module")
def world(shared_ledger: Ledger) -> Ledger:
    write_world(shared_ledger)
    shared_ledger.insert("ledger_event_versions", SESSIONS)
    shared_ledger.insert("billing_blocks", BLOCKS)
    return shared_ledger


def since(rows: Iterable[Row], instant: str, seconds: int) -> list[Row]:
    """Of the last so many seconds, and later."""
    return [row for row in rows if row[instant] > after(HOUR - seconds)]


def theirs(seconds: int) -> list[Row]:
    return [row for row in since(USAGE, "arrival", seconds) if row["tenant"] == "t1"]


def took(row: Row) -> int | None:
    return None if row["finished"] is None else ns(row["finished"]) - ns(row["arrival"])


def known(values: Iterable[Any]) -> list[Any]:
    return [value for value in values if value is not None]


def scaled(value: float | None, by: float) -> float | None:
    return None if value is None else value / by


def count(rows: Iterable[Row], *columns: str) -> Any:
    return sum(known(row[column] for row in rows for column in columns))


def table(rows: Iterable[Row], names: str, **columns: Callable[[list[Row]], Any]) -> list[Row]:
    """One row for each combination of the named columns."""
    keys = names.split()
    return [
        {name: part[0][name] for name in keys} | {name: of(part) for name, of in columns.items()}
        for part in grouped(rows, lambda row: str([row[name] for name in keys])).values()
    ]


def each(rows: Iterable[Row], names: str, **columns: Callable[[Row], Any]) -> list[Row]:
    return [
        {name: row[name] for name in names.split()} | {name: of(row) for name, of in columns.items()} for row in rows
    ]


def _p99(phase: str, by: float) -> Callable[[list[Row]], float | None]:
    return lambda part: scaled(p99(row[phase] for row in part), by)


def _latency(part: list[Row]) -> float | None:
    return scaled(p99(map(took, part)), 1e9)


def _first(column: str) -> Callable[[list[Row]], Any]:
    return lambda part: min(known(row[column] for row in part), default=None)


def _last(column: str) -> Callable[[list[Row]], Any]:
    return lambda part: max(known(row[column] for row in part), default=None)


def _busy(row: Row) -> float:
    return float(count([row], "tenants_ns", "cold_ns", "recompute_ns", "system_ns", "unattributed_ns") / 1e9)


def _waits() -> list[Row]:
    return table(
        theirs(HOUR),
        "adapter engine status",
        requests=len,
        p99_seconds=_latency,
        p99_queue_seconds=_p99("queue_ns", 1e9),
    )


def _gaps(*names: str) -> list[Row]:
    found = table(
        USAGE, "emitter", records=len, expected=lambda part: max(row["seq"] for row in part) + 1,
        missing=lambda part: max(row["seq"] for row in part) + 1 - len(part),
    )  # fmt: skip
    return [{name: row[name] for name in ("emitter", *names, "missing")} for row in found if row["missing"] > 0]


def _margin(part: list[Row]) -> Decimal:
    return Decimal(count(part, "revenue") - count(part, "cost"))


def _hours() -> list[Row]:
    hours = grouped(COST, lambda row: row["quarter"].replace(minute=0))
    spent = ("base_ns", "adapter_ns", "cold_ns")
    return [
        {
            "hour": hour, "cost": count(mine, "cost"), "revenue": count(mine, "revenue"), "margin": _margin(mine),
            "gpu_share": count(mine, *spent) / count(rows, *spent),
            "revenue_share": float(count(mine, "revenue")) / float(count(rows, "revenue")),
        }
        for hour, rows in hours.items()
        if (mine := [row for row in rows if row["tenant"] == "t1"])
    ]  # fmt: skip


def _adapters() -> list[Row]:
    return table(
        [row for row in COST if row["tenant"] == "t1" and row["billing_month"] == "2026-10"],
        "adapter", cost=lambda part: count(part, "cost"), revenue=lambda part: count(part, "revenue"),
        cold_seconds=lambda part: count(part, "cold_ns") / 1e9, output_tokens=lambda part: count(part, "output_tokens"),
    )  # fmt: skip


def _months() -> list[Row]:
    return table(
        [row for row in COST if row["tenant"] == "t1"], "billing_month",
        requests=lambda part: count(part, "requests"), cost=lambda part: count(part, "cost"), revenue=lambda part: count(part, "revenue"),
        margin=_margin,
    )  # fmt: skip


def _unattributed(unit: float, name: str, *more: str) -> list[Row]:
    rows = [row for row in MINUTES if row["unattributed_ns"] > 0]
    found = each(rows, "engine minute", **{name: lambda row: row["unattributed_ns"] / unit}, busy_seconds=_busy)
    return [{key: row[key] for key in ("engine", "minute", name, *more)} for row in found]


def _tokens(row: Row) -> int | None:
    both = (row["input_tokens"], row["output_tokens_computed"])
    return None if None in both else sum(both)


def _sum(values: Iterable[Any]) -> Any:
    """As SQL sums: nothing but nulls is null."""
    found = known(values)
    return sum(found) if found else None


def _hungry() -> list[Row]:
    return table(
        since(USAGE, "arrival", 900), "tenant adapter", requests=len,
        tokens=lambda part: _sum(map(_tokens, part)), preemptions=lambda part: _sum(row["preemptions"] for row in part),
    )  # fmt: skip


def _drift() -> list[Row]:
    rows = [
        {**row, "hour": row["minute"].replace(minute=0)}
        for row in since(MINUTES, "minute", DAY)
        if row["predicted_ns"] > 0
    ]
    return table(
        rows,
        "engine hour",
        measured_over_predicted=lambda part: count(part, "tenants_ns", "recompute_ns") / count(part, "predicted_ns"),
    )


def _recomputed(part: list[Row]) -> float | None:
    return scaled(_sum(sum(row["slices.recompute_ns"]) if row["measured"] else None for row in part), 1e9)


def _unmeasured() -> list[Row]:
    return table(
        [row for row in USAGE if not row["measured"]], "tenant engine status",
        records=len, first=_first("arrival"), last=_last("arrival"),
    )  # fmt: skip


def _sessions() -> list[Row]:
    return each([row for row in SESSIONS if row["name"] == "loraledger.engine.session"], "at body")


def _causes() -> list[Row]:
    rows = [
        {"engine": row["engine"], "cause": cause, "ns": spent}
        for row in since(MINUTES, "minute", HOUR)
        for cause, spent in row["system_causes"].items()
    ]
    return table(rows, "engine cause", seconds=lambda part: count(part, "ns") / 1e9)


Answer = tuple[str, Callable[[], list[Row]]]
"""The column that orders the rows (`-`: the largest first; empty: a single row, or no order), and the rows."""
ANSWERS: dict[str, list[Answer]] = {
    "LoraAttemptsStuck": [("-minute", lambda: each(since(MINUTES, "minute", 1800), "engine minute steps", busy_seconds=_busy, idle_seconds=lambda row: row["idle_ns"] / 1e9))],
    "LoraBudgetDrift": [("-records", lambda: table(since(USAGE, "arrival", DAY), "status measured", records=len))],
    "LoraCloseOverdue": [
        ("-billing_month", lambda: each(PERIODS, "billing_month status closed_at")),
        ("", lambda: each(BLOCKS[1:2], "id kind what waiting")),
    ],
    "LoraColdStartSlow": [("-loads", lambda: table(
        since(LOADS, "start", HOUR), "adapter", loads=len, fetch_ms=_p99("fetch_ns", 1e6), read_ms=_p99("read_ns", 1e6),
        activate_ms=_p99("activate_ns", 1e6), bytes=_last("size_bytes"),
    ))],
    "LoraEngineDown": [("-at", _sessions)],
    "LoraEngineRestarted": [("-arrival", lambda: each([row for row in USAGE if row["status"] == "server_error"], "request_id tenant adapter arrival"))],
    "LoraEngineStall": [("-minute", lambda: each(
        [row for row in MINUTES if row["system_causes"].get("stall")], "minute engine steps", stalled_seconds=lambda row: row["system_causes"]["stall"] / 1e9,
    ))],
    "LoraEngineTimeSystemHigh": [("-seconds", _causes)],
    "LoraEngineTimeUnattributed": [("-minute", lambda: _unattributed(1e6, "unattributed_ms", "busy_seconds"))],
    "LoraErrorBudgetBurnFast": [
        ("hour", lambda: table(
            [{**row, "hour": row["arrival"].replace(minute=0, second=0, microsecond=0)} for row in theirs(DAY)], "hour",
            requests=len, failed=lambda part: sum(row["status"] != "ok" for row in part), p99_seconds=_latency,
        )),
        ("at", lambda: each(since([row for row in SESSIONS if row["name"].endswith("session")], "at", DAY), "name at body")),
    ],
    "LoraErrorBudgetBurnSlow": [
        ("-requests", lambda: table(theirs(3 * DAY), "adapter status error_type", requests=len, p99_seconds=_latency)),
        ("-loads", lambda: table(since(LOADS, "start", 3 * DAY), "adapter cause", loads=len, p99_ms=_p99("engine_ns", 1e6))),
    ],
    "LoraGpuMemoryCritical": [("-tokens", _hungry)],
    "LoraKvPoolSaturated": [("-recompute_seconds", lambda: table(
        since(USAGE, "arrival", HOUR), "tenant", preemptions=lambda part: _sum(row["preemptions"] for row in part), recompute_seconds=_recomputed,
    ))],
    "LoraLabelOverflow": [("-requests", lambda: table(since(USAGE, "arrival", HOUR), "tenant adapter", requests=len))],
    "LoraMarginNegative": [("-hour", _hours), ("-cost", _adapters), ("-billing_month", _months)],
    "LoraMeterGaps": [("-minute", lambda: _unattributed(1e9, "unattributed_seconds"))],
    "LoraPriceMissing": [
        ("start", lambda: each(PRICES, "gpu_type start per_hour currency book")),
        ("", lambda: table([row for row in MINUTES if row["gpu_type"] == "l4"], "engine gpu_type", minutes=len, first=_first("minute"))),
    ],
    "LoraQuarantineNotEmpty": [("-records", lambda: table(HELD, "reason tenant", records=len, first=_first("event_time"), last=_last("event_time")))],
    "LoraRecordGaps": [("", lambda: _gaps("records", "expected"))],
    "LoraSnapshotStale": [("", lambda: [{"last_quarter": max(row["quarter"] for row in COST)}])],
    "LoraSpoolWriteErrors": [("", _gaps)],
    "LoraStepModelDrift": [
        ("engine", _drift),
        ("first", lambda: table([row for row in USAGE if row["measured"]], "engine method profile", records=len, first=_first("arrival"))),
    ],
    "LoraTelemetryDropped": [("", lambda: [{"count()": sum(row["status"] == "lost" for row in USAGE)}])],
    "LoraTenantLatencyRed": [("-requests", _waits)],
    "LoraTenantLatencyYellow": [("-requests", _waits)],
    "LoraTenantWithoutSlo": [("", lambda: table(theirs(HOUR), "adapter status", requests=len))],
    "LoraUsageUnmeasured": [("-records", _unmeasured), ("-at", _sessions)],
    "LoraWarmPoolHitRateLow": [("-loads", lambda: table(
        since(LOADS, "start", HOUR), "adapter cause", loads=len, engine_ms=lambda part: count(part, "engine_ns") / 1e6,
    ))],
}  # fmt: skip


def test_every_query_of_a_runbook_has_its_answer_here() -> None:
    assert {name: len(queries) for name, queries in QUERIES.items() if queries} == {
        name: len(rows) for name, rows in ANSWERS.items()
    }


@pytest.mark.parametrize(
    ("name", "place"), [(name, place) for name, rows in ANSWERS.items() for place in range(len(rows))]
)
def test_a_query_says_what_the_rows_say(world: Ledger, name: str, place: int) -> None:
    order, answer = ANSWERS[name][place]
    query = (
        QUERIES[name][place]
        .replace("now()", f"toDateTime({int(NOW.timestamp())}, 'UTC')")
        .replace("TENANT", "t1")
        .replace("MONTH", "2026-10")
    )
    found, expected = world.ask(query).dicts(), answer()
    assert expected
    column = order.removeprefix("-")
    values = known(row[column] for row in found) if order else []
    assert values == sorted(values, reverse=order.startswith("-"))
    assert differences(sorted(found, key=_words), sorted(expected, key=_words)) == []


def _words(row: Row) -> list[str]:
    """By what is not a fraction, which may differ in its last digit."""
    return [f"{name} {row[name]}" for name in sorted(row) if not isinstance(row[name], float | Decimal)]

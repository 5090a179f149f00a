"""A small ledger made by hand, row by row, with what a query could get wrong: an older version, a deleted row, rows just outside a range.

No two figures could be taken for one another. It is written into the tables under the views, past all code that derives anything.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Final

from billing.store.clickhouse import Ledger

Row = dict[str, Any]
START: Final = datetime(2026, 10, 5, 10, tzinfo=UTC)
"""The hour that is asked about: from here, an hour long."""
S: Final = 1_000_000_000


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def ns(moment: datetime) -> int:
    return round((moment - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(microseconds=1)) * 1000


def _usage(tenant: str, emitter: str, seq: int, at: float, status: str, **more: Any) -> Row:
    """An attempt of the base model that took no time, unless `more` says so; `took` are its seconds, None while it is lost."""
    took, parts = more.pop("took", None), more.pop("slices", ())
    columns = ("start_ns", "base_ns", "adapter_ns", "recompute_ns", "kv_saved_base_ns", "kv_saved_adapter_ns")
    return {
        "tenant": tenant, "emitter": emitter, "seq": seq, "version": 5, "request_id": f"r-{emitter}-{seq}", "attempt": 1,
        "trace_id": None, "adapter": None, "adapter_hash": None, "base_model": "tiny", "engine": None, "gpu_type": None,
        "gpu_count": None, "route_policy": None, "route_rule": None, "route_reason": None,
        "arrival": after(at), "admitted": None, "first_token": None,
        "finished": None if took is None else after(at + took), "status": status, "error_type": None, "http_status": None,
        "input_tokens": None, "cached_tokens": None, "output_tokens_computed": None, "output_tokens_delivered": None,
        "preemptions": None, "queue_ns": None, "route_ns": None, "measured": True,
        **{f"slices.{name}": [part[place] for part in parts] for place, name in enumerate(columns)},
        "method": None, "profile": None, "source": "gateway", "record_hash": "",
        **more,
    }  # fmt: skip


def _tokens(given: int, cached: int, computed: int, delivered: int) -> Row:
    return {
        "input_tokens": given,
        "cached_tokens": cached,
        "output_tokens_computed": computed,
        "output_tokens_delivered": delivered,
    }


_ATTEMPTS: Final = [
    _usage("t1", "gw-1", 0, 10, "ok", took=2.5, adapter="x", engine="e1", **_tokens(100, 40, 13, 11), preemptions=1, queue_ns=7000,
           slices=((ns(START), 100, 20, 3, 50, 6),), method="engine-step/1", profile="p1", trace_id="a1"),
    _usage("t1", "gw-1", 1, -0.001, "ok", took=901, adapter="x", engine="e1", **_tokens(200, 0, 17, 17), queue_ns=9000,
           slices=((ns(START) - 900 * S, 1, 2, 0, 0, 0), (ns(START), 400, 80, 5, 60, 7)), method="engine-step/1", profile="p1", trace_id="a2"),
    _usage("t2", "gw-1", 3, 70, "client_abort", took=0.7, engine="e1", **_tokens(50, 10, 5, 3), slices=((ns(START), 900, 0, 0, 0, 0),),
           error_type="client_gone", method="engine-step/2", profile="p2", preemptions=2),
    _usage("t2", "gw-2", 0, 80, "lost", engine="e2", adapter="y", measured=False),
    _usage("t2", "gw-2", 1, 3600, "server_error", took=0.3, engine="e2", adapter="y", **_tokens(31, 0, 0, 0), slices=((ns(START) + 3600 * S, 77, 8, 0, 0, 0),)),
    _usage("t1", "gw-2", 2, 95, "rejected", took=0.001),
    _usage("t1", "gw-2", 4, 1000, "ok", took=0.4, adapter="y", engine="e2", **_tokens(70, 7, 9, 8), measured=False, queue_ns=100),
    _usage("t1", "gw-2", 5, 96, "rejected", took=0.002),
    _usage("t3", "gw-3", 0, 3700, "ok", took=0.1),
    _usage("unauthenticated", "gw-1", 4, 500, "rejected", took=60, attempt=57),
    # Ended in the hour though it arrived before, ended when the hour did, ended as it began; arrived too long ago to be looked up.
    _usage("t3", "gw-0", 0, -80000, "ok", took=80100, engine="e1", **_tokens(5, 1, 2, 2), slices=((ns(START), 61, 0, 0, 0, 0),)),
    _usage("t3", "gw-0", 1, -90000, "ok", took=90100, engine="e1", **_tokens(6, 1, 2, 2), slices=((ns(START), 62, 0, 0, 9, 0),)),
    _usage("t3", "gw-0", 2, 3599, "ok", took=1, engine="e1", **_tokens(7, 1, 2, 2), slices=((ns(START) + 2700 * S, 63, 0, 0, 1, 2), (ns(START) + 3600 * S, 5, 0, 0, 2, 2))),
    _usage("t3", "gw-0", 3, -5, "ok", took=5, engine="e1", **_tokens(8, 1, 2, 2), slices=((ns(START) - 900 * S, 64, 0, 0, 0, 0),)),
    _usage("t3", "gw-0", 4, -86400, "ok", took=86500, engine="e1", **_tokens(9, 1, 2, 2), slices=((ns(START), 66, 0, 0, 3, 0),)),
    _usage("t3", "gw-0", 5, 0, "ok", took=1, engine="e1", **_tokens(10, 1, 2, 2), slices=((ns(START) + 1800 * S, 67, 0, 0, 0, 4),)),
    # It ran, and nobody counted its tokens; the others entered no engine's step, or were refused.
    _usage("t3", "gw-3", 1, 200, "ok", took=1, engine="e1", input_tokens=3, slices=((ns(START), 65, 0, 0, 0, 0),)),
    _usage("t3", "gw-3", 2, 1200, "ok", took=1, engine="e1", cached_tokens=1, output_tokens_delivered=4, slices=((ns(START), 68, 0, 0, 0, 0),)),
    _usage("t3", "gw-3", 3, 2000, "ok", took=1, engine="e1", input_tokens=3, output_tokens_delivered=2, slices=((ns(START), 69, 0, 0, 0, 0),)),
    _usage("t1", "gw-2", 6, 110, "rejected", took=0.1, engine="e1", adapter="x", measured=False),
    _usage("t1", "gw-2", 7, 111, "bad_request", took=0.1, engine="e1", adapter="x", measured=False),
    _usage("t1", "gw-2", 9, 113, "ok", took=0.1, adapter="x", measured=False),
    _usage("t1", "gw-2", 8, 112, "ok", took=0.1, engine="e1", adapter="x"),
    _usage("t1", "gw-1", 5, 3600.001, "ok", took=1, adapter="x", engine="e1", **_tokens(1000, 900, 80, 80), slices=((ns(START) + 3600 * S, 5000, 600, 0, 0, 0),)),
]  # fmt: skip
PROMISED: Final = [
    *((0.001 * quick, "ok", None) for quick in range(1, 96)),
    (0.0005, "ok", None), (1, "ok", None), (1.1, "ok", None), (1.3, "ok", None), (1.300001, "ok", None), (9, "ok", "client_slow"), (0.2, "timeout", "engine_timeout"),
    (0.3, "server_error", "engine_error"), (1, "client_abort", "client_gone"), (1.2, "client_abort", "client_gone"), (5, "client_abort", "client_slow"),
    (7, "rejected", "quota"), (7, "bad_request", None),
]  # fmt: skip
"""Seconds, status and error of the attempts of tenant t4, whose promise is a second."""
USAGE: Final = [
    *_ATTEMPTS,
    *(
        _usage("t4", "gw-4", seq, 2000 + seq, status, took=took, error_type=error)
        for seq, (took, status, error) in enumerate(PROMISED)
    ),
]
_USAGE_BEFORE: Final = [
    {**USAGE[0], "version": 4, "status": "lost", "input_tokens": 99999, "finished": None},
]

_COST: Final = (
    "base_ns", "adapter_ns", "cold_ns", "kv_saved_base_ns", "kv_saved_adapter_ns", "requests", "input_tokens", "cached_tokens",
    "output_tokens", "unmeasured",
)  # fmt: skip


def _cost(key: str, at: int, figures: Sequence[int], hours: Sequence[str], money: tuple[str, str], **more: Any) -> Row:
    """`key` is tenant, adapter, engine and status; `figures` as in _COST; `hours` of base, adapter and cold; `money` is cost and revenue."""
    tenant, adapter, engine, status = key.split()
    return {
        "tenant": tenant, "quarter": after(at), "adapter": adapter, "engine": engine, "status": status, "version": 5, "deleted": 0,
        "billing_month": "2026-10", **dict(zip(_COST, figures, strict=True)), "gpu_type": "h200", "gpu_count": 2,
        **dict(zip(("base_gpu_hours", "adapter_gpu_hours", "cold_gpu_hours"), map(Decimal, hours), strict=True)),
        "price": Decimal(7), "cost": Decimal(money[0]), "charged_to": "tenant", "revenue": Decimal(money[1]), "currency": "EUR",
        **more,
    }  # fmt: skip


COST: Final = [
    _cost("t1 x e1 ok", 0, (500, 100, 0, 110, 13, 2, 300, 40, 28, 0), ("0.25", "0.125", "0"), ("2.625", "3.5")),
    _cost("t1 x e1 cold", 900, (0, 0, 70, 0, 0, 0, 0, 0, 0, 0), ("0", "0", "0.0625"), ("0.4375", "0.5")),
    _cost("t1 y e2 ok", 900, (33, 0, 0, 0, 0, 1, 70, 7, 8, 1), ("0.03125", "0", "0"), ("0.21875", "0.125")),
    _cost("t2 base e1 client_abort", 0, (900, 0, 0, 4, 0, 1, 50, 10, 3, 0), ("0.5", "0", "0"), ("3.5", "1.25"), charged_to="provider"),
    _cost("t1 x e2 ok", 0, (21, 4, 6, 2, 5, 1, 9, 1, 2, 1), ("0.015625", "0.00390625", "0.001953125"), ("0.150390625", "0.25")),
    _cost("t2 y e2 server_error", 3600, (77, 8, 0, 0, 0, 1, 31, 0, 0, 0), ("0.015625", "0.0078125", "0"), ("0.1640625", "0"), charged_to="provider"),
    _cost("t3 base e2 ok", 2700, (11, 0, 0, 0, 0, 1, 5, 0, 0, 0), ("0.001953125", "0", "0"), ("0.013671875", "0.75"), currency="USD"),
    _cost("t1 x e1 ok", -900, (7, 1, 0, 9, 2, 3, 12, 6, 4, 0), ("0.0009765625", "0", "0"), ("0.0068359375", "0.01"), billing_month="2026-09"),
    _cost("t1 x e1 ok", -1800, (3, 0, 0, 0, 0, 1, 1, 0, 1, 0), ("0.000244140625", "0", "0"), ("0.001708984375", "0.03"), billing_month="2026-08"),
    _cost("t1 x e1 ok", 4500, (13, 5, 0, 1, 3, 4, 21, 2, 1000000, 0), ("0.00048828125", "0", "0"), ("0.00341796875", "0.02")),
]  # fmt: skip
_COST_BEFORE: Final = [
    {**COST[0], "version": 4, "cost": Decimal(999), "revenue": Decimal(999)},
    _cost("t2 x e1 ok", 0, (1, 2, 3, 4, 5, 6, 7, 8, 9, 10), ("1", "2", "3"), ("444", "555")),
    _cost("t2 x e1 ok", 0, (1, 2, 3, 4, 5, 6, 7, 8, 9, 10), ("1", "2", "3"), ("444", "555"), version=6, deleted=1),
]

_PARTS: Final = ("tenants_ns", "cold_ns", "recompute_ns", "system_ns", "idle_ns", "unattributed_ns")


def _minute(engine: str, at: int, parts: Sequence[int], down_ns: int, causes: Mapping[str, int], **more: Any) -> Row:
    """`parts` as in _PARTS: all that the wall time consists of."""
    return {
        "engine": engine, "minute": after(at), "version": 5, "deleted": 0, "wall_ns": sum(parts), **dict(zip(_PARTS, parts, strict=True)),
        "down_ns": down_ns, "gpu_type": "h200", "gpu_count": 2, "steps": 3, "predicted_ns": 100, "system_causes": dict(causes),
        **more,
    }  # fmt: skip


MINUTES: Final = [
    _minute("e1", 0, (1000, 70, 8, 15, 300, 2), 40, {"loop": 9, "stall": 6}, steps=5, predicted_ns=900),
    _minute("e1", 60, (520, 0, 0, 21, 600, 0), 0, {"loop": 21}, steps=4, predicted_ns=500),
    _minute("e2", 0, (10, 5, 4, 12, 20, 3), 6, {"loop": 5, "stall": 7}, steps=1, predicted_ns=10, gpu_type="l4", gpu_count=1),
    _minute(
        "e2", 2700, (44, 0, 1, 3, 5000, 9), 90, {"empty_step": 3}, steps=2, predicted_ns=0, gpu_type="l4", gpu_count=1
    ),
    _minute("e1", 3600, (85, 4, 0, 1, 7, 0), 0, {"stall": 1}, steps=1, predicted_ns=80),
    _minute("e1", -60, (8, 0, 0, 2, 9, 1), 5, {"loop": 2}),
    _minute("e2", 3660, (6, 0, 0, 0, 3, 0), 1, {}, gpu_type="l4", gpu_count=1),
]  # fmt: skip
_MINUTES_BEFORE: Final = [{**MINUTES[0], "version": 4, "down_ns": 77777}]


def _owned(engine: str, hour: int, owner: str, cost: str, **more: Any) -> Row:
    return {
        "engine": engine, "hour": after(hour * 3600), "owner": owner, "version": 5, "deleted": 0, "gpu_type": "h200", "gpu_count": 2,
        "ns": 1, "gpu_hours": Decimal("0.5"), "price": Decimal(7), "cost": Decimal(cost), "currency": "EUR", **more,
    }  # fmt: skip


OWNED: Final = [
    _owned("e1", 0, "tenants", "6.25"), _owned("e1", 0, "cold", "0.4375"), _owned("e1", 0, "idle", "0.75"), _owned("e1", 0, "system", "0.03125"),
    _owned("e1", 0, "down", "0.015625"), _owned("e2", 0, "tenants", "0.25"), _owned("e2", 0, "idle", "3"), _owned("e1", 1, "tenants", "0.125"),
    _owned("e1", 1, "recompute", "0.0625"), _owned("e1", -1, "idle", "90"), _owned("e1", 2, "idle", "80"),
]  # fmt: skip
_OWNED_BEFORE: Final = [{**OWNED[0], "version": 4, "cost": Decimal(12345)}]


def _load(adapter: str, seq: int, at: float, engine_ns: int, cause: str, **more: Any) -> Row:
    return {
        "adapter": adapter, "emitter": "run-1", "seq": seq, "version": 5, "engine": "e1", "adapter_hash": None, "cause": cause,
        "start": after(at), "engine_ns": engine_ns, "fetch_ns": None, "read_ns": None, "activate_ns": None, "size_bytes": None, "stalled": [],
        **more,
    }  # fmt: skip


LOADS: Final = [
    _load(
        "x",
        0,
        1,
        5_000_000,
        "request",
        fetch_ns=100_000_000,
        read_ns=2_000_000,
        activate_ns=1_000_000,
        size_bytes=640,
        stalled=["a", "b"],
    ),
    _load(
        "x",
        1,
        2,
        9_000_000,
        "request",
        fetch_ns=300_000_000,
        read_ns=3_000_000,
        activate_ns=4_000_000,
        size_bytes=320,
        stalled=["c"],
    ),
    _load("x", 2, 61, 7_000_000, "request", read_ns=8_000_000),
    _load("x", 3, 62, 6_000_000, "warm", read_ns=500_000, activate_ns=200_000),
    _load("z", 7, 0, 1_000_000, "warm"),
    _load("y", 4, 3600, 11_000_000, "warm", size_bytes=99),
    _load("y", 5, 3600.001, 12_000_000, "request"),
    _load("x", 6, -0.001, 13_000_000, "request"),
]
_LOADS_BEFORE: Final = [{**LOADS[0], "version": 4, "engine_ns": 777_000_000}]


def _document(tenant: str, month: str, number: str, amounts: tuple[str, str, str], **more: Any) -> Row:
    net, tax, gross = map(Decimal, amounts)
    return {
        "tenant": tenant, "billing_month": month, "kind": "invoice", "number": number, "version": 5, "deleted": 0,
        "status": "issued" if number else "draft", "issued_at": after(100) if number else None, "currency": "EUR",
        "net": net, "tax": tax, "gross": gross, "document": "{}", "hash": "", "prev_hash": "", **more,
    }  # fmt: skip


INVOICES: Final = [
    _document("t1", "2026-10", "LL-2", ("100", "19", "119")),
    _document("t2", "2026-10", "", ("7", "0.5", "7.5"), currency="USD"),
    _document("t1", "2026-09", "LL-1", ("50", "9.5", "59.5")),
    _document("t1", "2026-11", "LL-3", ("1", "2", "3")),
]
_INVOICES_BEFORE: Final = [
    _document("t3", "2026-10", "", ("66", "6", "72"), version=4),
    _document("t3", "2026-10", "", ("66", "6", "72"), deleted=1),
]


def _held(reason: str, tenant: str, at: float | None, **more: Any) -> Row:
    return {
        "id": f"{reason}-{tenant}-{at}", "version": 5, "kind": "usage", "at": after(5000), "event_time": None if at is None else after(at),
        "tenant": tenant, "emitter": "gw-1", "seq": 9, "source": "s", "reason": reason, "content": "{}", "resolution": "", **more,
    }  # fmt: skip


HELD: Final = [
    _held("unknown tenant", "t9", 30),
    _held("unknown tenant", "t9", 20),
    _held("unknown tenant", "t9", 50),
    _held("negative time", "t1", 40),
    _held("negative time", "t1", -40),
    _held("early", "t1", 0),
    _held("late", "t1", 3600),
    _held("torn", "", None, kind="line"),
]
_RELEASED: Final = [
    _held("negative time", "t2", 41),
    {**_held("negative time", "t2", 41), "version": 6, "resolution": "released"},
]

FILES: Final = [
    {"file": "f1", "read_offset": 900, "prefix_hash": "h1", "path": "/spool/1", "at": after(200)},
    {"file": "f2", "read_offset": 40, "prefix_hash": "h2", "path": "/spool/2", "at": after(300)},
]
_FILES_BEFORE: Final = [{**FILES[0], "read_offset": 800, "at": after(400)}]

TENANTS: Final = [
    {
        "tenant": tenant, "known_at": after(at), "name": tenant, "org": "o", "time_zone": "UTC", "currency": "EUR", "plan": "cost_plus",
        "document": "{}", "hash": f"{tenant}{at}",
    }
    for tenant, at in (("t2", 0), ("t1", 0), ("t1", 5), ("t3", 9))
]  # fmt: skip

PERIODS: Final = [
    {
        "billing_month": month, "version": 5, "status": status, "closed_at": after(at), "catalog_version": "c", "documents": documents,
        "cost": Decimal(3), "currency": "EUR",
    }
    for month, status, at, documents in (("2026-08", "closed", -90, 4), ("2026-09", "partial", -60, 2), ("2026-07", "closed", -95, 5))
]  # fmt: skip

PRICES: Final = [
    {
        "gpu_type": "h200", "start": after(at), "known_at": after(0), "per_hour": Decimal(per_hour), "currency": "EUR", "book": book,
        "hash": book,
    }
    for at, per_hour, book in ((600, "9.5", "v2"), (0, "7", "v1"))
]  # fmt: skip

Shares = Sequence[tuple[str, str, str | None, int, int]]


def _window(seq: int, engine: str, at: float, shares: Shares, cold: Mapping[str, int] = MappingProxyType({})) -> Row:
    """A window of a meter: attempt, tenant, adapter, base and adapter nanoseconds of each share."""
    names = ("attempt", "tenant", "adapter", "base_ns", "adapter_ns")
    body = {
        "engine": engine, "start_ns": ns(after(at)), "end_ns": ns(after(at)) + S, "cold_ns": dict(cold),
        "shares": [dict(zip(names, share, strict=True)) for share in shares],
    }  # fmt: skip
    return {
        "name": "loraledger.meter.window",
        "emitter": "run-1",
        "seq": seq,
        "at": after(at),
        "body": json.dumps(body),
    }


WINDOWS: Final = [
    _window(0, "e1", 0, [("gw-1:0", "t1", "x@ab12", 100, 20), ("gw-1:1", "t1", "x@ab12", 400, 80)], {"x@ab12": 70}),
    _window(
        1,
        "e1",
        71,
        [
            ("gw-1:3", "t2", None, 900, 3),
            ("gw-0:0", "t3", None, 61, 0),
            ("gw-0:1", "t3", None, 62, 0),
            ("gw-0:4", "t3", None, 66, 0),
        ],
    ),
    _window(2, "e2", 85, [("gw-2:0", "t2", "y", 33, 4), ("gw-9:9", "t2", "y", 6, 1)], {"y@cd34": 9}),
    _window(3, "e1", 899, [("gw-1:0", "t1", "x@ab12", 7, 1)], {"x@ab12": 5, "y@cd34": 11}),
    _window(4, "e1", 900, [("gw-1:0", "t1", "x@ff99", 8, 2)], {"x@ff99": 6}),
    _window(5, "e2", 3600, [("gw-2:1", "t2", "y", 77, 8)], {"y": 500}),
    _window(6, "e1", -1, [("gw-1:1", "t1", "x@ab12", 55, 5)], {"x@ab12": 1000}),
]

_TABLES: Final[dict[str, tuple[list[Row], ...]]] = {
    "usage_versions": (_USAGE_BEFORE, USAGE),
    "tenant_cost_versions": (_COST_BEFORE, COST),
    "engine_time_versions": (_MINUTES_BEFORE, MINUTES),
    "engine_cost_versions": (_OWNED_BEFORE, OWNED),
    "cold_start_versions": (_LOADS_BEFORE, LOADS),
    "invoice_versions": (_INVOICES_BEFORE, INVOICES),
    "quarantine_versions": (HELD, _RELEASED),
    "ledger_event_versions": (WINDOWS, WINDOWS[:1]),
    "ingested_file_versions": (_FILES_BEFORE, FILES),
    "tenants": (TENANTS,),
    "billing_period_versions": (PERIODS,),
    "prices": (PRICES,),
}


def write_world(ledger: Ledger) -> None:
    """All rows into their tables; what came before and what was replaced too."""
    for table, blocks in _TABLES.items():
        for rows in blocks:
            ledger.insert(table, rows)


def grouped(rows: Iterable[Row], key: Callable[[Row], Any]) -> dict[Any, list[Row]]:
    """Rows by their key, keys in order."""
    found: dict[Any, list[Row]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return dict(sorted(found.items()))


def p99(values: Iterable[int | None]) -> float | None:
    """As ClickHouse's `quantile` interpolates; null values have no say."""
    known = sorted(value for value in values if value is not None)
    if not known:
        return None
    place = 0.99 * (len(known) - 1)
    low = math.floor(place)
    high = min(low + 1, len(known) - 1)
    return known[low] + (known[high] - known[low]) * (place - low)


def same(found: Any, expected: Any) -> bool:
    """Equal to the last digit, floats to a part of 10^12."""
    if isinstance(found, float | int | Decimal | Fraction) and isinstance(expected, float | int | Decimal | Fraction):
        if isinstance(found, float) or isinstance(expected, float):
            return math.isclose(found, expected, rel_tol=1e-12)
        return Fraction(found) == Fraction(expected)
    return bool(found == expected)


def differences(found: Sequence[Row], expected: Sequence[Row]) -> list[Any]:
    """Where answers differ, row by row and name by name; empty when they are the same."""
    if len(found) != len(expected):
        return [(len(found), len(expected), found, expected)]
    return [
        (place, name, one.get(name, "absent"), other.get(name, "absent"))
        for place, (one, other) in enumerate(zip(found, expected, strict=True))
        for name in one.keys() | other.keys()
        if name not in one or name not in other or not same(one[name], other[name])
    ]

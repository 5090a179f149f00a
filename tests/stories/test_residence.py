"""Idle time shared by residence: who keeps an adapter in an engine pays for it, by bytes and hours as measured, also without a request."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

from telemetry.engine_time import SessionEvent
from tests.fakes.plain_books import catalog, run

S = 1_000_000_000
M = 60 * S


def test_an_owner_whose_adapter_was_resident_gets_the_document_without_a_request(
    traffic: Any, ns: Callable[..., int], tmp_path: Path
) -> None:
    declared = catalog(tmp_path / "catalog.yaml", ("idle: provider", "idle: residency"))
    t0 = ns(2026, 10, 5, 10)
    traffic.session(SessionEvent.STARTED, t0)
    # 10 minutes of idle: the clinic's adapter of 1 MB all the time, the bank's of 4 MB for 5 minutes of it, the shop's for none.
    traffic.load("icd10-coder", t0 + 1, 0, size_bytes=1_000_000)
    traffic.load("risk-notes", t0 + 2 * M, 0, size_bytes=4_000_000)
    traffic.left("risk-notes", t0 + 7 * M)
    traffic.idle(t0 + 1, t0 + 1 + 10 * M)
    traffic.session(SessionEvent.STOPPED, t0 + 1 + 10 * M)
    run(tmp_path, declared, "ingest", str(traffic.write(tmp_path / "elsewhere")))

    closed = run(tmp_path, declared, "close", "2026-10")
    assert [Path(file).name for file in closed["files"]] == ["bank-LL-2026-0001.pdf", "clinic-LL-2026-0002.pdf"]
    documents = [json.loads(Path(file).with_suffix(".json").read_text()) for file in closed["files"]]
    # 600 s at one euro a second, 4 MB x 5 min to 1 MB x 10 min, and the margin of a quarter.
    assert [Decimal(one["net"]) for one in documents] == [Decimal("500.00"), Decimal("250.00")]
    assert {line["kind"] for one in documents for line in one["lines"] if Decimal(line["amount"])} == {"idle", "margin"}
    assert run(tmp_path, declared, "reconcile", "2026-10")["missing_ns"] == 0


def test_where_no_load_was_measured_the_declared_budgets_decide_and_token_prices_have_no_idle_time(
    traffic: Any, ns: Callable[..., int], tmp_path: Path
) -> None:
    declared = catalog(tmp_path / "catalog.yaml", ("idle: provider", "idle: residency"))
    t0 = ns(2026, 10, 5, 10)
    traffic.session(SessionEvent.STARTED, t0)
    traffic.idle(t0, t0 + 10 * M)
    traffic.session(SessionEvent.STOPPED, t0 + 10 * M)
    run(tmp_path, declared, "ingest", str(traffic.write(tmp_path / "elsewhere")))
    closed = run(tmp_path, declared, "close", "2026-10")
    documents = [json.loads(Path(file).with_suffix(".json").read_text()) for file in closed["files"]]
    # The shop owns a quarter of the budgets as well, and pays by token.
    assert {one["tenant"]: one["net"] for one in documents} == dict.fromkeys(("bank", "clinic", "forge"), "187.50")

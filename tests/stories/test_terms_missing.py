"""A price, a rate or a whole price book is missing: whom it touches waits and reads why, everybody else goes on."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pipelines.run import run_hours
from pipelines.settings import Settings
from telemetry.engine_time import SessionEvent
from tests.fakes.plain_books import catalog, plain, run

S = 1_000_000_000
BOOK = "  version: example-1\n"


def test_tenants_without_a_book_or_a_rate_wait_alone_and_the_figures_are_published(
    ns: Callable[..., int], tmp_path: Path
) -> None:
    lacking = catalog(
        tmp_path / "lacking.yaml",
        (BOOK, f"{BOOK}  effective_from: 2026-10-10T00:00:00Z\n"),
        ("    time_zone: Europe/Amsterdam\n", "    time_zone: Europe/Amsterdam\n    currency: USD\n"),
        (
            "  idle: provider",
            '  fx:\n    - {currency: USD, day: 2026-09-30, rate: "1.1", source: ECB}\n  idle: provider',
        ),
    )
    used = (("campus", ns(2026, 10, 5)), ("shop", ns(2026, 10, 15)), ("freeride", ns(2026, 10, 15)))
    run(tmp_path, lacking, "ingest", str(plain(tmp_path / "in" / "usage.jsonl", *used)), code=0)

    drafted = run(tmp_path, lacking, "invoice", "2026-10", code=3)
    assert [Path(file).name for file in drafted["files"]] == ["freeride-draft.pdf"]
    assert drafted["waiting"] == ["campus", "shop"]
    what = {block["tenants"][0]: block["what"] for block in drafted["blocks"]}
    assert what["campus"].startswith("could not price 2026-10-05T00:00:00+00:00: no price book was effective then")
    assert "has no rate from EUR dated in 2026-10" in what["shop"]
    assert json.loads((tmp_path / "snapshot.json").read_text())["ledger"]["price_missing_ns"] == 0

    closed = run(tmp_path, lacking, "close", "2026-10", code=3)
    assert [Path(file).name for file in closed["files"]] == ["freeride-LL-2026-0001.pdf"]
    assert closed["waiting"] == ["campus", "shop"]

    mended = catalog(
        tmp_path / "mended.yaml",
        ("    time_zone: Europe/Amsterdam\n", "    time_zone: Europe/Amsterdam\n    currency: USD\n"),
        (
            "  idle: provider",
            '  fx:\n    - {currency: USD, day: 2026-10-30, rate: "1.1", source: ECB}\n  idle: provider',
        ),
    )
    closed = run(tmp_path, mended, "close", "2026-10", code=0)
    nets = {
        (document := json.loads(path.read_text()))["tenant"]: (document["net"], document["currency"])
        for path in (tmp_path / "invoices" / "2026-10").glob("*.json")
    }
    assert nets == {"freeride": ("80.00", "EUR"), "campus": ("600.00", "EUR"), "shop": ("660.00", "USD")}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(("start: 2026-01-01T00:00:00Z", "start: 2026-11-01T00:00:00Z"), id="a price that begins later"),
        pytest.param((BOOK, f"{BOOK}  effective_from: 2026-10-10T00:00:00Z\n"), id="a book that begins later"),
    ],
)
def test_an_engine_without_a_price_is_a_figure_of_the_running_months_snapshot(
    traffic: Any, ns: Callable[..., int], tmp_path: Path, change: tuple[str, str]
) -> None:
    t0 = ns(2026, 10, 5, 10)
    traffic.session(SessionEvent.STARTED, t0)
    traffic.serve("campus", t0 + S, 300_000_000)
    traffic.session(SessionEvent.STOPPED, t0 + 60 * S)
    traffic.write(tmp_path / "spool")
    plain(tmp_path / "spool" / "usage.jsonl", ("freeride", ns(2026, 10, 11)))
    settings = Settings(
        f"chdb://{tmp_path}/ledger",
        tmp_path / "spool",
        catalog(tmp_path / "catalog.yaml", change),
        tmp_path / "out",
        tmp_path / "snapshot.json",
    )
    first, last, now = (datetime(2026, 10, day, hour, tzinfo=UTC) for day, hour in ((5, 0), (12, 0), (11, 2)))
    run_hours(settings, first, last, now)
    figures = json.loads(settings.snapshot.read_text())
    assert figures["ledger"]["price_missing_ns"] == 60 * S
    assert figures["tenants"]["freeride"]["charged"] == "80.000000000000000000"
    priced = "effective_from" in change[1]
    assert figures["tenants"]["bank"]["memory_cost_per_hour"] == ("900.000000" if priced else None)

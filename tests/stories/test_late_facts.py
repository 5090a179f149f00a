"""Facts that come after their month was closed: on the next document by themselves, once; and months closed in their order."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from loraledger.cli import app
from telemetry.engine_time import SessionEvent
from telemetry.usage import Status, UsageRecord
from tests.conftest import EXAMPLE

S = 1_000_000_000
Used = tuple[str, int]


@pytest.fixture
def home(tmp_path: Path, empty_ledger: Path) -> Path:
    shutil.copytree(empty_ledger, tmp_path / "ledger", symlinks=True)
    return tmp_path


def plain(path: Path, *used: Used, first: int = 0) -> Path:
    """A million input tokens for each tenant and instant, as plain usage lines of one emitter, numbered from `first` on."""
    records = [
        UsageRecord("f", seq, f"r{seq}", tenant, at_ns, at_ns + S, Status.OK, input_tokens=1_000_000, cached_tokens=0,
                    output_tokens_computed=0, output_tokens_delivered=0)
        for seq, (tenant, at_ns) in enumerate(used, first)
    ]  # fmt: skip
    path.write_text("".join(record.to_json() + "\n" for record in records))
    return path


def run(home: Path, *arguments: str, code: int = 0) -> Any:
    done = CliRunner().invoke(app, [*arguments, "--home", str(home), "--catalog", str(EXAMPLE), "--json"])
    assert done.exit_code == code, (done.output, done.exception)
    return json.loads(done.stdout) if done.stdout else done.stderr


def issued(home: Path) -> dict[tuple[str, str], list[tuple[str, str]]]:
    """By tenant and month of the document, its lines: what they are and their amounts."""
    rows = run(
        home,
        "sql",
        "SELECT tenant, billing_month, item, amount FROM invoice_lines WHERE number != '' AND amount > 0 ORDER BY ALL",
    )
    found: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for row in rows:
        found.setdefault((row["tenant"], row["billing_month"]), []).append(
            (row["item"], f"{Decimal(row['amount']):.2f}")
        )
    return found


def test_a_late_line_is_on_the_next_invoice_once_and_a_late_tenant_gets_the_month_it_missed(
    ns: Callable[..., int], home: Path
) -> None:
    run(
        home,
        "ingest",
        str(plain(home / "a.jsonl", ("freeride", ns(2026, 9, 14)), ("freeride", ns(2026, 10, 1)))),
    )
    closed = run(home, "close", "2026-09")
    assert [Path(file).name for file in closed["files"]] == ["freeride-LL-2026-0001.pdf"]
    late = (("freeride", ns(2026, 9, 20)), ("campus", ns(2026, 9, 21)))
    run(home, "ingest", str(plain(home / "b.jsonl", *late, first=2)))

    said = run(home, "invoice", "2026-10")["late"]
    ((derived,), (learned,)) = said["derived"], said["learned"]
    assert (derived["month"], derived["hours"], derived["changed"], said["added"]) == ("2026-09", 2, 2, [])
    assert learned == {
        "tenant": "freeride", "invoice": "LL-2026-0001", "month": "2026-09", "outcome": "correction", "net": "80.00", "currency": "EUR",
        "on": "draft",
    }  # fmt: skip

    said = run(home, "close", "2026-10")["late"]
    assert said["derived"] == [], "the draft did"
    assert [(one["invoice"], one["net"], one["on"]) for one in said["learned"]] == [
        ("LL-2026-0001", "80.00", "LL-2026-0002")
    ]
    assert [(one["month"], one["documents"], one["waiting"]) for one in said["added"]] == [
        ("2026-09", ["LL-2026-0003"], [])
    ]
    assert [Path(file).name for file in said["added"][0]["files"]] == [
        f"campus-LL-2026-0003.{form}" for form in ("pdf", "csv", "json")
    ]
    books = {
        ("campus", "2026-09"): [("input", "600.00")],
        ("freeride", "2026-09"): [("input", "80.00")],
        ("freeride", "2026-10"): [("correction", "80.00"), ("input", "80.00")],
    }
    assert issued(home) == books

    for month in ("2026-10", "2026-09"):
        again = run(home, "close", month)["late"]
        assert again == {"open": [], "partly": [], "derived": [], "learned": [], "added": []}
    assert issued(home) == books
    assert run(home, "verify")["faults"] == []

    run(home, "ingest", str(plain(home / "c.jsonl", ("freeride", ns(2026, 10, 9)), first=4)))
    said = run(home, "close", "2026-10")["late"]
    assert [(one["invoice"], one["net"], one["on"]) for one in said["learned"]] == [("LL-2026-0002", "80.00", None)], (
        "for November"
    )
    assert issued(home) == books


def test_a_late_site_is_derived_by_the_close_of_the_next_month(
    traffic: Any, ns: Callable[..., int], home: Path
) -> None:
    """Windows and sessions say nothing of usage that was booked, and cut the same."""
    t0 = ns(2026, 9, 10, 10)
    run(
        home,
        "ingest",
        str(plain(home / "a.jsonl", ("freeride", ns(2026, 9, 14)), ("freeride", ns(2026, 10, 1)))),
    )
    run(home, "close", "2026-09")
    traffic.session(SessionEvent.STARTED, t0)
    traffic.serve("clinic", t0 + S, 400_000_000)
    traffic.session(SessionEvent.STOPPED, t0 + 60 * S)
    run(home, "ingest", str(traffic.write(home / "elsewhere")))
    said = run(home, "close", "2026-10")["late"]
    assert [(one["month"], one["hours"], one["changed"]) for one in said["derived"]] == [("2026-09", 2, 1)]
    assert [(one["month"], one["documents"]) for one in said["added"]] == [("2026-09", ["LL-2026-0003"])]
    assert ("clinic", "2026-09") in issued(home)


def test_a_month_is_not_closed_while_an_earlier_one_is_open_unless_that_is_said(
    ns: Callable[..., int], home: Path
) -> None:
    used = (("freeride", ns(2026, 8, 14)), ("freeride", ns(2026, 10, 1)))
    run(home, "ingest", str(plain(home / "a.jsonl", *used)))
    refused = run(home, "close", "2026-10", code=3)
    assert "could not close 2026-10:\n  2026-08, 2026-09 are open: what was used then is on no document" in refused
    assert issued(home) == {}
    closed = run(home, "close", "2026-10", "--leave-open")
    assert (closed["late"]["open"], len(closed["files"])) == (["2026-08", "2026-09"], 1)
    assert run(home, "close", "2026-10")["late"]["open"] == ["2026-08", "2026-09"], "what is closed stays closed"
    run(home, "close", "2026-08")
    assert run(home, "close", "2026-10")["late"]["open"] == ["2026-09"], "minimums and fees are owed for it"
    run(home, "close", "2026-09")
    assert issued(home) == {("freeride", month): [("input", "80.00")] for month in ("2026-08", "2026-10")}


def test_reconciled_months_follow_each_other_and_each_zones_month_stands_beside(
    traffic: Any, ns: Callable[..., int], home: Path
) -> None:
    """Rented over both turns of the month; the tenants' zones begin it half a day apart."""
    traffic.session(SessionEvent.STARTED, ns(2026, 8, 31, 12))
    traffic.serve("clinic", ns(2026, 8, 31, 23), 400_000_000)
    traffic.session(SessionEvent.STOPPED, ns(2026, 10, 1, 12))
    run(home, "ingest", str(traffic.write(home / "elsewhere")))
    months = [run(home, "reconcile", month) for month in ("2026-08", "2026-09", "2026-10")]
    hours = [12, 30 * 24, 12]
    assert [found["rented_ns"] for found in months] == [hour * 3600 * S for hour in hours]
    assert [found["start_ns"] for found in months[1:]] == [found["end_ns"] for found in months[:-1]]
    assert [found["owners"]["tenants"] for found in months] == [400_000_000, 0, 0]
    zones = {zone["zone"]: zone for zone in months[1]["zones"]}
    assert zones["Europe/Berlin"]["start_ns"] == ns(2026, 8, 31, 22)
    assert (zones["Europe/Berlin"]["tenants_ns"], zones["Asia/Kolkata"]["tenants_ns"]) == (400_000_000, 0)
    assert zones["Asia/Kolkata"]["start_ns"] == ns(2026, 8, 31, 18, 30)
    done = CliRunner().invoke(app, ["reconcile", "2026-09", "--home", str(home), "--catalog", str(EXAMPLE)])
    assert "2026-09-01 00:00 to 2026-10-01 00:00 UTC" in " ".join(done.stdout.split())

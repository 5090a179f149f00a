"""From `ingest` over `reconcile` to `close`, as finance types it: what blocks whom, and what the provider takes on."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from billing.store.clickhouse import Ledger
from loraledger.cli import app
from telemetry.engine_time import EngineCounters, SessionEvent
from telemetry.names import EventName

S = 1_000_000_000
NAMES = ("prompt_tokens", "output_tokens")


def run(home: Path, *arguments: str, code: int = 0) -> tuple[Any, str]:
    """What the command says as JSON, and on the error stream."""
    done = CliRunner().invoke(
        app, [*arguments, "--home", str(home), "--json"], env={"DAGSTER_DISABLE_TELEMETRY": "yes"}
    )
    assert done.exit_code == code, (done.output, done.exception)
    return json.loads(done.stdout) if done.stdout else None, done.stderr


def test_a_month_is_reconciled_right_after_ingest_and_closed_once_its_gap_is_taken_on(
    traffic: Any, ns: Callable[..., int], tmp_path: Path
) -> None:
    t0 = ns(2026, 10, 5, 10)
    traffic.session(SessionEvent.STARTED, t0)
    traffic.serve("clinic", t0 + S, 300_000_000, tokens=(100, 0, 10))
    traffic.session(SessionEvent.STOPPED, t0 + 60 * S)
    meter = dict.fromkeys([f"{k}{n}" for k in ("", "aborted_", "in_flight_", "claimed_", "again_") for n in NAMES], 0)
    meter |= {"preemptions": 0, "aborted_requests": 0, "in_flight_requests": 0}
    meter |= {"prompt_tokens": 107, "output_tokens": 10, "claimed_prompt_tokens": 107, "claimed_output_tokens": 10}
    last = EngineCounters("meter-1", 0, "cpu-0", t0, t0 + 60 * S, True, 107, 10, 0, {"length": 1}, meter)
    traffic.event(EventName.COUNTERS, last, last.at_ns)
    run(tmp_path, "ingest", str(traffic.write(tmp_path / "elsewhere")))

    assert "were derived never" in run(tmp_path, "sql", "SELECT 1")[1]
    found, _ = run(tmp_path, "reconcile", "2026-10", code=3)
    assert found["derived"] == "it was never derived from the facts"
    assert (found["missing_ns"], found["usage_ns"], found["meter_ns"]) == (0, 300_000_000, 300_000_000)
    assert found["rented_ns"] == 60 * S
    (gap,) = found["blocks"]
    assert (gap["tokens"], gap["tenants"], gap["engine"], gap["acceptable"]) == (7, ["clinic"], "cpu-0", True)
    assert run(tmp_path, "reconcile", "2026-10", code=3)[0]["derived"] is None

    closed, _ = run(tmp_path, "close", "2026-10", code=3)
    assert (closed["waiting"], closed["files"], [block["id"] for block in closed["blocks"]]) == (
        ["clinic"],
        [],
        [gap["id"]],
    )
    assert "say why with --reason" in run(tmp_path, "close", "2026-10", "--accept-gap", gap["id"], code=2)[1]
    assert (
        "no open gap has that id" in run(tmp_path, "close", "2026-10", "--accept-gap", "x", "--reason", "y", code=2)[1]
    )
    asked, _ = run(tmp_path, "close-report", "2026-10")
    assert (asked["status"], asked["waiting"]) == ("partly closed", {"clinic": [gap["id"]]})
    assert ([bill["number"] for bill in asked["bills"]], asked["accepted"]) == ([None], [])
    accepting = ("close", "2026-10", "--accept-gap", gap["id"], "--reason", "one retry at the engine", "--by", "ada")
    closed, _ = run(tmp_path, *accepting)
    assert (closed["waiting"], closed["blocks"]) == ([], [])
    assert [Path(file).name for file in closed["files"]] == ["clinic-LL-2026-0001.pdf"]
    before = Path(closed["files"][0]).read_bytes()
    Path(closed["files"][0]).unlink()
    again, _ = run(tmp_path, *accepting)
    assert (again["files"], again["blocks"], again["failures"]) == (closed["files"], [], [])
    assert Path(closed["files"][0]).read_bytes() == before, "what is missing is written again, the same bytes"

    asked, _ = run(tmp_path, "close-report", "2026-10")
    assert (asked["status"], asked["waiting"], asked["findings"]) == ("closed", {}, [])
    assert [(one["gap"], one["accepted_by"]) for one in asked["accepted"]] == [(gap["id"], "ada")]
    page = Path(said(tmp_path, "close-report", "2026-10")[0].strip())
    assert (page.name, asked["hash"] in page.read_text()) == ("close-2026-10.html", True)
    (taken,) = run(tmp_path, "reconcile", "2026-10")[0]["accepted"]
    assert (taken["gap"], taken["reason"], taken["accepted_by"]) == (gap["id"], "one retry at the engine", "ada")
    ((row,), _) = run(
        tmp_path,
        "sql",
        "SELECT gap, account FROM finance_accepted_gaps JOIN postings ON document = number WHERE debit > 0 OR account = 'carried'",
    )
    assert row == {"gap": gap["id"], "account": "carried"}


def test_money_that_is_missing_and_a_document_that_was_changed_are_said_and_stop_the_close(
    traffic: Any, ns: Callable[..., int], tmp_path: Path
) -> None:
    t0 = ns(2026, 10, 5, 10)
    traffic.session(SessionEvent.STARTED, t0)
    traffic.serve("clinic", t0 + S, 300_000_000, tokens=(100, 0, 10))
    traffic.session(SessionEvent.STOPPED, t0 + 60 * S)
    run(tmp_path, "ingest", str(traffic.write(tmp_path / "elsewhere")))
    run(tmp_path, "close", "2026-10")
    sound, _ = run(tmp_path, "verify")
    assert (sound["documents"], sound["files"], sound["faults"], sound["position"]) == (1, 3, [], 1)
    assert run(tmp_path, "reconcile", "2026-10")[0]["faults"] == []
    assert said(tmp_path, "verify")[0].startswith(
        f"1 documents, {sound['postings']} postings and 3 kept files, all as issued; tenants owe {sound['owed']['EUR']} EUR\n"
        f"the chain ends in place 1 with {sound['hash']}"
    )
    cost = Decimal(run(tmp_path, "reconcile", "2026-10")[0]["attributed_cost"])
    with Ledger.open(f"chdb://{tmp_path}/ledger") as ledger:
        for statement in (
            "INSERT INTO tenant_cost_versions SELECT * REPLACE (version + 1 AS version, cost + 40 AS cost) FROM tenant_cost_versions FINAL",
            "ALTER TABLE posting_versions UPDATE debit = debit + 1 WHERE entry = 1 SETTINGS mutations_sync = 1",
        ):
            ledger.execute(statement, "tampering")

    out, err = said(tmp_path, "reconcile", "2026-10", code=3)
    assert "= rented, 0 ns missing" in out
    assert f"NOT conserved: tenants + cold are {cost:,.2f} EUR in engine_cost and {cost + 40:,.2f} EUR in tenant_cost, -40 EUR missing" in out  # fmt: skip
    assert "broken LL-2026-0001: posting 1 says debit" in err
    found, _ = run(tmp_path, "reconcile", "2026-10", code=3)
    (fault,) = found["faults"]
    assert (Decimal(found["missing_cost"]), found["missing_ns"]) == (Decimal(-40), 0)
    assert (fault["document"], fault["broken"].startswith("posting 1 says debit"), "truncate posting_versions" in fault["advice"]) == ("LL-2026-0001", True, True)  # fmt: skip
    assert run(tmp_path, "verify", code=3)[0]["faults"] == [fault]
    for command in (("close", "2026-10"), ("close", "2026-10", "--accept-gap", "x", "--reason", "y")):
        assert "LL-2026-0001: posting 1 says debit" in run(tmp_path, *command, code=3)[1]


def said(home: Path, *arguments: str, code: int = 0) -> tuple[str, str]:
    """What the command says to a person."""
    done = CliRunner().invoke(app, [*arguments, "--home", str(home)], env={"DAGSTER_DISABLE_TELEMETRY": "yes"})
    assert done.exit_code == code, (done.output, done.exception)
    return done.stdout, done.stderr

"""From a spool to an invoice, its requests, and money back, by the command line alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from billing.exact.periods import BillingMonth
from loraledger.books import Books
from loraledger.cli import app
from loraledger.settings import Settings
from telemetry.engine_time import SessionEvent

S = 1_000_000_000


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, Any]]:
    """Runs a command; its exit code, and what it says as JSON where asked for."""
    monkeypatch.setenv("LORALEDGER_HOME", str(tmp_path))
    monkeypatch.setenv("LORALEDGER_CATALOG", str(Path(__file__).parents[3] / "examples" / "catalog.yaml"))

    def command(*arguments: str) -> tuple[int, Any]:
        done = CliRunner().invoke(app, arguments)
        said = json.loads(done.stdout) if "--json" in arguments else done.stdout
        return done.exit_code, said

    return command


def test_a_month_is_closed_explained_and_credited(
    run: Callable[..., tuple[int, Any]], traffic: Any, tmp_path: Path
) -> None:
    catalog = Path(__file__).parents[3] / "examples" / "catalog.yaml"
    month = Books.of(
        Settings.from_environ({"LORALEDGER_HOME": str(tmp_path), "LORALEDGER_CATALOG": str(catalog)})
    ).last_month()
    t0 = BillingMonth(month).start_ns + 4 * 86_400 * S
    traffic.session(SessionEvent.STARTED, t0)
    first = traffic.serve("bank", t0, 400_000_001)
    traffic.session(SessionEvent.STOPPED, t0 + 60 * S)
    traffic.write(tmp_path / "spool")
    assert run("ingest", "--json")[0] == 0
    (tmp_path / "event.json").write_text(first.to_json())
    code, priced = run("price", str(tmp_path / "event.json"), "--json")
    assert (code, priced["tenant"], priced["unknown"]) == (0, "bank", [])
    (tmp_path / "bad.jsonl").write_text("not json\n" + traffic.lines[0] + "\n")
    assert run("close", month, "--grace-hours", "100000")[0] == 3
    assert run("invoice", "explain", month)[0] == 1
    assert run("invoice", month)[0] == 0
    code, drafted = run("invoice", "explain", month, "--tenant", "bank", "--json")
    assert code == 0
    code, closed = run("close", month, "--json")
    assert code == 0
    (pdf,) = closed["files"]
    number = Path(pdf).stem.removeprefix("bank-")

    code, lines = run("invoice", "explain", number, "--json")
    assert (code, lines) == (0, drafted)
    asked = sum(Decimal(share["amount"]) for line in lines for share in line["shares"])
    assert abs(Decimal(priced["amount"]) - asked) <= Decimal("0.00001"), (
        "an engine-hour is dealt in steps of 1e-12 hours"
    )
    shown = run("price", str(tmp_path / "event.json"), "--at", "2026-10-15T00:30:00+02:00")[1]
    assert "2026-10 in Europe/Dublin" in shown
    assert "cost_plus, margin 0.25" in shown
    assert run("price", str(tmp_path / "event.json"), "--at", "yesterday")[0] == 2
    assert run("price", pdf)[0] == 2
    assert {share["request"] for line in lines for share in line["shares"]} == {first.request_id}
    assert first.request_id in run("invoice", "explain", number, "--request", first.request_id)[1]

    code, (found,) = run("credit", number, "--json")
    assert (code, found["outcome"], found["credit_notes"]) == (0, "none", [])
    code, given = run("credit", number, "--net", "0.10", "--reason", "goodwill", "--issue", "--json")
    assert (code, given["credit_notes"][0]["net"]) == (0, "0.10")
    assert all(Path(file).exists() for file in given["files"])
    assert run("credit", number, "--net", "0.10", "--reason", "goodwill", "--issue", "--json")[1]["credit_notes"] == []

    code, asked = run("credit", number, "--request", first.request_id, "--reason", "dispute", "--json")
    assert (code, asked["credit_notes"][0]["number"], asked["credit_notes"][0]["reason"]) == (0, None, "dispute")
    assert run("credit", number, "--request", first.request_id, "--void")[0] == 2

    code, (account,) = run("statement", "bank", "--json")
    (note,) = given["credit_notes"]
    assert [(one["kind"], one["invoice"], one["balance"]) for one in account["entries"]] == [
        ("invoice", number, account["invoiced"]),
        ("credit_note", number, account["open"]),
    ]
    assert account["credited"] == note["gross"]
    assert (account["entries"][0]["open"], account["entries"][1]["open"]) == (note["remaining_gross"], None)
    assert account["open"] == note["remaining_gross"]
    assert f"credit note on {number}" in run("statement", "bank")[1]
    assert "was sent no document" in run("statement", "shop")[1]
    assert run("statement", "nobody")[0] == 2
    assert run("statement", "bank", "--until", "2020-01-01", "--json") == (0, [])

    code, report = run("ingest", str(tmp_path / "bad.jsonl"), "--json")
    assert (code, report["quarantined"], report["duplicates"]) == (1, 1, 1)

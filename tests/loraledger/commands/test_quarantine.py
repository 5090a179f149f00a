"""What could not be booked, by the command line: listed, tried again, given up."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from loraledger.cli import app


@pytest.fixture
def run(tmp_path: Path, empty_ledger: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, Any]]:
    shutil.copytree(empty_ledger, tmp_path / "ledger", symlinks=True)
    monkeypatch.setenv("LORALEDGER_HOME", str(tmp_path))
    monkeypatch.setenv("LORALEDGER_CATALOG", str(Path(__file__).parents[3] / "examples" / "catalog.yaml"))

    def command(*arguments: str) -> tuple[int, Any]:
        done = CliRunner().invoke(app, arguments)
        return done.exit_code, json.loads(done.stdout) if "--json" in arguments else done.stdout

    return command


def test_entries_are_listed_tried_again_and_released_with_a_reason(
    run: Callable[..., tuple[int, Any]], tmp_path: Path
) -> None:
    assert run("quarantine", "--json") == (0, [])
    assert run("quarantine")[1] == "nothing is in quarantine\n"
    (tmp_path / "bad.jsonl").write_text("not [red]json\n[1]\n")
    assert run("ingest", str(tmp_path / "bad.jsonl"))[0] == 1
    code, (first, second) = run("quarantine", "--json")
    assert (code, first["source"], first["kind"], first["event_time"]) == (0, "bad.jsonl, byte 14", "line", None)
    shown = run("quarantine")[1].splitlines()
    assert shown[0] == f"{first['id'][:12]}  time unknown, touches every month, bad.jsonl, byte 14: open"
    assert shown[1] == f"  {first['reason']}"

    code, said = run("quarantine", "retry", "--json")
    assert (code, said["taken"], len(said["waiting"])) == (1, [], 2)
    assert run("quarantine", "release", first["id"][:10])[0] == 2
    assert run("quarantine", "release", first["id"][:10], "--reason", "no", "--json") == (
        0,
        {"released": [first["id"]]},
    )
    assert [one["id"] for one in run("quarantine", "--json")[1]] == [second["id"]]
    everything = run("quarantine", "--all", "--json")[1]
    assert sorted(one["resolution"] for one in everything) == ["", "released: no"]
    assert "released: no" in run("quarantine", "--all")[1]

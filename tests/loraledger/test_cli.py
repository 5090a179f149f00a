"""The command line says what, where and what to do, and its exit codes mean what the README says."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]


def run(home: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("LORALEDGER_")}
    return subprocess.run(
        [sys.executable, "-m", "loraledger", *arguments],
        cwd=ROOT,
        env={**clean, "LORALEDGER_HOME": str(home), "COLUMNS": "200", **environ},
        capture_output=True,
        text=True,
        check=False,
    )


def test_check_tells_every_problem_of_a_catalog_and_exits_2(tmp_path: Path) -> None:
    raw = yaml.safe_load((ROOT / "examples" / "catalog.yaml").read_text())
    raw["tenants"][0]["adapters"] = ["ghost"]
    raw["engines"][0]["gpu_count"] = 0
    bad = tmp_path / "bad.yaml"
    bad.write_text(yaml.safe_dump(raw))
    for command in (("check", str(bad)), ("serve", "--catalog", str(bad)), ("ingest", "--catalog", str(bad))):
        done = run(tmp_path, *command)
        assert done.returncode == 2
        assert str(bad) in done.stderr
        assert "engines[0].gpu_count" in done.stderr
        assert "unknown adapter 'ghost'" in done.stderr
        assert "Traceback" not in done.stderr


def test_check_json_is_for_programs(tmp_path: Path) -> None:
    facts = json.loads(run(tmp_path, "check", "--json").stdout)
    assert (facts["tenants"], facts["warnings"]) == (6, [])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: path.write_bytes("a: Lindenhöf".encode("latin-1")), "line 1: byte 0xf6 is not UTF-8"),
        (lambda path: path.write_text("a: 1\na: 2"), "the key 'a' is given again; line 1 has it"),
        (os.mkfifo, "it is not a regular file"),
    ],
    ids=["Latin-1", "a key twice", "a pipe"],
)
def test_check_tells_what_a_file_is_instead_of_a_catalog(
    tmp_path: Path, make: Callable[[Path], None], words: str
) -> None:
    make(tmp_path / "x.yaml")
    done = run(tmp_path, "check", str(tmp_path / "x.yaml"))
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_check_warns_and_passes(tmp_path: Path) -> None:
    text = (ROOT / "examples" / "catalog.yaml").read_text()
    (tmp_path / "x.yaml").write_text(
        text.replace("memory_budget_bytes: 3145728}", "memory_budget_bytes: 3145728, warm: true}")
    )
    done = run(tmp_path, "check", str(tmp_path / "x.yaml"))
    assert done.returncode == 0
    assert "warning: engines[0].max_cpu_loras: 8 adapters are warm and 6 have a place" in done.stderr
    told = json.loads(run(tmp_path, "check", "--json", str(tmp_path / "x.yaml")).stdout)["warnings"]
    assert len(told) == 1


def test_an_unreachable_ledger_is_one_clear_line(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (tmp_path / "spool").mkdir()
    done = run(tmp_path, "ingest", "--dsn", f"http://user:secret@127.0.0.1:{port}")
    assert done.returncode == 1
    assert len(done.stderr.strip().splitlines()) == 1
    assert f"http://127.0.0.1:{port}" in done.stderr
    assert "secret" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("close", "2026-13"), 2, "2026-13"),
        (("sql", "--json", "-- why\nDROP TABLE usage_versions"), 2, "only one statement that reads"),
        (("ingest", "no-such-spool"), 1, "no-such-spool"),
        (("dashboards", "--nonsense"), 2, "nonsense"),
    ],
    ids=["no such month", "a query that writes", "nothing there", "an unknown option"],
)
def test_what_cannot_be_done_is_told_with_a_code(
    tmp_path: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    done = run(tmp_path, *arguments)
    assert done.returncode == code
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_link_to_nothing_in_the_spool_is_said_and_the_rest_is_taken(tmp_path: Path) -> None:
    (tmp_path / "spool").mkdir()
    (tmp_path / "spool" / "a.jsonl").symlink_to("nowhere")
    done = run(tmp_path, "ingest", "--json")
    assert done.returncode == 1
    (skipped,) = json.loads(done.stdout)["skipped"]
    assert (Path(skipped["path"]).name, skipped["reason"]) == ("a.jsonl", "is a link to nothing")
    assert "is a link to nothing" in done.stderr


def test_a_month_that_is_not_over_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "spool").mkdir()
    done = run(tmp_path, "close", "2199-01")
    assert done.returncode == 3
    assert "the month is not over" in done.stderr


def test_a_taken_port_is_told_before_an_engine_is_started(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run(tmp_path, "serve", "--port", str(port))
    assert done.returncode == 1
    assert f"could not listen on 127.0.0.1:{port}" in done.stderr
    assert not (tmp_path / "spool").exists()

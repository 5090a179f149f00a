"""The main job as a stranger runs it, twice: `loraledger demo`, and what it leaves behind."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from alerts import rules
from catalog.owners import TimeOwner
from dashboards import queries, sql_files
from loraledger.books import Books
from loraledger.settings import Settings
from tests.dashboards.macros import expand_macros

ROOT = Path(__file__).parents[2]
ORDINARY = 48
SPECIAL = 3
"""One client that hangs up, one bad request, one unknown key."""

pytestmark = pytest.mark.engine


@dataclass(frozen=True)
class Demo:
    home: Path
    outputs: tuple[str, str]
    issued: tuple[dict[str, str], dict[str, str]]
    rows: tuple[int, int]
    scrape: str

    def sql(self, query: str) -> list[dict[str, Any]]:
        answer = _run("sql", "--home", str(self.home), "--json", query)
        found: list[dict[str, Any]] = json.loads(answer)
        return found


def _run(*arguments: str) -> str:
    environ = {key: value for key, value in os.environ.items() if not key.startswith("LORALEDGER_")}
    done = subprocess.run(
        [sys.executable, "-m", "loraledger", *arguments],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _issued(home: Path) -> dict[str, str]:
    """Bytes of every issued document, by name."""
    files = [path for path in (home / "invoices").rglob("*") if path.is_file() and "-draft." not in path.name]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    home = tmp_path_factory.mktemp("demo")
    count = "SELECT count() AS n FROM usage WHERE arrival >= toStartOfMonth(now('UTC'))"
    outputs, issued, rows = [], [], []
    for _ in range(2):
        outputs.append(_run("demo", "--home", str(home), "--requests", str(ORDINARY)))
        issued.append(_issued(home))
        rows.append(int(json.loads(_run("sql", "--home", str(home), "--json", count))[0]["n"]))
    return Demo(
        home, (outputs[0], outputs[1]), (issued[0], issued[1]), (rows[0], rows[1]), (home / "metrics.txt").read_text()
    )


def test_it_prints_for_whom_the_engine_worked_and_that_nothing_is_missing(demo: Demo) -> None:
    for output in demo.outputs:
        assert f"conserved: {' + '.join(TimeOwner)} = rented, 0 ns missing" in output
        assert "0 ns apart over closed attempts (0 uneven, 0 unmeasured)" in output
        for tenant in ("bank", "campus", "clinic", "forge", "freeride", "shop"):
            assert any(line.startswith(tenant + " ") for line in output.splitlines())
        assert "Traceback" not in output


def test_the_printed_numbers_are_the_ledgers(demo: Demo) -> None:
    owners = ", ".join(f"sum({owner}_ns) AS {owner}" for owner in TimeOwner)
    (row,) = demo.sql(
        f"SELECT {owners}, sum(rented_ns) AS rented FROM engine_time WHERE minute >= toStartOfMonth(now('UTC'))"
    )
    assert sum(int(row[owner]) for owner in TimeOwner) == int(row["rented"])
    printed = {
        line.split()[0]: line.split()[1]
        for line in demo.outputs[1].splitlines()
        if line.split()[:1] and line.split()[0] in (*TimeOwner, "rented")
    }
    assert {name: int(ns.replace(",", "")) for name, ns in printed.items()} == {
        name: int(row[name]) for name in (*TimeOwner, "rented")
    }


def test_every_term_of_the_formula_appears(demo: Demo) -> None:
    (row,) = demo.sql(
        "SELECT sum(t_b_ns) AS b, sum(t_a_ns) AS a, sum(t_kv_ns) AS kv, sum(t_cold_ns) AS cold, sum(measured_ns) AS measured FROM tenant_cost WHERE quarter >= toStartOfMonth(now('UTC'))"
    )
    b, a, kv, cold = (int(row[term]) for term in ("b", "a", "kv", "cold"))
    assert min(b, a, kv, cold) > 0
    assert b + a - kv + cold == int(row["measured"])


def test_a_second_run_adds_and_counts_nothing_twice(demo: Demo) -> None:
    assert demo.rows == (ORDINARY + SPECIAL, 2 * (ORDINARY + SPECIAL))
    (identities,) = demo.sql("SELECT count() AS n, uniqExact(emitter, seq) AS distinct FROM usage")
    assert identities["n"] == identities["distinct"]


def test_last_month_is_issued_once_and_never_changes(demo: Demo) -> None:
    first, second = demo.issued
    assert first == second
    assert len([name for name in first if name.endswith(".pdf")]) == 6
    numbers = sorted({row["number"] for row in demo.sql("SELECT number FROM invoices WHERE number != ''")})
    assert [int(number.rsplit("-", 1)[1]) for number in numbers] == list(range(1, len(numbers) + 1))


def test_drafts_of_the_running_month_lie_beside_it(demo: Demo) -> None:
    month = datetime.now(UTC).strftime("%Y-%m")
    drafts = {path.suffix for path in (demo.home / "invoices" / month).glob("clinic-draft.*")}
    assert drafts == {".pdf", ".csv", ".json"}


def test_every_metric_of_a_rule_or_a_board_is_in_a_real_scrape(demo: Demo) -> None:
    scraped = {sample.name for family in text_string_to_metric_families(demo.scrape) for sample in family.samples}
    scraped |= {family.name for family in text_string_to_metric_families(demo.scrape)}
    used = (rules.metric_names_used() | queries.metric_names_used()) - {"up"}
    assert len(used) > 20
    assert sorted(name for name in used if name not in scraped) == []


def test_every_sql_of_a_board_runs_on_the_ledger_the_demo_left(demo: Demo) -> None:
    settings = Settings.from_environ(
        {"LORALEDGER_HOME": str(demo.home), "LORALEDGER_CATALOG": str(ROOT / "examples" / "catalog.yaml")}
    )
    end = datetime.now(UTC)
    with Books.of(settings).open() as ledger:
        rows = {
            name: len(ledger.ask(expand_macros(sql, end - timedelta(days=1), end)).rows)
            for name, sql in sql_files.sql_queries().items()
        }
    assert rows
    assert sum(map(bool, rows.values())) >= len(rows) // 2, rows

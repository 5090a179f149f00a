"""The roles of deploy/roles.sql, enforced by the real engine: its one user is given what the file grants to a customer."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.sax.saxutils import escape

import pytest

from billing.store.clickhouse import Ledger
from catalog.model import Catalog

FILE = (Path(__file__).parents[2] / "deploy" / "roles.sql").read_text()
STATEMENTS = [s.strip() for s in re.sub(r"^--.*$", "", FILE, flags=re.MULTILINE).split(";") if s.strip()]
POLICY = re.compile(r"CREATE ROW POLICY IF NOT EXISTS (\w+) ON loraledger\.(\w+) FOR SELECT USING (.+) TO (.+)")
POLICIES = [match.groups() for statement in STATEMENTS if (match := POLICY.fullmatch(statement))]
GRANTED = re.findall(r"GRANT SELECT ON loraledger\.(\w+) TO customer_reader", FILE)
ASK = """
import json, sys
import chdb

connection = chdb.connect(sys.argv[1])
answers = {}
for query in json.load(sys.stdin):
    try:
        answers[query] = [row.split("\\t") for row in str(connection.query(query, "TSV")).splitlines()]
    except Exception as error:
        answers[query] = str(error)
json.dump(answers, sys.stdout)
"""


def ask_as(
    ledger: Path, work: Path, grants: list[str], filters: dict[str, str], queries: list[str]
) -> dict[str, object]:
    """Answers, or error texts, of another process whose only user has these rights."""
    roles = "".join(f"<query>{escape(grant)}</query>" for grant in grants)
    rows = "".join(f"<{table}><filter>{escape(rule)}</filter></{table}>" for table, rule in filters.items())
    (work / "users.xml").write_text(
        "<clickhouse><profiles><default/></profiles><quotas><default/></quotas>"
        f"<roles><customer_reader><grants>{roles}</grants></customer_reader><tenant_clinic/></roles>"
        "<users><default><password></password><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota>"
        "<grants><query>GRANT customer_reader, tenant_clinic</query></grants>"
        f"<databases><loraledger>{rows}</loraledger></databases></default></users></clickhouse>"
    )
    (work / "config.xml").write_text(f"<clickhouse><users_config>{work / 'users.xml'}</users_config></clickhouse>")
    done = subprocess.run(
        [sys.executable, "-c", ASK, f"{ledger}?config-file={work / 'config.xml'}"],
        input=json.dumps(queries), capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_a_customer_sees_its_own_rows_and_nothing_that_is_ours(
    tmp_path: Path, closed_books: tuple[Path, Catalog]
) -> None:
    shutil.copytree(closed_books[0], tmp_path / "ledger", symlinks=True)
    own = {table: rule for name, table, rule, _ in POLICIES if name == "own_rows"}
    grants = [f"GRANT SELECT ON loraledger.{name}" for name in GRANTED]
    seen = {
        "focus_v1_4": "SubAccountId", "focus_v1_2": "SubAccountId", "focus_payable": "tenant", "focus_invoice_detail": "BillingAccountId",
        "invoices": "tenant", "invoice_lines": "tenant", "credit_notes": "tenant", "credit_note_lines": "tenant", "usage": "tenant",
    }  # fmt: skip
    queries = {view: f"SELECT DISTINCT {column} FROM loraledger.{view}" for view, column in seen.items()}
    closed = [
        "tenant_cost",
        "engine_cost",
        "focus_gpu_split",
        "prices",
        "finance_tenant_month",
        "postings",
        "billing_periods",
        "ledger_events",
    ]
    refused = [f"SELECT * FROM loraledger.{view}" for view in closed]
    writing = "INSERT INTO loraledger.invoice_versions (tenant) VALUES ('clinic')"
    answers = ask_as(tmp_path / "ledger", tmp_path, grants, own, [*queries.values(), *refused, writing])
    assert {view: answers[query] for view, query in queries.items()} == {view: [["clinic"]] for view in seen}
    for query in (*refused, writing):
        assert "Not enough privileges" in str(answers[query]), query


def test_every_table_that_is_granted_is_cut_to_the_tenant_and_open_to_everybody_else(shared_ledger: Ledger) -> None:
    tables = {
        name
        for name, engine in shared_ledger.ask(
            "SELECT name, engine FROM system.tables WHERE database = 'loraledger'"
        ).rows
        if engine not in ("View", "MaterializedView") and name in GRANTED
    }
    for policy, to in (("own_rows", "customer_reader"), ("all_rows", "ALL EXCEPT customer_reader")):
        assert {table for name, table, _, whom in POLICIES if (name, whom) == (policy, to)} == tables
    assert len(POLICIES) == 2 * len(tables)


@pytest.mark.parametrize("statement", STATEMENTS)
def test_statements_are_written_as_the_engine_reads_them_and_may_be_repeated(
    shared_ledger: Ledger, statement: str
) -> None:
    shared_ledger.ask(f"EXPLAIN AST {statement}")
    assert statement.startswith("GRANT ") or "IF NOT EXISTS" in statement

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pytest

from billing.close.blocks import Block, Kind
from billing.store.clickhouse import Ledger
from billing.store.close.accepted import accept_gaps
from catalog.model import Catalog

PAGE = (Path(__file__).parents[2] / "docs" / "finance-sql.md").read_text()
BLOCKS = re.findall(r"^### ([^\n]+)\n(?:(?!^###).)*?^```sql( check)?\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
QUESTIONS = {title: query for title, check, query in BLOCKS if not check}
CHECKS = {title: query for title, check, query in BLOCKS if check}


@pytest.fixture(scope="module")
def books(tmp_path_factory: pytest.TempPathFactory, closed_books: tuple[Path, Catalog]) -> Iterator[Ledger]:
    path = tmp_path_factory.mktemp("books") / "ledger"
    shutil.copytree(closed_books[0], path, symlinks=True)
    with Ledger.open(f"chdb://{path}") as ledger:
        yield ledger


def test_every_query_of_the_page_is_under_a_heading_of_its_own() -> None:
    assert len(QUESTIONS) + len(CHECKS) == PAGE.count("```sql")
    assert [title[0] for title in CHECKS] == list("123456789")


@pytest.mark.parametrize("title", QUESTIONS)
def test_a_question_has_an_answer(books: Ledger, title: str) -> None:
    assert books.ask(QUESTIONS[title]).rows


@pytest.mark.parametrize("title", CHECKS)
def test_a_check_finds_nothing_in_sound_books(books: Ledger, title: str) -> None:
    assert books.ask(CHECKS[title]).rows == []


def test_the_checks_hold_with_a_gap_that_the_provider_took_on(books: Ledger, now: datetime) -> None:
    gap = Block(
        Kind.COUNTERS,
        ("run-1", "output tokens", "meter", "usage", "7"),
        "7 output tokens",
        ("bank",),
        cost=Decimal("0.07"),
    )
    assert accept_gaps(books, [gap], "2026-10", "EUR", "seen in the engine's log", "ada", now)
    assert [title for title, query in CHECKS.items() if books.ask(query).rows] == []
    assert books.ask("SELECT gap, cost FROM finance_accepted_gaps").rows == [(gap.id, Decimal("0.07"))]
    assert books.ask("SELECT count() FROM focus_invoice_detail").rows[0][0] > 0


def test_views_that_the_page_lists_are_there(books: Ledger) -> None:
    known = {row[0] for row in books.ask("SELECT name FROM system.tables WHERE database = 'loraledger'").rows}
    table = PAGE.split("## Questions")[0]
    listed = {
        name
        for line in table.splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`(\w+)`", line.split("|")[1])
    }
    assert len(listed) > 12
    assert listed <= known


WRONG = {
    "1": "INSERT INTO invoice_line_versions SELECT * REPLACE (version + 1 AS version, amount + 0.01 AS amount) FROM invoice_line_versions FINAL WHERE tenant = 'clinic' AND line = 1",
    "2": "INSERT INTO posting_versions SELECT * REPLACE (version + 1 AS version, credit + 0.01 AS credit) FROM posting_versions FINAL WHERE tenant = 'clinic' AND account = 'tax'",
    "3": "INSERT INTO focus_charge_versions SELECT * REPLACE (version + 1 AS version, cost + 0.01 AS cost) FROM focus_charge_versions FINAL WHERE tenant = 'clinic' AND charge = 1",
    "4": "INSERT INTO engine_cost_versions SELECT * REPLACE (version + 1 AS version, cost + 0.01 AS cost) FROM engine_cost_versions FINAL WHERE owner = 'tenants'",
    "5": "INSERT INTO invoice_versions SELECT * REPLACE (version + 1 AS version, concat(document, ' ') AS document) FROM invoice_versions FINAL WHERE tenant = 'campus'",
    "6": "INSERT INTO issued_documents SELECT * REPLACE (position + 1000 AS position, 'credit_note' AS kind, 'CN-2026-0001' AS number, '{\"invoice\":\"LL-2026-9999\",\"net\":\"1\",\"tax\":\"0\",\"gross\":\"1\",\"remaining_gross\":\"0\",\"currency\":\"EUR\"}' AS document) FROM issued_documents LIMIT 1",
    "7": "INSERT INTO issued_documents SELECT * REPLACE (position + 2000 AS position, 'LL-2026-0099' AS number) FROM issued_documents LIMIT 1",
    "8": "ALTER TABLE engine_cost_versions DELETE WHERE hour = (SELECT min(hour) FROM engine_cost_versions) SETTINGS mutations_sync = 2",
}  # fmt: skip
"""A fault for each check that sees it; the ninth can only fail when a view is wrong."""


def test_each_check_finds_its_fault(closed_books: tuple[Path, Catalog], books: Ledger) -> None:
    for title, query in CHECKS.items():
        if title[0] in WRONG:
            books.execute(WRONG[title[0]], "tampering")
            assert books.ask(query).rows, title

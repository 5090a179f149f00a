"""Every SQL panel shows something on the demo's ledger: last month of the recorded engine, closed and issued."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from billing.exact.periods import BillingMonth
from dashboards.sql_files import sql_queries
from loraledger.books import Books
from loraledger.recording import read_recording, shift
from loraledger.settings import Settings
from tests.dashboards.macros import expand_macros

ROOT = Path(__file__).parents[2]
NOTHING_TO_SHOW = {"quarantine_reasons"}
"""The demo has nothing in quarantine."""


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, int]]:
    home = tmp_path_factory.mktemp("demo")
    catalog = str(ROOT / "examples" / "catalog.yaml")
    books = Books.of(Settings.from_environ({"LORALEDGER_HOME": str(home), "LORALEDGER_CATALOG": catalog}))
    month = BillingMonth(books.last_month())
    lines = read_recording(ROOT / "examples" / "recorded-month.jsonl.gz")
    moved = shift(lines, int((month.start + timedelta(days=14)).timestamp()) * 1_000_000_000, month.text)
    (home / "recorded").mkdir()
    (home / "recorded" / "spool-recorded.jsonl").write_text("".join(line + "\n" for line in moved))
    books.ingest([home / "recorded"])
    books.month(month.text, issue=True)
    with books.open() as ledger:
        yield {
            name: len(ledger.ask(expand_macros(sql, month.start, month.end)).rows)
            for name, sql in sql_queries().items()
        }


@pytest.mark.parametrize("panel", sorted(sql_queries().keys() - NOTHING_TO_SHOW))
def test_every_sql_panel_returns_rows(shown: dict[str, int], panel: str) -> None:
    assert shown[panel] > 0


def test_what_shows_nothing_is_known(shown: dict[str, int]) -> None:
    assert {panel for panel, rows in shown.items() if not rows} == NOTHING_TO_SHOW

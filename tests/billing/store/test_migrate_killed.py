"""A process that is killed anywhere while it makes or upgrades the schema: the next one has a whole ledger."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from billing.store.clickhouse import Ledger
from billing.store.migrate import migrate, migrations
from loraledger.cli import app

NOW = datetime(2026, 10, 1, tzinfo=UTC)


class Killed(BaseException):
    """The process is gone: nothing catches it, and nothing runs after it."""


class Mortal(Ledger):
    """Dies before its step number `last`: a statement, or the note that one ran."""

    last: int

    def execute(self, statement: str, what: str) -> None:
        self.step()
        super().execute(statement, what)

    def insert(self, table: str, rows: Iterable[Mapping[str, Any]], *, once: str | None = None) -> int:
        self.step()
        return super().insert(table, rows, once=once)

    def step(self) -> None:
        self.last -= 1
        if self.last < 0:
            self.die()

    def die(self) -> None:
        raise Killed


class Shot(Mortal):
    """Dies as a process does that nobody asks."""

    def die(self) -> None:
        signal.raise_signal(signal.SIGKILL)


def schema(ledger: Ledger) -> list[object]:
    """All tables and columns, and what is remembered of the files."""
    asked = (
        "SELECT name, create_table_query FROM system.tables WHERE database = 'loraledger' ORDER BY name",
        "SELECT number, name, hash FROM schema_migrations ORDER BY ALL",
    )
    return [ledger.ask(sql).rows for sql in asked]


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(2, id="before each statement"),
        pytest.param(3, id="after each statement, before it is remembered"),
    ],
)
def test_lives_that_are_killed_around_every_statement_end_with_the_whole_schema_and_every_row(
    tmp_path: Path, steps: int
) -> None:
    with Ledger.open(f"chdb://{tmp_path}/undisturbed") as ledger:
        migrate(ledger, NOW)
        expected = schema(ledger)
    deaths = 0
    for _ in range(2 * len(migrations())):
        with Ledger.open(f"chdb://{tmp_path}/ledger") as ledger:
            ledger.__class__ = Mortal
            assert isinstance(ledger, Mortal)
            ledger.last = steps
            try:
                migrate(ledger, NOW)
            except Killed:
                deaths += 1
                if deaths == 20:
                    ledger.last = 1
                    ledger.insert("ingested_file_versions", [{"file": "f", "prefix_hash": "p", "path": "a.jsonl"}])
                continue
            assert schema(ledger) == expected
            assert ledger.ask("SELECT path FROM ingested_files").rows == [("a.jsonl",)]
            break
    assert deaths == len(migrations()) - 1


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(1, id="the first migration ran and was not remembered"),
        pytest.param(2, id="it was remembered"),
        pytest.param(2 * 40 + 1, id="in the middle of an upgrade"),
    ],
)
def test_a_ledger_whose_first_process_was_killed_is_used_by_the_next(tmp_path: Path, step: int) -> None:
    dsn = f"chdb://{tmp_path}/ledger"
    life = (
        "import sys; from datetime import UTC, datetime; sys.path[:0] = sys.argv[1:2]\n"
        "from test_migrate_killed import Shot; from billing.store.migrate import migrate\n"
        "ledger = Shot.open(sys.argv[2]); ledger.last = int(sys.argv[3]); migrate(ledger, datetime.now(UTC))"
    )
    done = subprocess.run([sys.executable, "-c", life, str(Path(__file__).parent), dsn, str(step)], check=False)
    assert done.returncode == -signal.SIGKILL
    asked = ["sql", "SELECT count() AS ran, max(number) AS newest FROM schema_migrations", "--json"]
    answer = CliRunner().invoke(app, [*asked, "--home", str(tmp_path)])
    assert answer.exit_code == 0, answer.output
    assert f'"ran":{len(migrations())},"newest":{len(migrations())}' in answer.stdout

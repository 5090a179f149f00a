from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path

import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from catalog.model import Catalog
from loraledger.cli import app


@pytest.fixture
def home(tmp_path: Path, closed_books: tuple[Path, Catalog]) -> list[str]:
    shutil.copytree(closed_books[0], tmp_path / "ledger", symlinks=True)
    catalog = tmp_path / "catalog.yaml"
    catalog.write_text(closed_books[1].model_dump_json())
    return ["--home", str(tmp_path), "--catalog", str(catalog), "--dsn", f"chdb://{tmp_path / 'ledger'}"]


def export(home: list[str], *options: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["export", "focus", "--month", "2026-10", *options, *home])
    return result.exit_code, result.output if result.exit_code else result.stdout


def test_a_month_is_written_as_csv_and_parquet_and_says_what_it_wrote(home: list[str], tmp_path: Path) -> None:
    table, columns = tmp_path / "out" / "october.csv", tmp_path / "october.parquet"
    code, said = export(home, "--version", "1.4", "-o", str(table), "--json")
    assert code == 0, said
    rows = list(csv.DictReader(io.StringIO(table.read_text())))
    assert json.loads(said) == {
        "file": str(table), "rows": len(rows), "month": "2026-10", "dataset": "cost-and-usage", "version": "1.4",
    }  # fmt: skip
    assert list(rows[0])[:2] == ["AllocatedMethodDetails", "AllocatedMethodId"]
    assert export(home, "--version", "1.2", "-o", str(columns), "--tenant", "bank")[0] == 0
    found = pyarrow.parquet.read_table(columns)
    assert set(found["SubAccountId"].to_pylist()) == {"bank"}
    assert "ProviderName" in found.column_names


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (["-o", "october.xlsx"], 2, "must end in .csv or .parquet"),
        (["-o", "x.csv", "--tenant", "nobody"], 2, "no tenant 'nobody'"),
        (["-o", "x.csv", "--month", "2026-03"], 1, "loraledger invoice 2026-03"),
    ],
)
def test_what_cannot_be_exported_says_why_and_writes_nothing(
    home: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], code: int, says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    found, said = export(home, *options)
    assert (found, says in " ".join(said.split())) == (code, True), said
    assert not list(tmp_path.glob("*.csv"))

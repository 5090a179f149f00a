"""What FOCUS files are judged by: our own rules, focus-data-toolkit (1.4) and focus-validator (1.2), and twelve files that are wrong.

`gates.json` is the report of a run with both tools. A tool that is not installed is skipped by name, and the report stands.
"""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pytest

from billing.store.clickhouse import Ledger
from billing.store.focus import focus_file
from catalog.model import Catalog
from tests.billing.focus.check import faults, read_csv

TOOLS = Path(__file__).parents[3] / ".venv-tools"
TOOLKIT = TOOLS / "focus-toolkit" / "bin" / "focus-toolkit"
VALIDATOR = TOOLS / "focus-validator" / "bin" / "focus-validator"
REPORT = Path(__file__).parent / "gates.json"
ALWAYS_FAILS: Final = {"InvoiceId-C-004-C"}
"""The rule "InvoiceId must be null when the charge is on no invoice" is compiled without its condition, so it fails every invoiced row."""
SUPPORTED: Final = ",".join(
    f"{name}_SUPPORTED"
    for name in (
        "ACCOUNT_NAMING", "NEGOTIATED_PRICING", "PUBLIC_PRICE_LIST", "USAGE_MEASUREMENT", "UNIT_PRICING", "SUB_ACCOUNT",
        "BILLING_BASED_ON_PROVISIONED_RESOURCES", "RESOURCE_TYPE_ASSIGNMENT", "PRICING_BILLING_CURRENCY_DIFFERENCES", "TAGGING",
    )
)  # fmt: skip
Rows = list[dict[str, str | None]]


def change(category: str, **cells: str | Callable[[str], str]) -> Callable[[Rows], None]:
    """Changes cells of the first row of that category that corrects nothing."""

    def apply(rows: Rows) -> None:
        row = next(row for row in rows if row["ChargeCategory"] == category and not row["ChargeClass"])
        for column, new in cells.items():
            row[column] = new(row[column] or "") if callable(new) else new

    return apply


MUTATIONS: Final[dict[str, Callable[[Rows], None]]] = {
    "a cost off by a lot": change("Usage", ContractedCost="99"),
    "a cost off by 1e-7": change("Usage", ListCost=lambda cost: f"{Decimal(cost) + Decimal('1e-7'):f}"),
    "a time without T and Z": change("Usage", ChargePeriodStart="2026-10-05 10:00:00"),
    "a category in lower case": change("Usage", ChargeCategory="usage"),
    "an unknown subcategory": change("Usage", ServiceSubcategory="LLM serving"),
    "a currency in lower case": change("Usage", BillingCurrency=str.lower),
    "an allocated ratio above 1": change(
        "Usage", AllocatedMethodDetails='{"Elements":[{"AllocatedRatio":1.5,"UsageUnit":"Seconds","UsageQuantity":1}]}'
    ),
    "a quantity on a tax": change("Tax", PricingQuantity="1", PricingUnit="Months"),
    "an unknown charge class": change("Usage", ChargeClass="Amendment"),
    "a leading plus": change("Usage", BilledCost=lambda cost: f"+{cost}"),
    "tags with single quotes": change("Usage", Tags="{'loraledger/plan':'cost_plus'}"),
    "a negative unit price": change("Usage", ListUnitPrice="-3600"),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, closed_books: tuple[Path, Catalog]) -> Iterator[dict[str, bytes]]:
    path = tmp_path_factory.mktemp("gates") / "ledger"
    shutil.copytree(closed_books[0], path, symlinks=True)
    with Ledger.open(f"chdb://{path}") as ledger:
        names: list[tuple[Any, Any]] = [
            ("cost-and-usage", "1.4"), ("invoice-detail", "1.4"), ("billing-period", "1.4"), ("gpu-split", "1.4"), ("cost-and-usage", "1.2"),
        ]  # fmt: skip
        yield {f"{name} {of}": focus_file(ledger, name, of, "2026-10", "", "csv") for name, of in names}


def mutant(files: dict[str, bytes], name: str, version: str) -> tuple[Rows, list[str]]:
    split = "ratio" in name
    rows = read_csv(files["gpu-split 1.4" if split else f"cost-and-usage {version}"])
    MUTATIONS[name](rows)
    return rows, list(rows[0])


def write(path: Path, rows: Rows, columns: list[str]) -> Path:
    with path.open("w", newline="") as out:
        writer = csv.DictWriter(out, columns)
        writer.writeheader()
        writer.writerows(rows)
    return path


def toolkit(path: Path, dataset: str = "cost-and-usage") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [TOOLKIT, "validate", "--dataset", dataset, path], capture_output=True, text=True, check=False, timeout=120
    )


def validator(path: Path) -> set[str]:
    """The rules that the file fails; the exit code says nothing."""
    report = path.with_suffix(".xml")
    subprocess.run(
        [
            VALIDATOR, "--block-download", "--validate-version", "1.2.0.1", "--data-file", path, "--applicability-criteria", SUPPORTED,
            "--output-type", "unittest", "--output-destination", report,
        ],
        cwd=next(VALIDATOR.parents[1].glob("lib/python3*/site-packages")),  # it opens its currency list from there
        capture_output=True, check=True, timeout=600,
    )  # fmt: skip
    cases = ET.parse(report).getroot().iter("testcase")
    return {failure.attrib["name"] for case in cases if (failure := case.find("failure")) is not None}


def reported() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(REPORT.read_text())
    return found


def test_clean_files_pass_our_gate(files: dict[str, bytes]) -> None:
    assert {name: faults(read_csv(data)) for name, data in files.items()} == {name: [] for name in files}


@pytest.mark.parametrize("name", MUTATIONS)
def test_each_wrong_file_is_rejected_by_our_gate(files: dict[str, bytes], name: str) -> None:
    for version in ("1.4",) if "ratio" in name else ("1.2", "1.4"):
        assert faults(mutant(files, name, version)[0])


def test_the_toolkit_accepts_what_we_write_and_rejects_what_it_is_reported_to(
    files: dict[str, bytes], tmp_path: Path
) -> None:
    if not TOOLKIT.exists():
        pytest.skip(f"focus-data-toolkit is not installed (scripts/focus_gates.sh installs it); {REPORT.name} stands")
    for name, data in files.items():
        if name.endswith("1.4"):
            path = tmp_path / "clean.csv"
            path.write_bytes(data)
            dataset = name.split()[0].replace("gpu-split", "cost-and-usage")
            done = toolkit(path, dataset)
            assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"
    rejects = {
        name: toolkit(write(tmp_path / "mutant.csv", *mutant(files, name, "1.4"))).returncode == 1 for name in MUTATIONS
    }
    assert rejects == {name: row["focus-data-toolkit 1.4"] for name, row in reported().items() if name in MUTATIONS}


@pytest.mark.nightly
def test_the_validator_accepts_what_we_write_but_for_one_rule_and_rejects_what_it_is_reported_to(
    files: dict[str, bytes], tmp_path: Path
) -> None:
    if not VALIDATOR.exists():
        pytest.skip(
            f"focus-validator is not installed (it needs Python 3.12, scripts/focus_gates.sh); {REPORT.name} stands"
        )
    path = tmp_path / "clean.csv"
    path.write_bytes(files["cost-and-usage 1.2"])
    assert validator(path) == ALWAYS_FAILS
    failed = {
        name: sorted(validator(write(tmp_path / "mutant.csv", *mutant(files, name, "1.2"))) - ALWAYS_FAILS)
        for name in MUTATIONS
        if "ratio" not in name
    }
    assert failed == {name: row["focus-validator 1.2"] for name, row in reported().items() if name in failed}


def test_the_report_names_a_gate_for_every_wrong_file() -> None:
    report = reported()
    assert report.keys() == MUTATIONS.keys()
    for row in report.values():
        assert row["own"]
        assert row.keys() == {"own", "focus-data-toolkit 1.4", "focus-validator 1.2"}

from __future__ import annotations

import io
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from billing.errors import ExportInvalid
from billing.store.clickhouse import Ledger
from billing.store.focus import focus_file, focus_rows, write_charges
from billing.store.invoice.invoices import issued, write_drafts
from billing.store.invoice.issuing import issued_credit_notes
from catalog.model import Catalog
from tests.billing.focus.check import faults, read_csv, split_faults, sum_faults

MONTHS = ("2026-09", "2026-10")
LATER = datetime(2026, 11, 20, tzinfo=UTC)
Books = tuple[Ledger, Catalog]


@pytest.fixture(scope="module")
def books(tmp_path_factory: pytest.TempPathFactory, closed_books: tuple[Path, Catalog]) -> Iterator[Books]:
    path = tmp_path_factory.mktemp("focus") / "ledger"
    shutil.copytree(closed_books[0], path, symlinks=True)
    with Ledger.open(f"chdb://{path}") as ledger:
        yield ledger, closed_books[1]


def rows(books: Books, dataset: Any, version: Any = "1.4", month: str = "2026-10", tenant: str = "") -> list[Any]:
    return read_csv(focus_file(books[0], dataset, version, month, tenant, "csv"))


@pytest.mark.parametrize("version", ["1.2", "1.4"])
@pytest.mark.parametrize("month", MONTHS)
def test_charges_are_clean_and_sum_to_every_invoice_and_line_to_the_cent(
    books: Books, version: str, month: str
) -> None:
    charges = rows(books, "cost-and-usage", version, month)
    assert faults(charges) == []
    invoices = issued(books[0], month)
    assert len(invoices) == 5
    notes = issued_credit_notes(books[0], "clinic") if month == "2026-10" else []
    payable = {str(i.number): i.due for i in invoices} | {str(n.number): -n.gross for n in notes}
    assert sum_faults(charges, payable, "InvoiceId") == []
    if version == "1.4":
        lines = {f"{i.number}/{line.position}": line.amount for i in invoices for line in i.lines}
        lines |= {f"{n.number}/{line.position}": -line.amount for n in notes for line in n.lines}
        taxes = {f"{i.number}/tax-{n}": tax.amount for i in invoices for n, tax in enumerate(i.taxes, 1)}
        taxes |= {f"{i.number}/tax-{n}": -tax.amount for i in notes for n, tax in enumerate(i.taxes, 1)}
        assert sum_faults(charges, lines | taxes, "InvoiceDetailId") == []
        details = rows(books, "invoice-detail", month=month)
        assert faults(details) == []
        assert {row["InvoiceDetailId"]: Decimal(row["BilledCost"]) for row in details} == lines | taxes


def test_a_credit_note_corrects_its_month_in_the_period_it_was_issued_in(books: Books) -> None:
    charges = [row for row in rows(books, "cost-and-usage", tenant="clinic") if row["ChargeClass"]]
    assert {row["InvoiceId"] for row in charges} == {"CN-2026-0001"}
    assert {(row["BillingPeriodStart"], row["ChargePeriodStart"]) for row in charges} == {
        ("2026-09-30T22:00:00Z", "2026-08-31T22:00:00Z")
    }
    details = [row for row in rows(books, "invoice-detail", tenant="clinic") if row["InvoiceId"] == "CN-2026-0001"]
    assert {(row["ReferenceInvoiceId"], row["BillingPeriodStart"]) for row in details} == {
        ("LL-2026-0003", "2026-09-30T22:00:00Z")
    }
    assert sum(Decimal(row["BilledCost"]) for row in details) == Decimal("-1.19")


def test_both_versions_say_the_same_of_every_column_they_share(books: Books) -> None:
    old, new = (rows(books, "cost-and-usage", version) for version in ("1.2", "1.4"))
    shared = old[0].keys() & new[0].keys()
    assert len(shared) == 55 + 6
    assert [{c: row[c] for c in shared} for row in old] == [{c: row[c] for c in shared} for row in new]
    assert {row["ProviderName"] for row in old} == {row["ServiceProviderName"] for row in new}


def test_one_tenants_file_holds_that_tenant_alone(books: Books) -> None:
    for dataset in ("cost-and-usage", "invoice-detail"):
        found = rows(books, dataset, tenant="bank")
        assert {row["BillingAccountId"] for row in found} == {"bank"}
        assert "clinic" not in str(found)
    assert {row["BillingCurrency"] for row in rows(books, "cost-and-usage", tenant="bank")} == {"USD"}
    assert {row["PurchaseOrderNumber"] for row in rows(books, "invoice-detail", tenant="bank")} == {"PO-77"}
    (period,) = rows(books, "billing-period", tenant="forge")
    assert (period["BillingPeriodStart"], period["BillingPeriodStatus"]) == ("2026-09-30T18:30:00Z", "Closed")


def test_charge_periods_are_hours_cut_at_the_billing_period(books: Books) -> None:
    charges = rows(books, "cost-and-usage", tenant="clinic")
    usage = [row for row in charges if row["ResourceId"]]
    assert {row["ChargePeriodStart"] for row in usage} == {
        "2026-10-05T10:00:00Z", "2026-10-05T11:00:00Z", "2026-10-06T10:00:00Z",
    }  # fmt: skip
    assert {row["ResourceId"] for row in usage} == {"icd10-coder", "clinic-tone"}
    credited = [row["BilledCost"] for row in usage if row["ChargeCategory"] == "Credit"]
    assert [cost[0] for cost in credited] == ["-", "-", "-"]


def test_the_gpu_bill_is_split_to_the_last_digit_and_stands_apart(books: Books) -> None:
    split = rows(books, "gpu-split")
    bills = {
        (engine, f"{hour:%Y-%m-%dT%H:%M:%SZ}"): cost
        for engine, hour, cost in books[0]
        .ask("SELECT engine, hour, sum(cost) FROM engine_cost WHERE hour >= '2026-10-01' GROUP BY engine, hour")
        .rows
    }
    assert len(bills) == 3
    assert faults(split) == split_faults(split, bills) == []
    assert {row["x_Owner"] for row in split} == {"tenants", "idle", "system", "recompute", "down"}
    assert {row["AllocatedResourceId"] for row in split} > {"clinic", "idle", "down"}
    assert {row["SubAccountId"] for row in split} == {None}
    assert not {row["InvoiceId"] for row in split} - {None}


def test_parquet_holds_the_same_with_decimals_and_instants(books: Books) -> None:
    table = pyarrow.parquet.read_table(
        io.BytesIO(focus_file(books[0], "cost-and-usage", "1.4", "2026-10", "", "parquet"))
    )
    kinds = {field.name: str(field.type) for field in table.schema}
    assert kinds["BilledCost"] == kinds["ListUnitPrice"] == "decimal128(38, 26)"
    assert kinds["ChargePeriodStart"] == "timestamp[ms, tz=UTC]"
    cells = rows(books, "cost-and-usage")
    assert table.column_names == list(cells[0])
    assert [row["BilledCost"] for row in table.to_pylist()] == [Decimal(row["BilledCost"]) for row in cells]
    assert [row["SkuId"] for row in table.to_pylist()] == [row["SkuId"] for row in cells]
    assert focus_rows(books[0], "cost-and-usage", "1.4", "2026-10", "") == table.num_rows


def test_a_dataset_that_a_version_does_not_have_is_refused(books: Books) -> None:
    with pytest.raises(ExportInvalid, match=r"invoice-detail as FOCUS 1.2: it is a dataset of version 1.4 only"):
        focus_file(books[0], "invoice-detail", "1.2", "2026-10", "", "csv")


def test_charges_of_a_draft_are_replaced_with_it(books: Books) -> None:
    ledger, catalog = books
    assert write_drafts(ledger, "2026-11", catalog, LATER).papers
    assert write_charges(ledger, "2026-11", catalog, LATER) > 0
    assert write_charges(ledger, "2026-11", catalog, LATER) == 0
    drafted = rows(books, "cost-and-usage", month="2026-11")
    assert {row["InvoiceId"] for row in drafted} == {"draft-bank-2026-11"}
    details = rows(books, "invoice-detail", month="2026-11")
    assert {row["InvoiceIssueStatus"] for row in details} == {"Open"}
    assert faults(drafted) == faults(details) == []
    ledger.execute("TRUNCATE TABLE invoice_versions", "losing the draft")
    assert write_charges(ledger, "2026-11", catalog, datetime(2026, 11, 21, tzinfo=UTC)) == len(drafted)
    assert rows(books, "cost-and-usage", month="2026-11") == []


def test_what_was_issued_stays_whatever_the_ledger_learns_later(books: Books) -> None:
    ledger, catalog = books
    before = [focus_file(ledger, "cost-and-usage", "1.4", month, "", "csv") for month in MONTHS]
    ledger.execute(
        "INSERT INTO tenant_cost_versions SELECT * REPLACE (version + 1 AS version, cost * 3 AS cost, base_gpu_hours * 3 AS base_gpu_hours) FROM tenant_cost_versions FINAL",
        "late facts",
    )
    assert [write_charges(ledger, month, catalog, LATER) for month in MONTHS] == [0, 0]
    assert [focus_file(ledger, "cost-and-usage", "1.4", month, "", "csv") for month in MONTHS] == before

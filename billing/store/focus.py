"""FOCUS in the ledger: charges of a month's documents, kept as rows; and the datasets made of them, as files."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any, Final, Literal

from billing.documents.json_file import read_credit_note, read_invoice
from billing.errors import ExportInvalid
from billing.exact.periods import to_ns
from billing.focus.charges import credit_charges, invoice_charges
from billing.focus.model import ChargeRow, Document
from billing.store import versions
from billing.store.clickhouse import FileForm, Ledger
from billing.store.cost.tenant_cost import tenant_month
from catalog.model import Catalog

Version = Literal["1.2", "1.4"]
Dataset = Literal["cost-and-usage", "invoice-detail", "billing-period", "gpu-split"]

_QUERIES: Final[dict[tuple[Dataset, Version], str]] = {
    ("cost-and-usage", "1.2"): "focus_cost_and_usage_v1_2",
    ("cost-and-usage", "1.4"): "focus_cost_and_usage_v1_4",
    ("invoice-detail", "1.4"): "focus_invoice_detail",
    ("billing-period", "1.4"): "focus_billing_period",
    ("gpu-split", "1.4"): "focus_gpu_split",
}
_PRICE: Final = ("quantity", "unit", "unit_price", "pricing_price", "sku", "meter", "instance")
_KEY: Final = ("tenant", "billing_month", "invoice", "charge")


def write_charges(ledger: Ledger, month: str, catalog: Catalog, now: datetime) -> int:
    """Keep the charges of the month's documents; how many rows changed.

    Those of an issued document are written once and stay, whatever the ledger learns later; those of drafts are replaced.
    ExportInvalid or InvoiceInvalid when a document and its charges contradict each other; nothing is written then.
    """
    old = ledger.read("focus_month", {"month": month})
    kept = {row["invoice"] for row in old if row["issued"]}
    new = [row for document in _documents(ledger, month, catalog, kept) for row in _rows(document)]
    changed = versions.change([row for row in old if not row["issued"]], new, _KEY)
    return versions.apply(ledger, "focus_charge_versions", changed, to_ns(now))


def focus_file(ledger: Ledger, dataset: Dataset, version: Version, month: str, tenant: str, form: FileForm) -> bytes:
    """One dataset of a billing month as CSV or Parquet, of one tenant or (empty) of all.

    ExportInvalid when that version has no such dataset. A dataset without rows is a file with nothing but columns.
    """
    return ledger.file(_query(dataset, version), {"month": month, "tenant": tenant}, form)


def focus_rows(ledger: Ledger, dataset: Dataset, version: Version, month: str, tenant: str) -> int:
    """How many rows that file has; ExportInvalid as there."""
    return ledger.count(_query(dataset, version), {"month": month, "tenant": tenant})


def _query(dataset: Dataset, version: Version) -> str:
    if (query := _QUERIES.get((dataset, version))) is None:
        having = ", ".join(sorted(of for name, of in _QUERIES if name == dataset))
        raise ExportInvalid(f"could not export {dataset} as FOCUS {version}: it is a dataset of version {having} only")
    return query


def _documents(ledger: Ledger, month: str, catalog: Catalog, kept: set[str]) -> list[Document]:
    found = []
    for row in ledger.read("focus_documents", {"month": month}):
        data = row["document"].encode()
        if row["number"] in kept:
            continue
        if row["kind"] == "credit_note":
            found.append(credit_charges(read_credit_note(data)))
            continue
        invoice = read_invoice(data)
        costs = tenant_month(ledger, invoice.tenant, to_ns(invoice.start), to_ns(invoice.end))
        found.append(invoice_charges(invoice, costs, catalog.base_model.name))
    return found


def _rows(document: Document) -> list[dict[str, Any]]:
    """What the bill and the charge call `start` and `end` alike is the charge's; the bill's is the period."""
    common = asdict(document.bill) | {"period_start": document.bill.start, "period_end": document.bill.end}
    return [common | {"charge": position} | _columns(row) for position, row in enumerate(document.rows, start=1)]


def _columns(row: ChargeRow) -> dict[str, Any]:
    values = asdict(row) | {"category": row.category.value}
    price = values.pop("price") or {}
    return values | {column: price.get(column) for column in _PRICE}

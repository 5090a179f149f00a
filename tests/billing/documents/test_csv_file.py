"""Invoices as CSV: one row per line, sums that agree, no formula that runs."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from decimal import Decimal

import pytest

from billing.documents.csv_file import document_csv
from billing.invoice.invoice import Invoice


def rows_of(invoice: Invoice) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(document_csv(invoice).decode(), newline=""), strict=True))


def test_line_rows_sum_to_the_net_amount_and_detail_is_beside_them(cost_plus: Invoice) -> None:
    rows = rows_of(cost_plus)
    lines = [row for row in rows if row["record"] == "line"]
    assert [row["item"] for row in lines] == [line.kind for line in cost_plus.lines]
    assert sum(Decimal(row["amount"]) for row in lines) == cost_plus.net
    amounts = {row["record"]: row["amount"] for row in rows if row["record"] in {"net", "tax", "gross", "due"}}
    assert amounts == {name: str(getattr(cost_plus, name)) for name in ("net", "tax", "gross", "due")}
    assert [row["item"] for row in rows if row["record"] == "adapter"] == ["base", "icd10-coder"]
    assert [row["payer"] for row in rows if row["item"] == "server_error"] == ["provider"]
    assert {row["invoice"] for row in rows} == {"LL-2026-0007"}


def test_rows_end_as_rfc_4180_says_and_have_all_columns(per_token: Invoice) -> None:
    text = document_csv(per_token).decode()
    assert text.count("\n") == text.count("\r\n") == len(rows_of(per_token)) + 1
    widths = {len(row) for row in csv.reader(io.StringIO(text, newline=""))}
    assert len(widths) == 1


@pytest.mark.parametrize("evil", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1"])
def test_text_never_runs_as_a_formula_and_numbers_stay_numbers(cost_plus: Invoice, evil: str) -> None:
    adapters = tuple(replace(part, adapter=evil) for part in cost_plus.adapters)
    lines = tuple(replace(line, description=f'{evil}", "x') for line in cost_plus.lines)
    rows = rows_of(replace(cost_plus, adapters=adapters, lines=lines))
    assert {row["item"] for row in rows if row["record"] == "adapter"} == {f"'{evil}"}
    assert all(row["description"].startswith(f"'{evil}") for row in rows if row["record"] == "line")
    assert next(row["amount"] for row in rows if row["item"] == "t_kv").startswith("-")

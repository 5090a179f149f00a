"""Invoices as JSON: golden files, read back equal, and found out when changed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from billing.documents.json_file import read_invoice
from billing.errors import InvoiceInvalid
from billing.exact.canonical import written
from billing.invoice.invoice import Invoice, Reconciliation

GOLDEN = Path(__file__).with_name("golden")


@pytest.mark.parametrize("name", ["cost_plus", "per_token"])
def test_an_invoice_is_written_to_the_letter(name: str, request: pytest.FixtureRequest) -> None:
    assert written(request.getfixturevalue(name)).decode() == (GOLDEN / f"{name}.json").read_text(encoding="utf-8")


def test_what_was_written_reads_back_equal(cost_plus: Invoice, per_token: Invoice) -> None:
    assert read_invoice(written(cost_plus)) == cost_plus
    assert read_invoice(written(per_token)) == per_token
    assert isinstance(per_token.reconciliation, Reconciliation)
    summed = replace(per_token, reconciliation=per_token.reconciliation.summed())
    assert read_invoice(written(summed)) == summed
    assert b"other_tenants" not in written(summed)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (b'"Lindenhof Clinic"', b'"Someone Else"', "changed after issue"),
        (b'"due": "', b'"due": "1', "amount due is"),
        (b'"state": "issued",', b'"state": "issued", "extra": 1,', "not in the form"),
        (b'"tenant": "clinic",', b"", "tenant: Field required"),
        (b'"month": "2026-10"', b'"month": 2026', "month: Input should be a valid string"),
        (b"{", b"[", "Invalid JSON"),
    ],
)
def test_a_changed_file_is_refused(cost_plus: Invoice, old: bytes, new: bytes, says: str) -> None:
    with pytest.raises(InvoiceInvalid, match=says):
        read_invoice(written(cost_plus).replace(old, new, 1))


def test_numbers_with_a_fraction_are_strings(cost_plus: Invoice) -> None:
    def refuse(text: str) -> float:
        raise AssertionError(f"{text} would be read as a float")

    json.loads(written(cost_plus), parse_float=refuse)

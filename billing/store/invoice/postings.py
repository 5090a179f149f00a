"""Postings in the ledger: written from the chain of issued documents, and read back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from billing.close.postings import FIRST, Posting, document_postings
from billing.exact.periods import to_ns
from billing.store.clickhouse import Ledger
from billing.store.invoice.issuing import chain_after


def post(ledger: Ledger) -> int:
    """Post every issued document that is not posted yet; how many postings. Whoever does it, and when, writes the same rows."""
    last = ledger.read("posted")
    previous: str = last[0]["hash"] if last else FIRST
    rows: list[dict[str, Any]] = []
    for one in chain_after(ledger, last[0]["position"] if last else 0):
        postings = document_postings(one.read(), previous)
        rows += [asdict(p) | {"position": one.position, "version": to_ns(one.issued_at)} for p in postings]
        previous = postings[-1].hash if postings else previous
    return ledger.insert("posting_versions", rows)


def postings(ledger: Ledger, tenant: str = "") -> list[Posting]:
    """Postings in the order of the ledger, of one tenant or all."""
    return [as_posting(row) for row in ledger.read("postings", {"tenant": tenant, "numbers": []})]


def as_posting(row: Mapping[str, Any]) -> Posting:
    """The posting of a row, whatever else stands in it."""
    return Posting(**{field.name: row[field.name] for field in fields(Posting)})

"""Postings in the ledger: written from the chain of issued documents, and read back."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final

from billing.close.postings import FIRST, Posting, document_postings
from billing.exact.periods import to_ns
from billing.store.clickhouse import Ledger
from billing.store.invoice.issuing import chain_after

_FIELDS: Final = tuple(field.name for field in fields(Posting))


def post(ledger: Ledger) -> int:
    """Post every issued document that is not posted yet; how many postings. Whoever does it, and when, writes the same rows."""
    last = ledger.read("posted")
    previous: str = last[0]["hash"] if last else FIRST
    rows: list[list[Any]] = []
    for one in chain_after(ledger, last[0]["position"] if last else 0):
        postings = document_postings(one.read(), previous)
        rows += [[*(getattr(p, name) for name in _FIELDS), one.position, to_ns(one.issued_at)] for p in postings]
        previous = postings[-1].hash if postings else previous
    return ledger.insert("posting_versions", [*_FIELDS, "position", "version"], rows)


def postings(ledger: Ledger, tenant: str = "") -> list[Posting]:
    """Postings in the order of the ledger, of one tenant or all."""
    return [Posting(**row) for row in ledger.read("postings", {"tenant": tenant})]

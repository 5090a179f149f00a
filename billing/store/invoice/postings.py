"""Postings in the ledger: written from the chain of issued documents, and read back to be checked."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final

from billing.exact.periods import to_ns
from billing.invoice.postings import (
    FIRST,
    Posting,
    acceptance_postings,
    broken_postings,
    credit_note_postings,
    invoice_postings,
)
from billing.store.clickhouse import Ledger
from billing.store.invoice.issuing import chain_after

_FIELDS: Final = tuple(field.name for field in fields(Posting))


def post(ledger: Ledger) -> int:
    """Post every issued document that is not posted yet; how many postings. Whoever does it, and when, writes the same rows."""
    last = ledger.read("posted")
    previous: str = last[0]["hash"] if last else FIRST
    rows: list[list[Any]] = []
    for one in chain_after(ledger, last[0]["position"] if last else 0):
        if one.kind == "invoice":
            postings = invoice_postings(one.invoice(), previous)
        elif one.kind == "acceptance":
            postings = acceptance_postings(one.acceptance(), previous)
        else:
            postings = credit_note_postings(one.credit_note(), previous)
        rows += [[*(getattr(p, name) for name in _FIELDS), one.position, to_ns(one.issued_at)] for p in postings]
        previous = postings[-1].hash if postings else previous
    return ledger.insert("posting_versions", [*_FIELDS, "position", "version"], rows)


def postings(ledger: Ledger, tenant: str = "") -> list[Posting]:
    """Postings in the order of the ledger, of one tenant or all."""
    return [Posting(**row) for row in ledger.read("postings", {"tenant": tenant})]


def posting_faults(ledger: Ledger) -> list[str]:
    """What is wrong with the ledger, one line each: broken chain, documents that do not balance or are not posted."""
    found = postings(ledger)
    posted = {posting.document for posting in found}
    missing = [
        f"{one.number}: not posted"
        for one in chain_after(ledger, 0)
        if one.number not in posted and one.kind == "invoice" and any(line.amount for line in one.invoice().lines)
    ]
    return [*broken_postings(found), *missing]

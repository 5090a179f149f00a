"""Whoever changes, drops or moves something that was issued is found out, by number, and nothing is issued on top of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from billing.store.clickhouse import Ledger
from billing.store.errors import BooksBroken
from billing.store.invoice.credits import Agreed, issue_agreed
from billing.store.invoice.invoices import issue_month, take_on
from billing.store.invoice.verify import verify
from catalog.model import Catalog
from telemetry.engine_time import SessionEvent
from tests.billing.store.invoice.test_invoices import MONTH, derive

S = 1_000_000_000
TABLES = ("issued_documents", "posting_versions", "invoice_versions", "invoice_line_versions", "document_file_versions")
FIRST, SECOND, THIRD, NOTE = "LL-2026-0001", "LL-2026-0002", "LL-2026-0003", "CN-2026-0001"


@pytest.fixture
def books(
    ledger: Ledger, traffic: Any, example: Catalog, ns: Callable[..., int], now: datetime, tmp_path: Path
) -> Ledger:
    """Three invoices and a credit note."""
    t0 = ns(2026, 10, 5, 10)
    traffic.session(SessionEvent.STARTED, t0)
    traffic.serve("clinic", t0, 700_000_000, 50_000_000, adapter="icd10-coder", cold_ns=30_000_000, saved=(50, 5))
    traffic.serve("campus", t0 + S, 400_000_001)
    traffic.serve("freeride", t0 + 2 * S, 900_000_001, adapter="brand-voice")
    traffic.session(SessionEvent.STOPPED, t0 + 60 * S)
    derive(ledger, traffic, example, tmp_path, now)
    issue_month(ledger, MONTH, example, now)
    issue_agreed(ledger, SECOND, Agreed(Decimal("0.10"), "goodwill"), example, now)
    return ledger


@contextmanager
def tampered(ledger: Ledger, *statements: str) -> Iterator[None]:
    """The ledger after somebody with all rights was there; as it was, afterwards."""
    names = [name for name in TABLES if any(name in statement for statement in statements)]
    for name in names:
        ledger.execute(f"CREATE TABLE kept_{name} ENGINE = Memory AS SELECT * FROM {name}", "keeping")
    for statement in statements:
        settings = " SETTINGS mutations_sync = 1" if statement.startswith("ALTER") else ""
        ledger.execute(statement + settings, "tampering")
    yield
    for name in names:
        ledger.execute(f"TRUNCATE TABLE {name}", "restoring")
        ledger.execute(f"INSERT INTO {name} SELECT * FROM kept_{name}", "restoring")
        ledger.execute(f"DROP TABLE kept_{name}", "restoring")


def change(table: str, what: str, where: str) -> str:
    return f"ALTER TABLE {table} UPDATE {what} WHERE {where}"


def forged(table: str, what: str, where: str) -> str:
    """A newer version of a row whose columns are in the key, or that merges may replace."""
    return f"INSERT INTO {table} SELECT * REPLACE ({what}) FROM (SELECT * FROM {table} FINAL WHERE {where})"


TAMPERINGS: list[tuple[str, tuple[str, ...], dict[str, str]]] = [
    (
        "an amount in a document",
        (change("issued_documents", "document = replaceOne(document, '\"gross\": \"', '\"gross\": \"9')", f"number = '{SECOND}'"),),
        {SECOND: "its text, number or hash was changed after it was issued"},
    ),
    (
        "an amount, with all hashes of its place made anew",
        (
            change("issued_documents", "document = replaceOne(document, '\"amount\": \"', '\"amount\": \"9')", f"number = '{FIRST}'"),
            change("issued_documents", "hash = lower(hex(SHA256(concat(prev_hash, '\\n', number, '\\n', document))))", f"number = '{FIRST}'"),
        ),
        {FIRST: "net amount is", SECOND: f"its link does not lead to {FIRST}"},
    ),
    (
        "a document less",
        (f"ALTER TABLE issued_documents DELETE WHERE number = '{SECOND}'",),
        {THIRD: "it stands in place 3 right after place 1", SECOND: "it is posted and not in issued_documents"},
    ),
    (
        "the last document less",
        (f"ALTER TABLE issued_documents DELETE WHERE number = '{NOTE}'",),
        {NOTE: "it is posted and not in issued_documents"},
    ),
    (
        "two documents swapped",
        (change("issued_documents", "position = if(position = 1, 2, 1)", "position IN (1, 2)"),),
        {FIRST: f"its link does not lead to {SECOND}", SECOND: "its link does not lead to the beginning"},
    ),
    (
        "a document twice",
        (f"INSERT INTO issued_documents SELECT * REPLACE (9 AS position) FROM issued_documents WHERE number = '{THIRD}'",),
        {THIRD: "its number is in issued_documents more than once"},
    ),
    (
        "another tenant beside the text",
        (change("issued_documents", "tenant = 'bank'", f"number = '{THIRD}'"),),
        {THIRD: "its place says tenant bank, the document freeride"},
    ),
    (
        "a posting",
        (change("posting_versions", "debit = debit + 1", f"document = '{THIRD}' AND entry = 1"),),
        {THIRD: "posting 1 says debit"},
    ),
    (
        "a posting and its other side",
        (change("posting_versions", "debit = debit + (debit > 0), credit = credit + (credit > 0)", f"document = '{FIRST}' AND entry < 3"),),
        {FIRST: "posting 2 says credit"},
    ),
    (
        "a posting less",
        (f"ALTER TABLE posting_versions DELETE WHERE document = '{SECOND}' AND entry = 2",),
        {SECOND: "posting 2 is missing"},
    ),
    (
        "a document's postings less",
        (f"ALTER TABLE posting_versions DELETE WHERE document = '{SECOND}'",),
        {SECOND: "posting 1 is missing", THIRD: "posting 1 is not linked to the posting before it"},
    ),
    (
        "a posting of no document",
        (forged("posting_versions", "'LL-2026-0099' AS document, 99 AS position", f"document = '{THIRD}'"),),
        {"LL-2026-0099": "it is posted and not in issued_documents"},
    ),
    (
        "what finance reads",
        (forged("invoice_versions", "version + 1 AS version, net + 5 AS net", f"number = '{FIRST}'"),),
        {FIRST: "invoices says net"},
    ),
    (
        "a line that finance reads",
        (forged("invoice_line_versions", "version + 1 AS version, amount - 1 AS amount", f"number = '{FIRST}' AND line = 1"),),
        {FIRST: "invoice_lines says input amount"},
    ),
]  # fmt: skip


def test_what_was_tampered_with_is_named_and_nothing_is_issued_on_top(
    books: Ledger, example: Catalog, now: datetime
) -> None:
    sound = verify(books, files=True)
    assert (sound.documents, sound.files, sound.faults) == (4, 12, [])
    assert (sound.head.position, sound.owed) == (4, {"EUR": books.ask("SELECT (SELECT sum(gross) FROM invoices) - (SELECT sum(gross) FROM credit_notes)").rows[0][0]})  # fmt: skip
    for what, statements, named in TAMPERINGS:
        with tampered(books, *statements):
            faults = verify(books).faults
            assert all(fault.advice and not fault.unwritten for fault in faults), what
            for number, fact in named.items():
                assert any(fact in fault.broken for fault in faults if fault.document == number), (what, faults)
    for _, statements, named in (TAMPERINGS[2], TAMPERINGS[7]):
        with tampered(books, *statements):
            chain = books.ask("SELECT * FROM issued_documents ORDER BY ALL").rows
            for issuing in (
                lambda: issue_month(books, MONTH, example, now),
                lambda: take_on(books, MONTH, ["x"], example, "because", "ada", now),
                lambda: issue_agreed(books, FIRST, Agreed(Decimal("0.01"), "goodwill"), example, now),
            ):
                with pytest.raises(BooksBroken, match=f"(?s)could not issue anything.*{min(named)}: "):
                    issuing()
            assert books.ask("SELECT * FROM issued_documents ORDER BY ALL").rows == chain
    assert verify(books, files=True) == sound


def test_a_kept_file_that_was_changed_or_is_gone_is_named(books: Ledger) -> None:
    own = f"number = '{FIRST}' AND form"
    for statement, fact in (
        (change("document_file_versions", "content = base64Encode('%PDF')", f"{own} = 'pdf'"), "the kept pdf is not the one that was made"),
        (change("document_file_versions", "content = base64Encode('{}'), content_hash = lower(hex(SHA256('{}')))", f"{own} = 'json'"), "the kept json is not the one that was made"),
        (change("document_file_versions", "content = 'no base64!'", f"{own} = 'csv'"), "the kept csv is not the one that was made"),
        (f"ALTER TABLE document_file_versions DELETE WHERE {own} = 'csv'", "the kept csv is missing"),
    ):  # fmt: skip
        with tampered(books, statement):
            assert [(fault.document, fault.broken) for fault in verify(books, files=True).faults] == [(FIRST, fact)]
            assert verify(books).faults == []


def test_what_a_crash_left_unwritten_is_said_and_written_by_the_next_close(
    books: Ledger, example: Catalog, now: datetime
) -> None:
    sound, rows = verify(books), books.ask("SELECT * FROM postings ORDER BY ALL").rows
    books.execute(
        f"ALTER TABLE posting_versions DELETE WHERE document IN ('{THIRD}', '{NOTE}') SETTINGS mutations_sync = 1", ""
    )
    books.execute(f"ALTER TABLE invoice_versions DELETE WHERE number = '{THIRD}' SETTINGS mutations_sync = 1", "")
    found = verify(books).faults
    assert [(fault.document, fault.broken, fault.unwritten) for fault in found] == [
        (THIRD, "it is not posted yet", True),
        (THIRD, "invoices does not have it yet", True),
        (NOTE, "it is not posted yet", True),
    ]
    issue_month(books, MONTH, example, now + timedelta(days=1))
    assert (verify(books), books.ask("SELECT * FROM postings ORDER BY ALL").rows) == (sound, rows)

"""Whether all that was issued still is what was issued: the chain, each document, finance's rows, the postings, the kept files.

Reads a page of documents at a time, so memory does not grow with the ledger.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from billing.close.postings import FIRST, balance, document_postings, owed, posting_faults, stated
from billing.errors import BillingError
from billing.exact.money import round_currency, total
from billing.invoice.invoice import Invoice
from billing.store.clickhouse import Ledger
from billing.store.errors import BooksBroken
from billing.store.invoice.issuing import Chained, Head, Issued, chain_pages, head, link
from billing.store.invoice.printing import file_faults
from billing.store.invoice.settling import as_posting, invoice_row, line_rows

Row = Mapping[str, Any]

CHAIN: Final = (
    "restore the whole of issued_documents from a backup that verifies; the customer has the document as it was sent"
)
ROWS: Final = "they follow from the chain: delete this number's from invoice_versions and invoice_line_versions, and close its month again"
POSTINGS: Final = (
    "they follow from the chain: truncate posting_versions and close a month again, which writes all of them"
)
FILES: Final = "they follow from the document: delete this number's from document_file_versions, and they are made again when asked for"
UNWRITTEN: Final = "close its month again, which writes what is missing"
STRANGER: Final = "if the document was taken out of the chain: " + CHAIN


@dataclass(frozen=True, slots=True)
class Fault:
    """What is `broken` about the document of a number, and what to do.

    `unwritten`: it is sound, and rows that follow from it are not there yet, because a close died or goes on right now.
    """

    document: str
    broken: str
    advice: str
    unwritten: bool = False

    def __str__(self) -> str:
        return f"{self.document}: {self.broken}; {self.advice}"


@dataclass(frozen=True, slots=True)
class Verified:
    """How much was looked at, what tenants owe by currency as posted, the end of the chain, and every fault.

    Who keeps `head` elsewhere can tell later that nothing before it was taken out or changed.
    """

    documents: int
    postings: int
    files: int
    owed: Mapping[str, Decimal]
    head: Head
    faults: Sequence[Fault]


def verify(ledger: Ledger, *, files: bool = False, progress: Callable[[int, int], None] | None = None) -> Verified:
    """Look at everything issued so far, kept `files` too if asked; `progress` is told documents done and to do."""
    walk = _Walk(ledger, head(ledger), _posted(ledger), files)
    for page in chain_pages(ledger, -1):
        walk.page([one for one in page if one.position <= walk.end.position])
        if progress:
            progress(walk.documents, max(walk.end.position, walk.documents))
        if page[-1].position >= walk.end.position:
            break
    walk.faults += [Fault(row["number"], row["fact"], STRANGER) for row in ledger.read("unchained")]
    owed_now = {currency: round_currency(amount, currency) for currency, amount in sorted(walk.owed.items())}
    return Verified(walk.documents, walk.postings, walk.files, owed_now, walk.end, walk.faults)


def check_books(ledger: Ledger) -> None:
    """BooksBroken unless documents may be issued on top of what is there; what a crash left unwritten is no hindrance."""
    if faults := [str(fault) for fault in verify(ledger).faults if not fault.unwritten]:
        raise BooksBroken(faults)


def _posted(ledger: Ledger) -> int:
    last = ledger.read("posted")
    return last[0]["position"] if last else 0


@dataclass(slots=True)
class _Walk:
    """Along the chain; what comes next is held against the end of what came before, whatever was wrong with that."""

    ledger: Ledger
    end: Head
    posted: int
    with_files: bool
    last: Issued | None = None
    last_posting: str = FIRST
    documents: int = 0
    postings: int = 0
    files: int = 0
    owed: dict[str, Decimal] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    def page(self, page: Sequence[Issued]) -> None:
        asked = {"numbers": [one.number for one in page], "month": "", "tenant": ""}
        copies = _by_number(self.ledger.read("invoice_rows", asked))
        lines = _by_number(self.ledger.read("invoice_line_rows", asked))
        postings = _by_number(self.ledger.read("postings", asked), "document")
        files = _by_number(self.ledger.read("document_hashes_of", asked) if self.with_files else [])
        for one in page:
            broken, document = list(self.link(one)), None
            try:
                document = one.read()
                broken += _other_columns(one, document)
            except (BillingError, ArithmeticError, ValueError) as error:
                broken.append(str(error))
            self.note(one, broken, CHAIN)
            self.post(one, document, postings[one.number])
            if isinstance(document, Invoice):
                self.rows(one, "invoices", [invoice_row(document, one)], copies[one.number])
                self.rows(one, "invoice_lines", line_rows(document), lines[one.number])
            self.note(one, file_faults(one.document, files[one.number]), FILES)
            self.files += len(files[one.number])
            self.documents, self.last = self.documents + 1, one

    def link(self, one: Issued) -> Iterator[str]:
        before = Head(self.last.position, self.last.hash) if self.last else Head(0, "")
        name = self.last.number if self.last else "the beginning"
        if one.position != before.position + 1:
            yield f"it stands in place {one.position} right after place {before.position}: a document was taken out, put in or moved"
        if one.prev_hash != before.hash:
            yield f"its link does not lead to {name}, which stands before it"
        if one.hash != link(one.prev_hash, one.number, one.document):
            yield "its text, number or hash was changed after it was issued"

    def post(self, one: Issued, document: Chained | None, rows: Sequence[Row]) -> None:
        stored = [as_posting(row) for row in rows]
        if not stored and one.position > self.posted:
            self.note(one, ["it is not posted yet"], UNWRITTEN, unwritten=True)
            return
        broken = (
            ["its postings stand at another document's place"]
            if any(r["position"] != one.position for r in rows)
            else []
        )
        if document:
            broken += posting_faults(document_postings(document, self.last_posting), stored)
        elif any(balance(stored).values()):
            broken.append("its debits and credits differ")
        self.note(one, broken, POSTINGS)
        self.postings += len(stored)
        self.last_posting = stored[-1].hash if stored else self.last_posting
        for currency, amount in owed(stored).items():
            self.owed[currency] = total((self.owed.get(currency, Decimal(0)), amount))

    def rows(self, one: Issued, table: str, due: Sequence[Row], found: Sequence[Row]) -> None:
        if due and not found:
            self.note(one, [f"{table} does not have it yet"], UNWRITTEN, unwritten=True)
        elif len(due) != len(found):
            self.note(one, [f"{table} has {len(found)} rows of it, not {len(due)}"], ROWS)
        else:
            pairs = zip(due, found, strict=True)
            self.note(one, [f"{table} says {said}" for want, row in pairs for said in _differences(want, row)], ROWS)

    def note(self, one: Issued, broken: Sequence[str], advice: str, *, unwritten: bool = False) -> None:
        if broken:
            self.faults.append(Fault(one.number, "; ".join(broken), advice, unwritten))


def _by_number(rows: Sequence[Row], column: str = "number") -> defaultdict[str, list[Row]]:
    found: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row[column]].append(row)
    return found


def _other_columns(one: Issued, document: Chained) -> list[str]:
    """The columns beside the text, which the link does not cover."""
    said = {"number": one.number, "tenant": one.tenant, "month": one.billing_month, "issued_on": one.issued_at.date()}
    return [
        f"its place says {name} {value}, the document {its}"
        for name, value in said.items()
        if (its := getattr(document, name)) != value
    ]


def _differences(due: Row, found: Row) -> Iterator[str]:
    where = f"{due['item']} " if "item" in due else ""
    for name, wanted in due.items():
        if (said := found[name]) != wanted:
            yield f"another {name}" if name == "document" else f"{where}{name} {stated(said)}, not {stated(wanted)}"

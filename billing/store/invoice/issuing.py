"""The one chain of issued documents: a batch takes the next places whole and once, whoever else issues at the same time.

There is no transaction and no lock. Numbers follow from what is issued already, a batch is one block, and its token is the
first place that it takes: of two that want the same place one lands, and the other reads again. After that block everything
else (rows for finance, postings, files) follows from the chain, and whoever comes next completes what a crash left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import chain
from typing import Any, Final, NamedTuple, TypeVar

from billing.close.acceptance import Acceptance, read_acceptance
from billing.close.month import free_sequence, series_fault
from billing.documents.json_file import read_credit_note, read_invoice
from billing.exact.canonical import text_hash, written
from billing.invoice.credit import CreditNote
from billing.invoice.invoice import Invoice
from billing.store.clickhouse import Ledger
from billing.store.errors import DocumentMissing, IssueLost, SeriesInvalid

Document = TypeVar("Document", Invoice, CreditNote, Acceptance)
Chained = Invoice | CreditNote | Acceptance
"""What may stand in the chain."""

_CHAIN: Final = "documents"
BATCH: Final = 500
"""Documents of one block, so that the database never cuts it in two."""
_TRIES: Final = 20
_KINDS: Final[dict[type[Any], str]] = {Invoice: "invoice", CreditNote: "credit_note", Acceptance: "acceptance"}
_READERS: Final[dict[str, Callable[[bytes], Chained]]] = {"invoice": read_invoice, "acceptance": read_acceptance}


class Head(NamedTuple):
    """The last place that is taken, and the hash of what stands there."""

    position: int
    hash: str


@dataclass(frozen=True, slots=True)
class Issued:
    """A document in its place. `hash` is over `prev_hash`, number and text."""

    position: int
    kind: str
    number: str
    tenant: str
    billing_month: str
    issued_at: datetime
    document: str
    hash: str
    prev_hash: str

    def read(self) -> Chained:
        """The document, of whatever kind; the error of that kind when it was tampered with."""
        return _READERS.get(self.kind, read_credit_note)(self.document.encode())

    def invoice(self) -> Invoice:
        """The invoice, as it was sent; InvoiceInvalid when it was tampered with."""
        return read_invoice(self.document.encode())


def issue(ledger: Ledger, make: Callable[[], Sequence[Document]], now: datetime) -> list[Document]:
    """Append what `make` returns to the chain, at most BATCH documents; those that were issued, none when it returns none.

    `make` is called again whenever somebody else was first, and must read the ledger again: what it reads, numbers above
    all, is good as long as nobody else issued since. IssueLost when that never ends.
    """
    for _ in range(_TRIES):
        place = head(ledger)
        documents = list(make())[:BATCH]
        if not documents or _append(ledger, place, documents, now):
            return documents
    raise IssueLost(_TRIES)


def free_number(ledger: Ledger, kind: type[Invoice | CreditNote], series: str, year: int) -> int:
    """The first free sequence number of a series and year; SeriesInvalid when documents of that kind cannot have it."""
    if fault := numbering_fault(ledger, kind, series, year):
        raise SeriesInvalid(fault)
    taken = [row["number"] for row in ledger.read("issued_numbers", {"prefix": f"{series}-{year}-"})]
    return free_sequence(taken, series, year)


def numbering_fault(ledger: Ledger, kind: type[Invoice | CreditNote], series: str, year: int) -> str | None:
    """Why documents of that kind cannot be numbered so, given those that were; None when they can."""
    newest = [(row["kind"], row["newest"]) for row in ledger.read("issued_series")]
    return series_fault(newest, _KINDS[kind], series, year)


def issued_invoices(ledger: Ledger, month: str = "", tenant: str = "") -> list[Issued]:
    """Issued invoices of a billing month or all, of a tenant or all, in the order of issue."""
    return _issued(ledger, kind="invoice", month=month, tenant=tenant)


def issued_credit_notes(ledger: Ledger, tenant: str) -> list[CreditNote]:
    """A tenant's credit notes in the order of issue."""
    return [read_credit_note(one.document.encode()) for one in _issued(ledger, kind="credit_note", tenant=tenant)]


def issued_to(ledger: Ledger, tenant: str) -> list[Invoice | CreditNote]:
    """A tenant's invoices and credit notes in the order of issue."""
    found = (one.read() for one in _issued(ledger, tenant=tenant))
    return [one for one in found if isinstance(one, Invoice | CreditNote)]


def accepted_gaps(ledger: Ledger, month: str = "") -> list[Acceptance]:
    """Accepted gaps, in the order of acceptance: those of one month's close, or all."""
    return [read_acceptance(one.document.encode()) for one in _issued(ledger, kind="acceptance", month=month)]


def issued_document(ledger: Ledger, number: str) -> Issued:
    """The document of a number; DocumentMissing."""
    if not number or not (found := _issued(ledger, number=number)):
        raise DocumentMissing(number)
    return found[0]


def chain_pages(ledger: Ledger, after: int) -> Iterator[list[Issued]]:
    """What was issued behind a place, some hundred documents at a time, in the order of their places."""
    while page := [Issued(**row) for row in ledger.read("issued_chain", {"after": after})]:
        yield page
        after = page[-1].position


def chain_after(ledger: Ledger, position: int) -> Iterator[Issued]:
    """What was issued behind a place."""
    return chain.from_iterable(chain_pages(ledger, position))


def document_text(document: Chained) -> str:
    """The document as it stands in the chain."""
    return written(document).decode()


def head(ledger: Ledger) -> Head:
    """The end of the chain."""
    row = ledger.read("issued_head")[0]
    return Head(row["position"], row["hash"])


def link(previous: str, number: str, document: str) -> str:
    """The hash of a place in the chain: over the one before, number and text."""
    return text_hash(f"{previous}\n{number}\n{document}")


def _append(ledger: Ledger, place: Head, documents: Sequence[Chained], now: datetime) -> bool:
    placed = list(_placed(place, documents, now))
    rows = [asdict(one) | {"chain": _CHAIN} for one in placed]
    ledger.insert("issued_documents", rows, once=f"{_CHAIN}:{place.position + 1}")
    stands = ledger.read("issued_place", {"position": place.position + 1})
    return [row["hash"] for row in stands] == [placed[0].hash]


def _placed(place: Head, documents: Sequence[Chained], now: datetime) -> Iterator[Issued]:
    previous = place.hash
    for position, document in enumerate(documents, start=place.position + 1):
        kind, text, number = _KINDS[type(document)], document_text(document), document.number or ""
        linked = link(previous, number, text)
        yield Issued(position, kind, number, document.tenant, document.month, now, text, linked, previous)
        previous = linked


def _issued(ledger: Ledger, kind: str = "", month: str = "", tenant: str = "", number: str = "") -> list[Issued]:
    asked = {"kind": kind, "month": month, "tenant": tenant, "number": number}
    return [Issued(**row) for row in ledger.read("issued", asked)]

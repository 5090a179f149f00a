"""The ledger's error tree.

StoreError (a BillingError)
├── LedgerUnreachable     no ledger answers at that DSN
│   └── LedgerBusy        another process holds an embedded ledger
├── MigrationsInvalid     the schema's history and the files disagree
├── QueryRefused          a free query that is not a plain read
├── QueryFailed           the database refused a query
├── ReaderUnsafe          the engine would not keep a free query from writing
├── CloseRefused          a month cannot be closed yet, for nobody; `reasons` say until when
├── BooksBroken           issued documents or their postings are not what was issued; nothing is issued on top
├── SeriesInvalid         documents cannot be numbered in the catalog's series
├── IssueLost             others kept taking the place in the chain of documents
├── DocumentMissing       no issued document has that number
├── DraftMissing          no draft of that month and tenant is in the ledger, or several are
├── GapMissing            no open gap of the month has that id, or several begin so
├── EntryMissing          no quarantine entry has that id, or several begin so
└── ReasonMissing         a quarantine entry is not released without a reason
"""

from __future__ import annotations

from collections.abc import Sequence

from billing.errors import BillingError


class StoreError(BillingError):
    """Base of what the ledger raises."""


class LedgerUnreachable(StoreError):
    """No ledger answers at `where`."""

    def __init__(self, where: str, fact: str, advice: str) -> None:
        self.where, self.fact = where, fact
        super().__init__(f"could not open ledger {where}: {fact}; {advice}")


class LedgerBusy(LedgerUnreachable):
    """An embedded ledger belongs to one process at a time, and another one has it."""

    def __init__(self, where: str, holder: str, pid: str) -> None:
        self.pid = pid
        """Its process id; empty when nobody knows."""
        super().__init__(
            where,
            holder,
            "let it finish (or stop it), wait longer (LORALEDGER_WAIT_S), or use a ClickHouse server for shared access",
        )


class MigrationsInvalid(StoreError):
    """Migrations are misnumbered, or a landed one was changed; `problems` lists every one."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = list(problems)
        super().__init__("could not migrate the ledger: " + "; ".join(problems))


class QueryRefused(StoreError):
    """The free SQL door only reads."""

    def __init__(self, fact: str) -> None:
        super().__init__(f"could not run query: {fact}; only one statement that reads is allowed")


class ReaderUnsafe(StoreError):
    """The embedded engine runs with all rights, so that no query of anybody is let in."""

    def __init__(self, where: str) -> None:
        super().__init__(
            f"could not read ledger {where}: this process has it open with all rights; close it first, then open the reader"
        )


class QueryFailed(StoreError):
    """The database refused a query; `fact` is its own first sentence."""

    def __init__(self, what: str, fact: str) -> None:
        self.what, self.fact = what, fact
        super().__init__(f"could not run {what}: {fact}")


class CloseRefused(StoreError):
    """A billing month cannot be closed yet."""

    def __init__(self, month: str, reasons: Sequence[str]) -> None:
        self.month, self.reasons = month, list(reasons)
        super().__init__(f"could not close {month}:\n" + "\n".join(f"  {line}" for line in reasons))


class BooksBroken(StoreError):
    """Issued documents, what finance reads of them, or their postings were changed; `faults` name each, and what to do."""

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = list(faults)
        super().__init__(
            "could not issue anything: the books are not as they were issued (`loraledger verify` looks again)\n"
            + "\n".join(f"  {fault}" for fault in faults)
        )


class SeriesInvalid(StoreError):
    """The catalog's number series contradicts the numbers that were given; nothing was issued."""

    def __init__(self, fact: str) -> None:
        super().__init__(f"could not issue anything: {fact}")


class IssueLost(StoreError):
    """Somebody else issued first each time; nothing of this attempt was issued."""

    def __init__(self, tries: int) -> None:
        super().__init__(
            f"could not issue: the next place in the chain of documents was taken {tries} times; run it again, and see that "
            f"issued_documents was not truncated"
        )


class DocumentMissing(StoreError):
    """No issued document has that number."""

    def __init__(self, number: str) -> None:
        self.number = number
        super().__init__(
            f"could not find {number}: no issued document has that number; `loraledger invoice MONTH` lists them"
        )


class DraftMissing(StoreError):
    """Not one draft of `month` is meant; `tenants` have one."""

    def __init__(self, month: str, tenant: str | None, tenants: Sequence[str]) -> None:
        self.month, self.tenants = month, list(tenants)
        of = f"the draft of {tenant}, {month}" if tenant else f"one draft of {month}"
        have = (
            f"name one with --tenant: {', '.join(tenants)}" if tenants else f"`loraledger invoice {month}` writes them"
        )
        super().__init__(f"could not find {of}: {have}")


class GapMissing(StoreError):
    """Not one open gap of `month`: `matches` of them begin with `wanted`."""

    def __init__(self, wanted: str, matches: int, month: str) -> None:
        self.wanted, self.matches = wanted, matches
        fact = f"{matches} gaps begin so; give more of the id" if matches else "no open gap has that id"
        super().__init__(f"could not accept {wanted!r}: {fact}; `loraledger reconcile {month}` lists them")


class EntryMissing(StoreError):
    """Not one quarantine entry: `matches` of them begin with `wanted`."""

    def __init__(self, wanted: str, matches: int) -> None:
        self.wanted, self.matches = wanted, matches
        fact = f"{matches} entries begin so; give more of the id" if matches else "no quarantine entry has that id"
        super().__init__(f"could not find {wanted!r}: {fact}; `loraledger quarantine --all` lists them")


class ReasonMissing(StoreError):
    """Who gives something up says why."""

    def __init__(self) -> None:
        super().__init__("could not release: the reason is empty; say why with --reason, it is kept with the entry")

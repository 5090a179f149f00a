"""The billing room's error tree.

    BillingError
    ├── AmountInvalid       a sum cannot be split or rounded as asked
    ├── PeriodInvalid       not a billing month, or not a known time zone
    ├── EngineHourInvalid   facts of different engines or hours were priced as one
    ├── RowsInvalid         rows to rate are another tenant's, there twice, or contradict themselves
    ├── PriceMissing        the price book has no price for used GPU time
    ├── BookMissing         no version of the price book held then, as far as was known then
    ├── ExchangeMissing     the price book has no exchange rate of the billing month
    ├── PayerMissing        the price book does not say who pays for a status
    ├── InvoiceInvalid      an invoice contradicts itself, or was changed after issue
    ├── CreditInvalid       a credit note contradicts itself, or would credit more than its invoice charged
    ├── PostingInvalid      postings do not balance, or do not carry on the chain before them
    ├── ExplanationInvalid  what is behind an invoice line does not belong to it
    ├── ExportInvalid       FOCUS rows contradict the document they were made from, or cannot be made
    ├── AcceptanceInvalid   a gap cannot be taken on by the provider as asked
    └── DocumentFailed      a document could not be written from a sound invoice

`billing.cost.facts.NotConserved` stands beside it: it is a fault in measured facts, not in their pricing.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime


class BillingError(Exception):
    """Base of what billing raises."""


class AmountInvalid(BillingError):
    """A sum cannot be split or rounded as asked."""


class PeriodInvalid(BillingError):
    """Not a billing month, or not a known time zone."""


class EngineHourInvalid(BillingError):
    """Facts that do not belong to one engine and one UTC hour were handed over as one."""


class RowsInvalid(BillingError):
    """Rows to rate are another tenant's, there twice, or contradict themselves."""


class PriceMissing(BillingError):
    """No price covers this GPU type at this moment; a missing price is never replaced by another."""

    def __init__(
        self, gpu_type: str, at: datetime, book: str, tenant: str | None = None, adapter: str | None = None
    ) -> None:
        self.gpu_type, self.at, self.book, self.tenant, self.adapter = gpu_type, at, book, tenant, adapter
        used_by = "" if tenant is None else f" used by tenant {tenant}, adapter {adapter or 'base'}"
        super().__init__(
            f"could not price GPU time{used_by}: price book {book} has no price for GPU type {gpu_type} at {at.isoformat()}; "
            f"add an entry to prices.gpu_hours that starts no later"
        )


class BookMissing(BillingError):
    """No version of the price book held at that event time, as known at that knowledge time."""

    def __init__(self, at: datetime, known_at: datetime) -> None:
        self.at, self.known_at = at, known_at
        super().__init__(
            f"could not price {at.isoformat()}: no price book was effective then and known at {known_at.isoformat()}; "
            f"add the version that held to earlier_prices"
        )


class ExchangeMissing(BillingError):
    """No exchange rate is dated in the billing month; another month's is never used."""

    def __init__(self, tenant: str, base: str, quote: str, month: str, book: str) -> None:
        self.tenant, self.base, self.quote, self.month, self.book = tenant, base, quote, month, book
        super().__init__(
            f"could not invoice tenant {tenant} in {quote}: price book {book} has no rate from {base} dated in {month}; "
            f"add an entry to prices.fx"
        )


class PayerMissing(BillingError):
    """The price book's `charged` table does not name this status."""

    def __init__(self, tenant: str, status: str, book: str) -> None:
        self.tenant, self.status, self.book = tenant, status, book
        super().__init__(
            f"could not rate tenant {tenant}: price book {book} does not say who pays for status {status!r}; add it to prices.charged"
        )


class PastTermsChanged(BillingError):
    """A tenant's catalog entry says of the past what was not known then, and nobody said that it is to be restated."""

    def __init__(self, tenant: str, edits: Sequence[str]) -> None:
        self.tenant, self.edits = tenant, list(edits)
        super().__init__(f"could not rate tenant {tenant} by its entry in the catalog: {'; '.join(edits)}")


class InvoiceInvalid(BillingError):
    """An invoice contradicts itself, cannot be issued, or is not what was issued."""


class CreditInvalid(BillingError):
    """A credit note contradicts itself, cannot be issued, or would credit more than its invoice charged."""


class PostingInvalid(BillingError):
    """Postings do not balance, or do not carry on the chain before them."""


class ExplanationInvalid(BillingError):
    """Attempts or rows were handed over that do not belong to the invoice they should explain."""


class ExportInvalid(BillingError):
    """FOCUS rows contradict the document they were made from, or there is nothing to export."""


class AcceptanceInvalid(BillingError):
    """A gap cannot be accepted: there is no reason, or nothing that a provider could carry."""


class DocumentFailed(BillingError):
    """A document could not be written from a sound invoice; `faults` are its texts that cannot stand in one, by field."""

    def __init__(self, message: str, faults: Sequence[str] = ()) -> None:
        self.faults = list(faults)
        super().__init__(message)

"""The billing room's error tree.

    BillingError
    ├── AmountInvalid       a sum cannot be split or rounded as asked
    ├── CurrencyMismatch    two currencies met in one amount
    ├── PeriodInvalid       not a billing month, or not a known time zone
    ├── EngineHourInvalid   facts of different engines or hours were priced as one
    ├── RowsInvalid         rows to rate are another tenant's, there twice, or contradict themselves
    ├── PriceMissing        the price book has no price for used GPU time
    ├── PayerMissing        the price book does not say who pays for a status
    ├── InvoiceInvalid      an invoice contradicts itself, or was changed after issue
    └── DocumentFailed      a document could not be written from a sound invoice

`billing.facts.NotConserved` stands beside it: it is a fault in measured facts, not in their pricing.
"""

from __future__ import annotations

from datetime import datetime


class BillingError(Exception):
    """Base of what billing raises."""


class AmountInvalid(BillingError):
    """A sum cannot be split or rounded as asked."""


class CurrencyMismatch(BillingError):
    """Two currencies met in one amount; billing never converts silently."""

    def __init__(self, what: str, expected: str, found: str) -> None:
        self.what, self.expected, self.found = what, expected, found
        super().__init__(
            f"could not price {what}: it is in {found}, the price book is in {expected}; give both the same currency"
        )


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


class PayerMissing(BillingError):
    """The price book's `charged` table does not name this status."""

    def __init__(self, tenant: str, status: str, book: str) -> None:
        self.tenant, self.status, self.book = tenant, status, book
        super().__init__(
            f"could not rate tenant {tenant}: price book {book} does not say who pays for status {status!r}; add it to prices.charged"
        )


class InvoiceInvalid(BillingError):
    """An invoice contradicts itself, cannot be issued, or is not what was issued."""


class DocumentFailed(BillingError):
    """A document could not be written from a sound invoice."""

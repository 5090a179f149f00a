"""Invoices and credit notes as JSON: the form other programs read, and in which they can be checked and read back."""

from __future__ import annotations

import json
from typing import Final, TypeVar

from pydantic import TypeAdapter, ValidationError

from billing.errors import BillingError, CreditInvalid, InvoiceInvalid
from billing.exact.canonical import to_plain
from billing.invoice.credit import CreditNote
from billing.invoice.invoice import Invoice

T = TypeVar("T", Invoice, CreditNote)
_INVOICE: Final = TypeAdapter(Invoice)
_CREDIT_NOTE: Final = TypeAdapter(CreditNote)


def read_invoice(data: bytes) -> Invoice:
    """The invoice that `canonical.written` wrote.

    InvoiceInvalid when it is not one, says anything that `Invoice` does not hold, its sums disagree, or it was changed
    after issue.
    """
    return _read(_INVOICE, data, "invoice", InvoiceInvalid)


def read_credit_note(data: bytes) -> CreditNote:
    """The credit note that `canonical.written` wrote; CreditInvalid under the conditions of `read_invoice`."""
    return _read(_CREDIT_NOTE, data, "credit note", CreditInvalid)


def _read(form: TypeAdapter[T], data: bytes, what: str, failure: type[BillingError]) -> T:
    try:
        value = form.validate_json(data)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc'])) or '(top)'}: {e['msg']}" for e in error.errors())
        raise failure(f"could not read {what}: {problems}") from error
    plain = json.loads(data)
    if plain != to_plain(value):
        raise failure(
            f"could not read {what} {plain.get('number')}: it is not in the form in which such documents are written"
        )
    value.check()
    return value

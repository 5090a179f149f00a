"""An invoice as JSON: the form other programs read, and the form in which it can be checked and read back."""

from __future__ import annotations

import json

from pydantic import TypeAdapter, ValidationError

from billing.canonical import to_plain
from billing.errors import InvoiceInvalid
from billing.invoice import Invoice

_INVOICE = TypeAdapter(Invoice)


def invoice_json(invoice: Invoice) -> bytes:
    """UTF-8, indented, keys in the order of `Invoice`, decimals as strings, instants in UTC; ends with a newline."""
    return json.dumps(to_plain(invoice), indent=2, ensure_ascii=False).encode() + b"\n"


def read_invoice(data: bytes) -> Invoice:
    """The invoice that `invoice_json` wrote.

    InvoiceInvalid when it is not one, says anything that `Invoice` does not hold, its sums disagree, or it was changed
    after issue.
    """
    try:
        invoice = _INVOICE.validate_json(data)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc'])) or '(top)'}: {e['msg']}" for e in error.errors())
        raise InvoiceInvalid(f"could not read invoice: {problems}") from error
    if json.loads(data) != to_plain(invoice):
        raise InvoiceInvalid(
            f"could not read invoice {invoice.number}: it is not in the form in which invoices are written"
        )
    invoice.check()
    return invoice

"""`loraledger statement`: what a tenant was invoiced and credited, and what is open."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from loraledger import console
from loraledger.commands.options import CatalogFile, Dsn, Home, Json, open_books

if TYPE_CHECKING:
    from billing.invoice.statement import AccountEntry, TenantAccount


def statement(
    tenant: Annotated[str, typer.Argument(help="Id of a tenant, also of one that the catalog no longer has.")],
    until: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%d"], help="Up to and on this day (UTC); today by default.", show_default=False),
    ] = None,
    catalog: CatalogFile = None,
    home: Home = None,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Statement of a tenant's account: every invoice and credit note with tax, the balance after each, what is open and overdue.

    Open is what was invoiced less what was credited. Payments are not kept in the ledger: what was paid has to be taken off.
    """
    from billing.exact.canonical import to_plain
    from billing.invoice.statement import accounts
    from billing.store.invoice.issuing import issued_to

    books = open_books(home, catalog, dsn)
    day = (until or books.clock()).date()
    with books.open() as ledger:
        found = accounts(tenant, issued_to(ledger, tenant), day)
    if not found and books.catalog.tenant(tenant) is None:
        raise console.fail(
            f"could not state the account of {tenant}: no tenant of that id is in the catalog, nor in the ledger",
            console.INVALID,
        )
    if json:
        console.say_json(to_plain(found))
    elif not found:
        console.out.print(f"{tenant} was sent no document up to {day.isoformat()}")
    else:
        for account in found:
            _show(account)


def _show(account: TenantAccount) -> None:
    columns = ("document", "issued", "month", "what", "due", "amount", "balance", "open")
    console.table(
        f"Account of {account.tenant} on {account.as_of.isoformat()}, {account.currency} with tax",
        columns,
        [_cells(entry) for entry in account.entries],
        left=5,
        total=("together", "", "", "", "", console.amount(account.open), "", console.amount(account.open)),
    )
    console.out.print(
        f"invoiced {console.amount(account.invoiced)}, credited {console.amount(account.credited)}, open "
        f"{console.amount(account.open, account.currency)}, of which {console.amount(account.overdue)} was due before this day; "
        "payments are not kept here"
    )


def _cells(entry: AccountEntry) -> list[str]:
    what = "invoice" if entry.kind == "invoice" else f"credit note on {entry.invoice}"
    due = entry.due_on.isoformat() if entry.due_on else ""
    amounts = (console.amount(entry.amount), console.amount(entry.balance))
    left = "" if entry.open is None else console.amount(entry.open)
    return [entry.number, entry.booked_on.isoformat(), entry.month, what, due, *amounts, left]

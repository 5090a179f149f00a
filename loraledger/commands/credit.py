"""`loraledger credit`: what was issued beside what is known now, and the credit notes that follow from it."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from billing.errors import AmountInvalid, PeriodInvalid
from billing.exact.amount import read_amount
from billing.exact.periods import BillingMonth
from loraledger import console
from loraledger.commands.options import CatalogFile, Dsn, Home, Json, open_books

if TYPE_CHECKING:
    from billing.invoice.corrections import Difference
    from billing.invoice.credit import CreditNote
    from billing.store.clickhouse import Ledger
    from billing.store.invoice.credits import Agreed
    from loraledger.books import Books

Reason = Literal["usage_corrected", "price_corrected", "duplicate", "dispute", "goodwill", "void"]


def credit(
    target: Annotated[
        str,
        typer.Argument(
            metavar="INVOICE|MONTH", help="Number of an issued invoice, or a month for all of its invoices."
        ),
    ],
    issue: Annotated[
        bool, typer.Option("--issue", help="Issue what is proposed; without it nothing is written.")
    ] = False,
    reason: Annotated[Reason, typer.Option(help="Why; it is on the credit note.")] = "usage_corrected",
    net: Annotated[
        str | None,
        typer.Option(help="Credit this net amount by agreement, whatever the facts say.", show_default=False),
    ] = None,
    request: Annotated[
        str | None,
        typer.Option(help="Credit by agreement what the invoice charges for this request.", show_default=False),
    ] = None,
    void: Annotated[bool, typer.Option("--void", help="Credit all that is left of the invoice.")] = False,
    explanation: Annotated[str | None, typer.Option(help="A sentence for the customer.", show_default=False)] = None,
    catalog: CatalogFile = None,
    home: Home = None,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Compare an invoice as issued with the month as now known, and propose credit notes for what was charged too much.

    What was charged too little is not credited: it comes as a correction on the tenant's next invoice by itself. Issued
    again, nothing is issued: what was credited is no longer due.
    """

    books = open_books(home, catalog, dsn)
    if (void, net is not None, request is not None).count(True) > 1:
        raise console.fail("could not credit: give one of --net, --request and --void", console.INVALID)
    if void or net is not None or request is not None:
        from billing.store.invoice.credits import Agreed

        what = Agreed(_amount(net), "void" if void else reason, explanation, request)
        _agreed(books, target, what, issue=issue, json=json)
    else:
        _known(books, target, reason, explanation, issue=issue, json=json)


def _known(books: Books, target: str, reason: Reason, explanation: str | None, *, issue: bool, json: bool) -> None:
    from billing.errors import DocumentFailed
    from billing.store.invoice.credits import compare, issue_proposed, propose

    month, now = _month(books, target), books.clock()
    with console.err.status(f"deriving {month} as now known"):
        red = books.derive(month)
    for line in red:
        console.err.print(f"[yellow]warning:[/] {line}")
    said, failures = [], []
    with books.open() as ledger:
        for number in _numbers(ledger, target):
            try:
                found = compare(ledger, number, books.catalog, now)
                if issue:
                    notes = issue_proposed(ledger, number, books.catalog, now, reason, explanation, books.press)
                else:
                    notes = propose(ledger, number, books.catalog, now, reason, explanation)
                said.append((found, notes, _files(books, ledger, number) if issue else []))
            except DocumentFailed as error:
                failures.append(str(error))
    if json:
        console.say_json([_plain(*one) for one in said])
    else:
        for found, notes, files in said:
            _show(found)
            _show_notes(notes, files)
            if found.outcome == "correction":
                console.out.print(
                    f"{found.net.value:,} {found.net.currency} too little: a correction on the next invoice"
                )
    if failures:
        raise console.fail("; ".join(failures))


def _agreed(books: Books, number: str, what: Agreed, *, issue: bool, json: bool) -> None:
    from billing.store.invoice.credits import agreed, issue_agreed

    now = books.clock()
    with books.open() as ledger:
        if issue:
            notes = issue_agreed(ledger, number, what, books.catalog, now, books.press)
        else:
            notes = [agreed(ledger, number, what, now)]
        files = _files(books, ledger, number) if issue else []
    if json:
        console.say_json({"invoice": number, "credit_notes": [_note(note) for note in notes], "files": files})
        return
    _show_notes(notes, files)
    if not notes:
        console.out.print("nothing issued: this credit was given before; say in --explanation why it is another")


def _amount(net: str | None) -> Decimal | None:
    try:
        return None if net is None else read_amount(net)
    except AmountInvalid as error:
        raise console.fail(f"could not credit: {error}", console.INVALID) from None


def _month(books: Books, target: str) -> str:
    from billing.store.invoice.issuing import issued_document

    try:
        return BillingMonth(target).text
    except PeriodInvalid:
        with books.open() as ledger:
            return issued_document(ledger, target).billing_month


def _numbers(ledger: Ledger, target: str) -> list[str]:
    from billing.store.invoice.issuing import issued_invoices

    return [one.number for one in issued_invoices(ledger, month=target)] or [target]


def _files(books: Books, ledger: Ledger, number: str) -> list[str]:
    """Write every credit note on the invoice, also those that a full disk left out before."""
    from billing.documents.press import Paper
    from billing.store.invoice.issuing import issued_credit_notes, issued_document
    from billing.store.invoice.printing import kept_files
    from pipelines.documents import write_credit_notes

    notes = issued_credit_notes(ledger, issued_document(ledger, number).tenant)
    papers = [Paper(note, kept_files(ledger, note, books.press)) for note in notes if note.invoice == number]
    written = write_credit_notes(books.settings.out, papers)
    if written.failures:
        raise console.fail("; ".join(written.failures))
    return [str(path) for path in written.paths]


def _show(found: Difference) -> None:
    original, currency = found.original, found.original.currency
    first = {line.position: line.amount for line in original.lines}
    rows, sums = [], [found.nothing] * 3
    for change in found.changes:
        issued = first.get(change.stakes[0].line.position) if change.stakes else None
        amounts = (change.agreed, change.standing, change.known)
        sums = [whole + one for whole, one in zip(sums, amounts, strict=True)]
        cells = (console.amount(one.value) for one in (*amounts, change.amount))
        rows.append([change.line.description, console.amount(issued), *cells])
    together = (original.net, *(one.value for one in (*sums, found.net)))
    console.table(
        f"{original.number}, {original.tenant}, {original.month}, net in {currency}",
        ("item", "as issued", "agreed", "stands", "as now known", "difference"),
        rows,
        total=("together", *map(console.amount, together)),
    )


def _show_notes(notes: list[CreditNote], files: list[str]) -> None:
    for note in notes:
        what = note.number or "proposed, issue it with --issue"
        console.out.print(
            f"credit note on {note.invoice} ({what}): {note.net:,} net, {note.gross:,} {note.currency} with tax; {note.remaining_gross:,} of "
            f"{note.invoice_gross:,} stands"
        )
    for file in files:
        console.out.print(file)


def _plain(found: Difference, notes: list[CreditNote], files: list[str]) -> dict[str, Any]:
    return {
        "invoice": found.original.number,
        "tenant": found.original.tenant,
        "month": found.original.month,
        "currency": found.original.currency,
        "outcome": found.outcome,
        "net": found.net.value,
        "items": [
            {
                "item": change.line.kind.value,
                "description": change.line.description,
                "agreed": change.agreed.value,
                "stands": change.standing.value,
                "known": change.known.value,
                "difference": change.amount.value,
            }
            for change in found.changes
        ],
        "credit_notes": [_note(note) for note in notes],
        "files": files,
    }


def _note(note: CreditNote) -> dict[str, Any]:
    told = ("number", "invoice", "reason", "net", "tax", "gross", "remaining_gross")
    return {name: getattr(note, name) for name in told}

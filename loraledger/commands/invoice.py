"""`loraledger invoice MONTH` drafts a month; `loraledger invoice explain NUMBER|MONTH` opens an invoice or a draft to its requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from billing.errors import PeriodInvalid
from billing.exact.periods import BillingMonth
from loraledger import console
from loraledger.commands.books import Month, make
from loraledger.commands.options import CatalogFile, Dsn, Home, Json, open_books, whole

if TYPE_CHECKING:
    from billing.invoice.explain import AttemptTime, Explained, Share
    from billing.invoice.invoice import Invoice
    from billing.invoice.lines import Line
    from billing.store.clickhouse import Ledger


class DraftUnlessNamed(TyperGroup):
    """What follows `invoice` and is none of its commands is a month to draft."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the command `draft` where the first word is none of the group's commands."""
        if args and args[0] not in self.commands and args[0] != "--help":
            args = ["draft", *args]
        return super().parse_args(ctx, args)


group = typer.Typer(
    cls=DraftUnlessNamed,
    help="Write draft invoices of a month (`invoice 2026-10`), or explain one to its requests.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@group.command()
def draft(month: Month, catalog: CatalogFile = None, home: Home = None, dsn: Dsn = None, json: Json = False) -> None:
    """Write draft invoices (watermarked, unnumbered) of what the ledger knows of the month so far."""

    make(open_books(home, catalog, dsn), BillingMonth(month).text, False, json)


@group.command()
def explain(
    target: Annotated[
        str,
        typer.Argument(
            metavar="NUMBER|MONTH", help="Number of an issued invoice, or a month for a draft of it as last written."
        ),
    ],
    tenant: Annotated[
        str | None, typer.Option(help="Whose draft; needless where there is only one.", show_default=False)
    ] = None,
    request: Annotated[
        str | None, typer.Option(help="Only this request: the lines it is on.", show_default=False)
    ] = None,
    line: Annotated[
        int | None,
        typer.Option(parser=whole(), metavar="NUMBER", help="Only this line of the invoice.", show_default=False),
    ] = None,
    catalog: CatalogFile = None,
    home: Home = None,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Open every cent of an invoice or a draft to the requests it is for; exact, and of that tenant alone.

    Each line's shares and its rounding sum to the line. What belongs to no request says why. With --request also the engine
    time of its attempts, and how it would be if all who used a stored prefix had shared it, which is on no invoice.
    """
    from billing.invoice.explain import explain_request
    from billing.store.invoice.explain import explain as opened
    from billing.store.invoice.explain import request_times

    with open_books(home, catalog, dsn).open() as ledger:
        invoice = _document(ledger, target, tenant)
        lines = opened(ledger, invoice)
        times = [] if request is None else request_times(ledger, invoice.tenant, request)
    chosen = [one for one in lines if line in (None, one.line.position)]
    name = invoice.number or f"the draft of {invoice.tenant}, {invoice.month}"
    if request is not None:
        _show_request(name, request, explain_request(chosen, request), times, json=json)
    elif json:
        console.say_json([_plain(one) for one in chosen])
    else:
        for one in chosen:
            _show_line(one)


def _document(ledger: Ledger, target: str, tenant: str | None) -> Invoice:
    """The issued invoice of a number, or the draft of a month."""
    from billing.store.invoice.explain import kept_draft
    from billing.store.invoice.issuing import issued_document

    try:
        month = BillingMonth(target).text
    except PeriodInvalid:
        return issued_document(ledger, target).invoice()
    return kept_draft(ledger, month, tenant)


def _show_request(
    number: str, request: str, found: list[tuple[Line, Share]], times: list[AttemptTime], *, json: bool
) -> None:
    if json:
        of = {time.attempt: {"measured_ns": time.measured_ns, "reshare_ns": time.reshare_ns} for time in times}
        shares = [(line, share, of.get(share.attempt, {}) if share.attempt else {}) for line, share in found]
        console.say_json(
            [{"line": line.position, "item": line.kind.value, **_share(share), **time} for line, share, time in shares]
        )
    elif not found:
        raise console.fail(f"request {request} is on no line of {number}")
    else:
        rows = [[str(line.position), line.description, *_cells(share)[1:]] for line, share in found]
        console.table(f"request {request} on {number}", ("line", "item", "quantity", "amount"), rows, left=2)
        rows = [
            [f"{time.attempt.emitter}:{time.attempt.seq}", *map(_ms, (time.measured_ns, time.reshare_ns, _both(time)))]
            for time in times
        ]
        columns = ("attempt", "measured, ms", "shared prefixes", "as if shared")
        console.table("engine time; only what was measured is on the invoice", columns, rows)


def _both(time: AttemptTime) -> int | None:
    return None if time.measured_ns is None else time.measured_ns + time.reshare_ns


def _ms(ns: int | None) -> str:
    return "-" if ns is None else f"{ns / 1e6:.3f}"


def _show_line(one: Explained) -> None:
    rows = [_cells(share) for share in one.shares]
    rows.append(["rounding", "", f"{one.rounding:f}"])
    title = f"line {one.line.position}: {one.line.description}"
    total = ("together", f"{one.line.quantity:f}", f"{one.line.amount:f}")
    console.table(title, ("request", f"quantity, {one.line.unit}", "amount"), rows, total=total)


def _cells(share: Share) -> list[str]:
    who = share.attempt.request_id if share.attempt else f"({share.why})"
    return [who, f"{share.quantity:f}", f"{share.amount:f}"]


def _plain(one: Explained) -> dict[str, Any]:
    return {
        "line": one.line.position,
        "item": one.line.kind.value,
        "description": one.line.description,
        "amount": one.line.amount,
        "rounding": one.rounding,
        "shares": [_share(share) for share in one.shares],
    }


def _share(share: Share) -> dict[str, Any]:
    attempt = share.attempt
    return {
        "request": attempt.request_id if attempt else None,
        "attempt": f"{attempt.emitter}:{attempt.seq}" if attempt else None,
        "why": share.why,
        "quantity": share.quantity,
        "amount": share.amount,
    }

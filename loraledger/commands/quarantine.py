"""`loraledger quarantine`: what could not be booked and why; tried again, or given up with a reason."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from loraledger import console
from loraledger.commands.options import CatalogFile, Dsn, Home, Json, open_books

if TYPE_CHECKING:
    from billing.store.intake.quarantine import Waiting

_SHOWN = 12
"""Digits of an id: enough to name an entry, few enough to type."""

Ids = Annotated[
    list[str] | None, typer.Argument(metavar="ID...", help="Ids of entries, or their first digits.", show_default=False)
]

group = typer.Typer(rich_markup_mode=None)


@group.callback(invoke_without_command=True)
def entries(
    ctx: typer.Context,
    everything: Annotated[
        bool, typer.Option("--all", help="Also those that were accepted later, or released.")
    ] = False,
    catalog: CatalogFile = None,
    home: Home = None,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """List what could not be booked, and why. Whom an open entry names gets no invoice of its month."""
    from billing.store.intake.quarantine import listed

    if ctx.invoked_subcommand is not None:
        return
    with open_books(home, catalog, dsn).open() as ledger:
        found = listed(ledger, resolved=everything)
    if json:
        console.say_json([asdict(entry) for entry in found])
    else:
        _show(found)


@group.command()
def release(
    ids: Ids,
    reason: Annotated[str, typer.Option(help="Why it is given up; kept with the entry.")],
    catalog: CatalogFile = None,
    home: Home = None,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Give entries up for good. They are kept with the reason (`--all` lists them) and block nobody any more."""
    from billing.store.intake.quarantine import release as give_up

    books = open_books(home, catalog, dsn)
    with books.open() as ledger:
        done = give_up(ledger, ids or [], reason, books.clock())
    if json:
        console.say_json({"released": [entry.id for entry in done]})
    else:
        console.out.print(f"{len(done)} released of {len(ids or [])} named; the others were resolved before")


@group.command()
def retry(ids: Ids = None, catalog: CatalogFile = None, home: Home = None, dsn: Dsn = None, json: Json = False) -> None:
    """Take entries whose cause is gone: those named, or all. Exit code 1 when one still waits."""
    from billing.store.intake.ingest import retry as again

    books = open_books(home, catalog, dsn)
    with books.open() as ledger:
        taken, waiting = again(ledger, ids or [], books.catalog, books.clock())
    if json:
        console.say_json({"taken": [entry.id for entry in taken], "waiting": [asdict(entry) for entry in waiting]})
    else:
        console.out.print(f"{len(taken)} taken, {len(waiting)} still wait")
        if waiting:
            _show(waiting)
    if waiting:
        raise SystemExit(console.FAILED)


def _show(found: list[Waiting]) -> None:
    """Two lines each: reasons are sentences, and a table would cut them."""
    for entry in found:
        when = f"{entry.event_time:%Y-%m-%d %H:%M:%S} UTC" if entry.event_time else "time unknown, touches every month"
        where = ", ".join(text for text in (entry.tenant, when, entry.source) if text)
        console.out.print(f"{entry.id[:_SHOWN]}  {where}: {entry.resolution or 'open'}", markup=False)
        console.out.print(f"  {' '.join(entry.reason.split())}", markup=False)
    if not found:
        console.out.print("nothing is in quarantine")

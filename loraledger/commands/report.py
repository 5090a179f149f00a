"""`loraledger report | close-report`: a month on one page, for tenants, finance and on-call; its close, for who approves it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from loraledger import console
from loraledger.commands.books import Month
from loraledger.commands.options import CatalogFile, Dsn, Home, Json, open_books


def report(
    month: Annotated[
        str | None, typer.Argument(help="Billing month, as 2026-10; the running one by default.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The file; report.html under the home by default.", show_default=False),
    ] = None,
    prometheus: Annotated[
        str | None, typer.Option(help="Address of a Prometheus that has the active alerts.", show_default=False)
    ] = None,
    home: Home = None,
    catalog: CatalogFile = None,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Write one self-contained HTML page of a month: promises, cost terms, margin, residency, cold starts, active alerts."""
    from billing.exact.periods import BillingMonth
    from loraledger.page.write import write_report

    books = open_books(home, catalog, dsn)
    chosen = BillingMonth(month or books.current_month()).text
    path = out or books.settings.home / "report.html"
    with console.err.status(f"report of {chosen}"):
        page = write_report(books, chosen, path, prometheus)
    console.warn(books.unseen())
    if page.alerts.trouble:
        console.err.print(f"[yellow]warning:[/] {page.alerts.trouble}", markup=True)
    if json:
        console.say_json({"month": chosen, "file": str(path), "alerts": len(page.alerts.active)})
    else:
        console.out.print(str(path))


def close_report(
    month: Month,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The page; close-MONTH.html under the home by default.", show_default=False),
    ] = None,
    home: Home = None,
    catalog: CatalogFile = None,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Write the close of a month as one HTML page to read, print and sign, or with --json as JSON: documents and drafts, terms that
    changed since the last close, gaps and all else that was found, late facts, tenants gone, and what the provider took on and who for
    it. Derives first what is not derived yet; issues nothing."""
    from billing.exact.periods import BillingMonth
    from billing.store.close_report import close_report as asked
    from loraledger.page.close import render_close

    books, chosen = open_books(home, catalog, dsn), BillingMonth(month).text
    path = out or books.settings.home / f"close-{chosen}.html"
    with console.err.status(f"close report of {chosen}"):
        derived = books.derive_missing(chosen)
        with books.open() as ledger:
            found = asked(ledger, chosen, books.catalog, books.clock())
    if derived:
        console.err.print(f"{chosen} was derived first: {derived}")
    if json:
        console.say_json(found.told())
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render_close(found), encoding="utf-8")
    console.out.print(str(path))
    for tenant, blocks in found.waiting.items():
        console.warn(f"{tenant} waits: {'; '.join(block.what for block in blocks)}")

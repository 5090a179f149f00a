"""`loraledger report`: a month on one page, for tenants, finance and on-call."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from loraledger import console
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

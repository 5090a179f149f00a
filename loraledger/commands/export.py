"""`loraledger export focus`: what was invoiced, and what the GPUs cost, as FOCUS files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from billing.exact.periods import BillingMonth
from loraledger import console
from loraledger.commands.options import CatalogFile, Dsn, Home, Json, open_books

if TYPE_CHECKING:
    from billing.store.clickhouse import FileForm

_FORMS: Final[dict[str, FileForm]] = {".csv": "csv", ".parquet": "parquet"}

group = typer.Typer(help="Write datasets for other tools.", no_args_is_help=True, rich_markup_mode=None)
group.callback()(lambda: None)  # with a callback, an only command keeps its name


@group.command()
def focus(
    month: Annotated[str, typer.Option(help="Billing month, as 2026-10.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write; .csv or .parquet.")],
    version: Annotated[Literal["1.2", "1.4"], typer.Option(help="Version of FOCUS.")] = "1.4",
    dataset: Annotated[
        Literal["cost-and-usage", "invoice-detail", "billing-period", "gpu-split"],
        typer.Option(help="The first three are what tenants see; gpu-split is the GPU bill, for finance alone."),
    ] = "cost-and-usage",
    tenant: Annotated[
        str | None, typer.Option(help="Only this tenant's rows; all tenants by default.", show_default=False)
    ] = None,
    catalog: CatalogFile = None,
    home: Home = None,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Export a month as FOCUS: charges by hour and adapter that sum to each invoice to the cent."""
    from billing.store.focus import focus_file, focus_rows, write_charges
    from pipelines.documents import write_whole

    if (form := _FORMS.get(out.suffix.lower())) is None:
        raise console.fail(f"could not export to {out}: the name must end in .csv or .parquet", console.INVALID)
    text = BillingMonth(month).text
    books = open_books(home, catalog, dsn)
    if tenant is not None and books.known().catalog.tenant(tenant) is None:
        raise console.fail(f"could not export: the catalog has no tenant {tenant!r}", console.INVALID)
    with books.open() as ledger:
        write_charges(ledger, text, books.catalog, books.clock())
        rows = focus_rows(ledger, dataset, version, text, tenant or "")
        data = focus_file(ledger, dataset, version, text, tenant or "", form)
    console.warn(books.unseen())
    if not rows:
        raise console.fail(
            f"could not export {dataset} of {text}: the ledger has no such rows; draft the month first with `loraledger invoice {text}`"
        )
    write_whole(out, data)
    if json:
        console.say_json({"file": str(out), "rows": rows, "month": text, "dataset": dataset, "version": version})
    else:
        console.out.print(f"{out}: {rows:,} rows of {dataset}, FOCUS {version}, {text}")

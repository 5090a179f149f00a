"""`loraledger ingest | close | reconcile | sql`. What these need (Dagster, ClickHouse) is imported when they run."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from billing.periods import BillingMonth
from loraledger import console
from loraledger.commands.options import CatalogFile, Dsn, Home, Json, open_books

if TYPE_CHECKING:
    from billing.store.ingest import IngestReport
    from loraledger.books import Books

Month = Annotated[str, typer.Argument(help="Billing month, as 2026-10.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (ingest, close, reconcile):
        app.command()(command)
    # A query may begin with a comment, which looks like an option.
    app.command(context_settings={"ignore_unknown_options": True})(sql)


def ingest(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Spool files or directories, or plain usage-record lines; the spool by default.", show_default=False
        ),
    ] = None,
    catalog: CatalogFile = None,
    home: Home = None,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Take what is new into the ledger. Ingesting twice changes nothing; facts that cannot be booked are kept in quarantine with a
    reason, and what is no readable file is skipped. Then the exit code is 1, though everything else was taken."""
    books = open_books(home, catalog, dsn)
    columns = (TextColumn("ingest"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"), TimeElapsedColumn())
    with Progress(*columns, console=console.err, transient=True, disable=json or not console.err.is_terminal) as bar:
        task = bar.add_task("ingest")
        report = books.ingest(paths or [], lambda done, total: bar.update(task, completed=done, total=total or 1))
    if json:
        console.say_json(asdict(report))
    else:
        _summary(report)
    wrong = [f"skipped {one.path}: {one.reason}" for one in report.skipped]
    if report.quarantined:
        wrong.append(
            f"{report.quarantined:,} of {report.lines:,} lines are in quarantine; `loraledger quarantine` lists them"
        )
    if wrong:
        raise console.fail("\n".join(wrong))


def _summary(report: IngestReport) -> None:
    console.out.print(
        f"{report.records:,} new records, {report.spans:,} spans and {report.events:,} events from {report.files:,} files; "
        f"{report.duplicates:,} were there already, {report.quarantined:,} in quarantine, {report.torn:,} unfinished last lines"
    )
    if report.dropped:
        console.out.print(
            f"{report.dropped:,} spans or lines that are not ours were left out: {'; '.join(report.reasons)}",
            markup=False,
        )


def close(
    month: Month,
    grace_hours: Annotated[
        int, typer.Option(min=0, help="How long late records are awaited after the month (UTC), in hours.")
    ] = 72,
    catalog: CatalogFile = None,
    home: Home = None,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Close a month that is over and issue its invoices; exit 3 with the list of what is red. Again, it changes nothing."""
    make(open_books(home, catalog, dsn), BillingMonth(month).text, True, json, grace_hours)


def make(books: Books, month: str, issue: bool, json: bool, grace_hours: int = 0) -> None:
    """Draft or close a month and say which files there are; exit 3 when the ledger refuses."""
    from billing.store.errors import CloseRefused
    from loraledger.books import documents
    from pipelines.errors import ChecksFailed

    try:
        with console.err.status(f"{'closing' if issue else 'drafting'} {month}"):
            report = books.month(month, issue=issue, grace_hours=grace_hours)
    except (CloseRefused, ChecksFailed) as error:
        raise console.fail(str(error), console.REFUSED) from error
    files = documents(books.settings, month)
    if json:
        console.say_json(
            {"month": month, "issued": issue, "files": [str(file) for file in files], "warnings": report.warnings}
        )
        return
    for warning in report.warnings:
        console.err.print(f"[yellow]warning:[/] {warning}")
    for file in files:
        console.out.print(str(file))


def reconcile(
    month: Month, catalog: CatalogFile = None, home: Home = None, dsn: Dsn = None, json: Json = False
) -> None:
    """Rented time x GPUs against everybody it was for, in nanoseconds and in money; exit 3 when a nanosecond has no owner, or
    an engine's own counters do not fit and no cause says why."""
    from loraledger.report import show_engine_gaps, show_reconciliation, show_system

    books = open_books(home, catalog, dsn)
    found = books.reconcile(BillingMonth(month).text)
    gaps = books.engine_gaps(BillingMonth(month).text)
    if json:
        counters = [{**asdict(gap), "unexplained": gap.unexplained} for gap in gaps]
        missing = {"missing_ns": found.missing_ns, "missing_cost": found.missing_cost}
        console.say_json({**asdict(found), **missing, "engine_gaps": counters})
    else:
        show_reconciliation(found)
        show_system(*books.system_causes(month))
        show_engine_gaps(gaps)
    if found.missing_ns or found.missing_cost or found.uneven_attempts or any(gap.unexplained for gap in gaps):
        raise SystemExit(console.REFUSED)


def sql(
    query: Annotated[str, typer.Argument(help="One statement that reads: SELECT, SHOW, DESCRIBE, EXPLAIN, EXISTS.")],
    home: Home = None,
    catalog: CatalogFile = None,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Ask the ledger; reads only, at most five minutes and 256 MiB. --json gives a list of objects, as ClickHouse writes values in
    JSON: decimals and instants as text, NaN and infinities as null. Exit code 2 when the statement is refused or wrong."""
    from billing.store.errors import QueryFailed, QueryRefused

    try:
        answer = open_books(home, catalog, dsn).ask(query, "JSONEachRow" if json else "TabSeparatedWithNames")
    except (QueryRefused, QueryFailed) as error:
        raise console.fail(str(error), console.INVALID) from error
    if json:
        console.say_raw(b"[\n" + b",\n".join(answer.splitlines()) + b"\n]\n")
    elif sys.stdout.isatty():
        columns, *rows = [line.split("\t") for line in answer.decode("utf-8", "replace").removesuffix("\n").split("\n")]
        numbers = [_is_number(cell) for cell in rows[0]] if rows else []
        left = next((n for n, number in enumerate(numbers) if number), len(columns))
        console.table(None, [_shown(c) for c in columns], [[_shown(cell) for cell in row] for row in rows], left=left)
    else:
        console.say_raw(answer)


def _is_number(cell: str) -> bool:
    return cell.removeprefix("-").isdigit()


def _shown(cell: str) -> str:
    """A terminal obeys control characters, whoever wrote them, and brackets are markup here."""
    return "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in cell).replace("[", r"\[")

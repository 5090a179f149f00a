"""`loraledger ingest | close | reconcile | sql`. What these need (ClickHouse, documents) is imported when they run."""

from __future__ import annotations

import getpass
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from billing.exact.canonical import to_plain
from billing.exact.periods import BillingMonth
from loraledger import console
from loraledger.commands.options import CatalogFile, Dsn, Home, Json, open_books, whole

if TYPE_CHECKING:
    from billing.store.intake.ingest import IngestReport
    from loraledger.books import Books

Month = Annotated[str, typer.Argument(help="Billing month, as 2026-10.")]
Gaps = Annotated[
    list[str] | None,
    typer.Option(
        "--accept-gap",
        "--accept",
        metavar="ID",
        help="Let the provider carry this finding; may be repeated.",
        show_default=False,
    ),
]
LeaveOpen = Annotated[
    bool, typer.Option("--leave-open", help="Close it though an earlier month is open, and say which.")
]


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
        int,
        typer.Option(
            parser=whole(least=0),
            metavar="HOURS",
            help="How long late records are awaited after the month (UTC), in hours.",
        ),
    ] = 72,
    accept_gap: Gaps = None,
    leave_open: LeaveOpen = False,
    reason: Annotated[str, typer.Option(help="Why it is accepted; kept with the gap.", show_default=False)] = "",
    by: Annotated[
        str | None, typer.Option(help="Who accepts it; the user of this machine by default.", show_default=False)
    ] = None,
    zero_documents: Annotated[
        bool, typer.Option("--zero-documents", help="Issue invoices that come to 0.00, too.")
    ] = False,
    restate: Annotated[
        bool,
        typer.Option(
            "--restate", help="Let what the catalog says of the past hold there: what was issued is corrected."
        ),
    ] = False,
    catalog: CatalogFile = None,
    home: Home = None,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Close a month that is over and issue the invoices of everybody whom nothing blocks; exit 3 with the list of what blocks
    others. Again, it issues what became free, and changes nothing else.

    Earlier months of which facts came late are derived first: what they add is on these invoices, or on an invoice of its own
    month for who has none. Exit 3 while an earlier month is open, unless --leave-open.

    --accept (or --accept-gap) books a finding to the provider, with --reason and who accepts it, and frees the tenants that it blocks. Terms that the
    catalog dates back block their tenant until --restate says so.
    """
    from pipelines.invoices import Acceptances

    accept = None
    if accept_gap:
        if not reason.strip():
            raise console.fail(
                "could not accept a gap: say why with --reason, it is kept with the gap", console.INVALID
            )
        accept = Acceptances(accept_gap, reason, by or getpass.getuser())
    books, text = open_books(home, catalog, dsn), BillingMonth(month).text
    if restate:
        for warning in books.restate(text):
            console.warn(warning)
    how = {"accept": accept, "zero": zero_documents, "leave_open": leave_open}
    make(books, text, True, json, grace_hours=grace_hours, **how)


def make(books: Books, month: str, issue: bool, json: bool, **how: Any) -> None:
    """Draft or close a month, `how` as `Books.month` takes it, and say which files there are; exit 3 when the ledger refuses, or
    somebody stays blocked."""
    from billing.errors import AcceptanceInvalid
    from billing.store.errors import BooksBroken, CloseRefused, GapMissing, SeriesInvalid
    from loraledger.books import documents
    from loraledger.report import show_blocks, show_late

    try:
        text = f"{'closing' if issue else 'drafting'} {month}"
        with console.err.status(text) as status:

            def progress(step: str, done: int, total: int) -> None:
                status.update(f"{text}: {step}, {done:,} of {total:,}")

            report = books.month(month, issue=issue, progress=progress, **how)
    except (GapMissing, AcceptanceInvalid) as error:
        raise console.fail(str(error), console.INVALID) from error
    except (BooksBroken, CloseRefused, SeriesInvalid) as error:
        raise console.fail(str(error), console.REFUSED) from error
    files = documents(books.settings, month)
    if json:
        console.say_json(
            {
                "month": month,
                "issued": issue,
                "files": [str(file) for file in files],
                "warnings": report.warnings,
                "failures": report.failures,
                "unwritten": report.unwritten,
                "waiting": report.waiting,
                "blocks": report.blocks,
                "zero": report.zero,
                "late": report.late,
            }
        )
    else:
        for warning in (*report.warnings, *report.failures):
            console.warn(warning)
        for file in files:
            console.out.print(str(file))
        if report.zero:
            console.out.print(f"comes to 0, so without invoice (--zero-documents issues it): {', '.join(report.zero)}")
        show_late(report.late)
        show_blocks(report.blocks, report.waiting, "invoice" if issue else "draft")
    for unwritten in report.unwritten:
        console.fail(unwritten)
    if report.waiting or any(one["waiting"] for one in report.late["added"]) or (not issue and report.failures):
        raise SystemExit(console.REFUSED)
    if report.unwritten:
        raise SystemExit(console.FAILED)


def reconcile(
    month: Month, catalog: CatalogFile = None, home: Home = None, dsn: Dsn = None, json: Json = False
) -> None:
    """Rented time x GPUs against everybody it was for, in nanoseconds and in money, over the UTC month; the month in each
    tenant's time zone beside it; what blocks whom, and what the provider took on. Derives first what is not derived yet. Exit 3 when a nanosecond has no owner, an engine's own counters do not fit
    and no cause says why, anything else blocks a tenant, or a document is not as it was issued (as `verify` finds)."""
    from billing.close.blocks import told
    from loraledger.report import (
        show_accepted,
        show_blocks,
        show_engine_gaps,
        show_faults,
        show_reconciliation,
        show_system,
        show_zones,
    )

    books, text = open_books(home, catalog, dsn), BillingMonth(month).text
    with console.err.status(f"deriving {text}"):
        derived = books.derive_missing(text)
    if derived:
        console.err.print(f"{text} was derived first: {derived}")
    found, gaps, (blocks, accepted) = books.reconcile(text), books.engine_gaps(text), books.blocks(text)
    zones = books.zones(text)
    with console.err.status("verifying what was issued"):
        faults = books.verify().faults
    if json:
        counters = [{**asdict(gap), "unexplained": gap.unexplained} for gap in gaps]
        missing = {"missing_ns": found.missing_ns, "missing_cost": found.missing_cost}
        taken = {
            "derived": derived,
            "blocks": [told(block) for block in blocks],
            "accepted": list(map(to_plain, accepted)),
            "faults": list(map(asdict, faults)),
        }
        within = {"zones": [asdict(zone) for zone in zones], "engine_gaps": counters}
        console.say_json({**asdict(found), **missing, **within, **taken})
    else:
        show_reconciliation(found)
        show_zones(zones, found.currency)
        show_system(*books.system_causes(text))
        show_engine_gaps(gaps)
        show_accepted(accepted)
        show_blocks(
            [told(block) for block in blocks], sorted({name for block in blocks for name in block.tenants}), "invoice"
        )
        show_faults(faults)
    if found.missing_ns or found.missing_cost or faults or any(block.tenants for block in blocks):
        raise SystemExit(console.REFUSED)


def sql(
    query: Annotated[str, typer.Argument(help="One statement that reads: SELECT, SHOW, DESCRIBE, EXPLAIN, EXISTS.")],
    home: Home = None,
    catalog: CatalogFile = None,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Ask the ledger; reads only, at most five minutes and 256 MiB. --json gives a list of objects, as ClickHouse writes values in
    JSON: decimals and instants as text, NaN and infinities as null. Exit code 2 when the statement is refused or wrong. Says on the
    error stream when facts came that nothing was derived from yet."""
    from billing.store.errors import QueryFailed, QueryRefused

    books = open_books(home, catalog, dsn)
    try:
        answer = books.ask(query, "JSONEachRow" if json else "TabSeparatedWithNames")
    except (QueryRefused, QueryFailed) as error:
        raise console.fail(str(error), console.INVALID) from error
    console.warn(books.unseen())
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
    """The text with control characters as `\\x1b`, since a terminal would obey them, and brackets escaped, which would be markup."""
    return "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in cell).replace("[", r"\[")

"""`loraledger verify`: whether everything that was issued still is what was issued."""

from __future__ import annotations

from dataclasses import asdict

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from loraledger import console
from loraledger.commands.options import CatalogFile, Dsn, Home, Json, open_books


def verify(catalog: CatalogFile = None, home: Home = None, dsn: Dsn = None, json: Json = False) -> None:
    """Look at every document ever issued: the chain, each document's own hash and sums, what finance reads of it, its postings, its
    kept files. Exit 3 when one is not as it was issued, with its number, what is broken and what to do; nothing is changed.

    Keep the place and hash that it ends with somewhere else: later they show that nothing up to there was taken out or changed.
    """
    from loraledger.report import show_faults

    books = open_books(home, catalog, dsn)
    columns = (TextColumn("verify"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console.err, transient=True, disable=json or not console.err.is_terminal) as bar:
        task = bar.add_task("verify", total=None)
        found = books.verify(files=True, progress=lambda done, whole: bar.update(task, completed=done, total=whole))
    if json:
        said = {"documents": found.documents, "postings": found.postings, "files": found.files, "owed": found.owed}
        faults = list(map(asdict, found.faults))
        console.say_json({**said, "position": found.head.position, "hash": found.head.hash, "faults": faults})
    else:
        show_faults(found.faults)
        owed = ", ".join(f"{amount:,f} {currency}" for currency, amount in found.owed.items()) or "nothing"
        console.out.print(
            f"{found.documents:,} documents, {found.postings:,} postings and {found.files:,} kept files, "
            f"{f'{len(found.faults)} faults' if found.faults else 'all as issued'}; tenants owe {owed}"
        )
        console.out.print(f"the chain ends in place {found.head.position} with {found.head.hash or 'nothing'}")
    if found.faults:
        raise SystemExit(console.REFUSED)

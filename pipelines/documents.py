"""Documents as files: `<out>/<month>/<tenant>-draft.*` or `<tenant>-<number>.*`, each as PDF, CSV and JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from billing.documents.press import FORMS, Paper


class Written(NamedTuple):
    """Files that are on disk, and in words those that could not be written."""

    paths: list[Path]
    failures: list[str]


def write_documents(out: Path, month: str, papers: Sequence[Paper], done: Callable[[int], None]) -> Written:
    """Write all of a month's documents in every form; one that cannot be written stops no other.

    Draft files of the month that are none of these are removed: the tenant has an invoice now, or is charged nothing any
    more. Issued documents are never removed.
    """
    written = Written([], [])
    for count, paper in enumerate(papers, 1):
        _write_paper(out / month, paper, written)
        done(count)
    for form in FORMS:
        for path in (out / month).glob(f"*-draft.{form}"):
            if path not in written.paths:
                path.unlink(missing_ok=True)
    return written


def write_credit_notes(out: Path, papers: Sequence[Paper]) -> Written:
    """Write issued credit notes beside the invoices that they lower, in every form."""
    written = Written([], [])
    for paper in papers:
        _write_paper(out / paper.document.month, paper, written)
    return written


def _write_paper(folder: Path, paper: Paper, written: Written) -> None:
    name = f"{paper.document.tenant}-{paper.document.number or 'draft'}"
    try:
        for form in FORMS:
            written.paths.append(write_whole(folder / f"{name}.{form}", paper.files[form]))
    except OSError as error:
        fact = f"could not write {error.filename or folder / name}: {error.strerror or error}"
        written.failures.append(f"{fact}; make room for it and run the command again, what is missing is written then")


def write_whole(path: Path, data: bytes) -> Path:
    """Write a file, its folder made if missing: whoever looks sees the old one or the whole new one. OSError leaves no half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.new")
    try:
        unfinished.write_bytes(data)
        unfinished.replace(path)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise
    return path

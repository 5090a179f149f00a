"""The main job, from nothing to the results: traffic on a real engine, ledger, drafts, and last month's issued invoices."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final

import httpx
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from billing.exact.periods import BillingMonth
from billing.store.finance import demo_table
from catalog.durations import SECOND_NS
from loraledger import console
from loraledger.books import Books, documents
from loraledger.child import ServeProcess
from loraledger.load import LoadReport, drive
from loraledger.recording import read_recording, shift, write_recording
from loraledger.report import show_month, show_reconciliation, show_system
from loraledger.settings import Settings
from loraledger.traffic import calls

AT_ONCE: Final = 12
BUDGET_S: Final = 90.0
RECORDED: Final = Path(__file__).parents[1] / "examples" / "recorded-month.jsonl.gz"
MID_MONTH: Final = timedelta(days=14, hours=9)


def run(settings: Settings, *, requests: int, seed: int, record: Path | None) -> None:
    """Run the demo into `settings.home`; a second run adds to the same ledger."""
    books = Books.of(settings)
    began = time.monotonic()
    console.out.print(
        "[bold]loraledger demo[/]: a real vLLM engine (CPU build), eight real LoRA adapters, six tenants\n"
    )
    _serve_traffic(settings, requests, seed)
    if record is not None:
        write_recording(
            [line for file in sorted(settings.spool.glob("*.jsonl")) for line in file.read_text().splitlines()], record
        )
        console.out.print(f"  recorded {record}")
        return
    month, last = books.current_month(), books.last_month()
    with _step("ledger", f"spans → usage → tenant cost → draft invoices of {month}"):
        drafted = books.month(month, issue=False)
    with _step("close", f"{last}: the recorded month is ingested, closed and issued"):
        recorded = _recorded(settings, last)
        books.ingest([recorded])
        closed = books.month(last, issue=True, leave_open=True)
    for line in (*drafted.failures, *closed.failures):
        console.warn(line)

    with books.open() as ledger:
        rows = demo_table(ledger, month)
    show_month(month, rows, books.catalog)
    show_reconciliation(books.reconcile(month))
    show_system(*books.system_causes(month))
    _show_files(settings, month, last)
    console.out.print(
        f'\nDone in {time.monotonic() - began:.0f} s. Ask the ledger: .venv/bin/loraledger sql --home {_short(settings.home)} "SELECT * FROM finance_reconciliation"'
    )


def _serve_traffic(settings: Settings, requests: int, seed: int) -> None:
    started = time.monotonic()
    with (
        console.err.status("engine: starting") as status,
        ServeProcess(settings, lambda line: status.update(f"engine: {line}")) as server,
    ):
        status.stop()
        _said("engine", f"up after {time.monotonic() - started:.0f} s, answering on {server.url}")
        report = _traffic(server.url, requests, seed)
        replies = ", ".join(f"{count} x {status or 'hung up'}" for status, count in sorted(report.statuses.items()))
        _said("traffic", f"{report.statuses.total()} requests in {report.seconds:.0f} s ({replies})")
        (settings.home / "metrics.txt").write_bytes(httpx.get(f"{server.url}/metrics", timeout=10).content)
    _said("stop", "engine ended in order; every record is in the spool")


def _traffic(url: str, requests: int, seed: int) -> LoadReport:
    plan = calls(seed, requests)
    columns = (TextColumn("  traffic"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console.err, transient=True) as bar:
        task = bar.add_task("traffic", total=len(plan))
        return asyncio.run(
            drive(url, plan, at_once=AT_ONCE, budget_s=BUDGET_S, done=lambda n: bar.update(task, completed=n))
        )


def _recorded(settings: Settings, month: str) -> Path:
    """The recording as a spool of that month: real figures of a real engine, moved in time."""
    directory = settings.home / "recorded" / month
    directory.mkdir(parents=True, exist_ok=True)
    start = BillingMonth(month).start + MID_MONTH
    lines = shift(read_recording(RECORDED), int(start.timestamp()) * SECOND_NS, month)
    (directory / "spool-recorded.jsonl").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return directory


def _show_files(settings: Settings, month: str, last: str) -> None:
    rows = [
        [
            f"draft invoices {month}",
            f"{_short(settings.out / month)}/<tenant>-draft.pdf, .csv, .json",
            str(len(documents(settings, month))),
        ],
        [
            f"issued invoices {last}",
            f"{_short(settings.out / last)}/<tenant>-<number>.pdf, .csv, .json",
            str(len(documents(settings, last))),
        ],
        ["ledger", settings.dsn.replace(str(settings.home), _short(settings.home)), ""],
        ["spool (OTLP/JSON)", _short(settings.spool), ""],
        ["last scrape of /metrics", _short(settings.home / "metrics.txt"), ""],
        ["Grafana boards", "dashboards/generated", ""],
        ["alert rules", "alerts/generated", ""],
    ]
    console.out.print()
    console.table("Files", ["what", "where", ""], rows, left=2)
    console.out.print(
        f"[dim]{last} is a recording of this demo on the real engine, moved to the middle of that month.[/]"
    )


@contextmanager
def _step(name: str, what: str) -> Iterator[None]:
    """Show a line that says what is being done, and then how long it took."""
    began = time.monotonic()
    with console.err.status(f"{name}: {what}"):
        yield
    _said(name, f"{what} ({time.monotonic() - began:.0f} s)")


def _said(name: str, what: str) -> None:
    console.out.print(f"  [green]✓[/] {name:<8} {what}")


def _short(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)

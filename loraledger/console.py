"""What a person sees: progress, tables, errors; and how a program reads the same (`--json`)."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from catalog.durations import SECOND_NS

OK: Final = 0
FAILED: Final = 1
"""Something could not be done; the message says what, where and what to do."""
INVALID: Final = 2
"""Bad input: the catalog, an argument, a file."""
REFUSED: Final = 3
"""The ledger refuses: a month that is not ready to close, numbers that do not reconcile."""

WIDTH: Final = 118
"""Tables are never cut: a narrower terminal wraps them, a pipe gets them whole."""

out = Console(highlight=False, soft_wrap=True, width=max(WIDTH, Console().width))
err = Console(stderr=True, highlight=False, soft_wrap=True)


def fail(message: str, code: int = FAILED) -> SystemExit:
    """Print an error for people and give the exit to raise."""
    err.print(f"[bold red]error:[/] {_escaped(message)}")
    return SystemExit(code)


def warn(message: str | None) -> None:
    """Print a warning for people, if there is one; it stops nothing."""
    if message is not None:
        err.print(f"[bold yellow]warning:[/] {_escaped(message)}")


def say_json(value: Any) -> None:
    """Write one JSON document; decimals as text, instants in ISO 8601."""
    json.dump(value, sys.stdout, default=_plain, indent=2)
    sys.stdout.write("\n")


def say_raw(document: bytes) -> None:
    """Write what another program wrote, byte by byte."""
    sys.stdout.flush()
    sys.stdout.buffer.write(document)
    sys.stdout.flush()


def table(
    title: str | None,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    left: int = 1,
    total: Sequence[str] | None = None,
) -> None:
    """A table whose first `left` columns are text and the rest numbers; `total` is set off below."""
    grid = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=None,
        pad_edge=False,
        show_footer=total is not None,
        header_style="dim",
    )
    for number, column in enumerate(columns):
        grid.add_column(
            column,
            justify="left" if number < left else "right",
            footer=total[number] if total else "",
            footer_style="bold",
            no_wrap=True,
        )
    for row in rows:
        grid.add_row(*row)
    out.print(grid)


def seconds(ns: int | None) -> str:
    """Nanoseconds as seconds with milliseconds; a dash for what was not measured."""
    return "-" if ns is None else f"{Decimal(ns) / SECOND_NS:,.3f}"


def amount(value: Decimal | None, currency: str = "") -> str:
    """Money to two places for people; a dash when there is none."""
    return "-" if value is None else f"{value:,.2f}{' ' + currency if currency else ''}"


def share(part: Decimal | int | None, whole: Decimal | int | None) -> str:
    """The part in percent of the whole, with one decimal; a dash when the whole is 0 or one of them is not known."""
    return f"{Decimal(part) * 100 / Decimal(whole):.1f} %" if part is not None and whole else "-"


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _escaped(text: str) -> str:
    return text.replace("[", r"\[")

"""Options that several commands share, and the settings and books they make. What books need is imported when they are opened."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loraledger.settings import Settings
from pipelines.settings import patient

if TYPE_CHECKING:
    from loraledger.books import Books

Home = Annotated[
    Path | None, typer.Option("--home", help="Where everything is kept (LORALEDGER_HOME).", show_default=False)
]
CatalogFile = Annotated[
    Path | None, typer.Option("--catalog", help="The catalog file (LORALEDGER_CATALOG).", show_default=False)
]
Dsn = Annotated[
    str | None,
    typer.Option(
        "--dsn",
        help="chdb:///PATH[?wait_s=SECONDS] or https://user:password@host:8443 (LORALEDGER_DSN).",
        show_default=False,
    ),
]


def whole(least: int | None = None) -> Callable[[str | int], int]:
    """Reads a whole number of the digits 0 to 9 only (`int` would also take those of other scripts, and underscores), not below `least`."""

    def read(value: str | int) -> int:
        if isinstance(value, str) and not re.fullmatch(r"-?[0-9]{1,18}", value):
            raise typer.BadParameter(f"{value!r} is not a whole number such as 72.")
        if least is not None and int(value) < least:
            raise typer.BadParameter(f"{value} is below {least}.")
        return int(value)

    return read


Json = Annotated[bool, typer.Option("--json", help="Write JSON for programs.")]


def settings(home: Path | None = None, catalog: Path | None = None, dsn: str | None = None) -> Settings:
    """Environment first, then what the command line names."""
    environ = dict(os.environ)
    if home is not None:
        environ["LORALEDGER_HOME"] = str(home)
    found = Settings.from_environ(environ)
    if catalog is not None:
        found = replace(found, catalog=catalog.absolute())
    if dsn is not None:
        found = replace(found, dsn=patient(dsn, environ))
    return found


def open_books(home: Path | None, catalog: Path | None, dsn: str | None) -> Books:
    """The ledger that these options name, with its catalog. CatalogInvalid when that is."""
    from loraledger.books import Books

    return Books.of(settings(home, catalog, dsn))

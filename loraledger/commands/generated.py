"""`loraledger dashboards` and `loraledger alerts`: generated files, written or compared."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from loraledger import console

Check = Annotated[bool, typer.Option("--check", help="Write nothing; exit 1 when a file is out of step.")]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="Another directory.", show_default=False)]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(dashboards)
    app.command()(alerts)


def dashboards(check: Check = False, out: Out = None) -> None:
    """Write the Grafana boards and their provisioning."""
    from dashboards import generate

    _write(
        "dashboards",
        generate.stale(out or generate.GENERATED) if check else generate.generate(out or generate.GENERATED),
        check,
    )


def alerts(check: Check = False, out: Out = None) -> None:
    """Write Prometheus rules and the Alertmanager configuration."""
    from alerts import generate

    _write(
        "alerts",
        generate.stale(out or generate.GENERATED) if check else generate.generate(out or generate.GENERATED),
        check,
    )


def _write(what: str, files: list[Path], check: bool) -> None:
    if check and files:
        raise console.fail(f"{', '.join(map(str, files))} out of step; run make generate")
    if check:
        console.out.print(f"{what}: generated files are in step")
    for file in () if check else files:
        console.out.print(str(file))

"""`loraledger dashboards` and `loraledger alerts`: generated files, written or compared."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from alerts.generated_files import stale, write
from loraledger import console

Check = Annotated[bool, typer.Option("--check", help="Write nothing; exit 1 when a file is out of step.")]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="Another directory.", show_default=False)]


def dashboards(check: Check = False, out: Out = None) -> None:
    """Write the Grafana boards and their provisioning."""
    from dashboards.generate import GENERATED, files

    _write("dashboards", out or GENERATED, files(), check)


def alerts(check: Check = False, out: Out = None) -> None:
    """Write Prometheus rules and the Alertmanager configuration."""
    from alerts.generate import GENERATED, files

    _write("alerts", out or GENERATED, files(), check)


def _write(what: str, directory: Path, files: Mapping[str, str], check: bool) -> None:
    if not check:
        for file in write(directory, files):
            console.out.print(str(file))
    elif outdated := stale(directory, files):
        raise console.fail(f"{', '.join(map(str, outdated))} out of step; run make generate")
    else:
        console.out.print(f"{what}: generated files are in step")

"""`loraledger serve` and `loraledger demo`."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from loraledger import console
from loraledger.commands.options import CatalogFile, Home, settings


def serve(
    catalog: CatalogFile = None,
    home: Home = None,
    engine: Annotated[
        str | None, typer.Option(help="Engine id in the catalog; the first one by default.", show_default=False)
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.")] = 8000,
    supervised: Annotated[
        bool,
        typer.Option("--supervised", help="End, with status 1, when the engine is lost; a supervisor starts anew."),
    ] = False,
) -> None:
    """Start the gateway and vLLM in one go, until Ctrl-C. SIGHUP reloads the catalog."""
    from catalog.load import load
    from loraledger import serve as composition
    from serving.gateway.listening import listen

    chosen = settings(home, catalog)
    chosen = replace(chosen, supervised=chosen.supervised or supervised)
    load(chosen.catalog)
    chosen.home.mkdir(parents=True, exist_ok=True)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    listener = listen(host, port)
    asyncio.run(composition.serve(chosen, engine, listener, lambda line: console.err.print(f"[dim]·[/] {line}")))


def demo(
    home: Annotated[Path, typer.Option(help="Where the demo keeps everything.")] = Path("demo"),
    catalog: CatalogFile = None,
    requests: Annotated[int, typer.Option(min=1, max=5000, help="Ordinary requests to send.")] = 240,
    seed: Annotated[int, typer.Option(help="Which traffic.")] = 1,
    record: Annotated[
        Path | None, typer.Option(help="Write the spool of this run as a recording, and stop.", show_default=False)
    ] = None,
) -> None:
    """The main job on a real engine: traffic in, ledger, draft invoices, last month closed and issued."""
    from loraledger import demo as main_job

    try:
        main_job.run(settings(home, catalog), requests=requests, seed=seed, record=record)
    except KeyboardInterrupt:
        console.err.print(
            "\nstopped; what was served is in the spool, and the next run (or `loraledger invoice`) takes it from there"
        )
        raise SystemExit(130) from None

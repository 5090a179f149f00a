"""`loraledger check`: is the catalog right?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from catalog.advice import warnings
from catalog.load import load, version
from catalog.schema import json_schema
from loraledger import console
from loraledger.commands.options import Json, settings


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(check)


def check(
    path: Annotated[Path | None, typer.Argument(help="The catalog file.", show_default=False)] = None,
    json: Json = False,
    schema: Annotated[bool, typer.Option("--schema", help="Print the catalog's JSON Schema instead.")] = False,
) -> None:
    """Validate a catalog: all its problems at once, exit 2 when there are any. Warnings change nothing."""
    if schema:
        sys.stdout.write(json_schema())
        return
    file = path or settings().catalog
    catalog = load(file)
    facts = {
        "file": str(file),
        "version": version(catalog),
        "engines": len(catalog.engines),
        "adapters": len(catalog.adapters),
        "tenants": len(catalog.tenants),
        "routing_rules": len(catalog.routing),
        "price_book": catalog.prices.version,
        "warnings": warnings(catalog),
    }
    if json:
        console.say_json(facts)
        return
    for warning in warnings(catalog):
        console.warn(warning)
    console.out.print(
        f"{facts['file']} is valid (version {facts['version']}): {facts['tenants']} tenants, {facts['adapters']} adapters, {facts['engines']} engines, price book {facts['price_book']}"
    )

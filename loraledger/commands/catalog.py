"""`loraledger check`: is the catalog right?"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catalog.advice import warnings
from catalog.load import CatalogInvalid, load, version
from catalog.model import Catalog, json_schema
from loraledger import console
from loraledger.commands.options import Dsn, Home, Json, open_books, settings

if TYPE_CHECKING:
    from loraledger.books import Books


def check(
    path: Annotated[Path | None, typer.Argument(help="The catalog file.", show_default=False)] = None,
    json: Json = False,
    against_ledger: Annotated[
        bool,
        typer.Option(
            "--against-ledger",
            help="Refuse dates that would change what the ledger already knows of the past, and number series that contradict its numbers.",
        ),
    ] = False,
    home: Home = None,
    dsn: Dsn = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print the catalog's JSON Schema instead.")] = False,
) -> None:
    """Validate a catalog: all its problems at once, exit 2 when there are any. Warnings change nothing."""
    if schema:
        sys.stdout.write(json_schema())
        return
    file = path or settings().catalog
    catalog = load(file)
    found = list(_flag_problems(catalog))
    if against_ledger:
        books = open_books(home, file, dsn)
        found += [*_edits(books), *_series(books)]
    if found:
        raise CatalogInvalid(str(file), found)
    facts: dict[str, Any] = {
        "file": os.fsencode(file).decode("utf-8", "backslashreplace"),
        "version": version(catalog),
        "engines": len(catalog.engines),
        "adapters": len(catalog.adapters),
        "tenants": len(catalog.tenants),
        "routing_rules": len(catalog.routing),
        "price_book": catalog.prices.version,
        "warnings": [*warnings(catalog), *_unshown(catalog)],
    }
    if json:
        console.say_json(facts)
        return
    for warning in facts["warnings"]:
        console.warn(warning)
    console.out.print(
        f"{facts['file']} is valid (version {facts['version']}): {facts['tenants']} tenants, {facts['adapters']} adapters, {facts['engines']} engines, price book {facts['price_book']}"
    )


def _edits(books: Books) -> Iterator[str]:
    """What tenants' entries say of the past against what the ledger knew then."""
    places = {tenant.id: i for i, tenant in enumerate(books.catalog.tenants)}
    for tenant, edits in books.edited().items():
        yield from (f"tenants[{places[tenant]}].terms: {edit}" for edit in edits)


def _series(books: Books) -> Iterator[str]:
    """What this year's documents, if they were issued now, would be refused for."""
    from billing.invoice.credit import CreditNote
    from billing.invoice.invoice import Invoice
    from billing.store.invoice.issuing import numbering_fault

    seller, year = books.catalog.seller, books.clock().year
    with books.open() as ledger:
        if fault := numbering_fault(ledger, Invoice, seller.number_series, year):
            yield f"seller.number_series: {fault}"
        if fault := numbering_fault(ledger, CreditNote, seller.credit_series, year):
            yield f"seller.credit_series: {fault}"


def _unshown(catalog: Catalog) -> list[str]:
    """Texts of documents with characters that no font has: the tenants they belong to would get no invoice."""
    from billing.documents.text_faults import undeclared

    return undeclared(catalog, settings().fonts)


def _flag_problems(catalog: Catalog) -> Iterator[str]:
    """What vLLM itself says of the flags that are passed to it; only where it is installed, since it alone knows them."""
    if find_spec("vllm") is None or not any(engine.vllm for engine in catalog.engines):
        return
    from serving.engine.vllm_flags import flag_problems

    for number, engine in enumerate(catalog.engines):
        for problem in flag_problems(engine):
            yield f"engines[{number}].vllm.{problem}"

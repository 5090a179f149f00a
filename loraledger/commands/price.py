"""`loraledger price`: what one request would cost, and why."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loraledger import console
from loraledger.commands.options import CatalogFile, Dsn, Home, Json, open_books

if TYPE_CHECKING:
    from datetime import datetime

    from billing.invoice.plans import Charge
    from billing.invoice.quote import Quote


def price(
    event: Annotated[
        Path,
        typer.Argument(metavar="EVENT.json", help="A usage record, as ingest takes it.", exists=True, dir_okay=False),
    ],
    at: Annotated[
        str | None,
        typer.Option(
            help="As if it had arrived then, as 2026-10-16T00:00:00Z; when it did by default.", show_default=False
        ),
    ] = None,
    catalog: CatalogFile = None,
    home: Home = None,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """What a request costs and its tenant is charged for it, before tax and rounding, with every term that decided it. Terms are those
    of its instants, as the ledger and the catalog know them; nothing is written. Exit 2 when the record is not sound."""
    from billing.exact.canonical import to_plain
    from billing.exact.periods import to_ns
    from billing.invoice.quote import quote
    from billing.store.catalog_history import known_catalog
    from telemetry.usage import UsageInvalid, UsageRecord

    try:
        record = UsageRecord.from_json(event.read_bytes())
        if faults := record.problems():
            raise UsageInvalid(faults)
    except UsageInvalid as error:
        raise console.fail(f"could not price {event}: {error}", console.INVALID) from error
    books, moment = open_books(home, catalog, dsn), None if at is None else _instant(at)
    with books.open() as ledger:
        known = known_catalog(ledger, books.catalog, books.clock()).catalog
    found = quote(record, known, books.clock(), None if moment is None else to_ns(moment))
    if json:
        parts = [to_plain(part) | {"amount": _sum(part.charges)} for part in found.parts]
        console.say_json(
            {name: to_plain(getattr(found, name)) for name in found.__slots__ if name not in ("parts", "terms")}
            | {"parts": parts, "terms": found.terms}
        )
    else:
        _show(found)


def _instant(text: str) -> datetime:
    from datetime import datetime

    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise console.fail(
            f"could not read --at {text!r}: give an instant with its zone, such as 2026-10-16T00:00:00Z",
            console.INVALID,
        )
    return found


def _sum(charges: tuple[Charge, ...]) -> str:
    from billing.exact.money import total, trimmed

    return f"{trimmed(total(charge.amount for charge in charges)):f}"


def _show(found: Quote) -> None:
    rows = [
        [
            f"{part.start:%Y-%m-%d %H:%M}",
            charge.kind.value,
            f"{charge.quantity:f}",
            charge.unit,
            f"{charge.price:f}",
            f"{charge.amount:f}",
        ]
        for part in found.parts
        for charge in part.charges
    ]
    charged = "not known" if found.amount is None else f"{found.amount:f}"
    console.table(
        f"request {found.request} of {found.tenant}, {found.status}, in {found.currency}",
        ("quarter hour, UTC", "item", "quantity", "unit", "price", "amount"),
        rows,
        left=2,
        total=("charged", "", "", "", "", charged),
    )
    cost = "not measured" if found.cost is None else f"{found.cost:f} {found.currency}"
    hours = ", ".join(
        f"{part.gpu_hours:f} GPU-hours at {part.price:f}" for part in found.parts if part.price is not None
    )
    console.out.print(f"GPU cost {cost}{f': {hours}' if hours else ''}")
    console.out.print()
    console.table("decided by", ("term", "value"), [[name, value] for name, value in found.terms.items()], left=2)
    for fact in found.unknown:
        console.warn(fact)
    console.out.print(f"\nnot in it: {'; '.join(found.beside)}", markup=False)

"""Texts of a document that cannot stand on paper or in its XML, by the field that holds them. No I/O but asking the fonts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from billing.documents.facturx import Document
from billing.documents.fonts import undrawable
from catalog.model import Catalog, Seller, Tenant
from catalog.text import codepoint, unprintable


def unholdable(document: Document) -> list[str]:
    """What no document can hold, as `buyer.name: U+001B, a control character: no document can hold it`."""
    return [
        f"{where}: {'; '.join(found)}: no document can hold it"
        for where, text in texts(document)
        if (found := unprintable(text))
    ]


def unshown(document: Document, more: tuple[Path, ...] = ()) -> list[str]:
    """What no font can show, as `buyer.name: U+10A00 is in no font; add one with LORALEDGER_FONTS`."""
    return _unshown(list(texts(document)), more)


def _unshown(everything: Sequence[tuple[str, str]], more: tuple[Path, ...]) -> list[str]:
    missing = undrawable((text for _, text in everything), more)
    found = []
    for where, text in everything:
        if mine := [codepoint(character) for character in missing if character in text]:
            found.append(f"{where}: {', '.join(mine)} is in no font; add one with LORALEDGER_FONTS")
    return found


def declared(catalog: Catalog, tenant: str, faults: Sequence[str]) -> list[str]:
    """Faults with the fields of the catalog where those of a document come from: `tenants[3].name` for `buyer.name`."""
    rank = next((rank for rank, one in enumerate(catalog.tenants) if one.id == tenant), None)
    if rank is None:
        return list(faults)
    moved = {
        "buyer.": f"tenants[{rank}].",
        "purchase_order": f"tenants[{rank}].purchase_order",
        "price_note": "prices.note",
        "tax_note": f"tenants[{rank}].tax_note",
    }
    return [next((to + one[len(at) :] for at, to in moved.items() if one.startswith(at)), one) for one in faults]


def undeclared(catalog: Catalog, more: tuple[Path, ...] = ()) -> list[str]:
    """What the catalog puts on documents and no font can show, as `tenants[3].name: U+10A00 is in no font; ...`."""
    printed: list[tuple[str, str]] = [("seller." + at, text) for at, text in _named(catalog.seller)]
    printed += [(f"tenants[{rank}].{at}", text) for rank, one in enumerate(catalog.tenants) for at, text in _named(one)]
    return _unshown([*printed, ("prices.note", catalog.prices.note or "")], more)


def _named(party: Seller | Tenant) -> Iterator[tuple[str, str]]:
    yield "name", party.name
    yield from ((f"address[{rank}]", line) for rank, line in enumerate(party.address))
    if isinstance(party, Tenant):
        yield "purchase_order", party.purchase_order or ""
        yield "tax_note", party.tax_note or ""


def texts(value: Any, where: str = "") -> Iterator[tuple[str, str]]:
    """Every text of a frozen value with its path, as `buyer.address[0]`."""
    if isinstance(value, str):
        yield where, value
    elif is_dataclass(value):
        for field in fields(value):
            yield from texts(getattr(value, field.name), f"{where}.{field.name}" if where else field.name)
    elif isinstance(value, tuple):
        for rank, part in enumerate(value):
            yield from texts(part, f"{where}[{rank}]")

"""The one JSON form of billing values, so that the same value always has the same bytes and the same hash."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields, is_dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from functools import cache
from typing import Any, Final

SPARSE: Final = "sparse"
"""Metadata of a dataclass field that is left out where it is None: it came after documents without it were issued."""


def to_plain(value: Any) -> Any:
    """Dicts, lists, strings, integers, booleans and None only.

    Decimals become fixed-point strings (JSON numbers would be read as floats), dates ISO 8601, instants UTC with `Z`.
    TypeError for anything else, floats included.
    """
    match value:
        case None | bool():
            return value
        case Enum():
            return value.value
        case str() | int():
            return value
        case Decimal():
            return format(value, "f")
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case date():
            return value.isoformat()
        case tuple() | list():
            return [to_plain(item) for item in value]
        case _ if is_dataclass(value):
            plain = {name: to_plain(getattr(value, name)) for name in _names(value.__class__)}
            return {
                name: said for name, said in plain.items() if said is not None or name not in _sparse(value.__class__)
            }
    raise TypeError(f"no canonical form for {type(value).__name__}: {value!r}")


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


@cache
def _sparse(kind: Any) -> frozenset[str]:
    return frozenset(field.name for field in fields(kind) if SPARSE in field.metadata)


def written(value: Any) -> bytes:
    """A document as it is stored and sent: UTF-8 JSON, indented, keys in the order of its fields; ends with a newline."""
    return json.dumps(to_plain(value), indent=2, ensure_ascii=False).encode() + b"\n"


def canonical_json(value: Any) -> str:
    """The value with sorted keys and no spaces."""
    return json.dumps(to_plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def content_hash(value: Any) -> str:
    """SHA-256 (hex) of the value's canonical JSON."""
    return text_hash(canonical_json(value))


def text_hash(text: str) -> str:
    """SHA-256 (hex) of a text as it came, in UTF-8."""
    return hashlib.sha256(text.encode()).hexdigest()

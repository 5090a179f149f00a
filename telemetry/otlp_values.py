"""Reads the parts of an OTLP/JSON message: numbers, ids, enums, attribute values; LineInvalid for what is not one."""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal
from typing import Any, Final

from telemetry.errors import LineInvalid

NOT_FINITE: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
"""Doubles that JSON has no numbers for, by their name in Python."""
_INT64: Final = re.compile(r"-?[0-9]{1,20}")


def attributes(owner: dict[str, Any]) -> dict[str, str]:
    """Attributes by key, every value as text."""
    return {text(pair, "key"): value_text(pair.get("value")) for pair in items(owner, "attributes")}


def value_text(value: Any) -> str:
    """One AnyValue as the Collector writes it to ClickHouse: `12`, `true`, `1.5`, lists and maps as JSON, '' for none."""
    plain = _plain(value)
    match plain:
        case None:
            return ""
        case float():
            return _float_text(plain)
        case str():
            return plain
    return json.dumps(plain, ensure_ascii=False, separators=(",", ":"))


def _plain(value: Any) -> Any:
    """An AnyValue as a Python value; None for an empty one."""
    if value is None:
        return None
    if not isinstance(value, dict):
        raise LineInvalid(f"attribute value {value!r} is not an AnyValue")
    for kind, inner in value.items():
        match kind, inner:
            case (("stringValue" | "bytesValue"), str()):
                return whole(inner)
            case "boolValue", bool():
                return inner
            case "intValue", _:
                return integer(value, kind)
            case "doubleValue", (int() | float() | str()):
                return _double(inner)
            case "arrayValue", dict():
                return [_json(_plain(part)) for part in items(inner, "values", of=object)]
            case "kvlistValue", dict():
                return {text(pair, "key"): _json(_plain(pair.get("value"))) for pair in items(inner, "values")}
    return None


def _json(plain: Any) -> Any:
    """JSON has no NaN and no infinity."""
    return _float_text(plain) if isinstance(plain, float) and not math.isfinite(plain) else plain


def _float_text(value: float) -> str:
    """As the Collector writes it: shortest digits, plain between 1e-6 and 1e21, `1` for 1.0."""
    if not math.isfinite(value):
        return NOT_FINITE[repr(value)]
    if value == 0 or 1e-6 <= abs(value) < 1e21:
        return format(Decimal(repr(value)), "f").removesuffix(".0")
    return re.sub(r"e-0(\d)$", r"e-\1", repr(value))


def _double(value: float | str) -> float:
    try:
        return float(value)
    except (ValueError, OverflowError) as error:
        raise LineInvalid(f"doubleValue {value!r} is not a number") from error


def integer(owner: dict[str, Any], key: str) -> int:
    """A 64-bit integer, signed or not, given as text or number; 0 when left out."""
    value = owner.get(key)
    if value is None or value == "":
        return 0
    if isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**64:
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, str) and _INT64.fullmatch(value) and -(2**63) <= int(value) < 2**64:
        return int(value)
    raise LineInvalid(f"{key} {value!r} is not a 64-bit integer")


def instant(owner: dict[str, Any], key: str) -> int:
    """UTC nanoseconds since the epoch, 0 when left out; never beyond what a DateTime64(9) holds."""
    value = integer(owner, key)
    if not 0 <= value < 2**63:
        raise LineInvalid(f"{key} {value} is not an instant")
    return value


def hex_id(owner: dict[str, Any], key: str, digits: int, *, optional: bool = False) -> str:
    """An id of `digits` hex digits in lower case; all zeros means none, which only an optional id may be."""
    value = text(owner, key).lower()
    if optional and not value.strip("0"):
        return ""
    if len(value) != digits or not value.strip("0") or value.strip("0123456789abcdef"):
        raise LineInvalid(f"{key} {value!r} is not {digits} hex digits")
    return value


def enum_name(owner: dict[str, Any], key: str, prefix: str, names: tuple[str, ...]) -> str:
    """An enum, given as number or as name with `prefix`; the first of `names` when it is unknown or left out."""
    value = owner.get(key)
    if isinstance(value, str) and value.startswith(prefix):
        name = value.removeprefix(prefix).capitalize()
        return name if name in names else names[0]
    number = integer(owner, key)
    return names[number] if 0 <= number < len(names) else names[0]


def text(owner: dict[str, Any], key: str) -> str:
    """A text, '' when left out."""
    value = owner.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise LineInvalid(f"{key} {value!r} is not text")
    return whole(value)


def whole(text: str) -> str:
    """`text` without lone surrogates: JSON can escape them, no UTF-8 reader takes them."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def message(owner: dict[str, Any], key: str) -> dict[str, Any]:
    """A message inside another; empty when left out."""
    value = owner.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise LineInvalid(f"{key} is not an object")
    return value


def items(owner: dict[str, Any], key: str, *, of: type = dict) -> list[Any]:
    """A list of messages; empty when left out."""
    value = owner.get(key)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, of) for item in value):
        raise LineInvalid(f"{key} is not a list of objects")
    return value

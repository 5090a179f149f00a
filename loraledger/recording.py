"""A recorded spool moved to another time: the example's last month was recorded from the real engine once and says so.

Moving adds whole quarter hours to every instant, so that slices stay on their grid, and renames emitters, traces and requests
by month, so that two months made from one recording are two different sets of facts. Durations and tokens do not change.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from catalog.durations import QUARTER_NS

INSTANTS = frozenset({"arrival_ns", "finished_ns", "admitted_ns", "first_token_ns", "start_ns", "end_ns", "at_ns"})
"""Keys of our JSON bodies that are UTC instants; all other `_ns` keys are durations."""
_IDS = frozenset({"traceId", "spanId", "parentSpanId", "trace_id", "request_id"})
_OTLP_INSTANT = re.compile(r'UnixNano":\s*"?(\d+)')
EMITTER = re.compile(r"\b((?:gw|eng|meter|srv)-[0-9a-f]{6,})\b")


def read_recording(path: Path) -> list[str]:
    """Lines of a gzipped spool."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [line for line in file.read().splitlines() if line]


def write_recording(lines: Iterable[str], path: Path) -> None:
    """Gzip lines with the same bytes for the same lines."""
    with path.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as file:
        for line in lines:
            file.write(line.encode() + b"\n")


def first_instant_ns(lines: Iterable[str]) -> int:
    """The earliest instant in a recording: its engine session's start."""
    return min(int(instant) for line in lines for instant in _OTLP_INSTANT.findall(line))


def shift(lines: Iterable[str], start_ns: int, label: str) -> Iterator[str]:
    """The recording moved so that it begins in the quarter hour of `start_ns`, identities marked with `label`."""
    kept = list(lines)
    offset = (start_ns - first_instant_ns(kept)) // QUARTER_NS * QUARTER_NS
    mask = hashlib.sha256(label.encode()).digest()
    for line in kept:
        yield json.dumps(_moved(json.loads(EMITTER.sub(rf"\1-{label}", line)), offset, mask), separators=(",", ":"))


def _moved(node: Any, offset: int, mask: bytes) -> Any:
    if isinstance(node, list):
        return [_moved(value, offset, mask) for value in node]
    if isinstance(node, dict):
        return {key: _field_moved(key, value, offset, mask) for key, value in node.items()}
    return node


def _field_moved(key: str, value: Any, offset: int, mask: bytes) -> Any:
    """OTLP JSON: times are `...UnixNano` strings, our values are JSON text in `stringValue`."""
    if value is None:
        return None
    if key.endswith("UnixNano"):
        return str(int(value) + offset)
    if key in INSTANTS:
        return value + offset
    if key in _IDS:
        return _masked(value, mask)
    if key == "stringValue" and value.startswith("{"):
        return json.dumps(_moved(json.loads(value), offset, mask), separators=(",", ":"))
    return _moved(value, offset, mask)


def _masked(text: str, mask: bytes) -> str:
    """Another id of the same length; ids that are not hex stay as they are."""
    try:
        raw = bytes.fromhex(text)
    except ValueError:
        return text
    return bytes(a ^ b for a, b in zip(raw, mask, strict=False)).hex()

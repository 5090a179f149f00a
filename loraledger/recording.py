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
    return min(instant for line in lines for instant in _instants(json.loads(line)))


def shift(lines: Iterable[str], start_ns: int, label: str) -> Iterator[str]:
    """The recording moved so that it begins in the quarter hour of `start_ns`, identities marked with `label`."""
    kept = list(lines)
    offset = (start_ns - first_instant_ns(kept)) // QUARTER_NS * QUARTER_NS
    mask = hashlib.sha256(label.encode()).digest()
    for line in kept:
        yield json.dumps(_moved(json.loads(EMITTER.sub(rf"\1-{label}", line)), offset, mask), separators=(",", ":"))


def _instants(node: Any) -> Iterator[int]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key.endswith("UnixNano"):
                yield int(value)
            else:
                yield from _instants(value)
    elif isinstance(node, list):
        for value in node:
            yield from _instants(value)


def _moved(node: Any, offset: int, mask: bytes) -> Any:
    """OTLP JSON: times are `...UnixNano` strings, our values are JSON text in `stringValue`."""
    if isinstance(node, list):
        return [_moved(value, offset, mask) for value in node]
    if not isinstance(node, dict):
        return node
    out: dict[str, Any] = {}
    for key, value in node.items():
        if key.endswith("UnixNano"):
            out[key] = str(int(value) + offset)
        elif key in ("traceId", "spanId", "parentSpanId"):
            out[key] = _masked(value, mask)
        elif key == "stringValue" and value.startswith("{"):
            out[key] = json.dumps(_body_moved(json.loads(value), offset, mask), separators=(",", ":"))
        else:
            out[key] = _moved(value, offset, mask)
    return out


def _body_moved(node: Any, offset: int, mask: bytes) -> Any:
    if isinstance(node, list):
        return [_body_moved(value, offset, mask) for value in node]
    if not isinstance(node, dict):
        return node
    out: dict[str, Any] = {}
    for key, value in node.items():
        if key in INSTANTS and value is not None:
            out[key] = value + offset
        elif key in ("trace_id", "request_id") and value is not None:
            out[key] = _masked(value, mask)
        else:
            out[key] = _body_moved(value, offset, mask)
    return out


def _masked(text: str, mask: bytes) -> str:
    """Another id of the same length; ids that are not hex stay as they are."""
    try:
        raw = bytes.fromhex(text)
    except ValueError:
        return text
    return bytes(a ^ b for a, b in zip(raw, mask, strict=False)).hex()

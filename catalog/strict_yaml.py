"""Reads one YAML document strictly: what YAML lets pass silently is an error here, and no text takes more than it should.

Duplicate keys, keys that are no text, more than one document, tags and control characters are refused. Plain scalars mean what
YAML 1.2 says (`no` and `12:30` are text, `010` is no octal number), and decimals stay exact. Anchors, aliases and merge keys work, as
long as what they unfold to stays within the bounds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

import yaml

MAX_BYTES: Final = 8 << 20
"""The largest file."""
MAX_DEPTH: Final = 32
MAX_NODES: Final = 500_000
"""The most scalars, lists and mappings, each alias counted as what it stands for."""

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_BOOL: Final = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_NULL: Final = frozenset({"", "~", "null", "Null", "NULL"})
_INT: Final = re.compile(r"[-+]?[0-9]{1,40}")
_DECIMAL: Final = re.compile(r"[-+]?([0-9]{1,40}(\.[0-9]{0,40})?|\.[0-9]{1,40})([eE][-+]?[0-9]{1,2})?")


class NotStrict(ValueError):
    """The text cannot be used; `problems` are in words, each with its line."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        super().__init__("; ".join(problems))


def decode(raw: bytes) -> str:
    """The text of a file: UTF-8, with or without its mark. NotStrict for other encodings and for too large a file."""
    if len(raw) > MAX_BYTES:
        raise NotStrict([f"the file has more than {MAX_BYTES} bytes"])
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise NotStrict([f"line {line}: byte 0x{raw[error.start]:02x} is not UTF-8; save the file as UTF-8"]) from error


def read_yaml(text: str) -> Any:
    """The document as dicts, lists, text, ints, Decimals, bools and None. NotStrict on anything else."""
    if len(text) > MAX_BYTES:
        raise NotStrict([f"the file has more than {MAX_BYTES} characters"])
    try:
        return _Reader(yaml.parse(text, Loader=_LOADER)).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = ", ".join(part for part in (error.context, error.problem) if part) or "it cannot be read"
        raise NotStrict([f"{_line(mark)}not YAML: {said}"]) from error
    except (yaml.YAMLError, UnicodeError) as error:
        raise NotStrict([f"not YAML: {' '.join(str(error).split())}"]) from error


@dataclass(slots=True)
class _Node:
    """A value that was read, and how many nodes it unfolds to."""

    value: Any
    size: int = 1
    line: int = 0


@dataclass(slots=True)
class _Reader:
    events: Iterator[Any]
    problems: list[str] = field(default_factory=list)
    anchors: dict[str, _Node | None] = field(default_factory=dict)
    nodes: int = 0

    def document(self) -> Any:
        """The only document of the stream."""
        next(self.events)  # the stream's start
        event = next(self.events)
        if isinstance(event, yaml.StreamEndEvent):
            raise NotStrict(["the file is empty"])
        node = self._node(next(self.events), 0)
        next(self.events)  # the document's end
        event = next(self.events)
        if not isinstance(event, yaml.StreamEndEvent):
            raise NotStrict([f"{_line(event.start_mark)}a second document begins; there must be one only"])
        if self.problems:
            raise NotStrict(self.problems)
        return node.value

    def _node(self, event: Any, depth: int) -> _Node:
        where = _line(event.start_mark)
        if depth > MAX_DEPTH:
            raise NotStrict([f"{where}nested more than {MAX_DEPTH} deep"])
        if isinstance(event, yaml.AliasEvent):
            return self._counted(self._alias(event, where), where)
        if event.tag not in (None, "!"):
            raise NotStrict([f"{where}the tag {event.tag} is not supported"])
        if event.anchor:
            self.anchors[event.anchor] = None
        if isinstance(event, yaml.ScalarEvent):
            node = _Node(_scalar(event) if event.implicit[0] else event.value)
        elif isinstance(event, yaml.SequenceStartEvent):
            node = self._sequence(depth)
        else:
            node = self._mapping(depth)
        node.line = event.start_mark.line + 1
        if event.anchor:
            self.anchors[event.anchor] = node
        return self._counted(node, where, 1)

    def _counted(self, node: _Node, where: str, new: int | None = None) -> _Node:
        self.nodes += node.size if new is None else new
        if self.nodes > MAX_NODES:
            raise NotStrict([f"{where}the file unfolds to more than {MAX_NODES} values"])
        return node

    def _alias(self, event: Any, where: str) -> _Node:
        if (node := self.anchors.get(event.anchor)) is None:
            raise NotStrict([f"{where}*{event.anchor} stands for nothing that was complete before it"])
        return node

    def _sequence(self, depth: int) -> _Node:
        node = _Node([])
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            item = self._node(event, depth + 1)
            node.value.append(item.value)
            node.size += item.size
        return node

    def _mapping(self, depth: int) -> _Node:
        node, lines, merged = _Node({}), dict[str, int](), list[dict[str, Any]]()
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            where = _line(event.start_mark)
            merge = isinstance(event, yaml.ScalarEvent) and event.value == "<<" and event.implicit[0]
            key, value = self._node(event, depth + 1), self._node(next(self.events), depth + 1)
            node.size += key.size + value.size
            if merge:
                merged += self._merged(value.value, where)
            elif not isinstance(key.value, str):
                self.problems.append(f"{where}the key {_shown(key.value)} is no text; write it in quotes")
            elif key.value in lines:
                self.problems.append(
                    f"{where}the key {_shown(key.value)} is given again; line {lines[key.value]} has it"
                )
            else:
                node.value[key.value], lines[key.value] = value.value, key.line
        for mapping in merged:
            for name, value in mapping.items():
                node.value.setdefault(name, value)
        return node

    def _merged(self, value: Any, where: str) -> list[dict[str, Any]]:
        mappings = value if isinstance(value, list) else [value]
        if not all(isinstance(mapping, dict) for mapping in mappings):
            self.problems.append(f"{where}<< must stand before a mapping or a list of mappings")
            return []
        return mappings


def _scalar(event: Any) -> Any:
    """What a plain scalar means by YAML 1.2's core schema; digits beyond forty stay text."""
    text: str = event.value
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if _INT.fullmatch(text):
        return int(text)
    if _DECIMAL.fullmatch(text):
        return Decimal(text)
    return text


def _line(mark: Any) -> str:
    return f"line {mark.line + 1}: " if mark is not None else ""


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:60] + "…"

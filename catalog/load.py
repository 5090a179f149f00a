"""Reads and checks a catalog file; every problem at once, each with its path."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from catalog.consistency import consistency_problems
from catalog.model import Catalog
from catalog.references import raw_reference_problems, reference_problems
from catalog.strict_yaml import MAX_BYTES, NotStrict, decode, read_yaml

MAX_PROBLEMS: Final = 200
"""How many problems are told of one file."""


class CatalogInvalid(Exception):
    """The file cannot be used; `problems` are lines of `path: what is wrong`."""

    def __init__(self, source: str, problems: list[str]) -> None:
        more = len(problems) - MAX_PROBLEMS
        self.source = source
        self.problems = problems if more <= 0 else [*problems[:MAX_PROBLEMS], f"and {more} more"]
        count = len(problems)
        super().__init__(
            f"could not use catalog {source}: {count} problem{'s' if count != 1 else ''}\n"
            + "\n".join(f"  {p}" for p in self.problems)
        )


def load(path: Path) -> Catalog:
    """Read `path`; CatalogInvalid lists everything that is wrong with it, whatever bytes it holds. Never waits for a writer."""
    return parse_bytes(read_file(path), str(path))


def read_file(path: Path) -> bytes:
    """The bytes of a regular file, no more than can be used. CatalogInvalid when there is none to read.

    A pipe would wait for its writer, so it is refused.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError("it is not a regular file")
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                return file.read(MAX_BYTES + 1)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise CatalogInvalid(str(path), [f"cannot be read: {error.strerror or error}"]) from error


def parse_bytes(raw: bytes, source: str) -> Catalog:
    """Check a catalog as a file holds it; `source` names it in errors."""
    try:
        text = decode(raw)
    except NotStrict as error:
        raise CatalogInvalid(source, error.problems) from error
    return parse(text, source)


def parse(text: str, source: str) -> Catalog:
    """Check catalog text; `source` names it in errors."""
    try:
        raw = read_yaml(text)
    except NotStrict as error:
        raise CatalogInvalid(source, error.problems) from error
    if not isinstance(raw, dict):
        raise CatalogInvalid(source, ["the file must hold a mapping at the top"])
    try:
        catalog = Catalog.model_validate(raw)
    except ValidationError as error:
        problems = [_problem(e["loc"], e["msg"], e["input"]) for e in error.errors(include_url=False)]
        raise CatalogInvalid(source, problems + raw_reference_problems(raw)) from error
    if problems := [*reference_problems(catalog), *consistency_problems(catalog)]:
        raise CatalogInvalid(source, problems)
    return catalog


def version(catalog: Catalog) -> str:
    """Content hash of the whole catalog: 12 hex digits. The routing policy version on every decision."""
    return hashlib.sha256(catalog.model_dump_json().encode()).hexdigest()[:12]


def _problem(location: tuple[str | int, ...], message: str, value: Any) -> str:
    said = message.removeprefix("Value error, ").replace(" should ", " must ")
    # A key that was written in place of its hash must not be shown.
    shown = isinstance(value, str | int | float) and "key_hashes" not in location
    return f"{_dotted(location)}: {said}" + (f" (it is {_short(value)})" if shown else "")


def _short(value: Any) -> str:
    text = ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)
    return text if len(text) <= 80 else text[:80] + "…"


def _dotted(location: Iterable[str | int]) -> str:
    out = ""
    for part in location:
        name = str(part) if isinstance(part, int) or part.isprintable() else ascii(part)
        out += f"[{name}]" if isinstance(part, int) else f".{name}" if out else name
    return out or "(top)"

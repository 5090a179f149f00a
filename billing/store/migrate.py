"""Brings a ledger's schema up to the files in `migrations/`: numbered, append-only, one statement each, hashed.

A process can die between a statement and the note that it ran. So every statement can be run again: what a file creates is
created unless it is there, and what it changes or drops says itself `IF EXISTS` or `IF NOT EXISTS`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib import resources
from typing import Final

from billing.exact.canonical import text_hash
from billing.store.clickhouse import Ledger
from billing.store.cluster import on_cluster
from billing.store.door import DATABASE
from billing.store.errors import MigrationsInvalid

_NAME: Final = re.compile(r"(\d{4})_([a-z0-9]+(?:_[a-z0-9]+)+)\.sql")
_CREATE: Final = re.compile(r"^CREATE (TABLE|VIEW|MATERIALIZED VIEW) (?!IF NOT EXISTS )", re.MULTILINE)
_AGAIN: Final = re.compile(
    r"^(CREATE (OR REPLACE VIEW|(TABLE|VIEW|MATERIALIZED VIEW) IF NOT EXISTS) |DROP \w+ IF EXISTS |ALTER TABLE \w+( ON CLUSTER '\w+')?$)",
    re.MULTILINE,
)
_CHANGE: Final = re.compile(r"^ *(ADD|DROP|RENAME|CLEAR) (?!\w+ IF (NOT )?EXISTS )", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Migration:
    """One file: `number` orders it, `hash` is the sha256 of its text."""

    number: int
    name: str
    statement: str

    @property
    def hash(self) -> str:
        """What the ledger remembers of this file."""
        return text_hash(self.statement)


def migrations() -> list[Migration]:
    """All files in order; MigrationsInvalid when a name, a number or the first line is not as agreed."""
    folder = resources.files("billing.store") / "migrations"
    return parse(
        {entry.name: entry.read_text(encoding="utf-8") for entry in folder.iterdir() if entry.name.endswith(".sql")}
    )


def parse(files: Mapping[str, str]) -> list[Migration]:
    """Migrations from file names and texts, in order; MigrationsInvalid with every fault."""
    problems: list[str] = []
    found: list[Migration] = []
    for name, statement in sorted(files.items()):
        if (match := _NAME.fullmatch(name)) is None:
            problems.append(f"{name} is not named NNNN_verb_object.sql")
            continue
        if not statement.startswith(("-- blocking: no.", "-- blocking: yes.")):
            problems.append(f"{name} does not say in its first line whether it is blocking")
        if any(line.rstrip().endswith(";") for line in statement.splitlines() if not line.startswith("--")):
            problems.append(f"{name} holds more than one statement, or ends in a semicolon")
        if not _AGAIN.search(again(statement)) or _CHANGE.search(statement):
            problems.append(f"{name} cannot be run again: it must create, or alter or drop IF EXISTS or IF NOT EXISTS")
        found.append(Migration(int(match[1]), match[2], statement))
    if [m.number for m in found] != list(range(1, len(found) + 1)):
        problems.append(f"numbers are not 1 to {len(found)} without gaps or repeats")
    if problems:
        raise MigrationsInvalid(problems)
    return found


def pending(files: Sequence[Migration], landed: Mapping[int, str]) -> list[Migration]:
    """What is still to run; MigrationsInvalid when a landed file was changed, or the ledger is ahead of the files."""
    problems = [
        f"{m.number:04d}_{m.name} was changed after it ran" for m in files if landed.get(m.number, m.hash) != m.hash
    ]
    if unknown := sorted(set(landed) - {m.number for m in files}):
        problems.append(f"the ledger has migrations {unknown} that this version does not know; use the newer version")
    if problems:
        raise MigrationsInvalid(problems)
    return [m for m in files if m.number not in landed]


def again(statement: str) -> str:
    """The statement in the form that changes nothing when it ran before."""
    return _CREATE.sub(r"CREATE \1 IF NOT EXISTS ", statement, count=1)


def migrate(ledger: Ledger, now: datetime, files: Iterable[Migration] | None = None) -> list[Migration]:
    """Run what is missing, in order, and remember each with its hash as soon as it ran; the ones that ran.

    Safe to call on every start, also after one that died anywhere in here. On a cluster each runs in the form that
    `cluster.on_cluster` gives it; the remembered hash is of the one source.
    """
    history = list(migrations() if files is None else files)
    landed: dict[int, str] = {}
    if ledger.read("schema_exists")[0]["there"]:
        landed = {row["number"]: row["hash"] for row in ledger.read("schema_migrations")}
    todo = pending(history, landed)
    for migration in todo:
        source, cluster = migration.statement, ledger.cluster
        for statement in [source] if cluster is None else on_cluster(source, cluster, DATABASE):
            ledger.execute(again(statement), f"migration {migration.number:04d}_{migration.name}")
        ran = {"number": migration.number, "name": migration.name, "hash": migration.hash, "applied_at": now}
        ledger.insert("schema_migrations", [ran])
    return todo

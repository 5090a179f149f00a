"""Brings a ledger's schema up to the files in `migrations/`: numbered, append-only, one statement each, hashed."""

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


def migrate(ledger: Ledger, now: datetime, files: Iterable[Migration] | None = None) -> list[Migration]:
    """Run what is missing, in order, and remember each with its hash; the ones that ran. Safe to call on every start.

    On a cluster each runs in the form that `cluster.on_cluster` gives it; the remembered hash is of the one source.
    """
    history = list(migrations() if files is None else files)
    landed: dict[int, str] = {}
    if ledger.read("schema_exists")[0]["there"]:
        landed = {row["number"]: row["hash"] for row in ledger.read("schema_migrations")}
    todo = pending(history, landed)
    ran: list[Migration] = []
    try:
        for migration in todo:
            source, cluster = migration.statement, ledger.cluster
            for statement in [source] if cluster is None else on_cluster(source, cluster, DATABASE):
                ledger.execute(statement, f"migration {migration.number:04d}_{migration.name}")
            ran.append(migration)
    finally:
        said = [{"number": m.number, "name": m.name, "hash": m.hash, "applied_at": now} for m in ran]
        ledger.insert("schema_migrations", said)
    return todo

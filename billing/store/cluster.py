"""The schema on a cluster: from each migration's one source, a replicated table on every node and a table spread over them."""

from __future__ import annotations

import re
from typing import Final

_CREATE: Final = re.compile(r"^CREATE (TABLE|VIEW|OR REPLACE VIEW|MATERIALIZED VIEW) (\w+)(?: TO (\w+))?", re.MULTILINE)
_ALTER: Final = re.compile(r"^ALTER TABLE (\w+)$", re.MULTILINE)
_COLUMN: Final = re.compile(r"^ADD COLUMN ", re.MULTILINE)
_ENGINE: Final = re.compile(r"^ENGINE = (\w*MergeTree)(?:\(([^)]*)\))?$", re.MULTILINE)
_ORDER: Final = re.compile(r"^ORDER BY (.+)$", re.MULTILINE)
_FROM: Final = re.compile(r"^FROM (\w+)$", re.MULTILINE)

SETTINGS: Final = {"distributed_foreground_insert": "1", "prefer_global_in_and_join": "1"}
"""A write is on its shard before it is answered, and a lookup inside a query sees every shard."""


def on_cluster(statement: str, cluster: str, database: str) -> list[str]:
    """The statements that do on `cluster` what one migration does on one server. ValueError when it neither creates nor alters.

    Rows are spread by a hash of their whole sorting key, so all versions of one row meet on one shard, where FINAL sees them.
    A materialized view works on the local tables: each shard feeds its own. So does a change that only they know of, an index; a column is one of both.
    """
    if (altered := _ALTER.search(statement)) is not None:
        tables = [f"{altered[1]}_local", altered[1]] if _COLUMN.search(statement) else [f"{altered[1]}_local"]
        return [_replace(statement, altered, f"ALTER TABLE {table} ON CLUSTER '{cluster}'") for table in tables]
    created = _CREATE.search(statement)
    if created is None:
        raise ValueError(f"could not spread over cluster {cluster}: the statement creates nothing: {statement[:80]!r}")
    kind, name, target = created.groups()
    if kind in ("VIEW", "OR REPLACE VIEW"):
        return [_replace(statement, created, f"CREATE {kind} {name} ON CLUSTER '{cluster}'")]
    if kind == "MATERIALIZED VIEW":
        local = _FROM.sub(r"FROM \1_local", statement)
        return [_replace(local, created, f"CREATE MATERIALIZED VIEW {name} ON CLUSTER '{cluster}' TO {target}_local")]
    engine, order = _ENGINE.search(statement), _ORDER.search(statement)
    if engine is None or order is None:
        raise ValueError(
            f"could not spread table {name} over cluster {cluster}: it has no MergeTree engine or no sorting key"
        )
    place = f"'/clickhouse/tables/{{shard}}/{database}/{name}_local', '{{replica}}'"
    arguments = f"{place}, {engine[2]}" if engine[2] else place
    replicated = _replace(statement, engine, f"ENGINE = Replicated{engine[1]}({arguments})")
    key = order[1].removeprefix("(").removesuffix(")") if order[1].startswith("(") else order[1]
    return [
        _replace(replicated, created, f"CREATE TABLE {name}_local ON CLUSTER '{cluster}'"),
        f"CREATE TABLE {name} ON CLUSTER '{cluster}' AS {name}_local\n"
        f"ENGINE = Distributed('{cluster}', '{database}', '{name}_local', cityHash64({key}))\n",
    ]


def _replace(text: str, match: re.Match[str], by: str) -> str:
    return text[: match.start()] + by + text[match.end() :]

"""The ClickHouse queries on the boards, one file each below `sql`."""

from __future__ import annotations

from functools import cache
from importlib import resources


@cache
def sql_queries() -> dict[str, str]:
    """Every file's query by its name, without the leading and trailing blank lines."""
    folder = resources.files("dashboards") / "sql"
    return {
        entry.name.removesuffix(".sql"): entry.read_text(encoding="utf-8").strip()
        for entry in folder.iterdir()
        if entry.name.endswith(".sql")
    }

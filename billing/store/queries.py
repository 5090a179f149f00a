"""Named SQL: one statement a file under `sql/`, parameters as `{name:Type}`."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Final

_PACKAGE: Final = "billing.store"


@cache
def text(name: str) -> str:
    """The statement in `sql/<name>.sql`; FileNotFoundError when there is none."""
    return (resources.files(_PACKAGE) / "sql" / f"{name}.sql").read_text(encoding="utf-8").strip()


def names() -> list[str]:
    """Every named statement, sorted."""
    return sorted(
        entry.name.removesuffix(".sql")
        for entry in (resources.files(_PACKAGE) / "sql").iterdir()
        if entry.name.endswith(".sql")
    )

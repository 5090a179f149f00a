"""Named SQL: one statement a file under `sql/`, in the folder of its theme; parameters as `{name:Type}`."""

from __future__ import annotations

from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

_PACKAGE: Final = "billing.store"


@cache
def text(name: str) -> str:
    """The statement in `sql/<theme>/<name>.sql`; FileNotFoundError when there is none."""
    try:
        return _files()[name].read_text(encoding="utf-8").strip()
    except KeyError:
        raise FileNotFoundError(f"there is no statement {name}.sql") from None


def names() -> list[str]:
    """Every named statement, sorted."""
    return sorted(_files())


@cache
def _files() -> dict[str, Traversable]:
    themes = (resources.files(_PACKAGE) / "sql").iterdir()
    files = [entry for theme in themes if theme.is_dir() for entry in theme.iterdir()]
    return {entry.name.removesuffix(".sql"): entry for entry in files if entry.name.endswith(".sql")}

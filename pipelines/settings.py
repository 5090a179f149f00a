"""Where the ledger, the spool, the catalog and the documents are; read from the environment in `definitions.py` only."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

DEFAULT_START: Final = "2026-01-01"
_PLACES: Final = tuple(f"LORALEDGER_{name}" for name in ("DSN", "SPOOL", "CATALOG", "OUT", "SNAPSHOT"))


class PipelineError(Exception):
    """Base of every error of the pipelines' own."""


class SettingsInvalid(PipelineError):
    """Settings are missing or wrong; `problems` lists all of them."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = list(problems)
        super().__init__("could not read settings: " + "; ".join(problems))


def font_folders(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The folders that LORALEDGER_FONTS names, absolute."""
    return tuple(Path(part).absolute() for part in environ.get("LORALEDGER_FONTS", "").split(os.pathsep) if part)


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the pipelines read and write.

    `snapshot` is the file that tells the gateways the ledger's figures; `fonts` are folders of fonts beside those that come
    with the program; `start` is the first day (UTC) that has partitions.
    """

    dsn: str
    spool: Path
    catalog: Path
    out: Path
    snapshot: Path
    start: str = DEFAULT_START
    fonts: tuple[Path, ...] = ()

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Settings:
        """LORALEDGER_DSN, _SPOOL, _CATALOG, _OUT, _SNAPSHOT, _FONTS (folders, with `:` between them), _WAIT_S and _START.

        SettingsInvalid with every problem.
        """
        start = environ.get("LORALEDGER_START", DEFAULT_START)
        problems = [f"{name} must not be empty" for name in _PLACES if environ.get(name) == ""]
        try:
            datetime.strptime(start, "%Y-%m-%d")  # noqa: DTZ007
        except ValueError:
            problems.append(f"LORALEDGER_START must be a day such as {DEFAULT_START}, is {start!r}")
        if problems:
            raise SettingsInvalid(problems)
        return cls(
            dsn=patient(environ.get("LORALEDGER_DSN", "chdb:///var/lib/loraledger/ledger"), environ),
            spool=Path(environ.get("LORALEDGER_SPOOL", "/var/lib/loraledger/spool")),
            catalog=Path(environ.get("LORALEDGER_CATALOG", "/etc/loraledger/catalog.yaml")),
            out=Path(environ.get("LORALEDGER_OUT", "/var/lib/loraledger/invoices")),
            snapshot=Path(environ.get("LORALEDGER_SNAPSHOT", "/var/lib/loraledger/snapshot.json")),
            fonts=font_folders(environ),
            start=start,
        )


def patient(dsn: str, environ: Mapping[str, str]) -> str:
    """The DSN with LORALEDGER_WAIT_S in it, where one waits for a ledger and it does not say for how long itself."""
    wait_s = environ.get("LORALEDGER_WAIT_S")
    if not wait_s or not dsn.startswith("chdb:") or "wait_s=" in dsn:
        return dsn
    return f"{dsn}{'&' if '?' in dsn else '?'}{urlencode({'wait_s': wait_s})}"

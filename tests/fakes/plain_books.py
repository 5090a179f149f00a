"""Books that are told by plain usage lines and kept by the command line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from loraledger.cli import app
from loraledger.settings import Settings
from telemetry.usage import Status, UsageRecord
from tests.conftest import EXAMPLE

S = 1_000_000_000


def catalog(path: Path, *changes: tuple[str, str]) -> Path:
    """The example with these changes, each of a text that it has."""
    text = EXAMPLE.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    path.write_text(text)
    return path


def plain(path: Path, *used: tuple[str, int], tokens: int = 1_000_000, first: int = 0) -> Path:
    """So many input tokens for each tenant and instant, as plain usage lines numbered from `first`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    records = [
        UsageRecord("f", seq, f"r{seq}", tenant, at_ns, at_ns + S, Status.OK, input_tokens=tokens, cached_tokens=0,
                    output_tokens_computed=0, output_tokens_delivered=0)
        for seq, (tenant, at_ns) in enumerate(used, first)
    ]  # fmt: skip
    path.write_text("".join(record.to_json() + "\n" for record in records))
    return path


def settings(home: Path, declared: Path) -> Settings:
    """What these options of the command line name."""
    return replace(Settings.from_environ({"LORALEDGER_HOME": str(home)}), catalog=declared)


def run(home: Path, declared: Path, *arguments: str, code: int = 0) -> Any:
    """What the command says as JSON, or the words with which it refuses."""
    done = CliRunner().invoke(app, [*arguments, "--home", str(home), "--catalog", str(declared), "--json"])
    assert done.exit_code == code, (done.output, done.exception)
    return json.loads(done.stdout) if done.stdout else done.stderr

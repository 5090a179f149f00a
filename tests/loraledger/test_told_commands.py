"""What documents tell people to type is there: each command, and each option of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer.main

from loraledger.cli import app

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "alerts" / "runbooks").glob("*.md")),
]
TOLD = re.compile(r"(?:`|bin/|^ +|^\$ )loraledger ([a-z][^`\n]*)", re.MULTILINE)
COMMANDS = typer.main.get_command(app)


def unknown(text: str) -> list[str]:
    """What of a told command line, the name of the program aside, is no command and no option of it."""
    words = text.split(" #")[0].split()
    command: Any = COMMANDS
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    if command is COMMANDS:
        return [text]
    known = [command, *getattr(command, "commands", {}).values()]
    options = {option for one in known for parameter in one.params for option in parameter.opts}
    return [word for word in words if word.startswith("--") and word.split("=")[0] not in options | {"--help"}]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_that_a_page_tells_exists(page: Path) -> None:
    told = [re.split(r"[|;&<>\"]", line)[0].strip() for line in TOLD.findall(page.read_text())]
    assert {line: wrong for line in told if (wrong := [w for part in line.split(" | ") for w in unknown(part)])} == {}


def test_the_pages_do_tell_commands() -> None:
    assert sum(len(TOLD.findall(page.read_text())) for page in PAGES) > 60


@pytest.mark.parametrize(("line", "wrong"), [("plan --help", ["plan --help"]), ("close 2026-10 --now", ["--now"])])
def test_a_command_that_is_not_there_is_seen(line: str, wrong: list[str]) -> None:
    assert unknown(line) == wrong

"""What documents tell people to type is there, each command with its options; and one page has all that there is."""

from __future__ import annotations

import re
from typing import Any

import pytest
import typer.cli
import typer.main

from loraledger import console
from loraledger.cli import app
from tests.docs.pages import PAGES, ROOT, found

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


@pytest.mark.parametrize("page", PAGES)
def test_every_command_that_a_page_tells_exists(page: str) -> None:
    told = [re.split(r"[|;&<>\"]", line)[0].strip() for line in TOLD.findall(PAGES[page])]
    assert {line: wrong for line in told if (wrong := [w for part in line.split(" | ") for w in unknown(part)])} == {}


def test_the_pages_do_tell_commands() -> None:
    assert sum(len(TOLD.findall(text)) for text in PAGES.values()) > 60


@pytest.mark.parametrize(("line", "wrong"), [("plan --help", ["plan --help"]), ("close 2026-10 --now", ["--now"])])
def test_a_command_that_is_not_there_is_seen(line: str, wrong: list[str]) -> None:
    assert unknown(line) == wrong


def test_the_page_of_commands_has_each_with_all_its_options() -> None:
    """What `typer utils docs` writes: `make generate`."""
    context = typer.Context(COMMANDS, info_name="loraledger")
    page = typer.cli.get_docs_for_click(obj=COMMANDS, ctx=context, name="loraledger")
    assert PAGES["docs/commands.md"].strip() == page.strip(), "run make generate"


def test_exit_codes_are_those_of_the_program() -> None:
    codes = {console.OK, console.FAILED, console.INVALID, console.REFUSED}
    listed = re.search(r"^Exit codes: (.+?)\n\n", PAGES["README.md"], re.MULTILINE | re.DOTALL)
    assert listed is not None
    assert {int(code) for code in re.findall(r"(?:^|, )(\d) [a-z]", listed[1].replace("\n", " "))} == codes
    told = found(r"\b[Ee]xit(?:s|ing)?(?: with)?(?: code| status)?(?: is)? (\d+)\b")
    assert len(told) > 2
    assert {int(code) for page in told.values() for code in page} <= codes


def test_make_targets_are_those_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE))
    told = found(r"(?:`|^ +|^\$ |/ )make ([a-z-]+)")
    assert set().union(*told.values()) == targets - {"help"}
    assert set(re.findall(r"[a-z-]+", makefile.splitlines()[0].removeprefix("# make"))) <= targets

"""Files that are generated and committed: written anew, or compared with what would be written now."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path


def write(directory: Path, files: Mapping[str, str]) -> list[Path]:
    """Write each text to its path below `directory`, folders made if missing; returns the paths."""
    paths = {directory / name: text for name, text in files.items()}
    for path, text in paths.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return list(paths)


def stale(directory: Path, files: Mapping[str, str]) -> list[Path]:
    """Files below `directory` that differ from these texts, missing ones included."""
    paths = {directory / name: text for name, text in files.items()}
    return [path for path, text in paths.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]


def add_check(parser: argparse.ArgumentParser) -> None:
    """Give a command the option `--check`."""
    parser.add_argument("--check", action="store_true", help="only compare; exit 1 when a file is out of date")


def write_or_check(directory: Path, files: Mapping[str, str], check: bool, command: str) -> int:
    """Write and print the paths; with `check` write nothing, name what is out of date and return 1 if anything is."""
    if check:
        outdated = stale(directory, files)
        for path in outdated:
            sys.stderr.write(f"{path} is out of date: run {command}\n")
        return 1 if outdated else 0
    for path in write(directory, files):
        sys.stdout.write(f"{path}\n")
    return 0

"""The documents that people read, and how words are found in them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = {
    str(path.relative_to(ROOT)): path.read_text()
    for path in [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *sorted((ROOT / "docs").rglob("*.md")),
        *sorted((ROOT / "alerts" / "runbooks").glob("*.md")),
        *sorted((ROOT / "deploy").iterdir()),
    ]
}
TEXT: Final = "\n".join(PAGES.values())


def found(pattern: str) -> dict[str, set[str]]:
    """What the pattern finds, page by page; pages without it are left out."""
    expression = re.compile(pattern, re.MULTILINE)
    return {page: words for page, text in PAGES.items() if (words := set(expression.findall(text)))}


def strange(pattern: str, known: set[str] | frozenset[str]) -> dict[str, set[str]]:
    """What the pattern finds and nobody knows, page by page."""
    return {page: words - known for page, words in found(pattern).items() if words - known}

"""Nothing is kept that nobody uses: each name of the product stands somewhere beside where it is defined, each statement is asked."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
ROOMS: Final = ("alerts", "billing", "catalog", "dashboards", "loraledger", "pipelines", "serving", "telemetry")
FILES: Final = [path for room in ROOMS for path in (ROOT / room).rglob("*") if path.suffix in {".py", ".j2"}]
WORDS: Final = Counter(word for path in FILES for word in re.findall(r"\w+", path.read_text()))
KEPT: Final = {
    "eof_received": "asyncio calls it",
    "log_engine_initialized": "vLLM calls it",
    "prepend_requests": "vLLM calls it",
    "remove_request": "vLLM calls it",
    "_flags_may_be_set": "pydantic calls it",
    "_flags_are_named_once": "pydantic calls it",
    "issue_month": "the invoices of a month, for benches and tests",
    "parse_line": "a line whole or not at all, for tests and benches",
    "replays": "asks a past decision again",
    "prefill_tokens": "stands in the meter's public stream",
    "decode_tokens": "stands in the meter's public stream",
}
"""What the product defines and never names again, and for whom it is there."""


def _defined(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def test_every_name_is_used() -> None:
    names = {name for path in FILES if path.suffix == ".py" for name in _defined(ast.parse(path.read_text()))}
    assert {name for name in names if WORDS[name] == 1 and not name.startswith("__")} == set(KEPT)


def test_every_statement_is_asked() -> None:
    code = "\n".join(path.read_text() for path in (ROOT / "billing").rglob("*.py"))
    made = re.findall(r'read\(f"(\w*)\{\w+\}(\w*)"', code)
    statements = {path.stem for path in (ROOT / "billing" / "store" / "sql").rglob("*.sql")}
    assert len(statements) > 50
    assert {
        name
        for name in statements
        if f'"{name}"' not in code and not any(name.startswith(first) and name.endswith(last) for first, last in made)
    } == set()

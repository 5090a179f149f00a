"""The house rules that a linter does not know: sizes, names, exact arithmetic, words that must not appear."""

from __future__ import annotations

import ast
import importlib.metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("alerts", "billing", "catalog", "dashboards", "loraledger", "pipelines", "serving", "telemetry")
SOURCES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
BANNED_NAMES = {"utils", "helpers", "common", "core", "base", "manager", "misc"}
MAX_LINES = 400
MAX_FUNCTION_LINES = 60
PURE_MONEY = (
    "billing/exact/money.py",
    "billing/exact/quantities.py",
    "billing/cost/attribution.py",
    "billing/invoice/rating.py",
    "billing/invoice/invoice.py",
    "catalog/apportionment.py",
    "catalog/tariff.py",
    "serving/policy/budgets.py",
    "serving/policy/charges.py",
    "serving/step_model/mixing.py",
    "serving/step_model/roofline.py",
    "serving/step_model/split.py",
)


def test_no_source_file_is_too_long_or_named_like_a_drawer() -> None:
    long = {str(p.relative_to(ROOT)): n for p in SOURCES if (n := len(p.read_text().splitlines())) > MAX_LINES}
    assert not long
    assert not [p for p in SOURCES if p.stem in BANNED_NAMES]


def test_functions_are_short() -> None:
    """Their complexity is held by ruff (C901)."""
    long = {
        f"{path.relative_to(ROOT)}: {node.name}": lines
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or 0) - node.lineno + 1) > MAX_FUNCTION_LINES
    }
    assert not long


def test_packages_hold_a_docstring_and_nothing_else() -> None:
    for path in SOURCES:
        if path.name == "__init__.py":
            body = ast.parse(path.read_text()).body
            assert len(body) == 1, path
            assert isinstance(body[0], ast.Expr), path


def test_tests_are_no_packages() -> None:
    assert not list((ROOT / "tests").rglob("__init__.py"))


@pytest.mark.parametrize("name", PURE_MONEY)
def test_money_and_time_are_split_without_binary_fractions(name: str) -> None:
    tree = ast.parse((ROOT / name).read_text())
    floats = [n.lineno for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, float)]
    names = [n.lineno for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == "float"]
    divisions = [n.lineno for n in ast.walk(tree) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div)]
    if "quantities" in name or "split" in name:
        assert not divisions
    assert not floats
    assert not names


def test_the_rooms_belong_to_this_distribution_alone() -> None:
    owners = importlib.metadata.packages_distributions()
    for room in ROOMS:
        module = __import__(room)
        assert module.__file__ is not None
        assert Path(module.__file__).is_relative_to(ROOT)
        assert set(owners.get(room, ["loraledger"])) == {"loraledger"}


def test_every_decision_says_context_choice_and_price() -> None:
    decisions = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    assert decisions
    for path in decisions:
        text = path.read_text()
        for heading in ("## Context", "## Choice", "## Price paid"):
            assert heading in text, f"{path.name} lacks {heading}"


def test_the_changelog_names_the_version() -> None:
    assert f"## {importlib.metadata.version('loraledger')}" in (ROOT / "CHANGELOG.md").read_text()

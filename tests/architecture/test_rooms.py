"""Rooms inside the two big packages: no circles, and in `serving` few enough to keep in one's head."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("alerts", "billing", "catalog", "dashboards", "loraledger", "pipelines", "serving", "telemetry")
MOST_ROOMS = 10
MOST_ARROWS = 25


def _imported(path: Path) -> set[str]:
    """Full names of what a module imports, also inside functions."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names


def arrows(package: str) -> dict[str, set[str]]:
    """Each room of a package and the rooms that it imports."""
    rooms = {path.parent.name for path in (ROOT / package).glob("*/__init__.py")}
    found: dict[str, set[str]] = defaultdict(set, {room: set() for room in rooms})
    for room in rooms:
        for path in (ROOT / package / room).rglob("*.py"):
            for name in _imported(path):
                parts = name.split(".")
                if parts[0] == package and len(parts) > 1 and parts[1] in rooms - {room}:
                    found[room].add(parts[1])
    return found


@pytest.mark.parametrize("package", ["billing", "serving"])
def test_no_rooms_import_each_other_in_a_circle(package: str) -> None:
    assert list(TopologicalSorter(arrows(package)).static_order())


def test_serving_has_few_rooms_and_few_arrows_between_them() -> None:
    found = arrows("serving")
    assert len(found) <= MOST_ROOMS, sorted(found)
    assert sum(map(len, found.values())) <= MOST_ARROWS, found


def test_a_public_class_of_serving_has_its_name_alone() -> None:
    named = Counter(
        node.name
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    classes = {
        node.name
        for path in (ROOT / "serving").rglob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef)
    }
    assert not {name for name in classes if named[name] > 1}

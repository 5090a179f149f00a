"""The faults that `make mutants` puts in: each is what its name says, nothing that only changes words is one, and no excuse outlives its line."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("cosmic_ray", reason="cosmic-ray is not installed")
pytest.importorskip("sqlglot", reason="sqlglot is not installed")

from bench.mutants.__main__ import RESULT, ROOT, Tried, equivalent, table
from bench.mutants.fault import Fault
from bench.mutants.python_faults import python_faults
from bench.mutants.sql_faults import sql_faults, written
from bench.mutants.targets import MONEY, TARGETS, Target

SOURCE = '''
def left(rows: "list[int | None]", limit: int = 3) -> "list[int]":
    """Rows under the limit."""
    if limit < 0:
        raise ValueError(f"could not take {limit + 1}")
    found = [row for row in rows if row]
    found.append(limit)
    log.info("%d", limit - 1)
    return replace(found, first=a, last=b) if found and limit else min(found)
'''


def test_faults_of_python_are_those_of_guards_conditions_filters_statements_and_values() -> None:
    found = {(fault.kind, fault.after) for fault in python_faults("x.py", SOURCE)}
    assert {
        ("guard dropped", "if False:"),
        ("ReplaceComparisonOperator_Lt_LtE", "if limit <= 0:"),
        ("filter dropped", "found = [row for row in rows if True]"),
        ("statement dropped", "pass"),
        ("condition dropped", "return replace(found, first=a, last=b) if found and True else min(found)"),
        ("values swapped", "return replace(found, first=b, last=a) if found and limit else min(found)"),
        ("field not set", "return replace(found, **{}, last=b) if found and limit else min(found)"),
        ("other end", "return replace(found, first=a, last=b) if found and limit else max(found)"),
    } <= found
    assert not [after for _, after in found if "ValueError" in after or "log" in after]


def test_faults_of_sql_are_those_of_conditions_joins_aggregates_and_columns() -> None:
    text = written("SELECT min(a) AS x, b AS y FROM t LEFT JOIN u ON t.i = u.i WHERE a < {at:Int64} AND b = 1")
    faults = sql_faults("x.sql", text)
    found = {(fault.kind, fault.before, fault.after) for fault in faults}
    assert {
        ("other join", "LEFT JOIN u", "JOIN u"),
        ("condition dropped", "a < {at: Int64} AND b = 1", "b = 1"),
        ("other operator", "a < {at: Int64} AND b = 1", "a <= {at: Int64} AND b = 1"),
        ("number", "a < {at: Int64} AND b = 1", "a < {at: Int64} AND b = 2"),
    } <= found
    assert any("MAX(a) AS x" in fault.text for fault in faults if fault.kind == "other operator")
    assert any("b AS x" in fault.text for fault in faults if fault.kind == "columns swapped")
    assert written(text) == text


def test_every_target_has_its_files_and_its_tests() -> None:
    for target in TARGETS:
        assert target.paths(ROOT), target.name
        assert [test for test in target.tests if not (ROOT / test).exists()] == []


def test_an_equivalent_fault_is_one_that_can_still_be_put_in_and_has_its_reason() -> None:
    known = equivalent()
    made = {path: python_faults(path, (ROOT / path).read_text()) for path, _, _ in known}
    assert [name for name in known if name not in {fault.name for fault in made[name[0]]}] == []
    assert all(known.values())


def test_what_was_found_is_of_those_that_ran_and_change_something() -> None:
    target = Target("t", (), (), MONEY)
    verdicts = ("killed", "killed", "timed out", "lived", "equivalent", "not run")
    found = [Tried(target, Fault("x.py", "k", n, "a", "b", ""), verdict) for n, verdict in enumerate(verdicts)]
    assert table(found) == [
        {"target": "t", "killed": 3, "lived": 1, "equivalent": 1, "not run": 1, "found": 75.0, "due": 97}
    ]


def test_the_page_says_what_was_measured() -> None:
    kept = json.loads(RESULT.read_text())
    assert set(kept) <= {target.name for target in TARGETS}
    rows = {
        f"| {name} | {row['killed']} | {row['lived']} | {row['equivalent']} | {row['found']} % |"
        for name, row in kept.items()
    }
    page = (ROOT / "docs" / "testing.md").read_text()
    assert {line for line in page.splitlines() if line.endswith(" % |")} == rows

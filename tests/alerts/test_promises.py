from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from alerts.promises import DAY, DEFAULT
from alerts.routing import alertmanager
from alerts.rules import recorded_names, rule_file


def _values(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from _values(getattr(value, field.name), f"{name}.{field.name}")
    elif isinstance(value, tuple):
        for number, one in enumerate(value):
            yield from _values(one, f"{name}.{number}")
    else:
        yield name, value


def test_a_faster_clock_shortens_every_duration_and_count_alike_and_moves_no_threshold() -> None:
    kept = {".adapters.cold_min_slow", ".ledger.margin_min_cost"}
    faster = dict(_values(DEFAULT.compressed(60)))
    for name, value in _values(DEFAULT):
        if isinstance(value, int) and name not in kept:
            assert faster[name] == max(1, -(-value // 60)), name
        else:
            assert faster[name] == value, name
            assert name in kept or isinstance(value, Decimal | str), name


def test_the_clock_of_production_is_the_default() -> None:
    assert DEFAULT.compressed(1) == DEFAULT
    assert alertmanager(faster=1) == alertmanager()


def test_faster_rules_are_the_same_rules() -> None:
    def shape(rules: dict[str, Any]) -> list[str]:
        return [rule.get("alert", rule.get("record")) for group in rules["groups"] for rule in group["rules"]]

    assert shape(rule_file(DEFAULT.compressed(60))) == shape(rule_file())
    assert recorded_names(DEFAULT.compressed(60)) == recorded_names()


def test_a_clock_too_fast_for_its_scrapes_is_refused() -> None:
    with pytest.raises(ValueError, match="hold too few scrapes"):
        DEFAULT.compressed(120)


def test_the_rows_spend_what_the_workbook_says_of_a_thirty_day_budget() -> None:
    assert [Fraction(row.factor) * row.long / (30 * DAY) for row in DEFAULT.budget.rows] == [
        Fraction(2, 100),
        Fraction(5, 100),
        Fraction(1, 10),
        Fraction(1, 10),
    ]
    assert all(row.short * 12 == row.long for row in DEFAULT.budget.rows)


def test_thresholds_are_exact_decimals() -> None:
    assert [row.threshold(DEFAULT.budget.share) for row in DEFAULT.budget.rows] == list(
        map(Decimal, ("0.144", "0.06", "0.03", "0.01"))
    )

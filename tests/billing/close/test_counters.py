"""Gaps between the engine's counters, the meter and the records have names, and what has none is shown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from billing.close.counters import ABORT, LATE, RESTART, SEVERAL, UNCLAIMED, Counted, Gap, explain
from telemetry.engine_time import EngineCounters

METER = {
    "requests": 10,
    "prompt_tokens": 1000,
    "output_tokens": 200,
    "preemptions": 2,
    "aborted_requests": 0,
    "aborted_prompt_tokens": 0,
    "aborted_output_tokens": 0,
    "again_prompt_tokens": 0,
    "claimed_attempts": 10,
    "claimed_prompt_tokens": 1000,
    "claimed_output_tokens": 200,
    "in_flight_requests": 0,
    "in_flight_prompt_tokens": 0,
    "in_flight_output_tokens": 0,
}
EVEN = EngineCounters("eng-1", 3, "cpu-0", 1, 2, True, 1000, 200, 2, {"length": 10}, METER)
USAGE = Counted(10, 1000, 200)
CACHED = {"cached_tokens": 96, "again_cached_tokens": 0, "claimed_cached_tokens": 96} | dict.fromkeys(
    ("aborted_cached_tokens", "in_flight_cached_tokens"), 0
)


def found(counters: EngineCounters, usage: Counted = USAGE, **meter: int) -> dict[tuple[str, str], Gap]:
    gaps = explain(structs.replace(counters, meter=METER | meter), usage)
    assert len(gaps) == 5
    return {(gap.what, gap.smaller): gap for gap in gaps}


def test_three_even_accounts_have_no_gap() -> None:
    assert [(gap.difference, gap.causes, gap.unexplained) for gap in explain(EVEN, USAGE)] == [(0, {}, 0)] * 5


def test_what_was_given_up_explains_no_more_than_it_counted() -> None:
    gap = found(structs.replace(EVEN, output_tokens=190), aborted_requests=1, aborted_output_tokens=12)[
        "output tokens", "engine"
    ]
    assert (gap.difference, gap.causes, gap.unexplained) == (10, {ABORT: 10}, 0)
    gap = found(structs.replace(EVEN, output_tokens=185), aborted_requests=1, aborted_output_tokens=12)[
        "output tokens", "engine"
    ]
    assert (gap.causes, gap.unexplained) == ({ABORT: 12}, 3)
    gap = found(structs.replace(EVEN, output_tokens=201), aborted_requests=1, aborted_output_tokens=12)[
        "output tokens", "engine"
    ]
    assert (gap.causes, gap.unexplained) == ({}, -1)


def test_prompts_of_several_samples_and_what_nobody_asked_for_are_named_between_meter_and_records() -> None:
    usage = Counted(7, 600, 190)
    gaps = found(EVEN, usage, again_prompt_tokens=300, claimed_prompt_tokens=600, claimed_output_tokens=190)
    assert gaps["prompt tokens", "usage"].causes == {SEVERAL: 300, UNCLAIMED: 100}
    assert gaps["output tokens", "usage"].causes == {UNCLAIMED: 10}
    assert [gap.unexplained for gap in gaps.values()] == [0] * 5


def test_what_was_cached_of_prompts_is_held_against_each_other_where_the_engine_told_it() -> None:
    reading = structs.replace(EVEN, cached_tokens=96)
    even = explain(structs.replace(reading, meter=METER | CACHED), replace(USAGE, cached_tokens=96))
    assert [(gap.difference, gap.unexplained) for gap in even] == [(0, 0)] * 7
    several = METER | CACHED | {"again_cached_tokens": 64, "claimed_cached_tokens": 32}
    gaps = {
        (gap.what, gap.smaller): gap
        for gap in explain(structs.replace(reading, meter=several), replace(USAGE, cached_tokens=32))
    }
    assert gaps["cached tokens", "usage"].causes == {SEVERAL: 64}
    assert [gap.unexplained for gap in gaps.values()] == [0] * 7
    first_one_only = explain(structs.replace(reading, meter=METER | CACHED), replace(USAGE, cached_tokens=32))
    assert [gap.unexplained for gap in first_one_only] == [0, 0, 0, 0, 0, 64, 0]


def test_a_record_that_is_missing_is_unexplained() -> None:
    gaps = found(EVEN, Counted(9, 900, 180))
    assert [gap.unexplained for gap in gaps.values()] == [0, 100, 0, 20, 0]


def test_a_process_that_died_is_a_restart_and_what_was_in_it_is_late() -> None:
    died = structs.replace(EVEN, final=False, output_tokens=207, prompt_tokens=1040)
    gaps = found(
        died, Counted(8, 800, 160), in_flight_requests=1, in_flight_prompt_tokens=50, in_flight_output_tokens=7
    )
    assert gaps["prompt tokens", "engine"].causes == {LATE: 10}
    assert gaps["output tokens", "engine"].causes == {}
    assert gaps["prompt tokens", "usage"].causes == {LATE: 50, RESTART: 200}
    assert [gap.unexplained for gap in gaps.values()] == [0] * 5


@pytest.mark.parametrize("wrong", [{"final": 1}, {"requests": {"length": 1.5}}, {"meter": []}, {"prompt_tokens": None}])
def test_a_reading_survives_json_and_a_wrong_one_is_refused(wrong: dict[str, Any]) -> None:
    assert EngineCounters.from_json(EVEN.to_json()) == EVEN
    with pytest.raises((TypeError, ValueError)):
        EngineCounters.from_json(EngineCounters(**(structs.asdict(EVEN) | wrong)).to_json())

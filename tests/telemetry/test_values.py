"""The JSON of a value is what the standard library writes of it, byte for byte, and nothing that is not a value is read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from telemetry.engine_time import EngineCounters, MeterWindow, SystemCause
from telemetry.routes import RouteInput, RouteRecord

ANY_TEXT = st.text(st.characters() | st.characters(categories=["Cs"]) | st.sampled_from('\0\x1f\x7f"\\/'), max_size=12)
INT64 = st.integers(-(2**63), 2**63 - 1)
COUNTERS = st.builds(
    EngineCounters, ANY_TEXT, INT64, ANY_TEXT, INT64, INT64, st.booleans(), INT64, INT64, INT64,
    st.dictionaries(ANY_TEXT, INT64, max_size=3), st.dictionaries(ANY_TEXT, INT64, max_size=3), st.none() | INT64,
)  # fmt: skip


def whole(text: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


@given(COUNTERS)
def test_the_bytes_are_those_of_the_standard_library(counters: EngineCounters) -> None:
    text = counters.to_json()
    assert text == json.dumps(structs.asdict(counters), separators=(",", ":"))
    if all(map(whole, (counters.emitter, counters.engine, *counters.requests, *counters.meter))):
        assert EngineCounters.from_json(text) == EngineCounters.from_json(text.encode()) == counters
    else:
        with pytest.raises(ValueError, match="half a surrogate pair"):
            EngineCounters.from_json(text)


def test_an_enum_names_a_part_as_its_text_does() -> None:
    window = MeterWindow("m-1", 0, "e1", 0, 5, 0, 0, {SystemCause.LOOP: 5})
    assert '"system_ns":{"loop":5}' in window.to_json()
    assert MeterWindow.from_json(window.to_json()) == window


ROUTE = RouteRecord(RouteInput("acme", None, "ab", ("icd10",)), "legal", "by-content", "01", "e1", "hit")


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"asked": None}, r"Expected `object`, got `null` - at `\$.asked`"),
        ({"asked": {"tenant": "acme", "model": None}}, r"missing required field `sticky` - at `\$.asked`"),
        ({"asked": {"tenant": "acme", "model": 5, "sticky": ""}}, r"at `\$.asked.model`"),
        ({"asked": {"tenant": "acme", "model": None, "sticky": "", "matched": "ab"}}, r"at `\$.asked.matched`"),
        ({"colour": "red"}, "unknown field `colour`"),
        ({"reason": True}, r"Expected `str`, got `bool` - at `\$.reason`"),
    ],
)
def test_what_is_no_decision_is_refused_with_the_place(change: dict[str, Any], fault: str) -> None:
    assert RouteRecord.from_json(ROUTE.to_json()) == ROUTE
    with pytest.raises(ValueError, match=fault):
        RouteRecord.from_json(json.dumps(json.loads(ROUTE.to_json()) | change))

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from catalog.durations import QUARTER_NS
from telemetry.usage import SCHEMA, ErrorType, Slice, Status, UsageInvalid, UsageRecord

NS = st.integers(0, 2**63 - 1)
TEXT = st.text(min_size=1, max_size=8)
SLICES = st.builds(Slice, st.integers(0, 10**7).map(lambda n: n * QUARTER_NS), NS, NS, NS, NS, NS)
RECORDS = st.builds(
    UsageRecord,
    emitter=TEXT,
    seq=NS,
    request_id=TEXT,
    tenant=TEXT,
    arrival_ns=NS,
    finished_ns=st.none() | NS,
    status=st.sampled_from(Status),
    attempt=st.integers(1, 9),
    trace_id=st.none() | TEXT,
    adapter=st.none() | TEXT,
    gpu_count=st.none() | st.integers(0, 8),
    first_token_ns=st.none() | NS,
    error_type=st.none() | st.sampled_from(ErrorType),
    http_status=st.none() | st.integers(100, 599),
    input_tokens=st.none() | NS,
    cached_tokens=st.none() | NS,
    slices=st.none() | st.lists(SLICES, max_size=3).map(tuple),
    method=st.none() | TEXT,
)
SOUND = UsageRecord("gw-1", 7, "r1", "acme", 1000, 2000, Status.OK, input_tokens=5, cached_tokens=5)


def changed(**values: Any) -> str:
    return json.dumps(json.loads(SOUND.to_json()) | values)


@given(RECORDS)
def test_a_record_comes_back_as_it_was(record: UsageRecord) -> None:
    text = record.to_json()
    assert "\n" not in text
    assert UsageRecord.from_json(text) == record
    assert UsageRecord.from_json(text.encode()).to_json() == text


def test_the_public_form_names_its_schema_and_keeps_unknown_as_null() -> None:
    form = json.loads(SOUND.to_json())
    assert next(iter(form.items())) == ("schema", SCHEMA)
    assert form["output_tokens_delivered"] is None
    assert form["slices"] is None
    assert (SOUND.identity, SOUND.attempt_key) == (("gw-1", 7), "gw-1:7")


def test_fields_that_have_a_default_may_be_left_out() -> None:
    short = {"schema": SCHEMA, "emitter": "e", "seq": 0, "request_id": "r", "tenant": "t", "arrival_ns": 1}
    record = UsageRecord.from_json(json.dumps(short | {"finished_ns": 2, "status": "ok"}))
    assert (record.attempt, record.slices, record.source) == (1, None, "gateway")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "not JSON"),
        (b"\xff", "not JSON"),
        ("[" * 100_000, "Expected `object`, got `array`"),
        ('{"schema":' + "[" * 100_000, "Expected `str | null`, got `array`"),
        ('{"other":' + "[" * 100_000, "not JSON"),
        (changed(seq=2**63), "Expected `int` <= 9223372036854775807 - at `$.seq`"),
        (changed(tenant="\ud800"), "half a surrogate pair"),
        ("[]", "Expected `object`, got `array`"),
        (changed(schema="loraledger.usage/2"), "schema is not"),
        (changed(price=1), "unknown field `price`"),
        ('{"schema":"loraledger.usage/1","status":"ok"}', "missing required field `emitter`"),
        (json.dumps({k: v for k, v in json.loads(SOUND.to_json()).items() if k != "schema"}), "schema is not"),
        (changed(status="fine"), "Invalid enum value 'fine' - at `$.status`"),
        (changed(error_type="bad luck"), "Invalid enum value 'bad luck' - at `$.error_type`"),
        (changed(seq="7"), "Expected `int`, got `str` - at `$.seq`"),
        (changed(seq=True), "Expected `int`, got `bool` - at `$.seq`"),
        (changed(arrival_ns=1.5), "Expected `int`, got `float` - at `$.arrival_ns`"),
        (changed(arrival_ns=None), "Expected `int`, got `null` - at `$.arrival_ns`"),
        (changed(input_tokens="many"), "Expected `int | null`, got `str` - at `$.input_tokens`"),
        (changed(tenant=3), "Expected `str`, got `int` - at `$.tenant`"),
        (changed(adapter=3), "Expected `str | null`, got `int` - at `$.adapter`"),
        (changed(status=None), "got `null` - at `$.status`"),
        (changed(slices=3), "Expected `array | null`, got `int` - at `$.slices`"),
        (changed(slices={}), "Expected `array | null`, got `object` - at `$.slices`"),
        (changed(slices=[{"start_ns": 0}]), "missing required field `base_ns` - at `$.slices[0]`"),
        (
            changed(slices=[{"start_ns": 0, "base_ns": 1, "adapter_ns": 1, "recompute_ns": "1"}]),
            "at `$.slices[0].recompute_ns`",
        ),
        (
            changed(slices=[{"start_ns": 0, "base_ns": 1.5, "adapter_ns": 1, "recompute_ns": 1}]),
            "at `$.slices[0].base_ns`",
        ),
    ],
)
def test_what_is_not_a_record_is_refused_with_its_reason(text: str | bytes, problem: str) -> None:
    with pytest.raises(UsageInvalid) as caught:
        UsageRecord.from_json(text)
    assert problem in "; ".join(caught.value.problems)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"seq": -1}, "seq is negative (-1)"),
        ({"tenant": ""}, "must not be empty"),
        ({"finished_ns": 999}, "finished before it arrived"),
        ({"finished_ns": None}, "finished_ns is missing"),
        ({"input_tokens": -1, "cached_tokens": None}, "input_tokens is negative (-1)"),
        ({"cached_tokens": 6}, "cached_tokens 6 > input_tokens 5"),
        ({"queue_ns": -5}, "queue_ns is negative"),
        ({"slices": (Slice(0, 1, -1, 0),)}, "slice at 0 has negative time"),
        ({"slices": (Slice(QUARTER_NS + 1, 1, 1, 0),)}, "is not a UTC quarter hour"),
    ],
)
def test_contradictions_are_read_and_then_told(changes: dict[str, Any], problem: str) -> None:
    record = replace(SOUND, **changes)
    assert UsageRecord.from_json(record.to_json()) == record
    assert any(problem in found for found in record.problems())


def test_a_sound_record_and_a_lost_one_have_no_problems() -> None:
    assert SOUND.problems() == []
    assert replace(SOUND, status=Status.LOST, finished_ns=None).problems() == []
    assert Slice(0, 1, 2, 4, 8, 16).measured_ns == 7

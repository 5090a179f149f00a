"""What a grammar may cost is known before anything compiles it."""

from __future__ import annotations

import json

import pytest

from serving.engine.grammars import MAX_DEPTH, MAX_REPEATS, refusal

LIMIT = 2000


def nested(depth: int) -> str:
    return '{"items":' * depth + "{}" + "}" * depth


@pytest.mark.parametrize(
    ("kind", "spec", "said"),
    [
        ("regex", "a" * (LIMIT + 1), "2001 characters"),
        ("json", json.dumps({"anyOf": [{"maxItems": MAX_REPEATS + 1}]}), "maxItems is 10001"),
        ("json", json.dumps({"minProperties": 1e9}), "minProperties is 1000000000.0"),
        ("json", "{", "not JSON"),
        ("json", nested(MAX_DEPTH), "nested deeper"),
        ("json", "[" * 1990, "not JSON"),
        ("structural_tag", json.dumps({"structures": [{"schema": {"minItems": 99_999}}]}), "minItems"),
    ],
)
def test_what_would_keep_the_engine_busy_is_refused(kind: str, spec: str, said: str) -> None:
    assert said in (refusal(kind, spec, LIMIT) or "")


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("regex", "[ab]+"),
        ("json", json.dumps({"type": "array", "items": [{"type": "string"}], "maxItems": MAX_REPEATS})),
        ("json", nested(MAX_DEPTH - 2)),
        ("json", "true"),
        ("choice", json.dumps(["yes", "no"])),
    ],
)
def test_what_is_small_is_left_to_the_compiler(kind: str, spec: str) -> None:
    assert refusal(kind, spec, LIMIT) is None

"""JSON bodies: strict, and bounded where reading would take long."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.protocol.json_body import MAX_MARKS, MAX_VALUES, TooIntricate, decode

ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)  # fmt: skip


@given(ANY)
def test_it_reads_and_writes_what_others_do(value: Any) -> None:
    try:
        text = json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return
    assert decode(text) == json.loads(text) == value
    assert json.loads(msgspec.json.encode(value)) == value


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b"{}x", b"[1,]", b"{'a': 1}", b"NaN", b"[Infinity]", b"1e999", b'"\xff"', b'"\\ud800"', b"\xef\xbb\xbf{}", b'"\x01"', b"9" * 5000],
)  # fmt: skip
def test_what_is_no_json_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode(raw)


def test_nesting_without_end_is_refused() -> None:
    with pytest.raises(RecursionError):
        decode(b"[" * 50_000)


@pytest.mark.parametrize(
    "raw",
    [
        b"[" + b",".join([b"{}"] * MAX_MARKS) + b"]",
        b"[" * (MAX_MARKS + 1),
        b"{" + b",".join(b'"%d":0' % n for n in range(MAX_MARKS + 1)) + b"}",
        b"{" + b",".join(b'"%d" \n:0' % n for n in range(MAX_MARKS + 1)) + b"}",
        b"[" + b",".join([b"null"] * (MAX_VALUES + 1)) + b"]",
        b"[1," + b",".join([b"1e1"] * (MAX_VALUES + 1)) + b"]",
        b"[" + b",".join([b"1.5"] * 800_000) + b"]",
    ],
    ids=["objects", "lists", "names", "names with space", "nulls", "floats", "floats without end"],
)
def test_more_structure_than_any_request_needs_is_refused(raw: bytes) -> None:
    with pytest.raises(TooIntricate):
        decode(raw)


@pytest.mark.parametrize(
    "value",
    [
        {"prompt": list(range(300_000))},
        {"prompt": "if (a): { [b] } " * 20_000},
        {"prompt": "3.14, 2.7e8\n" * 50_000},
        {"prompt": "12:30:45 GET /\n" * 100_000},
    ],
    ids=["token ids", "code", "a table", "a log"],
)
def test_long_prompts_pass(value: Any) -> None:
    assert decode(json.dumps(value).encode()) == value

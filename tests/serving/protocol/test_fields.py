"""No body breaks the reader, and what is refused is refused by name."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.protocol.errors import Refusal
from serving.protocol.fields import COUNTS, INT32, MAX_DEPTH, OBJECTS, REALS
from serving.protocol.operations import OPERATIONS
from serving.protocol.request import read_call

CHAT = "/v1/chat/completions"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=[]), max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
NAMES = (
    "messages",
    "prompt",
    "input",
    "stream_options",
    "model",
    "user",
    "n",
    "stop",
    "tools",
    *COUNTS,
    *OBJECTS,
    "store",
)


def refused(body: Any, path: str = CHAT) -> Refusal:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    with pytest.raises(Refusal) as caught:
        read_call(path, raw)
    assert caught.value.http_status == 400
    return caught.value


@given(
    st.sampled_from(sorted(OPERATIONS)), st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=6), JSON, max_size=5)
)
def test_a_body_is_read_or_refused_and_what_is_read_can_be_sent_on(path: str, body: dict[str, Any]) -> None:
    raw = json.dumps(body).encode()
    try:
        call = read_call(path, raw)
    except Refusal:
        assert refused(raw, path).body().decode()
        return
    assert json.dumps(call.body, ensure_ascii=False, allow_nan=False).encode()
    assert call.choices >= 1
    assert call.prompts >= 1
    assert call.output_tokens is None or call.output_tokens >= 0


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize(
    "text",
    [
        "1e400",
        "1" + "0" * 30,
        "9" * 5000,
        "true",
        "false",
        "3.5",
        f"{INT32 + 1}",
        f"-{INT32 + 1}",
        "[]",
        "{}",
        '"x"',
        '""',
    ],
)
def test_a_count_is_a_whole_number_that_the_engine_has_room_for(name: str, text: str) -> None:
    assert refused(f'{{"{name}": {text}}}'.encode()).param == name


@pytest.mark.parametrize("name", REALS)
@pytest.mark.parametrize("text", ["1e400", "-1e400", "1e39", "true", '"x"', "[]", '"1e400"', '"nan"', '"inf"'])
def test_a_number_is_one_that_the_engine_has_room_for(name: str, text: str) -> None:
    assert refused(f'{{"{name}": {text}}}'.encode()).param == name


@pytest.mark.parametrize("name", OBJECTS)
@pytest.mark.parametrize("value", ["x", [1], 5, True, ""])
def test_an_object_is_one(name: str, value: Any) -> None:
    assert refused({name: value}).param == name


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("stop", "\ud800"),
        ("messages", [{"role": "user", "content": [{"type": "text", "text": "a\udc00b"}]}]),
        ("logit_bias", {"\udfff": 1}),
        ("anything", {"deep": [{"number": 1 << 64}]}),
    ],
)
def test_what_no_text_and_no_number_is_is_named_wherever_it_stands(field: str, value: Any) -> None:
    assert refused({field: value, "model": "x"}).param == field
    assert refused(b'{"tools": [{"a": -1e999}]}').param == "tools"


def test_a_whole_pair_and_a_number_in_64_bits_pass() -> None:
    call = read_call(CHAT, b'{"user": "\\ud83d\\ude00", "seed": 9223372036854775807, "x": 18446744073709551615}')
    assert call.user == "\N{GRINNING FACE}"


def test_nesting_has_an_end_also_where_python_has_none() -> None:
    def nested(levels: int) -> bytes:
        return b'{"tools": ' + b"[" * levels + b"]" * levels + b"}"

    assert read_call(CHAT, nested(MAX_DEPTH - 1)).body["tools"]
    for levels in (MAX_DEPTH, 900, 40_000):
        assert "nested too deeply" in refused(nested(levels)).message
    assert refused(nested(MAX_DEPTH)).param == "tools"


@pytest.mark.parametrize(
    "raw", [b"\xff", b'{"a": "\xed\xa0\x80"}', '{"a": 1}'.encode("utf-16"), b"{", b"[]", b"", b'{"a": NaN}']
)
def test_what_is_no_json_object_in_utf_8_is_refused(raw: bytes) -> None:
    refused(raw)

"""Rewriting a reply: the same whatever the pieces it comes in, and never more than the client may see."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from serving.gateway.response import EventStream, Names, Reply, rewrite_json

NAMES = Names("coder@0123abcd", "coder")


def event(chunk: Any) -> bytes:
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def chunk(text: str, count: int, index: int = 0, finish: str | None = None) -> bytes:
    choice = {"index": index, "delta": {"content": text}, "finish_reason": finish}
    usage = {"prompt_tokens": 7, "completion_tokens": count, "total_tokens": 7 + count}
    return event(
        {"id": "x", "model": NAMES.served, "kv_transfer_params": {"a": 1}, "choices": [choice], "usage": usage}
    )


USAGE = {"prompt_tokens": 7, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}}
STREAM = (
    b": keep-alive\n\n"
    + chunk("", 0)
    + chunk("Grüße", 2)
    + chunk(" an coder@0123abcd", 3)
    + chunk("", 2, 1, "stop")
    + event({"id": "x", "model": NAMES.served, "choices": [], "usage": USAGE})
    + b"data: [DONE]\n\n"
)


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_a_stream_reads_the_same_in_whatever_pieces_it_comes(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(STREAM)]
    pieces = [STREAM[a:b] for a, b in pairwise(edges)]
    stream = EventStream(NAMES, wants_usage=False, wants_continuous=False)
    passed = b"".join(stream.feed(piece) for piece in pieces)
    whole = EventStream(NAMES, wants_usage=False, wants_continuous=False)
    assert passed == whole.feed(STREAM)
    assert stream.end() == whole.end() == b"data: [DONE]\n\n"
    assert stream.reply == whole.reply
    assert stream.reply == Reply(7, 4, 5, 5, "x", ("stop",), None)
    assert passed.startswith(b": keep-alive\n\n")
    assert b"usage" not in passed
    assert b'"model":"coder@' not in passed
    assert b"kv_transfer_params" not in passed
    # What the model itself says is the tenant's own and stays as it is.
    assert b" an coder@0123abcd" in passed


def test_without_running_usage_each_chunk_with_text_is_one_token() -> None:
    stream = EventStream(NAMES, wants_usage=False, wants_continuous=False)
    for text in ("a", "b", ""):
        stream.feed(event({"model": NAMES.served, "choices": [{"index": 0, "text": text}]}))
    assert stream.reply.delivered == 2


def test_an_engines_error_inside_a_stream_is_told_in_our_words_and_a_clients_in_its_own() -> None:
    def shown(error: dict[str, Any]) -> tuple[bytes, str | None]:
        stream = EventStream(NAMES, wants_usage=False, wants_continuous=False)
        return stream.feed(event({"error": error})), stream.reply.failure

    theirs, failure = shown({"message": "CUDA error in /opt/x for coder@0123abcd", "code": 500})
    assert b"CUDA" not in theirs
    assert b"@" not in theirs
    assert failure is not None
    assert "CUDA" in failure
    own, _ = shown({"message": "too long for coder@0123abcd", "code": 400})
    assert b"too long for coder" in own
    assert b"@" not in own


def test_a_whole_reply_keeps_everything_but_names_and_internals() -> None:
    reply = Reply()
    body = {
        "id": "cmpl-1",
        "model": NAMES.served,
        "choices": [{"text": "\ud83d", "finish_reason": "length", "logprobs": None}],
        "usage": USAGE,
        "metrics": {"queue": 1},
        "kv_transfer_params": None,
    }
    shown = json.loads(rewrite_json(json.dumps(body).encode(), NAMES, reply).decode("utf-8", "strict"))
    assert shown == {"id": "cmpl-1", "model": "coder", "choices": body["choices"], "usage": USAGE}
    assert (reply.delivered, reply.cached_tokens, reply.finish_reasons) == (5, 4, ("length",))


def test_what_is_not_json_still_has_its_names_restored() -> None:
    assert rewrite_json(b"coder@0123abcd broke", NAMES, Reply()) == b"coder broke"
    assert rewrite_json(b"null", NAMES, Reply()) == b"null"

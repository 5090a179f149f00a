"""Rewriting a reply: the same whatever the pieces it comes in, and never more than the client may see."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.attempt.answer import Answer
from serving.attempt.client import Client
from serving.attempt.engine_call import refusal_of
from serving.protocol.dialects import CHOICES, MESSAGES, RESPONSES, Dialect
from serving.protocol.errors import Refusal
from serving.protocol.request import Call
from serving.protocol.response import EventStream, Names, Reply, plain, restated, rewrite_json
from serving.wire.request_context import Refused, RequestContext
from telemetry.usage import ErrorType, Status

NAMES = Names("coder@0123abcd", "coder")


def answer_to(events: bytes, context: RequestContext, dialect: Dialect = CHOICES) -> Answer:
    """What a client's answer stands at when the engine has sent these events and ended."""

    async def receive() -> Any:
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        pass

    async def run() -> Answer:
        answer = Answer(Client(receive, send), "r-1", dialect)
        call = SimpleNamespace(include_usage=False, continuous_usage=False, prompts=1, choices=1)
        answer.expect(cast("Call", call), NAMES, context, lambda: None)
        headers = [(b"content-type", b"text/event-stream")]
        await answer.engine_send({"type": "http.response.start", "status": 200, "headers": headers})
        await answer.engine_send({"type": "http.response.body", "body": events, "more_body": True})
        await answer.engine_send({"type": "http.response.body", "body": b"", "more_body": False})
        return answer

    return asyncio.run(run())


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


def test_a_streams_usage_waits_for_its_end_where_what_was_measured_corrects_it() -> None:
    stream = EventStream(NAMES, wants_usage=True, wants_continuous=False)
    assert b"usage" not in stream.feed(STREAM)
    *_, usage, done, rest = restated(stream.end(), 96).split(b"\n\n")
    assert (done, rest) == (b"data: [DONE]", b"")
    assert json.loads(usage[6:])["usage"] == USAGE | {"prompt_tokens_details": {"cached_tokens": 96}}
    whole = {"choices": [{"text": "a\n\nb"}], "usage": USAGE}
    shown = json.loads(restated(rewrite_json(json.dumps(whole).encode(), NAMES, Reply()), 96))
    assert shown["usage"]["prompt_tokens_details"] == {"cached_tokens": 96}
    assert shown["choices"] == whole["choices"]


def test_without_running_usage_each_chunk_with_text_is_one_token() -> None:
    stream = EventStream(NAMES, wants_usage=False, wants_continuous=False)
    for text in ("a", "b", ""):
        stream.feed(event({"model": NAMES.served, "choices": [{"index": 0, "text": text}]}))
    assert stream.reply.delivered == 2


def test_an_engines_error_inside_a_stream_is_told_in_our_words_and_a_clients_in_its_own() -> None:
    def shown(error: Any) -> Refusal:
        context = RequestContext("gw-1:1", "bank", "salt")
        answer = answer_to(event({"error": error}) + b"data: [DONE]\n\n", context)
        assert answer.reply.failure is not None
        refusal = refusal_of(answer, context, "r-1")
        assert refusal is not None
        return refusal

    theirs = shown({"message": "CUDA out of memory in /opt/x for coder@0123abcd", "code": 500})
    assert (theirs.http_status, theirs.status, theirs.error_type) == (500, Status.SERVER_ERROR, ErrorType.OOM)
    assert "CUDA" not in theirs.message
    own = shown({"message": "too long for coder@0123abcd", "code": 400, "param": "prompt"})
    assert (own.http_status, own.status, own.error_type) == (400, Status.BAD_REQUEST, None)
    assert (own.message, own.param) == ("too long for coder", "prompt")


@pytest.mark.parametrize(
    "error", ["", "broke", {}, [], 0, False, {"message": ""}, {"message": None}, {"code": "x"}, {"code": True}]
)
@pytest.mark.parametrize("begun", [False, True])
def test_an_error_of_any_shape_is_never_a_success(error: Any, begun: bool) -> None:
    context = RequestContext("gw-1:1", "bank", "salt")
    before = chunk("hello", 1) if begun else b""
    answer = answer_to(before + event({"error": error}) + chunk("more", 2) + b"data: [DONE]\n\n", context)
    refusal = refusal_of(answer, context, "r-1")
    assert refusal is not None
    assert (refusal.status, refusal.http_status) == (Status.SERVER_ERROR, 500)
    assert answer.reply.delivered == (1 if begun else 0), "nothing passes after the first sign of a failure"


FAILED_RESPONSE = {"type": "response.failed", "response": {"id": "r", "object": "response", "status": "failed"}}


@pytest.mark.parametrize(
    ("dialect", "events"),
    [
        (CHOICES, chunk("a", 1)),
        (CHOICES, chunk("a", 1, finish="error") + b"data: [DONE]\n\n"),
        (CHOICES, chunk("a", 1, finish="abort") + b"data: [DONE]\n\n"),
        (CHOICES, b"data: no json\n\ndata: [DONE]\n\n"),
        (CHOICES, b""),
        (RESPONSES, event({"type": "response.output_text.delta", "delta": "a"})),
        (RESPONSES, event(FAILED_RESPONSE)),
        (RESPONSES, event({"type": "error", "message": ""})),
        (RESPONSES, event({"type": "response.completed", "response": {"object": "response", "status": "cancelled"}})),
        (MESSAGES, event({"type": "message_start", "message": {"id": "m", "model": NAMES.served}})),
        (MESSAGES, event({"type": "error", "error": {"type": "internal_error", "message": ""}})),
    ],
)
def test_a_stream_that_fails_or_stops_without_its_last_event_is_no_success(dialect: Dialect, events: bytes) -> None:
    context = RequestContext("gw-1:1", "bank", "salt")
    refusal = refusal_of(answer_to(events, context, dialect), context, "r-1")
    assert refusal is not None
    assert refusal.status is Status.SERVER_ERROR


@pytest.mark.parametrize(
    ("dialect", "events"),
    [
        (CHOICES, chunk("a", 1, finish="stop") + b"data: [DONE]\n\n"),
        (RESPONSES, event({"type": "response.completed", "response": {"object": "response", "status": "completed"}})),
        (MESSAGES, event({"type": "message_delta", "delta": {"stop_reason": None}}) + event({"type": "message_stop"})),
    ],
)
def test_what_the_engine_gave_up_is_no_success_though_the_reply_says_so(dialect: Dialect, events: bytes) -> None:
    context = RequestContext("gw-1:1", "bank", "salt", watched=True, entered=1)
    assert refusal_of(answer_to(events, context, dialect), context, "r-1") is None
    context.unfinished = True
    refusal = refusal_of(answer_to(events, context, dialect), context, "r-1")
    assert refusal is not None
    assert (refusal.status, refusal.http_status) == (Status.SERVER_ERROR, 500)


def test_what_the_engines_entry_refused_is_the_clients_fault_however_the_front_end_worded_it() -> None:
    context = RequestContext("gw-1:1", "bank", "salt", watched=True)
    context.refused = Refused(400, "logprobs of 21 for coder@0123abcd", "logprobs")
    opaque = event({"type": "error", "error": {"type": "internal_error", "message": "2 validation errors"}})
    refusal = refusal_of(answer_to(opaque, context, MESSAGES), context, "r-1")
    assert refusal is not None
    assert (refusal.http_status, refusal.status, refusal.param) == (400, Status.BAD_REQUEST, "logprobs")
    assert refusal.message == "logprobs of 21 for coder"
    context.refused = Refused(503, "queue is full")
    assert answer_to(opaque, context, MESSAGES).reply.failure is not None
    refusal = refusal_of(answer_to(opaque, context, MESSAGES), context, "r-1")
    assert refusal is not None
    assert refusal.status is Status.SERVER_ERROR


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


@pytest.mark.parametrize(("dialect", "kind"), [(CHOICES, None), (RESPONSES, None), (MESSAGES, "error")])
def test_a_refusal_in_openais_words_is_told_in_those_of_the_route(dialect: Dialect, kind: str | None) -> None:
    said = {"error": {"message": "no coder@0123abcd", "type": "Bad Request", "param": "max_tokens", "code": 400}}
    for raw in (said, {"type": "error", **said}) if kind else (said,):
        shown = json.loads(rewrite_json(json.dumps(raw).encode(), NAMES, Reply(), dialect))
        assert shown.get("type") == kind
        assert shown["error"] == {**said["error"], "message": "no coder"}


def test_what_is_not_json_still_has_its_names_restored_and_is_a_failure() -> None:
    for raw, shown in ((b"coder@0123abcd broke", b"coder broke"), (b"null", b"null"), (b"[" * 100_000, b"[" * 100_000)):
        reply = Reply()
        assert rewrite_json(raw, NAMES, reply) == shown
        assert reply.failure is not None


def test_usage_and_names_are_read_in_each_familys_words() -> None:
    details = {"cached_tokens": 4}
    response: dict[str, Any] = {
        "id": "resp_1",
        "object": "response",
        "model": NAMES.served,
        "status": "incomplete",
        "error": None,
    }
    response |= {"incomplete_details": {"reason": "max_output_tokens"}}
    response |= {"usage": {"input_tokens": 7, "output_tokens": 5, "input_tokens_details": details}, "metrics": {}}
    message: dict[str, Any] = {"id": "msg_1", "type": "message", "model": NAMES.served, "stop_reason": "max_tokens"}
    message |= {"usage": {"input_tokens": 3, "output_tokens": 5, "cache_read_input_tokens": 4}}
    for dialect, whole in ((RESPONSES, response), (MESSAGES, message)):
        reply = Reply()
        shown = json.loads(rewrite_json(json.dumps(whole).encode(), NAMES, reply, dialect))
        assert shown["model"] == "coder"
        assert "metrics" not in shown
        assert (reply.input_tokens, reply.cached_tokens, reply.output_tokens, reply.delivered) == (7, 4, 5, 5)
        assert (reply.failure, reply.response_id) == (None, whole["id"])
        assert reply.finish_reasons in (("max_output_tokens",), ("max_tokens",))
    handed = iter(range(9))
    stream = EventStream(NAMES, False, False, dialect=RESPONSES, handed=lambda: next(handed))
    created = {"type": "response.created", "response": response | {"status": "in_progress", "usage": None}}
    assert b'"model":"coder"' in stream.feed(event(created))
    assert not stream.begun
    stream.feed(event({"type": "response.output_text.delta", "delta": "a"}))
    stream.feed(event({"type": "response.output_text.delta", "delta": "b"}))
    assert (stream.begun, stream.reply.delivered, stream.reply.finish_reasons) == (True, 1, ())
    assert stream.feed(event({"type": "response.completed", "response": response})) == b""
    assert b"@" not in stream.end()
    assert (stream.reply.delivered, stream.reply.cached_tokens, stream.reply.failure) == (5, 4, None)


def test_a_tenant_reads_what_it_and_the_operator_can_do() -> None:
    told = plain('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set')
    assert "--" not in told
    assert "`tool_call_parser`" in told
    assert 'send `tool_choice`: "none"' in told
    assert "`engines[].vllm`" in told


def test_other_messages_stay_as_they_are() -> None:
    for message in ("max_tokens must be at least 1.", "a -- b", "--", "temperature --1"):
        assert plain(message) == message

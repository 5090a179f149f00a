"""What the engine is told, byte for byte of what the gateway decided: whatever the client said of it is gone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from serving.protocol.request import read_call
from serving.protocol.rewrite import STRIPPED, Orders, engine_body, engine_headers, permitted
from serving.wire.request_context import RequestContext

CHAT, COMPLETIONS, RESPONSES = "/v1/chat/completions", "/v1/completions", "/v1/responses"
CONTEXT = RequestContext("gw-1:7", "clinic", "salt-of-clinic")
OURS = {
    "model": "coder@1",
    "cache_salt": "salt-of-clinic",
    "vllm_xargs": {"ll_attempt": "gw-1:7", "ll_tenant": "clinic"},
}


def told(path: str, body: dict[str, Any], **orders: Any) -> dict[str, Any]:
    call = read_call(path, msgspec.json.encode(body))
    written: dict[str, Any] = msgspec.json.decode(engine_body(call, Orders("coder@1", CONTEXT, "req-1", **orders)))
    return written


def test_the_engine_gets_the_clients_words_under_the_gateways_name_salt_and_identity() -> None:
    own = {"prompt": "a b", "temperature": 0.5, "max_tokens": 3, "model": "coder"}
    assert told(COMPLETIONS, own) == {"prompt": "a b", "temperature": 0.5, "max_tokens": 3, **OURS}
    hostile = dict.fromkeys(STRIPPED, "x") | {"lora_path": "/etc", "LoRA_name": "risk", "LL_tenant": "bank"}
    assert told(COMPLETIONS, own | hostile) == told(COMPLETIONS, own)
    assert permitted(hostile | {"seed": 1}) == {"seed": 1}


@pytest.mark.parametrize(
    ("path", "field"), [(CHAT, "max_tokens"), (COMPLETIONS, "max_tokens"), (RESPONSES, "max_output_tokens")]
)
def test_a_bound_is_set_where_the_quotas_leave_one_and_nothing_else_is(path: str, field: str) -> None:
    body = {"input": "a", "prompt": "a", "messages": []}
    assert field not in told(path, body)
    assert told(path, body, output_tokens=0)[field] == 0
    assert told(path, body, output_tokens=12) == told(path, body) | {field: 12}


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_a_stream_tells_its_usage_with_every_chunk_whatever_the_client_asked(path: str) -> None:
    body: dict[str, Any] = {"prompt": "a", "messages": []}
    usage = {"include_usage": True, "continuous_usage_stats": True}
    assert "stream_options" not in told(path, body | {"stream": False})
    assert told(path, body | {"stream": "yes"})["stream"] is True
    assert told(path, body | {"stream": True})["stream_options"] == usage
    asked = {"include_usage": False, "continuous_usage_stats": False, "other": 1}
    assert told(path, body | {"stream": True, "stream_options": asked})["stream_options"] == {"other": 1, **usage}


def test_nothing_of_a_response_is_kept_and_its_stream_has_no_options() -> None:
    assert told(RESPONSES, {"input": "a", "store": False, "stream": True}) == {
        "input": "a", "store": False, "background": False, "stream": True, **OURS,
    }  # fmt: skip


def test_of_the_clients_headers_only_what_it_accepts_is_passed() -> None:
    client = [
        (b"Accept", b"text/plain"),
        (b"Authorization", b"Bearer k"),
        (b"x-request-id", b"mine"),
        (b"traceparent", b"t"),
    ]
    orders = Orders("coder@1", CONTEXT, "req-1")
    ours = [(b"content-type", b"application/json"), (b"content-length", b"17"), (b"x-request-id", b"req-1")]
    assert engine_headers(client, orders, 17) == [(b"Accept", b"text/plain"), *ours]
    traced = Orders("coder@1", CONTEXT, "req-1", traceparent="00-a-b-01")
    assert engine_headers([], traced, 17) == [*ours, (b"traceparent", b"00-a-b-01")]


def test_the_weight_of_turns_is_the_tenants_whatever_the_client_says() -> None:
    call = read_call(CHAT, b'{"messages": [], "vllm_xargs": {"ll_weight": 1000}}')
    for weight, said in ((1, {}), (3, {"ll_weight": 3})):
        context = RequestContext("gw-1:7", "clinic", "salt", weight)
        written = msgspec.json.decode(engine_body(call, Orders("coder@1", context, "req-1")))
        assert written["vllm_xargs"] == {"ll_attempt": "gw-1:7", "ll_tenant": "clinic", **said}

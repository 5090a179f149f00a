"""Responses and messages on the real engine are metered like chat, and every route of vLLM's is as the table says."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from serving.gateway.routes import ROUTES, Served, route_of
from telemetry.usage import Status, UsageRecord

pytestmark = [
    pytest.mark.engine,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*Unclosed (context|socket) <zmq:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:.*zmq:pytest.PytestUnraisableExceptionWarning"),
]

RESPONSES = "/v1/responses"
MESSAGES = "/v1/messages"
LONG = "def total(values): return sum(values)  # the sum of all values\n" * 8
# Told apart from their first words on: they become prompts of the same form, and a tenant finds its own again.
ASKED = {
    RESPONSES: {"input": LONG, "max_output_tokens": 6, "instructions": "Respond."},
    MESSAGES: {"messages": [{"role": "user", "content": LONG}], "max_tokens": 6, "system": "Say it."},
}


def ask(world: Any, path: str, key: str, **fields: Any) -> Any:
    body = {"model": "brand-voice", "temperature": 0, **ASKED[path], **fields}
    return world.run(world.ask("POST", path, key, json.dumps(body)))


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(event.partition("data: ")[2]) for event in text.strip().split("\n\n")]


def asked(world: Any, path: str, key: str, **fields: Any) -> tuple[Any, UsageRecord]:
    """The reply and its record, which has counted just what the engine has meanwhile."""
    before = world.sums()
    reply = ask(world, path, key, **fields)
    assert reply.status_code == 200, reply.text
    record = world.records()[-1]
    counted = (record.input_tokens, record.cached_tokens, record.output_tokens_computed)
    assert counted == tuple(now - then for now, then in zip(world.sums(), before, strict=True))
    return reply, record


def usage_of(path: str, usage: dict[str, Any]) -> tuple[int, int, int]:
    """Input, cached and output tokens in the client's own words."""
    if path == RESPONSES:
        return usage["input_tokens"], usage["input_tokens_details"]["cached_tokens"], usage["output_tokens"]
    cached = usage["cache_read_input_tokens"]
    return usage["input_tokens"] + cached + usage["cache_creation_input_tokens"], cached, usage["output_tokens"]


@pytest.mark.parametrize("path", ASKED)
def test_a_whole_reply_is_metered_and_a_prefix_is_reused_inside_a_tenant_only(world: Any, path: str) -> None:
    found = []
    for key in ("shop", "shop", "freeride"):
        reply, record = asked(world, path, key)
        body = reply.json()
        assert body["model"] == "brand-voice"
        assert "@" not in reply.text
        assert "kv_transfer_params" not in body
        assert (record.status, record.tenant, record.adapter) == (Status.OK, key, "brand-voice")
        counted = (record.input_tokens, record.cached_tokens, record.output_tokens_computed)
        assert counted == usage_of(path, body["usage"])
        assert record.output_tokens_delivered == record.output_tokens_computed
        assert record.slices
        found.append(record.cached_tokens)
    assert found[1]
    assert found[0] == found[2] == 0


@pytest.mark.parametrize("path", ASKED)
def test_a_stream_is_rewritten_measured_and_counted_in_its_own_words(world: Any, path: str) -> None:
    reply, record = asked(world, path, "shop", stream=True)
    assert reply.headers["content-type"].startswith("text/event-stream")
    assert "@" not in reply.text
    said = events(reply.text)
    held = [
        event["response" if path == RESPONSES else "message"] for event in said if {"response", "message"} & set(event)
    ]
    assert {value["model"] for value in held} == {"brand-voice"}
    last = held[-1]["usage"] if path == RESPONSES else said[-2]["usage"]
    assert said[-1]["type"] in ("response.completed", "message_stop")
    assert usage_of(path, last) == (record.input_tokens, record.cached_tokens, record.output_tokens_computed)
    assert (record.status, record.output_tokens_delivered) == (Status.OK, record.output_tokens_computed)
    assert record.first_token_ns is not None


@pytest.mark.parametrize("path", ASKED)
def test_a_hang_up_in_a_stream_is_booked_with_what_was_handed_over(world: Any, path: str, raw: Any) -> None:
    longer = {"max_output_tokens": 400} if path == RESPONSES else {"max_tokens": 400}
    call = raw(json.dumps({**ASKED[path], **longer, "stream": True}).encode())
    seen: list[bytes] = []

    def hang_up_at_the_fourth(message: Any) -> None:
        seen.extend(
            [message["body"]] if b"_delta" in message.get("body", b"") or b".delta" in message.get("body", b"") else []
        )
        if len(seen) == 4:
            call.hang_up.set()

    call.on_send = hang_up_at_the_fourth
    headers = [(b"x-api-key", b"demo-key-forge")]
    scope = {"type": "http", "method": "POST", "path": path, "headers": headers, "client": ("10.0.0.1", 1)}
    world.run(world.gateway.app(scope, call.receive, call.send))
    record = world.records()[-1]
    assert (record.tenant, record.status) == ("forge", Status.CLIENT_ABORT)
    assert 0 < record.output_tokens_delivered <= record.output_tokens_computed < 400
    assert record.slices


@pytest.mark.parametrize(
    "fields",
    [
        {"store": True},
        {"background": True},
        {"previous_response_id": "resp_1"},
        {"previous_response_id": ""},
        {"conversation": {"id": "conv_1"}},
        {"store": "yes"},
    ],
)
def test_what_responses_would_keep_is_refused_by_name(world: Any, fields: dict[str, Any]) -> None:
    reply = ask(world, RESPONSES, "shop", **fields)
    assert reply.status_code == 400
    assert reply.json()["error"]["param"] in fields
    assert world.records()[-1].status is Status.BAD_REQUEST
    assert ask(world, RESPONSES, "shop", store=False).status_code == 200
    for method, path in (("GET", "resp_1"), ("POST", "resp_1/cancel")):
        assert world.run(world.ask(method, f"{RESPONSES}/{path}", "shop")).status_code == 404


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        (RESPONSES, {"top_logprobs": 21, "include": ["message.output_text.logprobs"]}),
        (RESPONSES, {"top_p": 7}),
        (MESSAGES, {"temperature": -3}),
        (MESSAGES, {"max_tokens": 0}),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_a_wrong_request_is_a_plain_bad_request(world: Any, path: str, fields: dict[str, Any], stream: bool) -> None:
    reply = ask(world, path, "shop", stream=stream, **fields)
    assert reply.status_code == 400, reply.text
    assert reply.json()["error"]["message"]
    assert ("type" in reply.json()) == (path == MESSAGES)
    record = world.records()[-1]
    assert (record.status, record.slices, record.error_type) == (Status.BAD_REQUEST, (), None)


STRANGE: tuple[Any, ...] = (
    True,
    -1,
    2**62,
    1e38,
    "",
    "\x00",
    [None],
    [2**31],
    [{}],
    {},
    {"type": "x"},
    [{"role": "x"}],
)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", *ASKED])
def test_whatever_a_field_holds_it_is_served_or_the_clients_fault(world: Any, path: str) -> None:
    base = {"model": "brand-voice", "max_tokens": 2, "max_output_tokens": 2}
    base |= {"input": "hi"} if path == RESPONSES else {"messages": [{"role": "user", "content": "hi"}], "prompt": "hi"}
    fields = (
        "stop",
        "tools",
        "tool_choice",
        "structured_outputs",
        "logit_bias",
        "input",
        "messages",
        "prompt",
        "system",
    )
    before = len(world.records())
    bodies = [{**base, name: value, "stream": n % 2 == 0} for n, name in enumerate(fields) for value in STRANGE]

    async def all_at_once() -> list[Any]:
        return await asyncio.gather(*(world.ask("POST", path, "shop", json.dumps(body)) for body in bodies))

    for body, reply in zip(bodies, world.run(all_at_once()), strict=True):
        assert reply.status_code in (200, 400), (body, reply.text)
        assert reply.status_code == 200 or reply.json()["error"]["message"]
    assert {record.status for record in world.records()[before:]} <= {Status.OK, Status.BAD_REQUEST}
    assert len(world.records()) - before == len(bodies)
    assert world.run(world.door.healthy())


def test_tokens_are_counted_for_a_tenants_own_models_and_nothing_is_booked(world: Any) -> None:
    def post(path: str, key: str = "shop", **body: Any) -> Any:
        return world.run(world.ask("POST", path, key, json.dumps(body)))

    before = len(world.records())
    messages = ASKED[MESSAGES]["messages"]
    counted = post(f"{MESSAGES}/count_tokens", model="brand-voice", messages=messages).json()["input_tokens"]
    ids = post("/tokenize", model="brand-voice", messages=messages).json()
    assert counted == ids["count"] == len(ids["tokens"]) > 50
    assert post("/detokenize", tokens=post("/tokenize", prompt="a b").json()["tokens"]).json()["prompt"] == "a b"
    assert post("/tokenize", model="risk-notes", prompt="a").status_code == 404
    assert post("/tokenize", key="nobody", prompt="a").status_code == 401
    assert post("/tokenize", prompt={"a": 1}).status_code == 400
    assert post("/detokenize", tokens=[2**40]).status_code == 400
    assert world.run(world.ask("GET", "/version", "shop")).json()["version"]
    assert world.run(world.ask("GET", "/version", "nobody")).status_code == 401
    assert len(world.records()) == before


def test_every_route_that_vllm_mounts_is_in_the_table_and_is_as_it_says(world: Any) -> None:
    mounted = {route.path: getattr(route, "methods", None) or {"GET"} for route in world.door._app.routes}
    table = {route.path for route in ROUTES}
    assert {path for path in mounted if path not in table} == set()
    for path, methods in mounted.items():
        called = path.replace("{response_id}", "resp_1")
        route = route_of(called)
        assert route is not None
        for method in methods - {"HEAD"}:
            reply = world.run(world.ask(method, called, "shop", b"{}" if method == "POST" else b""))
            if route.served is Served.CLOSED:
                assert reply.status_code == 404, path
            elif method not in route.methods:
                assert reply.status_code == 405, path
            elif path != "/metrics":
                assert reply.status_code in (200, 400), (path, reply.text)


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/v1/chat/completions", ASKED[MESSAGES]),
        ("/v1/completions", {"prompt": "a"}),
        *ASKED.items(),
    ],
)
def test_nothing_enters_the_engine_that_no_attempt_answers_for(world: Any, path: str, fields: dict[str, Any]) -> None:
    import httpx

    async def past_the_gateway() -> int:
        transport = httpx.ASGITransport(app=world.door.app, raise_app_exceptions=False)
        body = {"model": "tiny-llama", **fields}
        async with httpx.AsyncClient(transport=transport, base_url="http://engine") as client:
            return (await client.post(path, json=body)).status_code

    assert world.run(past_the_gateway()) >= 500
    assert world.run(world.door.healthy())

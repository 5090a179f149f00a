"""The gateway before the real engine: what the fake only imitates, seen once on vLLM itself."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest

from telemetry.engine_time import MeterWindow, PrefixReshare
from telemetry.usage import Status

pytestmark = [
    pytest.mark.engine,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*Unclosed (context|socket) <zmq:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:.*zmq:pytest.PytestUnraisableExceptionWarning"),
]

CHAT = "/v1/chat/completions"
PROMPT = "def total(values): return sum(values)  # " * 10


def test_a_prefix_is_reused_inside_a_tenant_only_and_every_reply_is_booked(world: Any) -> None:
    async def talk() -> None:
        for key in ("shop", "shop", "freeride", "freeride"):
            reply = await world.post(key, model="brand-voice")
            assert reply.status_code == 200, reply.text
            body = reply.json()
            record = world.records()[-1]
            assert body["model"] == "brand-voice"
            assert body["id"] == f"chatcmpl-{record.request_id}"
            assert body["usage"]["prompt_tokens_details"]["cached_tokens"] == record.cached_tokens
            assert (body["usage"]["prompt_tokens"], body["usage"]["completion_tokens"]) == (record.input_tokens, 12)
            assert (record.output_tokens_computed, record.output_tokens_delivered) == (12, 12)
            assert record.slices
            assert "@" not in reply.text

    world.run(talk())
    records = world.records()[-4:]
    cached = [record.cached_tokens or 0 for record in records]
    assert cached[0] == cached[2] == 0
    assert cached[1] == cached[3] > 0

    async def shared() -> list[PrefixReshare]:
        while len(lines := [value for value in world.values if isinstance(value, PrefixReshare)]) < 2:
            await asyncio.sleep(0.05)
        return lines

    lines = world.run(asyncio.wait_for(shared(), 10))
    for line, (payer, user) in zip(lines, (records[:2], records[2:]), strict=True):
        line.check()
        assert (line.tenant, payer.tenant) == (user.tenant, user.tenant)
        moves = {move.attempt: move.ns for move in line.moves}
        assert set(moves) == {f"{record.emitter}:{record.seq}" for record in (payer, user)}
        assert moves[f"{payer.emitter}:{payer.seq}"] < 0, "who came first paid for both"


@pytest.mark.parametrize("path", [CHAT, "/v1/completions"])
def test_a_stream_is_counted_by_the_engines_own_running_usage(world: Any, path: str) -> None:
    fields: dict[str, Any] = {} if path == CHAT else {"prompt": "one two three"}
    reply = world.run(world.post("bank", path, model="risk-notes", stream=True, n=2, temperature=1, **fields))
    assert reply.text.endswith("data: [DONE]\n\n")
    chunks = [json.loads(event[6:]) for event in reply.text.split("\n\n")[:-2]]
    assert {chunk["model"] for chunk in chunks} == {"risk-notes"}
    assert not [chunk for chunk in chunks if chunk.get("usage")]
    assert "@" not in reply.text
    record = world.records()[-1]
    assert (record.status, record.output_tokens_computed, record.output_tokens_delivered) == (Status.OK, 24, 24)
    assert record.first_token_ns is not None


def chat(*messages: dict[str, Any], **fields: Any) -> tuple[str, dict[str, Any]]:
    return CHAT, {"messages": list(messages), **fields}


FUNCTION = {"name": "look_up", "description": "find a word " * 20, "parameters": {"type": "object", "properties": {}}}
CALLED = {
    "id": "call-1",
    "type": "function",
    "function": {"name": "look_up", "arguments": json.dumps({"a": "b " * 50})},
}
PROMPTS = {
    "chinese": chat({"role": "user", "content": "糖尿病患者的治疗方案" * 10}),
    "parts": chat({"role": "user", "content": [{"type": "text", "text": "part " * 30}, {"type": "text", "text": "b"}]}),
    "system": chat({"role": "system", "content": PROMPT}, {"role": "user", "content": "go"}),
    "tools": chat(
        {"role": "user", "content": "go"}, tools=[{"type": "function", "function": FUNCTION}], tool_choice="none"
    ),
    "calls": chat(
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None, "tool_calls": [CALLED]},
        {"role": "tool", "tool_call_id": "call-1", "content": "found " * 40},
    ),
    "prefill": chat(
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "on and on"},
        add_generation_prompt=False,
        continue_final_message=True,
    ),
    "text": ("/v1/completions", {"prompt": PROMPT}),
    "ids": ("/v1/completions", {"prompt": list(range(10, 200))}),
}


@pytest.mark.parametrize("name", PROMPTS)
def test_prompts_are_counted_before_as_the_meter_measures_them_after(world: Any, name: str) -> None:
    path, fields = PROMPTS[name]

    async def both() -> tuple[int, ...] | None:
        counted = await world.door.count_tokens(path, fields)
        reply = await world.post("forge", path, model="tiny-llama", max_tokens=1, **fields)
        assert reply.status_code == 200, reply.text
        return tuple(counted) if counted is not None else None

    assert world.run(both()) == (world.records()[-1].input_tokens,)


def test_what_vllm_makes_no_prompt_of_has_no_count(world: Any) -> None:
    bodies: tuple[dict[str, Any], ...] = (
        {"messages": "no"},
        {"messages": [{"role": "user", "content": "x " * 10**6}]},
        {"messages": [7]},
        {},
    )
    for body in bodies:
        assert world.run(world.door.count_tokens(CHAT, body)) is None
    assert world.run(world.door.count_tokens("/v1/completions", {"prompt": {"no": 1}})) is None
    assert world.run(world.door.count_tokens("/v1/completions", {"prompt": ["a b", "c"]})) is not None


def test_what_the_process_has_to_say_is_not_silenced_by_what_vllm_imports(world: Any) -> None:
    assert logging.getLogger().level == world.log_level <= logging.WARNING


def test_what_a_client_must_not_set_is_not_obeyed(world: Any) -> None:
    fields: dict[str, Any] = {
        "cache_salt": "",
        "priority": "not a number",
        "vllm_xargs": {"ll_tenant": "bank"},
        "kv_transfer_params": {"do_remote_prefill": True},
        "lora_request": 1,
        "request_id": 7,
    }
    reply = world.run(world.post("shop", model="brand-voice", **fields))
    assert reply.status_code == 200, reply.text
    assert world.records()[-1].tenant == "shop"
    assert reply.json().get("kv_transfer_params") is None


@pytest.mark.parametrize(
    "fields", [{"max_tokens": -1}, {"messages": "no"}, {"messages": [{"role": "user", "content": "x " * 5000}]}]
)
def test_what_vllm_refuses_is_a_bad_request_that_cost_nothing(world: Any, fields: dict[str, Any]) -> None:
    reply = world.run(world.post("shop", model="brand-voice", **fields))
    assert reply.status_code == 400
    assert "@" not in reply.text
    record = world.records()[-1]
    assert (record.status, record.slices, record.output_tokens_computed) == (Status.BAD_REQUEST, (), 0)


def test_a_hang_up_frees_the_engine_and_is_booked_with_what_it_took(world: Any) -> None:
    async def leave() -> None:
        gone = asyncio.Event()
        given = False
        body = {"messages": [{"role": "user", "content": "go on"}], "max_tokens": 900, "ignore_eos": True}

        async def receive() -> dict[str, Any]:
            nonlocal given
            if not given:
                given = True
                return {"type": "http.request", "body": json.dumps({**body, "stream": True}).encode()}
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if b"content" in message.get("body", b""):
                seen.append(message)
                if len(seen) == 4:
                    gone.set()

        seen: list[Any] = []
        headers = [(b"authorization", b"Bearer demo-key-forge")]
        scope = {"type": "http", "method": "POST", "path": CHAT, "headers": headers}
        await world.gateway.app(scope, receive, send)

    world.run(leave())
    record = world.records()[-1]
    assert record.status is Status.CLIENT_ABORT
    assert record.slices
    assert record.output_tokens_computed is not None
    assert record.output_tokens_delivered is not None
    assert 0 < record.output_tokens_delivered <= record.output_tokens_computed < 900


def test_requests_at_once_are_all_measured_and_add_up_with_the_meter(world: Any) -> None:
    async def many() -> list[int]:
        keys = [("clinic", "auto"), ("bank", "risk-notes"), ("shop", "tiny-llama"), ("forge", "auto")] * 3
        replies = await asyncio.gather(
            *(world.post(key, model=model, stream=bool(i % 2)) for i, (key, model) in enumerate(keys))
        )
        await asyncio.sleep(2.5)
        return [reply.status_code for reply in replies]

    assert set(world.run(many())) == {200}
    records = {record.attempt_key: record for record in world.records()}
    by_attempt: dict[str, int] = {}
    for window in world.values:
        if isinstance(window, MeterWindow):
            window.check()
            for share in window.shares:
                took = share.base_ns + share.adapter_ns + share.recompute_ns
                by_attempt[share.attempt] = by_attempt.get(share.attempt, 0) + took
    measured = {key: sum(s.measured_ns for s in record.slices or ()) for key, record in records.items()}
    assert {key: ns for key, ns in measured.items() if ns} == by_attempt


def test_every_number_of_the_gateway_is_there_once(world: Any) -> None:
    assert sorted(record.seq for record in world.records()) == list(range(len(world.records())))
    assert not [record for record in world.records() if record.problems() or record.slices is None]

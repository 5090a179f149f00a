"""One attempt may hold several prompts, each with several choices: records, meter and engine agree to the token."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from billing.close.counters import SEVERAL, Counted, explain
from telemetry.engine_time import EngineCounters
from telemetry.usage import Status, UsageRecord

pytestmark = [
    pytest.mark.engine,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*Unclosed (context|socket) <zmq:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:.*zmq:pytest.PytestUnraisableExceptionWarning"),
]

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
LONG = "def total(values): return sum(values)  # the sum of all values\n" * 6


def told(world: Any, **fields: Any) -> tuple[UsageRecord, tuple[int, ...]]:
    """The record of a completion request, and by how much the engine's own totals grew meanwhile."""
    before = world.sums()
    reply = world.run(world.post("bank", COMPLETIONS, model="risk-notes", **fields))
    assert reply.status_code == 200, reply.text
    after = world.sums()
    if not fields.get("stream"):
        usage, record = reply.json()["usage"], world.records()[-1]
        said = (usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"], usage["completion_tokens"])
        assert said == counted(record), "the client reads what is booked"
    return world.records()[-1], tuple(now - then for now, then in zip(after, before, strict=True))


def counted(record: UsageRecord) -> tuple[int | None, ...]:
    return record.input_tokens, record.cached_tokens, record.output_tokens_computed


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "prompt",
    [
        ["alpha beta gamma", "delta epsilon"],
        [[5, 6, 7, 8], [9, 10]],
        [f"a {LONG}", f"a {LONG}", f"a {LONG}"],
        [f"b {LONG}", "short"],
    ],
)
def test_every_prompt_of_a_list_counts_with_what_was_cached_of_it(world: Any, prompt: list[Any], stream: bool) -> None:
    cold, engine = told(world, prompt=prompt, stream=stream, max_tokens=2)
    assert counted(cold) == engine
    warm, engine = told(world, prompt=prompt, stream=stream, max_tokens=2)
    assert counted(warm) == engine
    assert warm.output_tokens_delivered == 2 * len(prompt)
    assert (warm.cached_tokens or 0) >= (cold.cached_tokens or 0)
    if LONG in str(prompt[0]):
        assert warm.cached_tokens


@pytest.mark.parametrize("stream", [False, True])
def test_choices_of_a_prompt_share_it_and_the_engines_further_counts_have_a_name(world: Any, stream: bool) -> None:
    text = f"n {stream} {LONG}"
    one, _ = told(world, prompt=text, n=1, max_tokens=2, temperature=1)
    several, engine = told(world, prompt=[text, f"other {text}"], n=3, max_tokens=2, temperature=1, stream=stream)
    assert one.input_tokens is not None
    assert several.output_tokens_computed == several.output_tokens_delivered == engine[2] == 12
    assert engine[0] == 3 * (several.input_tokens or 0), "the engine reads the prompt for each choice"
    assert one.input_tokens < (several.input_tokens or 0) < 3 * one.input_tokens
    assert (several.cached_tokens or 0) < engine[1], "what the further choices found, the first had just computed"


def test_a_hang_up_in_the_middle_of_a_list_counts_what_was_begun(world: Any, raw: Any) -> None:
    body = {"prompt": [f"{i} {LONG}" for i in range(4)], "n": 2, "max_tokens": 400, "ignore_eos": True, "stream": True}
    call = raw(json.dumps(body | {"temperature": 1}).encode())
    call.on_send = lambda message: call.hang_up.set() if b"text" in message.get("body", b"") else None
    scope = {"type": "http", "method": "POST", "path": COMPLETIONS}
    headers = [(b"authorization", b"Bearer demo-key-forge")]
    world.run(world.gateway.app({**scope, "headers": headers, "client": ("10.0.0.1", 1)}, call.receive, call.send))
    record = world.records()[-1]
    assert record.status is Status.CLIENT_ABORT
    assert record.input_tokens
    assert record.slices


def test_records_meter_and_engine_have_no_gap_without_a_name(world: Any) -> None:
    world.run(asyncio.sleep(0.5))
    session = world.door._session
    session.count(final=True)
    counters = next(value for value in reversed(world.values) if isinstance(value, EngineCounters))
    records = [record for record in world.records() if record.method]
    usage = Counted(
        len(records),
        sum(record.input_tokens or 0 for record in records),
        sum(record.output_tokens_computed or 0 for record in records),
        sum(record.cached_tokens or 0 for record in records),
    )
    gaps = explain(counters, usage)
    assert {gap.what for gap in gaps} == {"prompt tokens", "cached tokens", "output tokens", "preemptions"}
    assert [(gap.what, gap.smaller, gap.unexplained) for gap in gaps if gap.unexplained] == []
    named = {(gap.what, gap.smaller): gap.causes for gap in gaps}
    assert named["prompt tokens", "usage"].get(SEVERAL)
    assert named["cached tokens", "usage"].get(SEVERAL)


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        (CHAT, {"logprobs": True, "top_logprobs": 21}),
        (COMPLETIONS, {"prompt": "x", "logprobs": 21}),
    ],
)
def test_what_vllm_refuses_after_a_stream_began_is_a_plain_bad_request(
    world: Any, path: str, fields: dict[str, Any]
) -> None:
    reply = world.run(world.post("shop", path, stream=True, **fields))
    assert reply.status_code == 400, reply.text
    assert reply.headers["content-type"] == "application/json"
    assert reply.json()["error"]["param"] == "logprobs"
    record = world.records()[-1]
    assert (record.status, record.error_type, record.http_status) == (Status.BAD_REQUEST, None, 400)
    assert (record.slices, record.output_tokens_computed, record.input_tokens) == ((), 0, None)

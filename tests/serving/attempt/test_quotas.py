"""Quotas at the door: every answer counts, prompts are counted by the engine, and what can never fit is told so at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from serving.attempt.counting import estimated_tokens
from serving.attempt.limits import Limits
from serving.protocol.request import read_call
from telemetry.usage import Status

Ask = Callable[..., dict[str, Any]]
Run = Callable[..., None]
Text = Callable[..., str]
COMPLETIONS = "/v1/completions"


def load(bench: Any, tenant: str = "clinic") -> Any:
    """What the tenant holds now."""
    return bench.gateway.app.pages._services.quotas._loads.get(tenant)


@pytest.mark.parametrize(
    ("path", "fields", "param", "told"),
    [
        ("/v1/chat/completions", {"n": 300}, "n", "300 answers"),
        ("/v1/chat/completions", {"n": "9"}, "n", "9 answers"),
        ("/v1/chat/completions", {"best_of": 9}, "n", "9 answers"),
        (COMPLETIONS, {"prompt": ["a"] * 9}, "prompt", "9 prompts with 1 answers each"),
        (COMPLETIONS, {"prompt": [[1, 2]] * 5, "n": 2}, "n", "5 prompts with 2 answers each"),
    ],
)
def test_more_answers_than_the_tenant_may_have_are_refused_by_name(
    path: str, fields: dict[str, Any], param: str, told: str, run_bench: Run, ask: Ask
) -> None:
    async def test(bench: Any) -> None:
        reply = await bench.post(ask(**fields), path=path)
        error = reply.json()["error"]
        assert (reply.status_code, error["code"], error["param"]) == (400, "too_many_choices", param)
        assert told in error["message"]
        assert "may have 8 (`max_choices`)" in error["message"]
        assert bench.engine.seen == []
        assert bench.only_record().status is Status.BAD_REQUEST

    run_bench(test)


def test_the_cap_is_the_tenants_own(run_bench: Run, ask: Ask, catalog_text: Text) -> None:
    async def test(bench: Any) -> None:
        assert (await bench.post(ask(n=3))).status_code == 400
        assert (await bench.post(ask(n=2))).status_code == 200
        assert (await bench.post(ask(n=8), "bank")).status_code == 200

    run_bench(test, catalog=catalog_text(clinic="quotas: {max_choices: 2}"))


def test_a_request_without_any_prompt_counts_as_one(run_bench: Run, catalog_text: Text) -> None:
    async def test(bench: Any) -> None:
        body = {"prompt": [], "max_tokens": 1}
        statuses = [(await bench.post(body, path=COMPLETIONS)).status_code for _ in range(3)]
        assert statuses == [400, 400, 429]
        assert load(bench).seats == 0

    run_bench(test, catalog=catalog_text(clinic="quotas: {requests_per_minute: 2, tokens_per_minute: 100}"))


def test_one_request_for_eight_is_eight_requests(run_bench: Run, ask: Ask, catalog_text: Text) -> None:
    async def test(bench: Any) -> None:
        assert (await bench.post(ask(n=8))).status_code == 200
        assert (await bench.post(ask(n=3))).status_code == 429
        assert (await bench.post(ask(n=2))).status_code == 200

    run_bench(test, catalog=catalog_text(clinic="quotas: {requests_per_minute: 10}"))


TOOLS = [{"type": "function", "function": {"name": "look", "description": "word " * 300, "parameters": {}}}]
CALLS = [{"id": "1", "type": "function", "function": {"name": "look", "arguments": json.dumps({"a": "b " * 300})}}]


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": TOOLS},
        {"messages": [{"role": "assistant", "content": None, "tool_calls": CALLS}]},
        {"messages": [{"role": "user", "content": "糖尿病" * 100}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "word " * 300}]}]},
        {"messages": [{"role": "system", "content": "word " * 300}]},
        {"documents": [{"title": "t", "text": "word " * 300}]},
    ],
)
def test_the_estimate_sees_all_that_becomes_prompt(fields: dict[str, Any], ask: Ask) -> None:
    (tokens,) = estimated_tokens(read_call("/v1/chat/completions", json.dumps(ask(**fields)).encode()))
    assert 200 <= tokens <= 900


def test_prompts_are_counted_by_the_engine_only_where_a_quota_asks(
    run_bench: Run, ask: Ask, catalog_text: Text
) -> None:
    async def test(bench: Any) -> None:
        counted: list[str] = []
        count = bench.engine._openai.count_tokens

        def counting(path: str, body: Any) -> Any:
            counted.append(path)
            return count(path, body)

        bench.engine._openai.count_tokens = counting
        held = []
        bench.engine.switches.on_submit = lambda: held.append(load(bench).kv_blocks)
        await bench.post(ask("word " * 99, max_tokens=12))
        assert (counted, held) == (["/v1/chat/completions"], [-(-(1 + 99 + 12) // 16)])
        await bench.post(ask("word " * 99), "bank")
        assert len(counted) == 1, "a tenant without such quotas does not pay for it"
        await bench.post({"prompt": list(range(1000)), "max_tokens": 8}, path=COMPLETIONS)
        assert (len(counted), held[-1]) == (1, 63), "token ids need no tokenizer"
        await bench.post({"prompt": ["a b c", "d e"], "n": 2, "max_tokens": 14}, path=COMPLETIONS)
        assert held[-1] == 2 * 2 + 2 * 1
        assert load(bench).kv_blocks == 0

    run_bench(test, catalog=catalog_text(clinic="quotas: {kv_blocks_in_flight: 100}"))


def test_a_count_that_takes_too_long_is_an_estimate(run_bench: Run, ask: Ask, catalog_text: Text) -> None:
    async def test(bench: Any) -> None:
        bench.engine.switches.counting.clear()
        assert (await bench.post(ask())).status_code == 200
        assert (await bench.post(ask("word " * 1000))).json()["error"]["code"] == "exceeds_quota"

    catalog = catalog_text(clinic="quotas: {kv_blocks_in_flight: 20}")
    run_bench(test, catalog=catalog, limits=Limits(count_s=0.01))


@pytest.mark.parametrize(
    ("quotas", "bound"),
    [
        ("kv_blocks_in_flight: 100", 100 * 16 - 3),
        ("tokens_per_minute: 50", 47),
        ("kv_blocks_in_flight: 3, tokens_per_minute: 1000", 45),
        ("kv_blocks_in_flight: 100000", None),
        ("requests_per_minute: 5", None),
    ],
)
def test_without_a_bound_of_its_own_an_answer_gets_what_the_quota_leaves_and_the_engine_is_told(
    quotas: str, bound: int | None, run_bench: Run, ask: Ask, catalog_text: Text
) -> None:
    async def test(bench: Any) -> None:
        body = ask()
        del body["max_tokens"]
        assert (await bench.post(body)).status_code == 200
        assert bench.engine.seen[0][2].get("max_tokens") == bound
        assert load(bench).kv_blocks == 0

    run_bench(test, catalog=catalog_text(clinic=f"quotas: {{{quotas}}}"))


@pytest.mark.parametrize(
    ("quotas", "fields", "param", "told"),
    [
        ("kv_blocks_in_flight: 100", {"max_tokens": 4000}, "max_tokens", "up to 251 KV blocks, of 100"),
        ("kv_blocks_in_flight: 100", {"max_completion_tokens": 4000}, "max_completion_tokens", "to at most 1597"),
        ("kv_blocks_in_flight: 10", {"n": 8, "max_tokens": 20}, "max_tokens", "up to 16 KV blocks, of 10"),
        ("kv_blocks_in_flight: 7", {"n": 8}, None, "ask for fewer answers"),
        ("tokens_per_minute: 6", {}, "max_tokens", "up to 7 tokens, of 6"),
        ("tokens_per_minute: 3", {"max_tokens": None}, None, "shorten the prompt"),
        ("requests_per_minute: 2", {"n": 3}, None, "up to 3 sequences, of 2"),
        ('monthly_budget: "0"', {}, None, "of 0.00"),
        ('monthly_budget: "0"', {"max_tokens": None}, None, "of 0.00"),
    ],
)
def test_what_can_never_fit_is_a_400_that_says_what_to_change(
    quotas: str, fields: dict[str, Any], param: str | None, told: str, run_bench: Run, ask: Ask, catalog_text: Text
) -> None:
    async def test(bench: Any) -> None:
        reply = await bench.post(ask(**fields))
        error = reply.json()["error"]
        assert (reply.status_code, error["code"], error["param"]) == (400, "exceeds_quota", param)
        assert told in error["message"]
        assert "retry-after" not in reply.headers
        record = bench.only_record()
        assert (record.status, record.slices, record.admitted_ns) == (Status.BAD_REQUEST, (), None)

    run_bench(test, catalog=catalog_text(clinic=f"quotas: {{{quotas}}}"))


def test_a_budget_bounds_the_answer_of_who_sets_no_bound(run_bench: Run, ask: Ask, catalog_text: Text) -> None:
    plan = '{kind: per_token, input: "0", cached_input: "0", output: "250000"}'

    async def test(bench: Any) -> None:
        assert (await bench.post(ask(max_tokens=None))).status_code == 200
        assert bench.engine.seen[0][2]["max_tokens"] == 40
        error = (await bench.post(ask(max_tokens=41))).json()["error"]
        assert "to at most 40" in error["message"]

    catalog = catalog_text(clinic='quotas: {monthly_budget: "10"}').replace("{kind: cost_plus}", plan, 1)
    run_bench(test, catalog=catalog)

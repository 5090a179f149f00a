"""What the gateway answers, what the engine gets to see, and what is booked, over ASGI before the fake engine."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from serving.attempt.limits import Limits
from serving.policy.routing import replays
from telemetry.usage import ErrorType, Status

Ask = Callable[..., dict[str, Any]]
Run = Callable[..., None]
LONG = "word " * 100


def chunks(text: str) -> list[dict[str, Any]]:
    assert text.endswith("data: [DONE]\n\n")
    return [json.loads(event[6:]) for event in text.split("\n\n")[:-2]]


def test_a_reply_is_the_engines_with_public_names_and_a_measured_record(run_bench: Run, ask: Ask) -> None:
    async def test(bench: Any) -> None:
        reply = await bench.post(ask(model="coder"))
        assert reply.status_code == 200
        body = reply.json()
        record = bench.only_record()
        assert (body["model"], body["usage"]["completion_tokens"]) == ("coder", 4)
        assert body["id"] == f"chatcmpl-{record.request_id}"
        assert reply.headers["x-request-id"] == record.request_id
        assert int(reply.headers["content-length"]) == len(reply.content)
        assert "kv_transfer_params" not in body
        assert (record.status, record.http_status, record.tenant, record.adapter) == (Status.OK, 200, "clinic", "coder")
        assert (record.route_rule, record.route_reason, record.engine, record.gpu_type) == (
            "explicit",
            "miss",
            "fake-0",
            "demo",
        )
        assert (record.input_tokens, record.cached_tokens, record.output_tokens_computed) == (3, 0, 4)
        assert record.output_tokens_delivered == 4
        assert record.slices
        assert record.adapter_hash is not None
        assert record.adapter_hash[:8] in bench.engine.seen[0][2]["model"]
        # Four steps ran for it alone: its measured time is theirs, to the nanosecond.
        device = bench.engine.device
        steps = 4 * device.cost_ns([]) + 4 * device.lora_ns + 3 * device.prefill_ns + 3 * device.decode_ns
        assert sum(s.measured_ns for s in record.slices) == steps

    run_bench(test)


def test_a_stream_is_passed_on_as_it_comes_and_counted(run_bench: Run, ask: Ask) -> None:
    async def test(bench: Any) -> None:
        reply = await bench.post(ask(model="coder", stream=True))
        got = chunks(reply.text)
        record = bench.only_record()
        assert {chunk["model"] for chunk in got} == {"coder"}
        assert not [chunk for chunk in got if "usage" in chunk or "kv_transfer_params" in chunk]
        assert len([chunk for chunk in got if chunk["choices"][0]["delta"]["content"]]) == 4
        assert (record.output_tokens_delivered, record.output_tokens_computed, record.status) == (4, 4, Status.OK)
        assert record.admitted_ns is not None
        assert record.first_token_ns is not None
        assert record.finished_ns is not None
        assert record.arrival_ns <= record.admitted_ns < record.first_token_ns < record.finished_ns

    run_bench(test)


def test_a_client_that_asks_for_usage_gets_it_once_and_as_it_asked(run_bench: Run, ask: Ask) -> None:
    async def test(bench: Any) -> None:
        reply = await bench.post(ask(stream="yes", stream_options={"include_usage": True}))
        usages = [chunk["usage"] for chunk in chunks(reply.text) if chunk.get("usage")]
        assert [usage["completion_tokens"] for usage in usages] == [4]
        reply = await bench.post(
            ask(stream=True, stream_options={"include_usage": True, "continuous_usage_stats": True})
        )
        assert len([chunk for chunk in chunks(reply.text) if chunk.get("usage")]) == 6

    run_bench(test)


def test_a_stream_of_several_choices_delivers_the_sum(run_bench: Run, ask: Ask) -> None:
    async def test(bench: Any) -> None:
        await bench.post(ask(stream=True, n=3))
        record = bench.only_record()
        assert (record.output_tokens_delivered, record.output_tokens_computed) == (12, 12)

    run_bench(test)


def test_a_prefix_is_reused_by_its_tenant_and_by_no_other(run_bench: Run, ask: Ask) -> None:
    async def test(bench: Any) -> None:
        for tenant in ("clinic", "clinic", "bank", "bank"):
            await bench.post(ask(LONG, model="tiny-llama"), tenant)
        cached = [record.cached_tokens for record in bench.records()]
        assert cached[0] == cached[2] == 0
        assert cached[1] == cached[3] == 96
        saved = [sum(s.kv_saved_base_ns for s in record.slices or ()) for record in bench.records()]
        assert saved[0] == 0 < saved[1]

    run_bench(test)


def test_a_tenant_named_like_a_sharing_group_does_not_meet_it(run_bench: Run, ask: Ask, catalog_text: Any) -> None:
    async def test(bench: Any) -> None:
        await bench.post(ask(LONG, model="tiny-llama"), "clinic")
        await bench.post(ask(LONG, model="tiny-llama"), "bank")
        salts = {seen[2]["cache_salt"] for seen in bench.engine.seen}
        assert len(salts) == 2

    run_bench(test, catalog=catalog_text(clinic="kv_sharing_group: bank\n    org: health"))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("cache_salt", "stolen"),
        ("priority", -100),
        ("vllm_xargs", {"ll_tenant": "bank", "ll_attempt": "gw-other:1", "x": 1}),
        ("kv_transfer_params", {"do_remote_prefill": True}),
        ("ec_transfer_params", {"a": 1}),
        ("request_id", "mine"),
        ("session_id", "mine"),
        ("lora_request", {"lora_path": "/etc"}),
        ("lora_name", "risk"),
        ("LoRA_path", "/etc"),
        ("data_parallel_rank", 3),
    ],
)
def test_what_a_client_must_not_set_never_reaches_the_engine(field: str, value: Any, run_bench: Run, ask: Ask) -> None:
    async def test(bench: Any) -> None:
        await bench.post(ask(model="coder"))
        await bench.post(
            ask(model="coder", **{field: value}),
            **{"x-request-id": "mine", "x-session-id": "mine", "x-data-parallel-rank": "3", "traceparent": "x"},
        )
        (_, clean, plain), (_, headers, body) = bench.engine.seen
        record = bench.records()[1]
        assert body["vllm_xargs"] == {"ll_attempt": record.attempt_key, "ll_tenant": "clinic"}
        assert body["cache_salt"] == plain["cache_salt"] != "stolen"
        assert body.keys() == plain.keys()
        ours = {"content-type", "content-length", "x-request-id", "traceparent"}
        assert headers.keys() == clean.keys() == {"accept", *ours}
        assert headers["x-request-id"] == record.request_id
        assert headers["traceparent"].startswith(f"00-{record.trace_id}-")

    run_bench(test)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("fault", [None, "error", "raise", "stream_error", "too_long", "no_messages"])
def test_no_reply_ever_shows_an_internal_name(stream: bool, fault: str | None, run_bench: Run, ask: Ask) -> None:
    async def test(bench: Any) -> None:
        body = ask("x " * 5000 if fault == "too_long" else "x", model="coder", stream=stream)
        if fault == "no_messages":
            del body["messages"]
        elif fault not in (None, "too_long"):
            bench.engine.switches.faults.append(fault)
        reply = await bench.post(body)
        shown = reply.text + str(reply.headers)
        for secret in ("@", "remote_engine_id", "kernel.cu", "ll_attempt", "EngineCore", "risk", "lingo"):
            assert secret not in shown
        if fault is not None and not (fault == "stream_error" and not stream):
            assert bench.only_record().status is not Status.OK
            assert "error" in reply.text

    run_bench(test)


PATHS = [
    # what the client does, HTTP status, status, error type
    ("ok", 200, Status.OK, None),
    ("no key", 401, Status.REJECTED, ErrorType.REJECTED),
    ("wrong key", 401, Status.REJECTED, ErrorType.REJECTED),
    ("not json", 400, Status.BAD_REQUEST, None),
    ("not an object", 400, Status.BAD_REQUEST, None),
    ("not strict json", 400, Status.BAD_REQUEST, None),
    ("bottomless", 400, Status.BAD_REQUEST, None),
    ("model not a string", 400, Status.BAD_REQUEST, None),
    ("beam search", 400, Status.BAD_REQUEST, None),
    ("unknown model", 404, Status.BAD_REQUEST, ErrorType.ROUTE_FAILED),
    ("another's adapter", 404, Status.BAD_REQUEST, ErrorType.ROUTE_FAILED),
    ("an internal name", 404, Status.BAD_REQUEST, ErrorType.ROUTE_FAILED),
    ("too large", 413, Status.BAD_REQUEST, None),
    ("engine says 400", 400, Status.BAD_REQUEST, None),
    ("load failure", 503, Status.SERVER_ERROR, ErrorType.LOAD_FAILED),
    ("engine error", 500, Status.SERVER_ERROR, ErrorType.ENGINE_ERROR),
    ("engine exception", 500, Status.SERVER_ERROR, ErrorType.ENGINE_ERROR),
    ("error inside a stream", 200, Status.SERVER_ERROR, ErrorType.ENGINE_ERROR),
]


@pytest.mark.parametrize(("way", "http", "status", "error_type"), PATHS, ids=[path[0] for path in PATHS])
def test_every_way_through_is_opened_once_and_closed_once(
    way: str, http: int, status: Status, error_type: ErrorType | None, run_bench: Run, ask: Ask
) -> None:
    body: Any = {
        "not json": b"{",
        "not an object": b"[]",
        "bottomless": b"[" * 1999,
        "not strict json": b'{"messages": [], "temperature": NaN}',
        "model not a string": ask(model=3),
        "beam search": ask(use_beam_search=True),
        "unknown model": ask(model="nobody"),
        "another's adapter": ask(model="risk"),
        "too large": ask("x" * 3000),
        "engine says 400": {"model": "tiny-llama"},
        "load failure": ask(model="tone"),
        "error inside a stream": ask(stream=True),
    }.get(way, ask())

    async def test(bench: Any) -> None:
        switches = bench.engine.switches
        switches.broken_adapters.add("tone")
        fault = {"engine error": "error", "engine exception": "raise", "error inside a stream": "stream_error"}.get(way)
        switches.faults.extend([fault] if fault else [])
        key = {"no key": None, "wrong key": "nobody"}.get(way, "clinic")
        if way == "an internal name":
            await bench.post(ask(model="coder"))
            reply = await bench.post(ask(model=bench.engine.seen[0][2]["model"]))
            assert len(bench.opened()) == len(bench.records()) == 2
            record = bench.records()[1]
        else:
            reply = await bench.post(body, key)
            record = bench.only_record()
        assert reply.status_code == http
        assert (record.status, record.error_type, record.http_status) == (status, error_type, http)
        assert record.tenant == ("clinic" if key == "clinic" else "unauthenticated")
        worked = way in ("ok", "error inside a stream")
        assert bool(record.slices) is worked
        if not worked:
            assert record.slices == ()
            assert record.output_tokens_computed == record.output_tokens_delivered == 0
        # Whatever went wrong, the next one is served and numbered without a gap.
        assert (await bench.post(ask())).status_code == 200
        assert [record.seq for record in bench.records()] == list(range(len(bench.records())))
        assert 'loraledger_requests_in_flight{tenant="clinic"} 0.0' in bench.scrape()
        assert bench.engine.accountant.gaps == 0

    run_bench(test, limits=Limits(body_bytes=2000))


def test_a_model_of_another_tenant_and_no_model_at_all_read_alike(run_bench: Run, ask: Ask) -> None:
    async def test(bench: Any) -> None:
        others, nobodys = [(await bench.post(ask(model=name))).text for name in ("risk", "none")]
        assert others.replace("risk", "none") == nobodys

    run_bench(test)


def test_a_tenant_sees_its_own_models_only(run_bench: Run) -> None:
    async def test(bench: Any) -> None:
        models = (await bench.get("/v1/models")).json()["data"]
        assert [model["id"] for model in models] == ["tiny-llama", "coder", "tone"]
        assert (await bench.get("/v1/models", None)).status_code == 401
        assert (await bench.get("/v1/models/coder")).json()["parent"] == "tiny-llama"
        assert (await bench.get("/v1/models/risk")).status_code == 404

    run_bench(test)


@pytest.mark.parametrize(
    "path",
    ["/v1/load_lora_adapter", "/tokenizer_info", "/reset_prefix_cache", "/v1/responses/resp_1", "/v1/responses/resp_1/cancel", "/v1/chat/completions/batch", "/v1/chat/completions/",
     "/sleep", "/v1/embeddings", "/docs", "/openapi.json", "//v1/chat/completions"],
)  # fmt: skip
def test_no_other_route_of_the_engine_is_reachable(path: str, run_bench: Run, ask: Ask) -> None:
    async def test(bench: Any) -> None:
        assert (await bench.post(ask(), path=path)).status_code in (404, 405)
        assert (await bench.get(path)).status_code in (404, 405)
        assert bench.engine.seen == []

    run_bench(test)


def test_quotas_refuse_with_a_reason_and_a_time(run_bench: Run, ask: Ask, catalog_text: Any) -> None:
    async def test(bench: Any) -> None:
        assert (await bench.post(ask())).status_code == 200
        reply = await bench.post(ask())
        assert reply.status_code == 429
        assert reply.json()["error"]["code"] == "requests_per_minute"
        assert 0 < int(reply.headers["retry-after"]) <= 60
        refused = bench.records()[1]
        assert (refused.status, refused.error_type, refused.slices) == (Status.REJECTED, ErrorType.REJECTED, ())
        bench.clock.advance(60_000_000_000)
        assert (await bench.post(ask())).status_code == 200

    run_bench(test, catalog=catalog_text(clinic="quotas: {requests_per_minute: 1}"))


def test_the_end_of_a_reply_waits_for_its_record(run_bench: Run, ask: Ask, raw: Any) -> None:
    async def test(bench: Any) -> None:
        on_disk: list[bool] = []

        def on_send(message: Any) -> None:
            body = message.get("body", b"")
            if message["type"] == "http.response.body" and (b"[DONE]" in body or not message["more_body"]):
                on_disk.append(len(bench.records()) == 1)

        await bench.raw(raw(json.dumps(ask(stream=True)).encode(), on_send=on_send))
        assert on_disk == [True]

    run_bench(test)


def test_a_full_disk_is_said_and_not_suffered(run_bench: Run, ask: Ask, caplog: pytest.LogCaptureFixture) -> None:
    async def test(bench: Any) -> None:
        bench.disk.refuse = True
        reply = await bench.post(ask())
        assert reply.status_code == 200
        assert bench.records() == []
        health = (await bench.get("/health")).json()
        assert (health["status"], health["spool"]["refused"]) == ("degraded", "[Errno 28] No space left on device")
        assert re.search(r"loraledger_spool_errors_total [1-9]", (await bench.get("/metrics")).text)
        bench.disk.refuse = False
        async with asyncio.timeout(5):
            while not bench.records():
                await asyncio.sleep(0.01)
        assert bench.only_record().status is Status.OK

    run_bench(test)
    assert "is not on disk" in caplog.text


def test_a_stopped_gateway_has_closed_what_was_open(run_bench: Run, ask: Ask) -> None:
    async def test(bench: Any) -> None:
        bench.engine.switches.stepping.clear()
        open_one = asyncio.create_task(bench.post(ask()))
        async with asyncio.timeout(5):
            while not bench.engine.seen:
                await asyncio.sleep(0)
        await bench.gateway.stop(0.0)
        record = bench.only_record()
        assert record.status is Status.SERVER_ERROR
        assert (record.input_tokens, record.slices) == (0, ()), "no step ever held it"
        open_one.cancel()
        await asyncio.wait({open_one})
        assert (await bench.post(ask())).status_code == 503
        assert len(bench.records()) == 2

    run_bench(test)


def test_a_gateway_that_stops_lets_what_is_open_end_within_its_grace(run_bench: Run, ask: Ask) -> None:
    async def test(bench: Any) -> None:
        bench.engine.switches.stepping.clear()
        open_one = asyncio.create_task(bench.post(ask()))
        async with asyncio.timeout(5):
            while not bench.engine.seen:
                await asyncio.sleep(0)
        stopping = asyncio.create_task(bench.gateway.stop(10.0))
        for _ in range(50):
            await asyncio.sleep(0)
        bench.engine.switches.stepping.set()
        assert (await open_one).status_code == 200
        await stopping
        assert bench.records()[0].status is Status.OK

    run_bench(test)


@pytest.mark.parametrize("header", ["forwarded", "x-forwarded-for"])
def test_whoever_comes_through_a_proxy_is_no_operator(header: str, run_bench: Run) -> None:
    async def test(bench: Any) -> None:
        assert (await bench.get("/metrics", None)).status_code == 200
        assert (await bench.get("/metrics", None, **{header: "for=203.0.113.9"})).status_code == 404

    run_bench(test)


def test_an_engine_that_never_ends_is_given_up(run_bench: Run, ask: Ask) -> None:
    async def test(bench: Any) -> None:
        bench.engine.switches.stepping.clear()
        assert (await bench.post(ask())).status_code == 504
        assert bench.only_record().status is Status.TIMEOUT

    run_bench(test, limits=Limits(engine_s=0.05))


def test_a_decision_can_be_replayed_and_holds_no_prompt(run_bench: Run, ask: Ask) -> None:
    async def test(bench: Any) -> None:
        await bench.post(ask("the ICD of my neighbour"))
        await bench.post(ask("hello", model="risk"))
        first, second = bench.routes()
        assert (first.rule, first.adapter, first.reason) == ("codes", "coder", "miss")
        assert (second.rule, second.adapter, second.reason) == (None, None, "denied")
        assert replays(first, bench.source.view.policy)
        assert replays(second, bench.source.view.policy)
        assert "neighbour" not in "".join(bench.lines())

    run_bench(test)


def test_several_choices_of_a_completion_are_one_attempt(run_bench: Run) -> None:
    async def test(bench: Any) -> None:
        body = {"prompt": "a b c", "max_tokens": 2, "n": 2, "model": "tiny-llama"}
        await bench.post(body, path="/v1/completions")
        record = bench.only_record()
        assert (record.input_tokens, record.output_tokens_computed, record.output_tokens_delivered) == (3, 4, 4)

    run_bench(test)

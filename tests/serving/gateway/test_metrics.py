"""What a scrape says about requests, the engine and the ledger, and who may read it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any

import httpx

from alerts.rules import metric_names_used as alerts_use
from dashboards.queries import metric_names_used as boards_use
from telemetry import names

OURS = {metric.name for metric in names.METRICS}
WHEN_SOMETHING_IS_WRONG = {names.REQUEST_ERRORS.name, names.LABEL_OVERFLOW.name, names.METER_MISSING.name}
"""Their series begin with the first fault."""

Ask = Callable[..., dict[str, Any]]
Run = Callable[..., None]


def value(scrape: str, name: str, **labels: str) -> float | None:
    inner = ",".join(f'{k}="{v}"' for k, v in sorted(labels.items()))
    found = re.search(rf"^{re.escape(name + (f'{{{inner}}}' if inner else ''))} (\S+)$", scrape, re.MULTILINE)
    return float(found[1]) if found else None


def test_requests_are_counted_with_their_labels(run_bench: Run, ask: Ask) -> None:
    async def test(bench: Any) -> None:
        await bench.post(ask("word " * 40, model="coder", stream=True))
        await bench.post(ask("word " * 40, model="coder"))
        await bench.post(ask(), None)
        await bench.post(ask(model="nobody"))
        scrape = (await bench.get("/metrics")).text
        mine = {"tenant": "clinic", "adapter": "coder"}
        assert value(scrape, "lora_request_total", **mine, status="ok") == 2
        assert value(scrape, "lora_request_total", tenant="unauthenticated", adapter="other", status="rejected") == 1
        assert (
            value(scrape, "lora_request_error_total", tenant="clinic", adapter="other", error_type="route_failed") == 1
        )
        assert value(scrape, "lora_request_duration_seconds_count", **mine) == 2
        assert value(scrape, "lora_route_decision_total", adapter="coder", reason="miss") == 1
        assert value(scrape, "lora_route_decision_total", adapter="coder", reason="hit") == 1
        assert value(scrape, "lora_route_decision_total", adapter="other", reason="unknown") == 1
        assert value(scrape, "kv_pool_lookup_tokens_total", tenant="clinic") == 82
        assert value(scrape, "kv_pool_hit_tokens_total", tenant="clinic") == 32
        assert value(scrape, "kv_pool_hit_rate", tenant="clinic") == 32 / 82
        assert value(scrape, "lora_cold_start_duration_ms_count", adapter="coder") == 1
        assert value(scrape, "lora_cold_start_p99_ms") == 22
        assert value(scrape, "loraledger_output_tokens_total", **mine) == 8
        assert value(scrape, "loraledger_input_tokens_total", **mine) == 82
        assert value(scrape, "lora_request_slo_ratio_count", tenant="clinic") == 2
        assert value(scrape, "lora_tenant_slo_seconds", tenant="bank") == 5
        spent = sum(s.adapter_ns for r in bench.records() for s in r.slices or ())
        assert value(scrape, "lora_routing_cost_ms_total", tenant="clinic") == spent / 1e6
        chat = {"gen_ai_operation_name": "chat", "gen_ai_provider_name": "vllm"}
        assert value(scrape, "gen_ai_server_request_duration_seconds_count", **chat) == 2
        assert value(scrape, "gen_ai_server_time_to_first_token_seconds_count", **chat) == 1
        assert value(scrape, "loraledger_engine_up", engine="fake-0") == 1
        assert value(scrape, "lora_memory_used_bytes", adapter="coder", gpu="fake-0") == 1 << 20
        assert value(scrape, "lora_memory_used_bytes", adapter="risk", gpu="fake-0") == 0
        assert value(scrape, "lora_memory_quota_bytes", adapter="coder", gpu="fake-0") == 1_000_000
        assert value(scrape, "kv_pool_total_blocks", tensor_parallel_size="1") == 4096
        assert value(scrape, "loraledger_engine_time_seconds_total", engine="fake-0", owner="cold") == 0.022
        assert value(scrape, "loraledger_label_overflow_total", label="tenant") == 0
        assert value(scrape, "loraledger_usage_unmeasured_total") in (None, 0)

    run_bench(test)


def test_a_slow_success_is_ok_and_a_broken_promise(run_bench: Run, ask: Ask, catalog_text: Any) -> None:
    async def test(bench: Any) -> None:
        await bench.post(ask(model="coder"))
        record = bench.only_record()
        assert (record.status, record.error_type) == ("ok", "slo_violation")
        scrape = bench.scrape()
        labels = {"tenant": "clinic", "adapter": "coder"}
        assert value(scrape, "lora_request_error_total", **labels, error_type="slo_violation") == 1
        assert value(scrape, "lora_request_slo_ratio_bucket", le="2.0", tenant="clinic") == 0

    run_bench(test, catalog=catalog_text(slo="0.01"))


def test_figures_of_all_tenants_are_for_operators(run_bench: Run) -> None:
    async def test(bench: Any) -> None:
        assert (await bench.get("/metrics", "clinic")).status_code == 404
        assert "catalog" not in (await bench.get("/health", "clinic")).json()
        async with bench.client() as client:
            token = {"authorization": "Bearer op-token"}
            assert (await client.get("/metrics", headers=token)).status_code == 200
            assert "catalog" in (await client.get("/health", headers=token)).json()

    run_bench(test, operator_token="op-token")

    async def from_elsewhere(bench: Any) -> None:
        transport = httpx.ASGITransport(app=bench.gateway.app, client=("10.0.0.9", 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
            assert (await client.get("/metrics")).status_code == 404
        assert (await bench.get("/metrics", **{"x-forwarded-for": "10.0.0.9"})).status_code == 404

    run_bench(from_elsewhere)


def test_an_engine_that_is_down_makes_the_gateway_unhealthy(run_bench: Run) -> None:
    async def test(bench: Any) -> None:
        bench.engine.switches.healthy = False
        assert (await bench.get("/health")).status_code == 503
        assert value((await bench.get("/metrics")).text, "loraledger_engine_up", engine="fake-0") == 0

    run_bench(test)


def test_costs_come_from_the_ledgers_last_good_snapshot_with_its_age(run_bench: Run) -> None:
    async def test(bench: Any) -> None:
        path = bench.directory / "snapshot.json"
        age = value((await bench.get("/metrics")).text, "loraledger_snapshot_age_seconds")
        assert age is not None
        assert math.isnan(age)
        tenants = {"clinic": {"cost_per_million_tokens": "12.3", "memory_cost_per_hour": None}}
        # The manual clock of these tests stands at 2026-09-21T14:13:20Z.
        path.write_text(json.dumps({"published_at": "2026-09-21T14:12:20+00:00", "tenants": tenants}))
        scrape = (await bench.get("/metrics")).text
        assert value(scrape, "lora_cost_per_million_tokens", tenant="clinic") == 12.3
        assert value(scrape, "lora_memory_cost_per_hour", tenant="clinic") is None
        assert value(scrape, "loraledger_snapshot_age_seconds") == 60
        assert value(scrape, "loraledger_record_gaps") is None
        assert value(scrape, "loraledger_tenant_revenue", tenant="clinic") is None
        path.write_text("{")
        bench.clock.advance(10**9)
        assert value((await bench.get("/metrics")).text, "loraledger_snapshot_age_seconds") == 61

    run_bench(test)


def test_every_number_that_warns_or_is_shown_is_in_a_scrape(run_bench: Run, ask: Ask) -> None:
    async def test(bench: Any) -> None:
        await bench.post(ask("word " * 40, model="coder", stream=True))
        await bench.post(ask(model="lingo"), "bank")
        amounts = {"cost_per_million_tokens": "12.3", "memory_cost_per_hour": "1", "cost": "4.5", "revenue": "6"}
        standing = {
            "quarantine_records": 2,
            "record_gaps": 3,
            "close_overdue_ns": 4 * 10**9,
            "price_missing_ns": 5 * 10**9,
        }
        snapshot = {"published_at": "2026-09-21T14:12:20+00:00", "ledger": standing, "tenants": {"clinic": amounts}}
        (bench.directory / "snapshot.json").write_text(json.dumps(snapshot))
        scrape = (await bench.get("/metrics")).text
        assert value(scrape, "loraledger_tenant_cost", tenant="clinic") == 4.5
        assert value(scrape, "loraledger_tenant_revenue", tenant="clinic") == 6
        assert value(scrape, "loraledger_quarantine_records") == 2
        assert value(scrape, "loraledger_record_gaps") == 3
        assert value(scrape, "loraledger_close_overdue_seconds") == 4
        assert value(scrape, "loraledger_price_missing_seconds") == 5
        steps = bench.engine.state().steps
        assert steps
        for name, time in steps.items():
            labels = {"engine": "fake-0", "step_class": name}
            assert value(scrape, "loraledger_step_measured_seconds_total", **labels) == time.measured_ns / 1e9 > 0
            assert value(scrape, "loraledger_step_predicted_seconds_total", **labels) == time.predicted_ns / 1e9 > 0

        told = set(re.findall(r"^# TYPE (\S+) ", scrape, re.MULTILINE))
        used = {name for name in alerts_use() | boards_use() if name in OURS}
        assert used > {names.RECORD_GAPS.name, names.TENANT_COST.name, names.STEP_PREDICTED.name}
        assert used - told - WHEN_SOMETHING_IS_WRONG == set()

    run_bench(test)


def test_spans_tell_where_the_time_went_and_only_cold_ones_load(run_bench: Run, ask: Ask) -> None:
    async def test(bench: Any) -> None:
        for _ in range(2):
            await bench.post(ask(model="coder"), traceparent="00-" + "ab" * 16 + "-" + "cd" * 8 + "-01")
        spans = bench.spans()
        assert {span.trace_id for span in spans} == {"ab" * 16}
        by_id = {span.span_id: span for span in spans}
        tree = [
            (span.span_name, by_id[span.parent_span_id].span_name) for span in spans if span.parent_span_id in by_id
        ]
        root, client = "POST /v1/chat/completions", "chat coder"
        warm = [(client, root), ("route", client), ("admission", client), ("engine", client)]
        assert sorted(tree) == sorted([*warm, *warm, ("adapter.load", client)])
        for span in spans:
            outer = by_id.get(span.parent_span_id, span)
            assert outer.timestamp <= span.timestamp
            assert span.timestamp + span.duration <= outer.timestamp + outer.duration

    run_bench(test)

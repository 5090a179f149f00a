from __future__ import annotations

import math
import threading

import pytest
from prometheus_client import REGISTRY
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_plain
from prometheus_client.samples import Sample

from telemetry import names
from telemetry.errors import MetricMisused
from telemetry.metrics import Metrics

OPENMETRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"
TRACE = "0af7651916cd43dd8448eb211c80319c"
SECOND = 1_000_000_000


class Clock:
    def __init__(self) -> None:
        self.now = 1000 * SECOND

    def __call__(self) -> int:
        return self.now


def samples(metrics: Metrics, accept: str = OPENMETRICS) -> list[Sample]:
    text, content_type = metrics.render(accept)
    parse = parse_openmetrics if "openmetrics" in content_type else parse_plain
    return [sample for family in parse(text.decode()) for sample in family.samples]


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    found = [s.value for s in samples(metrics) if s.name == name and s.labels == labels]
    assert len(found) <= 1
    return float(found[0]) if found else None


def touch_all(metrics: Metrics) -> None:
    for metric in names.METRICS:
        metrics.prime(metric, **{label: ["x"] for label in metric.labels})
    metrics.observe(names.REQUEST_SECONDS, 0.3, TRACE, tenant="x", adapter="x")


@pytest.mark.parametrize("accept", ["", "text/plain;version=0.0.4", "text/plain;version=1.0.0", OPENMETRICS])
def test_a_scrape_has_exactly_the_declared_families(accept: str) -> None:
    metrics = Metrics()
    touch_all(metrics)
    text, content_type = metrics.render(accept)
    assert content_type.startswith("application/openmetrics-text" if accept == OPENMETRICS else "text/plain")
    exposed = {(s.name, frozenset(s.labels) - {"le"}) for s in samples(metrics, accept)}
    suffixes = {"counter": [""], "gauge": [""], "histogram": ["_bucket", "_sum", "_count"]}
    assert exposed == {(m.name + suffix, frozenset(m.labels)) for m in names.METRICS for suffix in suffixes[m.kind]}
    for metric in names.METRICS:
        family = metric.name if accept != OPENMETRICS else metric.name.removesuffix("_total")
        assert f"# TYPE {family} {metric.kind}\n" in text.decode()
        if metric.buckets:
            bounds = [s.labels["le"] for s in samples(metrics, accept) if s.name == f"{metric.name}_bucket"]
            assert [float(bound) for bound in bounds] == [*metric.buckets, math.inf]


def test_a_malformed_accept_header_gets_the_plain_format() -> None:
    assert Metrics().render("application/openmetrics-text; version=new")[1].startswith("text/plain")
    assert Metrics().render(None)[1].startswith("text/plain")


def test_the_process_wide_registry_is_left_alone() -> None:
    before = set(REGISTRY._names_to_collectors)
    touch_all(Metrics())
    touch_all(Metrics())
    assert set(REGISTRY._names_to_collectors) == before


def test_process_metrics_come_when_asked_for() -> None:
    assert value(Metrics(process=True), "process_resident_memory_bytes")
    assert value(Metrics(), "process_resident_memory_bytes") is None
    assert value(Metrics(process=True, started_s=5.0), "process_start_time_seconds") == 5


def test_a_gauge_that_nobody_set_is_missing_and_not_zero_while_counters_begin_at_zero() -> None:
    metrics = Metrics()
    assert value(metrics, "lora_warm_pool_hit_rate") is None
    assert value(metrics, "loraledger_snapshot_age_seconds") is None
    assert value(metrics, "loraledger_spool_errors_total") == 0
    metrics.set(names.SNAPSHOT_AGE, 0)
    assert value(metrics, "loraledger_snapshot_age_seconds") == 0


def test_counters_gauges_and_histograms_hold_what_they_are_told() -> None:
    metrics = Metrics()
    metrics.add(names.REQUESTS, tenant="a", adapter="x", status="ok")
    metrics.add(names.REQUESTS, 2, tenant="a", adapter="x", status="ok")
    metrics.add(names.IN_FLIGHT, 1, tenant="a")
    metrics.add(names.IN_FLIGHT, -1, tenant="a")
    metrics.set(names.MEMORY_RATIO, 0.9, gpu="0")
    metrics.observe(names.SLO_RATIO_HIST, 1.1, TRACE, tenant="a")
    metrics.observe(names.SLO_RATIO_HIST, 1.2, "too long" * 20, tenant="a")
    assert value(metrics, "lora_request_total", tenant="a", adapter="x", status="ok") == 3
    assert value(metrics, "loraledger_requests_in_flight", tenant="a") == 0
    assert value(metrics, "lora_memory_utilization_ratio", gpu="0") == 0.9
    buckets = [s for s in samples(metrics) if s.name == "lora_request_slo_ratio_bucket"]
    assert [s.value for s in buckets if s.labels["le"] in ("1.0", "1.1", "1.3")] == [0, 1, 2]
    exemplars = {s.labels["le"]: s.exemplar.labels for s in buckets if s.exemplar}
    assert exemplars == {"1.1": {"trace_id": TRACE}}
    assert TRACE not in metrics.render("text/plain")[0].decode()


def test_a_counter_follows_a_total_that_may_begin_anew() -> None:
    metrics = Metrics()
    for total in (5, 7, 7, 2):
        metrics.advance(names.ENGINE_TIME, total, engine="e1", owner="idle")
    assert value(metrics, "loraledger_engine_time_seconds_total", engine="e1", owner="idle") == 9


@pytest.mark.parametrize(
    "call",
    [
        lambda m: m.add(names.REQUESTS, tenant="a"),
        lambda m: m.add(names.REQUESTS, tenant="a", adapter="b", status="ok", extra="c"),
        lambda m: m.add(names.REQUESTS, -1, tenant="a", adapter="b", status="ok"),
        lambda m: m.add(names.REQUEST_SECONDS, tenant="a", adapter="b"),
        lambda m: m.set(names.SPOOL_LINES, 1),
        lambda m: m.observe(names.SPOOL_LINES, 1),
        lambda m: m.prime(names.REQUESTS, tenant=["a"]),
        lambda m: m.advance(names.ENGINE_UP, 1, engine="e"),
        lambda m: m.window_rate(names.MEMORY_RATIO, 1, 1, gpu="0"),
        lambda m: m.set(names.Metric("new", "gauge", (), "1", ""), 1),
    ],
)
def test_misuse_raises_at_once(call: object) -> None:
    with pytest.raises(MetricMisused, match="could not record"):
        call(Metrics())  # type: ignore[operator]


def test_known_values_begin_at_zero_and_strangers_become_other() -> None:
    metrics = Metrics()
    metrics.known("tenant", ["a", "b"])
    metrics.prime(names.KV_HITS, tenant=["a", "b"])
    for tenant in ("a", "eve", "mallory", "other", names.OTHER, "unauthenticated", "unknown"):
        metrics.add(names.KV_HITS, tenant=tenant)
    found = {s.labels["tenant"]: s.value for s in samples(metrics) if s.name == "kv_pool_hit_tokens_total"}
    assert found == {"a": 1, "b": 0, "other": 4, "unauthenticated": 1, "unknown": 1}
    assert value(metrics, "loraledger_label_overflow_total", label="tenant") == 2
    metrics.window_rate(names.KV_HIT_RATE, 1, 1, tenant="eve")
    assert value(metrics, "kv_pool_hit_rate", tenant="other") == 1
    assert value(metrics, "loraledger_label_overflow_total", label="tenant") == 3
    metrics.known("tenant", ["c"])
    for tenant in ("a", "c"):
        metrics.add(names.KV_HITS, tenant=tenant)
    assert value(metrics, "kv_pool_hit_tokens_total", tenant="a") == 2
    assert value(metrics, "kv_pool_hit_tokens_total", tenant="c") == 1


def test_every_use_of_a_strange_value_counts_and_what_was_met_before_is_one_once_others_are_known() -> None:
    metrics = Metrics()
    metrics.add(names.KV_HITS, tenant="a")
    metrics.known("tenant", ["b"])
    for tenant in ("a", "a", "b", "b"):
        metrics.add(names.KV_HITS, tenant=tenant)
    found = {s.labels["tenant"]: s.value for s in samples(metrics) if s.name == "kv_pool_hit_tokens_total"}
    assert found == {"a": 1, "b": 2, "other": 2}
    assert value(metrics, "loraledger_label_overflow_total", label="tenant") == 2


def test_the_cap_holds_for_known_and_for_met_values(caplog: pytest.LogCaptureFixture) -> None:
    metrics = Metrics(cap=3)
    metrics.known("tenant", ["a", "b", "c"])
    assert "more than 3 known values" in caplog.text
    for n in range(10):
        metrics.set(names.MEMORY_USED, 1, adapter=f"adapter-{n}", gpu="0")
        metrics.add(names.KV_HITS, tenant="abcdefghij"[n])
    adapters = {s.labels["adapter"] for s in samples(metrics) if s.name == "lora_memory_used_bytes"}
    assert adapters == {"adapter-0", "adapter-1", "adapter-2", "other"}
    assert value(metrics, "loraledger_label_overflow_total", label="adapter") == 7
    tenants = {s.labels["tenant"] for s in samples(metrics) if s.name == "kv_pool_hit_tokens_total"}
    assert len(tenants) <= 3


def test_ratio_and_percentile_gauges_look_back_five_minutes_when_scraped() -> None:
    clock = Clock()
    metrics = Metrics(clock=clock)
    metrics.window_rate(names.KV_HIT_RATE, 3, 4, tenant="a")
    metrics.window_rate(names.KV_HIT_RATE, 0, 4, tenant="a")
    metrics.window_rate(names.WARM_HIT_RATE, 1, 1)
    metrics.window_p99(names.COLD_START_P99, 250.0)
    assert value(metrics, "kv_pool_hit_rate", tenant="a") == 0.375
    assert value(metrics, "lora_warm_pool_hit_rate") == 1
    assert value(metrics, "lora_cold_start_p99_ms") == 250
    clock.now += 311 * SECOND
    assert math.isnan(value(metrics, "kv_pool_hit_rate", tenant="a") or 0)
    assert math.isnan(value(metrics, "lora_cold_start_p99_ms") or 0)
    metrics.window_rate(names.KV_HIT_RATE, 1, 2, tenant="a")
    assert value(metrics, "kv_pool_hit_rate", tenant="a") == 0.5


def test_many_threads_lose_nothing() -> None:
    metrics = Metrics(cap=5)

    def work() -> None:
        for n in range(500):
            metrics.add(names.KV_HITS, tenant=f"t{n % 9}")
            metrics.window_rate(names.KV_HIT_RATE, 1, 1, tenant=f"t{n % 9}")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        metrics.render(OPENMETRICS)
    for thread in threads:
        thread.join()
    hits = {s.labels["tenant"]: s.value for s in samples(metrics) if s.name == "kv_pool_hit_tokens_total"}
    assert sum(hits.values()) == 2000
    assert len(hits) == 6

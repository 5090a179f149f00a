"""Every metric, label, unit, bucket, span and attribute name, typed once, as data. Standard library only.

Rules, boards, tests and exporters import from here; a name typed anywhere else is a defect.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["counter", "gauge", "histogram"]

SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 60.0)
SLO_RATIO: Final = (0.5, 0.9, 1.0, 1.1, 1.3, 2.0, 5.0)
"""Bounds of latency / SLO: the alert thresholds are bucket bounds, so "P99 above 1.1 x SLO" is read without interpolation."""
COLD_START_MS: Final = (1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0, 5000.0, 10000.0)
GEN_AI_SECONDS: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric family as it appears in a scrape. `name` of a counter ends in `_total`, as exposed.

    `unit` and `help` are for people; `window` states what a ratio or percentile gauge looks back on.
    """

    name: str
    kind: Kind
    labels: tuple[str, ...]
    unit: str
    help: str
    buckets: tuple[float, ...] = ()
    window: str | None = None


_Labels = tuple[str, ...]
_UNITS: Final = {"seconds": "s", "ms": "ms", "bytes": "By", "blocks": "{block}", "tokens": "{token}"}
"""What a name that ends in this word is counted in; any other has no unit, or says it."""


def _counter(name: str, means: str, labels: _Labels = ()) -> Metric:
    return Metric(name, "counter", labels, _unit(name), means)


def _gauge(name: str, means: str, labels: _Labels = (), *, unit: str = "", window: str | None = None) -> Metric:
    return Metric(name, "gauge", labels, unit or _unit(name), means, window=window)


def _histogram(name: str, means: str, labels: _Labels, buckets: tuple[float, ...]) -> Metric:
    return Metric(name, "histogram", labels, _unit(name), means, buckets)


def _unit(name: str) -> str:
    return _UNITS.get(name.removesuffix("_total").rpartition("_")[2], "1")


REQUESTS: Final = _counter("lora_request_total", "Attempts that ended, by status.", ("tenant", "adapter", "status"))
REQUEST_SECONDS: Final = _histogram(
    "lora_request_duration_seconds",
    "Arrival to last byte, of every attempt that reached the engine.",
    ("tenant", "adapter"),
    SECONDS,
)
REQUEST_ERRORS: Final = _counter(
    "lora_request_error_total",
    "Attempts with an error, or slower than the promise (slo_violation).",
    ("tenant", "adapter", "error_type"),
)
MEMORY_USED: Final = _gauge(
    "lora_memory_used_bytes", "Device memory of the adapter's padded slot; 0 when not in a slot.", ("adapter", "gpu")
)
GPU_MEMORY_USED: Final = _gauge(
    "loraledger_gpu_memory_used_bytes",
    "Device memory that all processes hold, from NVML; without a GPU, what the engine reserved: weights, slots and KV pool.",
    ("gpu",),
)
GPU_MEMORY_TOTAL: Final = _gauge(
    "loraledger_gpu_memory_total_bytes",
    "Device memory that there is, from NVML; without a GPU, the engine's budget.",
    ("gpu",),
)
MEMORY_QUOTA: Final = _gauge(
    "lora_memory_quota_bytes", "Memory budget of the adapter in the catalog.", ("adapter", "gpu")
)
MEMORY_RATIO: Final = _gauge(
    "lora_memory_utilization_ratio",
    "(weights + slots in use + KV blocks in use) / engine budget; healthy is 0.80 to 0.92.",
    ("gpu",),
    window="now",
)
KV_USED: Final = _gauge("kv_pool_used_blocks", "KV blocks in use.", ("tensor_parallel_size",))
KV_TOTAL: Final = _gauge("kv_pool_total_blocks", "KV blocks of the engine.", ("tensor_parallel_size",))
KV_HIT_RATE: Final = _gauge("kv_pool_hit_rate", "Prefix-cache tokens hit / looked up.", ("tenant",), window="5m")
KV_LOOKUPS: Final = _counter("kv_pool_lookup_tokens_total", "Prompt tokens looked up in the prefix cache.", ("tenant",))
KV_HITS: Final = _counter("kv_pool_hit_tokens_total", "Prompt tokens found in the prefix cache.", ("tenant",))
ROUTE_DECISIONS: Final = _counter(
    "lora_route_decision_total",
    "Routing decisions; reason is the residency outcome (hit, miss, evict) or why not (denied, unknown).",
    ("adapter", "reason"),
)
COLD_START_MS_HIST: Final = _histogram(
    "lora_cold_start_duration_ms", "Adapter load as the request saw it.", ("adapter",), COLD_START_MS
)
COLD_START_P99: Final = _gauge("lora_cold_start_p99_ms", "99th percentile of adapter loads.", window="5m")
WARM_HIT_RATE: Final = _gauge(
    "lora_warm_pool_hit_rate", "Warm-pool adapters resident at admission / lookups of warm-pool adapters.", window="5m"
)
WARM_LOOKUPS: Final = _counter("lora_warm_pool_lookup_total", "Requests for adapters that the catalog marks warm.")
WARM_HITS: Final = _counter("lora_warm_pool_hit_total", "Of those, the ones that found the adapter resident.")
ROUTING_COST_MS: Final = _counter(
    "lora_routing_cost_ms_total", "Measured adapter time (in-step LoRA work and slot activation).", ("tenant",)
)
COST_PER_MTOK: Final = _gauge(
    "lora_cost_per_million_tokens",
    "Attributed cost per million delivered output tokens, from the ledger's last snapshot.",
    ("tenant",),
    unit="currency",
    window="month to date",
)
MEMORY_COST: Final = _gauge(
    "lora_memory_cost_per_hour",
    "Residency view: the engine's price times the tenant's share of measured adapter byte-hours.",
    ("tenant",),
    unit="currency/h",
    window="month to date",
)
SLO_RATIO_HIST: Final = _histogram(
    "lora_request_slo_ratio",
    "Latency divided by the tenant's promise; errors count as above every bound.",
    ("tenant",),
    SLO_RATIO,
)
SLO_SECONDS: Final = _gauge("lora_tenant_slo_seconds", "The tenant's P99 promise in the catalog.", ("tenant",))
ENGINE_TIME: Final = _counter(
    "loraledger_engine_time_seconds_total",
    "Engine wall time by owner: tenants, cold, recompute, system, idle, unattributed.",
    ("engine", "owner"),
)
SYSTEM_TIME: Final = _counter(
    "loraledger_engine_system_seconds_total",
    "Engine wall time of the owner `system`, by cause: why it belongs to nobody although requests were there.",
    ("engine", "cause"),
)
STEP_MEASURED: Final = _counter(
    "loraledger_step_measured_seconds_total",
    "What steps took, adapter loads and stalls apart, by class of step.",
    ("engine", "step_class"),
)
STEP_PREDICTED: Final = _counter(
    "loraledger_step_predicted_seconds_total",
    "What the step model predicted for these steps; drift is measured over this.",
    ("engine", "step_class"),
)
TENANT_TIME: Final = _counter(
    "loraledger_tenant_engine_seconds_total", "Measured engine time of the tenant.", ("tenant",)
)
OUTPUT_TOKENS: Final = _counter("loraledger_output_tokens_total", "Output tokens delivered.", ("tenant", "adapter"))
INPUT_TOKENS: Final = _counter(
    "loraledger_input_tokens_total", "Input tokens, cached ones included.", ("tenant", "adapter")
)
IN_FLIGHT: Final = _gauge("loraledger_requests_in_flight", "Attempts opened and not yet closed.", ("tenant",))
CONNECTIONS_OPEN: Final = _gauge("loraledger_connections_open", "Connections that are open.")
CONNECTIONS_CLOSED: Final = _counter(
    "loraledger_connections_closed_total",
    "Connections refused (total, address: too many) or closed by us (idle: nothing whole came or was read; flood: too much; slow: a reply not taken).",
    ("what",),
)
CLOSED_WHY: Final = ("total", "address", "idle", "flood", "slow")
"""Values of `what` of CONNECTIONS_CLOSED."""
SPOOL_LINES: Final = _counter("loraledger_spool_lines_total", "Lines made durable in the spool.")
SPOOL_ERRORS: Final = _counter("loraledger_spool_errors_total", "Failed writes of the spool (disk full, permission).")
CATALOG_VALID: Final = _gauge(
    "loraledger_catalog_valid",
    "Whether the catalog's file is in force; 0 while it is refused and the last good one holds.",
)
DROPPED: Final = _counter(
    "loraledger_telemetry_dropped_total",
    "Telemetry that was lost: lines of the spool, inner spans of attempts, lines that the collector did not take.",
    ("what",),
)
METER_GAPS: Final = _counter(
    "loraledger_meter_gaps_total", "Meter events that never arrived, by their sequence numbers."
)
METER_MISSING: Final = _counter(
    "loraledger_usage_unmeasured_total", "Usage records closed without the meter's figures."
)
ENGINE_UP: Final = _gauge("loraledger_engine_up", "1 while the engine answers.", ("engine",))
ENGINE_RESTARTS: Final = _counter(
    "loraledger_engine_restarts_total",
    "Starts of another engine process after one died, hung or did not come up.",
    ("engine",),
)
SNAPSHOT_AGE: Final = _gauge("loraledger_snapshot_age_seconds", "Age of the ledger snapshot behind the cost gauges.")
LABEL_OVERFLOW: Final = _counter(
    "loraledger_label_overflow_total", "Values folded into `other` because the label's cap was reached.", ("label",)
)
PROCESS_START: Final = _gauge("process_start_time_seconds", "Unix time at which this gateway process started.")
QUARANTINE: Final = _gauge(
    "loraledger_quarantine_records", "Usage records in quarantine, from the ledger's last snapshot."
)
RECORD_GAPS: Final = _gauge(
    "loraledger_record_gaps", "Record sequence numbers that the ledger never saw, from its last snapshot."
)
CLOSE_OVERDUE: Final = _gauge(
    "loraledger_close_overdue_seconds",
    "Time since the oldest unclosed month should have been closed; 0 when none is due.",
)
PRICE_MISSING: Final = _gauge(
    "loraledger_price_missing_seconds",
    "Engine time of the running month without a price in the price book, from the ledger's last snapshot.",
)
TENANT_COST: Final = _gauge(
    "loraledger_tenant_cost",
    "Attributed cost, from the ledger's last snapshot.",
    ("tenant",),
    unit="currency",
    window="month to date",
)
TENANT_REVENUE: Final = _gauge(
    "loraledger_tenant_revenue",
    "What the tenant's plan charges for it, before tax, from the ledger's last snapshot.",
    ("tenant",),
    unit="currency",
    window="month to date",
)
BUDGET_USED: Final = _gauge(
    "loraledger_tenant_budget_used_ratio",
    "Usage charges and holds / the tenant's monthly budget, as this gateway counts them.",
    ("tenant",),
    window="month to date",
)
BUDGET_WRITTEN_OFF: Final = _counter(
    "loraledger_budget_written_off_total",
    "Budget holds that expired and charges that never came to the ledger: what this gateway and the ledger disagree about.",
)
GEN_AI_REQUEST: Final = _histogram(
    "gen_ai_server_request_duration_seconds",
    "GenAI convention: request duration.",
    ("gen_ai_operation_name", "gen_ai_provider_name"),
    GEN_AI_SECONDS,
)
GEN_AI_TTFT: Final = _histogram(
    "gen_ai_server_time_to_first_token_seconds",
    "GenAI convention: time to first token.",
    ("gen_ai_operation_name", "gen_ai_provider_name"),
    GEN_AI_SECONDS,
)

METRICS: Final[tuple[Metric, ...]] = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
"""Every family, in the order above."""

LABEL_BOUNDS: Final[dict[str, str]] = {
    "tenant": "tenants of the catalog, `unauthenticated`, `unknown` (past the gateway), then `other`",
    "adapter": "adapters of the catalog, `base`, then `other`",
    "status": "the seven values of `telemetry.usage.Status`",
    "error_type": "the eight values of `telemetry.usage.ErrorType`",
    "gpu": "engines of the catalog: one value stands for all GPUs of an engine",
    "tensor_parallel_size": "number of GPUs per engine",
    "reason": "hit, miss, evict, denied, unknown, client_abort",
    "engine": "engines of the catalog",
    "owner": "tenants, cold, recompute, system, idle, unattributed",
    "cause": "loop, meter, intake, utility, empty_step, stall",
    "step_class": "12: prefill, decode or mixed tokens, for no adapter, one alone, one beside base rows, or several",
    "label": "names of the capped labels",
    "what": "spool, spans, collector; idle, flood, slow, total, address",
    "gen_ai_operation_name": "chat, text_completion",
    "gen_ai_provider_name": "vllm",
}
"""What bounds each label's values; no label of a metric is missing here."""

OTHER: Final = "other"
"""Label value that takes what lies beyond a label's cap."""
BASE: Final = "base"
"""Label value and ledger adapter name of requests on the base model without an adapter."""

PROVIDER_NAME: Final = "vllm"
SERVICE_NAME: Final = "loraledger"


class Attr:
    """Span attribute names: GenAI convention v0.1.0, HTTP, and ours under `loraledger.`."""

    HTTP_METHOD: Final = "http.request.method"
    HTTP_STATUS: Final = "http.response.status_code"
    HTTP_ROUTE: Final = "http.route"
    URL_PATH: Final = "url.path"
    ERROR_TYPE: Final = "error.type"
    OPERATION: Final = "gen_ai.operation.name"
    PROVIDER: Final = "gen_ai.provider.name"
    REQUEST_MODEL: Final = "gen_ai.request.model"
    RESPONSE_MODEL: Final = "gen_ai.response.model"
    REQUEST_STREAM: Final = "gen_ai.request.stream"
    RESPONSE_ID: Final = "gen_ai.response.id"
    FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
    TIME_TO_FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
    INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
    CACHED_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
    OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
    TENANT: Final = "loraledger.tenant.id"
    ADAPTER: Final = "loraledger.adapter.name"
    ADAPTER_HASH: Final = "loraledger.adapter.hash"
    BASE_MODEL: Final = "loraledger.adapter.base_model"
    ENGINE: Final = "loraledger.engine.id"
    REQUEST_ID: Final = "loraledger.request.id"
    STATUS: Final = "loraledger.status"
    ROUTE_RULE: Final = "loraledger.route.rule"
    ROUTE_REASON: Final = "loraledger.route.reason"
    ROUTE_POLICY: Final = "loraledger.route.policy"
    COLD_START: Final = "loraledger.cold_start"
    LOAD_READ_NS: Final = "loraledger.adapter.load.read_ns"
    LOAD_ACTIVATE_NS: Final = "loraledger.adapter.load.activate_ns"
    QUEUE_NS: Final = "loraledger.queue.wait_ns"
    BASE_NS: Final = "loraledger.engine.base_ns"
    ADAPTER_NS: Final = "loraledger.engine.adapter_ns"
    USAGE_RECORD: Final = "loraledger.usage.record"
    """The whole UsageRecord as JSON, on the root span of every attempt; never sampled."""


class SpanName:
    """Names of the spans of one attempt, outermost first; the client span is `chat {adapter}`."""

    ROUTE: Final = "route"
    ADMISSION: Final = "admission"
    ADAPTER_LOAD: Final = "adapter.load"
    ENGINE: Final = "engine"


class EventName:
    """OTLP log events of the spool; the body of each is the JSON of one value of `telemetry.usage` or `telemetry.engine_time`."""

    OPENED: Final = "loraledger.usage.opened"
    WINDOW: Final = "loraledger.meter.window"
    LOAD: Final = "loraledger.adapter.load"
    LEFT: Final = "loraledger.adapter.left"
    SESSION: Final = "loraledger.engine.session"
    ROUTE: Final = "loraledger.route.decision"
    COUNTERS: Final = "loraledger.engine.counters"
    RESHARE: Final = "loraledger.prefix.reshare"

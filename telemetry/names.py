"""Every metric, label, unit, bucket, span and attribute name, typed once, as data. Standard library only.

Rules, boards, tests and exporters import from here; a name typed anywhere else is a defect.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from telemetry.span_names import Attr as Attr
from telemetry.span_names import EventName as EventName
from telemetry.span_names import SpanName as SpanName

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


REQUESTS: Final = Metric(
    "lora_request_total", "counter", ("tenant", "adapter", "status"), "1", "Attempts that ended, by status."
)
REQUEST_SECONDS: Final = Metric(
    "lora_request_duration_seconds",
    "histogram",
    ("tenant", "adapter"),
    "s",
    "Arrival to last byte, of every attempt that reached the engine.",
    SECONDS,
)
REQUEST_ERRORS: Final = Metric(
    "lora_request_error_total",
    "counter",
    ("tenant", "adapter", "error_type"),
    "1",
    "Attempts with an error, or slower than the promise (slo_violation).",
)
MEMORY_USED: Final = Metric(
    "lora_memory_used_bytes",
    "gauge",
    ("adapter", "gpu"),
    "By",
    "Device memory of the adapter's padded slot; 0 when not in a slot.",
)
GPU_MEMORY_USED: Final = Metric(
    "loraledger_gpu_memory_used_bytes",
    "gauge",
    ("gpu",),
    "By",
    "Device memory that all processes hold, from NVML; without a GPU, what the engine reserved: weights, slots and KV pool.",
)
GPU_MEMORY_TOTAL: Final = Metric(
    "loraledger_gpu_memory_total_bytes",
    "gauge",
    ("gpu",),
    "By",
    "Device memory that there is, from NVML; without a GPU, the engine's budget.",
)
MEMORY_QUOTA: Final = Metric(
    "lora_memory_quota_bytes", "gauge", ("adapter", "gpu"), "By", "Memory budget of the adapter in the catalog."
)
MEMORY_RATIO: Final = Metric(
    "lora_memory_utilization_ratio",
    "gauge",
    ("gpu",),
    "1",
    "(weights + slots in use + KV blocks in use) / engine budget; healthy is 0.80 to 0.92.",
    window="now",
)
KV_USED: Final = Metric("kv_pool_used_blocks", "gauge", ("tensor_parallel_size",), "{block}", "KV blocks in use.")
KV_TOTAL: Final = Metric(
    "kv_pool_total_blocks", "gauge", ("tensor_parallel_size",), "{block}", "KV blocks of the engine."
)
KV_HIT_RATE: Final = Metric(
    "kv_pool_hit_rate", "gauge", ("tenant",), "1", "Prefix-cache tokens hit / looked up.", window="5m"
)
KV_LOOKUPS: Final = Metric(
    "kv_pool_lookup_tokens_total", "counter", ("tenant",), "{token}", "Prompt tokens looked up in the prefix cache."
)
KV_HITS: Final = Metric(
    "kv_pool_hit_tokens_total", "counter", ("tenant",), "{token}", "Prompt tokens found in the prefix cache."
)
ROUTE_DECISIONS: Final = Metric(
    "lora_route_decision_total",
    "counter",
    ("adapter", "reason"),
    "1",
    "Routing decisions; reason is the residency outcome (hit, miss, evict) or why not (denied, unknown).",
)
COLD_START_MS_HIST: Final = Metric(
    "lora_cold_start_duration_ms", "histogram", ("adapter",), "ms", "Adapter load as the request saw it.", COLD_START_MS
)
COLD_START_P99: Final = Metric(
    "lora_cold_start_p99_ms", "gauge", (), "ms", "99th percentile of adapter loads.", window="5m"
)
WARM_HIT_RATE: Final = Metric(
    "lora_warm_pool_hit_rate",
    "gauge",
    (),
    "1",
    "Warm-pool adapters resident at admission / lookups of warm-pool adapters.",
    window="5m",
)
WARM_LOOKUPS: Final = Metric(
    "lora_warm_pool_lookup_total", "counter", (), "1", "Requests for adapters that the catalog marks warm."
)
WARM_HITS: Final = Metric(
    "lora_warm_pool_hit_total", "counter", (), "1", "Of those, the ones that found the adapter resident."
)
ROUTING_COST_MS: Final = Metric(
    "lora_routing_cost_ms_total",
    "counter",
    ("tenant",),
    "ms",
    "Measured adapter time (in-step LoRA work and slot activation).",
)
COST_PER_MTOK: Final = Metric(
    "lora_cost_per_million_tokens",
    "gauge",
    ("tenant",),
    "currency",
    "Attributed cost per million delivered output tokens, from the ledger's last snapshot.",
    window="month to date",
)
MEMORY_COST: Final = Metric(
    "lora_memory_cost_per_hour",
    "gauge",
    ("tenant",),
    "currency/h",
    "Residency view: the engine's price times the tenant's share of the adapter budget.",
    window="now",
)
SLO_RATIO_HIST: Final = Metric(
    "lora_request_slo_ratio",
    "histogram",
    ("tenant",),
    "1",
    "Latency divided by the tenant's promise; errors count as above every bound.",
    SLO_RATIO,
)
SLO_SECONDS: Final = Metric(
    "lora_tenant_slo_seconds", "gauge", ("tenant",), "s", "The tenant's P99 promise in the catalog."
)
ENGINE_TIME: Final = Metric(
    "loraledger_engine_time_seconds_total",
    "counter",
    ("engine", "owner"),
    "s",
    "Engine wall time by owner: tenants, cold, recompute, system, idle, unattributed.",
)
SYSTEM_TIME: Final = Metric(
    "loraledger_engine_system_seconds_total",
    "counter",
    ("engine", "cause"),
    "s",
    "Engine wall time of the owner `system`, by cause: why it belongs to nobody although requests were there.",
)
STEP_PREDICTED: Final = Metric(
    "loraledger_step_predicted_seconds_total",
    "counter",
    ("engine",),
    "s",
    "What the step model predicted for the steps that ran; drift is tenants + recompute time over this.",
)
TENANT_TIME: Final = Metric(
    "loraledger_tenant_engine_seconds_total", "counter", ("tenant",), "s", "Measured engine time of the tenant."
)
OUTPUT_TOKENS: Final = Metric(
    "loraledger_output_tokens_total", "counter", ("tenant", "adapter"), "{token}", "Output tokens delivered."
)
INPUT_TOKENS: Final = Metric(
    "loraledger_input_tokens_total", "counter", ("tenant", "adapter"), "{token}", "Input tokens, cached ones included."
)
IN_FLIGHT: Final = Metric(
    "loraledger_requests_in_flight", "gauge", ("tenant",), "1", "Attempts opened and not yet closed."
)
CONNECTIONS_OPEN: Final = Metric("loraledger_connections_open", "gauge", (), "1", "Connections that are open.")
CONNECTIONS_CLOSED: Final = Metric(
    "loraledger_connections_closed_total",
    "counter",
    ("what",),
    "1",
    "Connections refused (total, address: too many) or closed by us (idle: nothing whole came or was read; flood: too much; slow: a reply not taken).",
)
CLOSED_WHY: Final = ("total", "address", "idle", "flood", "slow")
"""Values of `what` of CONNECTIONS_CLOSED."""
SPOOL_LINES: Final = Metric("loraledger_spool_lines_total", "counter", (), "1", "Lines made durable in the spool.")
SPOOL_ERRORS: Final = Metric(
    "loraledger_spool_errors_total", "counter", (), "1", "Failed writes of the spool (disk full, permission)."
)
CATALOG_VALID: Final = Metric(
    "loraledger_catalog_valid",
    "gauge",
    (),
    "1",
    "Whether the catalog's file is in force; 0 while it is refused and the last good one holds.",
)
DROPPED: Final = Metric(
    "loraledger_telemetry_dropped_total",
    "counter",
    ("what",),
    "1",
    "Telemetry that was lost: lines of the spool, inner spans of attempts, lines that the collector did not take.",
)
METER_GAPS: Final = Metric(
    "loraledger_meter_gaps_total", "counter", (), "1", "Meter events that never arrived, by their sequence numbers."
)
METER_MISSING: Final = Metric(
    "loraledger_usage_unmeasured_total", "counter", (), "1", "Usage records closed without the meter's figures."
)
ENGINE_UP: Final = Metric("loraledger_engine_up", "gauge", ("engine",), "1", "1 while the engine answers.")
ENGINE_RESTARTS: Final = Metric(
    "loraledger_engine_restarts_total",
    "counter",
    ("engine",),
    "1",
    "Starts of another engine process after one died, hung or did not come up.",
)
SNAPSHOT_AGE: Final = Metric(
    "loraledger_snapshot_age_seconds", "gauge", (), "s", "Age of the ledger snapshot behind the cost gauges."
)
LABEL_OVERFLOW: Final = Metric(
    "loraledger_label_overflow_total",
    "counter",
    ("label",),
    "1",
    "Values folded into `other` because the label's cap was reached.",
)
PROCESS_START: Final = Metric(
    "process_start_time_seconds", "gauge", (), "s", "Unix time at which this gateway process started."
)
QUARANTINE: Final = Metric(
    "loraledger_quarantine_records", "gauge", (), "1", "Usage records in quarantine, from the ledger's last snapshot."
)
RECORD_GAPS: Final = Metric(
    "loraledger_record_gaps",
    "gauge",
    (),
    "1",
    "Record sequence numbers that the ledger never saw, from its last snapshot.",
)
CLOSE_OVERDUE: Final = Metric(
    "loraledger_close_overdue_seconds",
    "gauge",
    (),
    "s",
    "Time since the oldest unclosed month should have been closed; 0 when none is due.",
)
PRICE_MISSING: Final = Metric(
    "loraledger_price_missing_seconds",
    "gauge",
    (),
    "s",
    "Engine time of the running month without a price in the price book, from the ledger's last snapshot.",
)
TENANT_COST: Final = Metric(
    "loraledger_tenant_cost",
    "gauge",
    ("tenant",),
    "currency",
    "Attributed cost, from the ledger's last snapshot.",
    window="month to date",
)
TENANT_REVENUE: Final = Metric(
    "loraledger_tenant_revenue",
    "gauge",
    ("tenant",),
    "currency",
    "What the tenant's plan charges for it, before tax, from the ledger's last snapshot.",
    window="month to date",
)
BUDGET_USED: Final = Metric(
    "loraledger_tenant_budget_used_ratio",
    "gauge",
    ("tenant",),
    "1",
    "Usage charges and holds / the tenant's monthly budget, as this gateway counts them.",
    window="month to date",
)
BUDGET_WRITTEN_OFF: Final = Metric(
    "loraledger_budget_written_off_total",
    "counter",
    (),
    "1",
    "Budget holds that expired and charges that never came to the ledger: what this gateway and the ledger disagree about.",
)
GEN_AI_REQUEST: Final = Metric(
    "gen_ai_server_request_duration_seconds",
    "histogram",
    ("gen_ai_operation_name", "gen_ai_provider_name"),
    "s",
    "GenAI convention: request duration.",
    GEN_AI_SECONDS,
)
GEN_AI_TTFT: Final = Metric(
    "gen_ai_server_time_to_first_token_seconds",
    "histogram",
    ("gen_ai_operation_name", "gen_ai_provider_name"),
    "s",
    "GenAI convention: time to first token.",
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

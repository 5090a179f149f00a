"""Engines: memory with its healthy band, adapter slots, KV blocks, and engine time by owner."""

from __future__ import annotations

from typing import Final

from alerts.expressions import percent
from alerts.links import FLEET
from alerts.promises import DEFAULT, JOB
from dashboards.model import BLUE, GREEN, RED, YELLOW, ColorStep, Dashboard, Prom, Sql, Stat, TimeSeries
from dashboards.promql import increase, rate
from telemetry import names

_FLEET: Final = DEFAULT.fleet
_MEMORY_STEPS: Final = (
    ColorStep(BLUE),
    ColorStep(GREEN, float(_FLEET.band_low)),
    ColorStep(YELLOW, float(_FLEET.band_high)),
    ColorStep(RED, float(_FLEET.memory_critical)),
)
_KV_STEPS: Final = (ColorStep(GREEN), ColorStep(YELLOW, float(_FLEET.kv_saturated)))
_UP_STEPS: Final = (ColorStep(RED), ColorStep(GREEN, 1))
_KV_RATIO: Final = Prom("kv_ratio", f"{names.KV_USED.name} / {names.KV_TOTAL.name}", "{{instance}}")

FLEET_BOARD: Final = Dashboard(
    FLEET,
    "Engines: are they up, how full are they, and whom did their time serve.",
    (
        Stat(
            "Engines",
            "1 while the engine answers.",
            Prom("engine_up", names.ENGINE_UP.name, "{{engine}}"),
            "none",
            steps=_UP_STEPS,
        ),
        Stat(
            "Catalog",
            "1 while the catalog's file is in force; 0 while it is refused and the last good one holds.",
            Prom("catalog_valid", names.CATALOG_VALID.name, "{{instance}}"),
            "none",
            steps=_UP_STEPS,
        ),
        Stat(
            "Gateways",
            "1 while Prometheus can scrape it.",
            Prom("targets_up", f'up{{job="{JOB}"}}', "{{instance}}"),
            "none",
            steps=_UP_STEPS,
        ),
        Stat(
            "Running for",
            "Since the gateway process started.",
            Prom("uptime", f"time() - {names.PROCESS_START.name}", "{{instance}}"),
            "s",
        ),
        Stat(
            "Attempts in flight",
            "Opened and not yet closed.",
            Prom("in_flight", f"sum({names.IN_FLIGHT.name})", "attempts"),
        ),
        Stat(
            "Adapters in slots",
            "Adapters that hold a device slot now.",
            Prom("slots_in_use", f"count({names.MEMORY_USED.name} > 0) or vector(0)", "adapters"),
        ),
        Stat(
            "KV blocks",
            f"In use; LoraKvPoolSaturated warns above {percent(_FLEET.kv_saturated)}.",
            _KV_RATIO,
            "percentunit",
            steps=_KV_STEPS,
            decimals=1,
        ),
        TimeSeries(
            "Memory use",
            f"(weights + slots in use + KV blocks in use) / budget. Healthy is {percent(_FLEET.band_low)} to {percent(_FLEET.band_high)} (green); "
            f"LoraGpuMemoryCritical pages above {percent(_FLEET.memory_critical)}.",
            Prom("memory_ratio", names.MEMORY_RATIO.name, "{{gpu}}"),
            "percentunit",
            steps=_MEMORY_STEPS,
            area=True,
            maximum=1,
        ),
        TimeSeries(
            "Device memory",
            "What all processes hold on the GPUs, from NVML; an engine reserves most of it when it starts. Without a GPU, what the engine reserved.",
            Prom(
                "device_memory",
                f"sum by (gpu) ({names.GPU_MEMORY_USED.name}) / sum by (gpu) ({names.GPU_MEMORY_TOTAL.name})",
                "{{gpu}}",
            ),
            "percentunit",
            maximum=1,
        ),
        TimeSeries(
            "KV blocks in use",
            "Share of the pool.",
            _KV_RATIO,
            "percentunit",
            steps=_KV_STEPS,
            maximum=1,
        ),
        TimeSeries(
            "Memory by adapter",
            "The padded slot; 0 when not in a slot.",
            Prom("memory_by_adapter", f"sum by (adapter) ({names.MEMORY_USED.name})", "{{adapter}}"),
            "bytes",
            stacked=True,
        ),
        TimeSeries(
            "Memory budget by adapter",
            "From the catalog.",
            Prom(
                "memory_quota",
                f"sum by (adapter) (max by (adapter, gpu) ({names.MEMORY_QUOTA.name}))",
                "{{adapter}}",
            ),
            "bytes",
            stacked=True,
        ),
        TimeSeries(
            "Engine time by owner",
            "Seconds per second; the owners sum to 1 per engine while it is up.",
            Prom("engine_time", rate(names.ENGINE_TIME, "engine, owner"), "{{engine}} {{owner}}"),
            "s",
            stacked=True,
        ),
        TimeSeries(
            "Prefix cache hit rate",
            "Over the gauge's own window of five minutes.",
            Prom("kv_hit_rate_gauge", f"max by (tenant) ({names.KV_HIT_RATE.name})", "{{tenant}}"),
            "percentunit",
            maximum=1,
        ),
        TimeSeries(
            "System time by cause",
            "From the ledger: the loop between steps, empty steps, stalls.",
            Sql("system_causes"),
            "s",
        ),
        TimeSeries(
            "Residency cost",
            "The engine's price times the tenant's share of measured adapter byte-hours, per hour.",
            Prom("residency_cost", f"max by (tenant) ({names.MEMORY_COST.name})", "{{tenant}}"),
            "none",
            stacked=True,
        ),
        TimeSeries(
            "Connections",
            "Open to each gateway.",
            Prom("connections_open", names.CONNECTIONS_OPEN.name, "{{instance}}"),
        ),
        TimeSeries(
            "Connections refused or closed by us",
            "Too many (total, address), idle or half sent, flooding, or slow to take a reply.",
            Prom("connections_closed", increase(names.CONNECTIONS_CLOSED, "what"), "{{what}}"),
            stacked=True,
        ),
    ),
)

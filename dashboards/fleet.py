"""Engines: memory with its healthy band, slots, KV blocks, and whose the time was."""

from __future__ import annotations

from typing import Any, Final

from alerts.expressions import percent
from alerts.links import FLEET
from alerts.promises import DEFAULT
from dashboards.panels import BLUE, GREEN, RED, YELLOW, Prom, Sql, Step, board, stat, timeseries
from dashboards.queries import promql_queries, sql_queries

_FLEET: Final = DEFAULT.fleet
MEMORY_STEPS: Final = (
    Step(BLUE),
    Step(GREEN, float(_FLEET.band_low)),
    Step(YELLOW, float(_FLEET.band_high)),
    Step(RED, float(_FLEET.memory_critical)),
)
KV_STEPS: Final = (Step(GREEN), Step(YELLOW, float(_FLEET.kv_saturated)))
UP_STEPS: Final = (Step(RED), Step(GREEN, 1))


def fleet_board() -> dict[str, Any]:
    """Memory, residency, KV and engine time."""
    q = promql_queries()
    band = f"{percent(_FLEET.band_low)} to {percent(_FLEET.band_high)}"
    return board(
        FLEET,
        "Engines: are they up, how full are they, and whom did their time serve.",
        [
            stat(
                "Engines",
                "1 while the engine answers.",
                Prom(q["engine_up"], "{{engine}}", instant=True),
                "none",
                steps=UP_STEPS,
            ),
            stat(
                "Gateways",
                "1 while Prometheus can scrape it.",
                Prom(q["targets_up"], "{{instance}}", instant=True),
                "none",
                steps=UP_STEPS,
            ),
            stat(
                "Running for",
                "Since the gateway process started.",
                Prom(q["uptime"], "{{instance}}", instant=True),
                "s",
            ),
            stat(
                "Attempts in flight",
                "Opened and not yet closed.",
                Prom(q["in_flight"], "attempts", instant=True),
                "short",
            ),
            stat(
                "Adapters in slots",
                "Adapters that hold a device slot now.",
                Prom(q["slots_in_use"], "adapters", instant=True),
                "short",
            ),
            stat(
                "KV blocks",
                f"In use; LoraKvPoolSaturated warns above {percent(_FLEET.kv_saturated)}.",
                Prom(q["kv_ratio"], "{{instance}}", instant=True),
                "percentunit",
                steps=KV_STEPS,
                decimals=1,
            ),
            timeseries(
                "Memory use",
                f"(weights + slots in use + KV blocks in use) / budget. Healthy is {band} (green); LoraGpuMemoryCritical pages above {percent(_FLEET.memory_critical)}.",
                [Prom(q["memory_ratio"], "{{gpu}}")],
                "percentunit",
                steps=MEMORY_STEPS,
                area=True,
                maximum=1,
            ),
            timeseries(
                "Device memory",
                "What all processes hold on the GPUs, from NVML; an engine reserves most of it when it starts. Without a GPU, what the engine reserved.",
                [Prom(q["device_memory"], "{{gpu}}")],
                "percentunit",
                maximum=1,
            ),
            timeseries(
                "KV blocks in use",
                "Share of the pool.",
                [Prom(q["kv_ratio"], "{{instance}}")],
                "percentunit",
                steps=KV_STEPS,
                maximum=1,
            ),
            timeseries(
                "Memory by adapter",
                "The padded slot; 0 when not in a slot.",
                [Prom(q["memory_by_adapter"], "{{adapter}}")],
                "bytes",
                stacked=True,
            ),
            timeseries(
                "Memory budget by adapter",
                "From the catalog.",
                [Prom(q["memory_quota"], "{{adapter}}")],
                "bytes",
                stacked=True,
            ),
            timeseries(
                "Engine time by owner",
                "Seconds per second; the owners sum to 1 per engine while it is up.",
                [Prom(q["engine_time"], "{{engine}} {{owner}}")],
                "s",
                stacked=True,
            ),
            timeseries(
                "Prefix cache hit rate",
                "Over the gauge's own window of five minutes.",
                [Prom(q["kv_hit_rate_gauge"], "{{tenant}}")],
                "percentunit",
                maximum=1,
            ),
            timeseries(
                "System time by cause",
                "From the ledger: the loop between steps, empty steps, stalls.",
                [Sql(sql_queries()["system_causes"], series=True)],
                "s",
                bars=True,
                stacked=True,
            ),
            timeseries(
                "Residency cost",
                "The engine's price times the tenant's share of the adapter budget, per hour.",
                [Prom(q["residency_cost"], "{{tenant}}")],
                "none",
                stacked=True,
            ),
        ],
    )

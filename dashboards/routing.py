"""Routing, the warm pool and cold starts."""

from __future__ import annotations

from typing import Any, Final

from alerts.expressions import percent
from alerts.links import ROUTING
from alerts.promises import DEFAULT
from dashboards.panels import GREEN, RED, YELLOW, Prom, Sql, Step, board, stat, table, timeseries
from dashboards.queries import promql_queries, sql_queries

_ADAPTERS: Final = DEFAULT.adapters
WARM_STEPS: Final = (Step(RED), Step(GREEN, float(_ADAPTERS.warm_hit_low)))
COLD_STEPS: Final = (Step(GREEN), Step(YELLOW, float(_ADAPTERS.cold_ms)))
COLD_SHARE_STEPS: Final = (Step(GREEN), Step(YELLOW, float(_ADAPTERS.cold_share)))


def routing_board() -> dict[str, Any]:
    """Where requests went, whether their adapter was there, and what loading it took."""
    q, sql = promql_queries(), sql_queries()
    low, limit = percent(_ADAPTERS.warm_hit_low), f"{_ADAPTERS.cold_ms} ms"
    return board(
        ROUTING,
        "Where requests went, whether their adapter was there, and what loading it took.",
        [
            stat(
                "Warm pool hits, judged",
                f"Hits / lookups as LoraWarmPoolHitRateLow judges it: warns below {low}; gateways that just started are left out.",
                Prom(q["warm_hit_rate"], "hits", instant=True),
                "percentunit",
                steps=WARM_STEPS,
                empty="too few lookups",
                decimals=1,
                width=8,
            ),
            stat(
                "Cold start P99",
                "Over the gauge's own window of five minutes.",
                Prom(q["cold_p99"], "P99", instant=True),
                "ms",
                steps=COLD_STEPS,
                empty="none",
                width=8,
            ),
            stat(
                f"Loads above {limit}, last hour",
                f"LoraColdStartSlow warns above {percent(_ADAPTERS.cold_share)}.",
                Prom(q["cold_above"], "share", instant=True),
                "percentunit",
                steps=COLD_SHARE_STEPS,
                empty="none",
                width=8,
            ),
            timeseries(
                "Decisions by reason",
                "hit: resident; miss: loaded; evict: loaded in place of another; denied, unknown: refused.",
                [Prom(q["route_reasons"], "{{reason}}")],
                "reqps",
                stacked=True,
            ),
            timeseries(
                "Decisions by adapter",
                "Routing decisions.",
                [Prom(q["route_adapters"], "{{adapter}}")],
                "reqps",
                stacked=True,
            ),
            timeseries(
                "Warm pool hit rate",
                f"Smallest of the gateways, over five minutes; the line is {low}.",
                [Prom(q["warm_hit_rate_gauge"], "smallest")],
                "percentunit",
                steps=WARM_STEPS,
                maximum=1,
            ),
            timeseries(
                "Warm pool lookups and hits",
                "Requests for adapters that the catalog marks warm.",
                [Prom(q["warm_lookups"], "lookups"), Prom(q["warm_hits"], "hits")],
                "reqps",
            ),
            timeseries(
                "Cold start duration",
                f"As the request saw it; the line is {limit}.",
                [Prom(q["cold_p99"], "P99"), Prom(q["cold_p50"], "P50, estimated")],
                "ms",
                steps=COLD_STEPS,
            ),
            timeseries(
                "Adapter loads",
                "Loads that a request waited for, by adapter.",
                [Prom(q["cold_loads"], "{{adapter}}")],
                "short",
                stacked=True,
            ),
            timeseries(
                "LoRA time by tenant",
                "Measured adapter milliseconds per second: in-step work and slot activation.",
                [Prom(q["routing_cost"], "{{tenant}}")],
                "ms",
                stacked=True,
            ),
            timeseries(
                "Engine time of loads",
                "From the ledger: engine seconds that loading adapters took.",
                [Sql(sql["cold_time_by_adapter"], series=True)],
                "s",
                bars=True,
                stacked=True,
            ),
            table(
                "Cold starts by adapter and phase",
                "From the ledger: P99 of each phase.",
                Sql(sql["cold_starts_by_adapter"]),
            ),
        ],
    )

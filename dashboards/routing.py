"""Routing, the warm pool and cold starts."""

from __future__ import annotations

from typing import Final

from alerts.adapter_rules import warm_hit_share
from alerts.expressions import above, percent, share, total
from alerts.links import ROUTING
from alerts.promises import DEFAULT
from dashboards.model import GREEN, RED, YELLOW, ColorStep, Dashboard, Prom, Sql, Stat, TablePanel, TimeSeries
from dashboards.promql import increase, quantile, rate
from telemetry import names

_ADAPTERS: Final = DEFAULT.adapters
_LOW: Final = percent(_ADAPTERS.warm_hit_low)
_LIMIT: Final = f"{_ADAPTERS.cold_ms} ms"
_WARM_STEPS: Final = (ColorStep(RED), ColorStep(GREEN, float(_ADAPTERS.warm_hit_low)))
_COLD_STEPS: Final = (ColorStep(GREEN), ColorStep(YELLOW, float(_ADAPTERS.cold_ms)))
_COLD_SHARE_STEPS: Final = (ColorStep(GREEN), ColorStep(YELLOW, float(_ADAPTERS.cold_share)))
_COLD_P99: Final = Prom("cold_p99", f"max({names.COLD_START_P99.name})", "P99")


def _share_of_slow_loads(window: str) -> str:
    loads = names.COLD_START_MS_HIST
    return share(above(loads, _ADAPTERS.cold_ms, "", window), f"{total(loads, '', window)} > 0")


ROUTING_BOARD: Final = Dashboard(
    ROUTING,
    "Where requests went, whether their adapter was there, and what loading it took.",
    (
        Stat(
            "Warm pool hits, judged",
            f"Hits / lookups as LoraWarmPoolHitRateLow judges it: warns below {_LOW}; gateways that just started are left out.",
            Prom("warm_hit_rate", warm_hit_share(DEFAULT), "hits"),
            "percentunit",
            steps=_WARM_STEPS,
            empty="too few lookups",
            decimals=1,
            width=8,
        ),
        Stat(
            "Cold start P99",
            "Over the gauge's own window of five minutes.",
            _COLD_P99,
            "ms",
            steps=_COLD_STEPS,
            empty="none",
            width=8,
        ),
        Stat(
            f"Loads above {_LIMIT}, last hour",
            f"LoraColdStartSlow warns above {percent(_ADAPTERS.cold_share)}.",
            Prom("cold_above", _share_of_slow_loads("1h"), "share"),
            "percentunit",
            steps=_COLD_SHARE_STEPS,
            empty="none",
            width=8,
        ),
        TimeSeries(
            "Decisions by reason",
            "hit: resident; miss: loaded; evict: loaded in place of another; denied, unknown: refused.",
            Prom("route_reasons", rate(names.ROUTE_DECISIONS, "reason"), "{{reason}}"),
            "reqps",
            stacked=True,
        ),
        TimeSeries(
            "Decisions by adapter",
            "Routing decisions.",
            Prom("route_adapters", rate(names.ROUTE_DECISIONS, "adapter"), "{{adapter}}"),
            "reqps",
            stacked=True,
        ),
        TimeSeries(
            "Warm pool hit rate",
            f"Smallest of the gateways, over five minutes; the line is {_LOW}.",
            Prom("warm_hit_rate_gauge", f"min({names.WARM_HIT_RATE.name})", "smallest"),
            "percentunit",
            steps=_WARM_STEPS,
            maximum=1,
        ),
        TimeSeries(
            "Warm pool lookups and hits",
            "Requests for adapters that the catalog marks warm.",
            (
                Prom("warm_lookups", rate(names.WARM_LOOKUPS, ""), "lookups"),
                Prom("warm_hits", rate(names.WARM_HITS, ""), "hits"),
            ),
            "reqps",
        ),
        TimeSeries(
            "Cold start duration",
            f"As the request saw it; the line is {_LIMIT}.",
            (_COLD_P99, Prom("cold_p50", quantile("0.5", names.COLD_START_MS_HIST, ""), "P50, estimated")),
            "ms",
            steps=_COLD_STEPS,
        ),
        TimeSeries(
            "Adapter loads",
            "Loads that a request waited for, by adapter.",
            Prom("cold_loads", increase(names.COLD_START_MS_HIST, "adapter"), "{{adapter}}"),
            stacked=True,
        ),
        TimeSeries(
            "LoRA time by tenant",
            "Measured adapter milliseconds per second: in-step work and slot activation.",
            Prom("routing_cost", rate(names.ROUTING_COST_MS, "tenant"), "{{tenant}}"),
            "ms",
            stacked=True,
        ),
        TimeSeries(
            "Engine time of loads",
            "From the ledger: engine seconds that loading adapters took.",
            Sql("cold_time_by_adapter"),
            "s",
        ),
        TablePanel(
            "Cold starts by adapter and phase",
            "From the ledger: P99 of each phase.",
            Sql("cold_starts_by_adapter"),
        ),
    ),
)

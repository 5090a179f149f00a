"""The promise to each tenant: judged as the alerts judge it, with the same thresholds drawn."""

from __future__ import annotations

from typing import Any, Final

from alerts.expressions import percent
from alerts.links import TENANTS
from alerts.promises import DEFAULT
from dashboards.panels import GREEN, RED, YELLOW, Prom, Step, Variable, board, stat, timeseries
from dashboards.queries import TENANTS_QUERY, promql_queries

TENANT_VARIABLE: Final = Variable("tenant", "Tenant", TENANTS_QUERY)
_LATENCY: Final = DEFAULT.latency
SHARE_STEPS: Final = (Step(GREEN), Step(YELLOW, float(_LATENCY.share)))
SHARE_RED_STEPS: Final = (Step(GREEN), Step(RED, float(_LATENCY.share)))
RATIO_STEPS: Final = (Step(GREEN), Step(YELLOW, float(_LATENCY.yellow)), Step(RED, float(_LATENCY.red)))
BURN_STEPS: Final = (
    Step(GREEN),
    *(
        Step(RED if row.severity == "critical" else YELLOW, float(row.factor))
        for row in sorted(DEFAULT.budget.rows, key=lambda row: row.factor)
    ),
)


def tenants_board() -> dict[str, Any]:
    """Latency against promise, errors, tokens and load, by tenant."""
    q = promql_queries()
    by_tenant = "{{tenant}}"
    share = percent(_LATENCY.share)
    return board(
        TENANTS,
        "What each tenant was promised and what it got. Thresholds are those of the alerts.",
        [
            stat(
                "Promise",
                "The P99 that the catalog promises.",
                Prom(q["tenant_slo"], by_tenant, instant=True),
                "s",
                width=8,
            ),
            stat(
                f"Above {_LATENCY.yellow} x SLO, judged",
                f"Share of requests as LoraTenantLatencyYellow judges it: yellow above {share}; no data while too few requests.",
                Prom(q["tenant_judged_yellow"], by_tenant, instant=True),
                "percentunit",
                steps=SHARE_STEPS,
                empty="too few requests",
                decimals=2,
                width=8,
            ),
            stat(
                f"Above {_LATENCY.red} x SLO, judged",
                f"Share of requests as LoraTenantLatencyRed judges it: red above {share}; no data while too few requests.",
                Prom(q["tenant_judged_red"], by_tenant, instant=True),
                "percentunit",
                steps=SHARE_RED_STEPS,
                empty="too few requests",
                decimals=2,
                width=8,
            ),
            timeseries(
                "P99 latency / SLO",
                "Estimated between bucket bounds, for the eye; the alerts judge exact shares. Failures count above every bound.",
                [Prom(q["tenant_ratio_p99"], by_tenant)],
                "none",
                steps=RATIO_STEPS,
            ),
            timeseries(
                "Burn rate of the error budget",
                "1 uses the 30-day budget up in 30 days. Lines: the factors that open a ticket or page.",
                [Prom(q["tenant_burn_rate"], by_tenant)],
                "none",
                steps=BURN_STEPS,
            ),
            timeseries(
                f"Share above {_LATENCY.yellow} x SLO",
                "Exact: the bound is a bucket bound.",
                [Prom(q["tenant_above_yellow"], by_tenant)],
                "percentunit",
                steps=SHARE_STEPS,
            ),
            timeseries(
                f"Share above {_LATENCY.red} x SLO",
                "Exact: the bound is a bucket bound.",
                [Prom(q["tenant_above_red"], by_tenant)],
                "percentunit",
                steps=SHARE_RED_STEPS,
            ),
            timeseries(
                "Requests by status",
                "Attempts that ended.",
                [Prom(q["tenant_requests"], "{{tenant}} {{status}}")],
                "reqps",
                stacked=True,
            ),
            timeseries(
                "Errors by type",
                "A slow success counts as slo_violation here and as ok in the status.",
                [Prom(q["tenant_errors"], "{{tenant}} {{error_type}}")],
                "reqps",
                stacked=True,
            ),
            timeseries(
                "Latency",
                "Arrival to last byte, estimated between bucket bounds.",
                [Prom(q["tenant_latency_p50"], "{{tenant}} P50"), Prom(q["tenant_latency_p99"], "{{tenant}} P99")],
                "s",
            ),
            timeseries(
                "Attempts in flight", "Opened and not yet closed.", [Prom(q["tenant_in_flight"], by_tenant)], "short"
            ),
            timeseries(
                "Input tokens", "Cached ones included.", [Prom(q["tenant_input_tokens"], by_tenant)], "short", width=8
            ),
            timeseries("Output tokens", "Delivered.", [Prom(q["tenant_output_tokens"], by_tenant)], "short", width=8),
            timeseries(
                "Engine time",
                "Measured engine seconds per second.",
                [Prom(q["tenant_engine_seconds"], by_tenant)],
                "s",
                stacked=True,
                width=8,
            ),
            timeseries(
                "Time to first token and to the last",
                "GenAI convention, all tenants.",
                [Prom(q["ttft_p99"], "first token P99"), Prom(q["request_p99"], "request P99")],
                "s",
            ),
            timeseries(
                "Prefix cache hits",
                "Prompt tokens found in the cache / looked up.",
                [Prom(q["kv_hit_rate"], by_tenant)],
                "percentunit",
                maximum=1,
            ),
        ],
        [TENANT_VARIABLE],
    )

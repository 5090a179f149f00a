"""The promise to each tenant: judged as the alerts judge it, with the same thresholds drawn."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from alerts.expressions import above, percent, share, total
from alerts.links import TENANTS
from alerts.promises import DEFAULT
from alerts.tenant_rules import ABOVE_SLO, REQUESTS, SHARE_RED, SHARE_YELLOW, SLO
from dashboards.model import GREEN, RED, YELLOW, ColorStep, Dashboard, Prom, Stat, TimeSeries, Variable
from dashboards.promql import RATE, TENANT, quantile, rate
from telemetry import names

_LATENCY: Final = DEFAULT.latency
_SHARE: Final = percent(_LATENCY.share)
_BY_TENANT: Final = "{{tenant}}"
_YELLOW_STEPS: Final = (ColorStep(GREEN), ColorStep(YELLOW, float(_LATENCY.share)))
_RED_STEPS: Final = (ColorStep(GREEN), ColorStep(RED, float(_LATENCY.share)))
_RATIO_STEPS: Final = (ColorStep(GREEN), ColorStep(YELLOW, float(_LATENCY.yellow)), ColorStep(RED, float(_LATENCY.red)))
_BURN_STEPS: Final = (
    ColorStep(GREEN),
    *(
        ColorStep(RED if row.severity == "critical" else YELLOW, float(row.factor))
        for row in sorted(DEFAULT.budget.rows, key=lambda row: row.factor)
    ),
)


def _share_above(bound: Decimal) -> str:
    return share(
        above(names.SLO_RATIO_HIST, bound, "tenant", RATE, TENANT),
        f"{total(names.SLO_RATIO_HIST, 'tenant', RATE, TENANT)} > 0",
    )


TENANTS_BOARD: Final = Dashboard(
    TENANTS,
    "What each tenant was promised and what it got. Thresholds are those of the alerts.",
    (
        Stat(
            "Promise",
            "The P99 that the catalog promises.",
            Prom("tenant_slo", f"{SLO}{{{TENANT}}}", _BY_TENANT),
            "s",
            width=8,
        ),
        Stat(
            f"Above {_LATENCY.yellow} x SLO, judged",
            f"Share of requests as LoraTenantLatencyYellow judges it: yellow above {_SHARE}; no data while too few requests.",
            Prom("tenant_judged_yellow", f"{SHARE_YELLOW}{{{TENANT}}}", _BY_TENANT),
            "percentunit",
            steps=_YELLOW_STEPS,
            empty="too few requests",
            decimals=2,
            width=8,
        ),
        Stat(
            f"Above {_LATENCY.red} x SLO, judged",
            f"Share of requests as LoraTenantLatencyRed judges it: red above {_SHARE}; no data while too few requests.",
            Prom("tenant_judged_red", f"{SHARE_RED}{{{TENANT}}}", _BY_TENANT),
            "percentunit",
            steps=_RED_STEPS,
            empty="too few requests",
            decimals=2,
            width=8,
        ),
        TimeSeries(
            "P99 latency / SLO",
            "Estimated between bucket bounds, for the eye; the alerts judge exact shares. Failures count above every bound.",
            Prom("tenant_ratio_p99", quantile("0.99", names.SLO_RATIO_HIST, "tenant", TENANT), _BY_TENANT),
            "none",
            steps=_RATIO_STEPS,
        ),
        TimeSeries(
            "Burn rate of the error budget",
            "1 uses the 30-day budget up in 30 days. Lines: the factors that open a ticket or page.",
            Prom(
                "tenant_burn_rate",
                f"{ABOVE_SLO}{{{TENANT}}} / ({REQUESTS}{{{TENANT}}} > 0) / {DEFAULT.budget.share}",
                _BY_TENANT,
            ),
            "none",
            steps=_BURN_STEPS,
        ),
        TimeSeries(
            f"Share above {_LATENCY.yellow} x SLO",
            "Exact: the bound is a bucket bound.",
            Prom("tenant_above_yellow", _share_above(_LATENCY.yellow), _BY_TENANT),
            "percentunit",
            steps=_YELLOW_STEPS,
        ),
        TimeSeries(
            f"Share above {_LATENCY.red} x SLO",
            "Exact: the bound is a bucket bound.",
            Prom("tenant_above_red", _share_above(_LATENCY.red), _BY_TENANT),
            "percentunit",
            steps=_RED_STEPS,
        ),
        TimeSeries(
            "Requests by status",
            "Attempts that ended.",
            Prom("tenant_requests", rate(names.REQUESTS, "tenant, status", TENANT), "{{tenant}} {{status}}"),
            "reqps",
            stacked=True,
        ),
        TimeSeries(
            "Errors by type",
            "A slow success counts as slo_violation here and as ok in the status.",
            Prom(
                "tenant_errors", rate(names.REQUEST_ERRORS, "tenant, error_type", TENANT), "{{tenant}} {{error_type}}"
            ),
            "reqps",
            stacked=True,
        ),
        TimeSeries(
            "Latency",
            "Arrival to last byte, estimated between bucket bounds.",
            (
                Prom("tenant_latency_p50", quantile("0.5", names.REQUEST_SECONDS, "tenant", TENANT), "{{tenant}} P50"),
                Prom("tenant_latency_p99", quantile("0.99", names.REQUEST_SECONDS, "tenant", TENANT), "{{tenant}} P99"),
            ),
            "s",
        ),
        TimeSeries(
            "Attempts in flight",
            "Opened and not yet closed.",
            Prom("tenant_in_flight", f"sum by (tenant) ({names.IN_FLIGHT.name}{{{TENANT}}})", _BY_TENANT),
        ),
        TimeSeries(
            "Input tokens",
            "Cached ones included.",
            Prom("tenant_input_tokens", rate(names.INPUT_TOKENS, "tenant", TENANT), _BY_TENANT),
            width=8,
        ),
        TimeSeries(
            "Output tokens",
            "Delivered.",
            Prom("tenant_output_tokens", rate(names.OUTPUT_TOKENS, "tenant", TENANT), _BY_TENANT),
            width=8,
        ),
        TimeSeries(
            "Engine time",
            "Measured engine seconds per second.",
            Prom("tenant_engine_seconds", rate(names.TENANT_TIME, "tenant", TENANT), _BY_TENANT),
            "s",
            stacked=True,
            width=8,
        ),
        TimeSeries(
            "Time to first token and to the last",
            "GenAI convention, all tenants.",
            (
                Prom("ttft_p99", quantile("0.99", names.GEN_AI_TTFT, ""), "first token P99"),
                Prom("request_p99", quantile("0.99", names.GEN_AI_REQUEST, ""), "request P99"),
            ),
            "s",
        ),
        TimeSeries(
            "Prefix cache hits",
            "Prompt tokens found in the cache / looked up.",
            Prom(
                "kv_hit_rate",
                share(
                    total(names.KV_HITS, "tenant", RATE, TENANT),
                    f"{total(names.KV_LOOKUPS, 'tenant', RATE, TENANT)} > 0",
                ),
                _BY_TENANT,
            ),
            "percentunit",
            maximum=1,
        ),
    ),
    (Variable("tenant", "Tenant", f"label_values({names.REQUESTS.name}, tenant)"),),
)

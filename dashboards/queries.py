"""Every expression on the boards, by name: PromQL built from the declared metrics, SQL from the files beside this one."""

from __future__ import annotations

import re
from datetime import datetime
from functools import cache
from importlib import resources
from typing import Final

from alerts.adapter_rules import warm_hit_share
from alerts.expressions import above, share, total
from alerts.metrics_used import families
from alerts.promises import DEFAULT
from alerts.record_rules import model_drift, owner_share
from alerts.rules import recorded_names
from alerts.tenant_rules import ABOVE_SLO, REQUESTS, SHARE_RED, SHARE_YELLOW, SLO
from telemetry import names
from telemetry.names import Metric

RATE: Final = "$__rate_interval"
TENANT: Final = 'tenant=~"$tenant"'
TENANTS_QUERY: Final = f"label_values({names.REQUESTS.name}, tenant)"
SHORTEST_INTERVAL_S: Final = 60
"""Width of a bar when a query's macros are expanded without a Grafana."""


def rate(metric: Metric, by: str, selector: str = "") -> str:
    """Events per second over the panel's own interval, summed by label."""
    return total(metric, by, RATE, selector, how="rate")


def quantile(q: str, metric: Metric, by: str, selector: str = "") -> str:
    """A quantile estimated between bucket bounds: for the eye; alerts judge exact shares."""
    braces = f"{{{selector}}}" if selector else ""
    grouped = f"{by}, le" if by else "le"
    return f"histogram_quantile({q}, sum by ({grouped}) (rate({metric.name}_bucket{braces}[{RATE}])))"


def _share_above(bound_name: str) -> str:
    bound = getattr(DEFAULT.latency, bound_name)
    return share(
        above(names.SLO_RATIO_HIST, bound, "tenant", RATE, TENANT),
        f"{total(names.SLO_RATIO_HIST, 'tenant', RATE, TENANT)} > 0",
    )


@cache
def promql_queries() -> dict[str, str]:
    """Every PromQL expression on the boards, by name, with Grafana's variables in it."""
    slo, cold = names.SLO_RATIO_HIST, names.COLD_START_MS_HIST
    gaps = {
        metric.name: total(metric, "instance", RATE)
        for metric in (names.SPOOL_ERRORS, names.METER_GAPS, names.METER_MISSING, names.BUDGET_WRITTEN_OFF)
    }
    return {
        "tenant_slo": f"{SLO}{{{TENANT}}}",
        "tenant_judged_yellow": f"{SHARE_YELLOW}{{{TENANT}}}",
        "tenant_judged_red": f"{SHARE_RED}{{{TENANT}}}",
        "tenant_above_yellow": _share_above("yellow"),
        "tenant_above_red": _share_above("red"),
        "tenant_ratio_p99": quantile("0.99", slo, "tenant", TENANT),
        "tenant_burn_rate": f"{ABOVE_SLO}{{{TENANT}}} / ({REQUESTS}{{{TENANT}}} > 0) / {DEFAULT.budget.share}",
        "tenant_requests": rate(names.REQUESTS, "tenant, status", TENANT),
        "tenant_errors": rate(names.REQUEST_ERRORS, "tenant, error_type", TENANT),
        "tenant_latency_p50": quantile("0.5", names.REQUEST_SECONDS, "tenant", TENANT),
        "tenant_latency_p99": quantile("0.99", names.REQUEST_SECONDS, "tenant", TENANT),
        "tenant_input_tokens": rate(names.INPUT_TOKENS, "tenant", TENANT),
        "tenant_output_tokens": rate(names.OUTPUT_TOKENS, "tenant", TENANT),
        "tenant_in_flight": f"sum by (tenant) ({names.IN_FLIGHT.name}{{{TENANT}}})",
        "tenant_engine_seconds": rate(names.TENANT_TIME, "tenant", TENANT),
        "routing_cost": rate(names.ROUTING_COST_MS, "tenant"),
        "tenant_cost_per_mtok": f"max by (tenant) ({names.COST_PER_MTOK.name}{{{TENANT}}})",
        "residency_cost": f"max by (tenant) ({names.MEMORY_COST.name})",
        "ttft_p99": quantile("0.99", names.GEN_AI_TTFT, ""),
        "request_p99": quantile("0.99", names.GEN_AI_REQUEST, ""),
        "memory_ratio": names.MEMORY_RATIO.name,
        "device_memory": f"sum by (gpu) ({names.GPU_MEMORY_USED.name}) / sum by (gpu) ({names.GPU_MEMORY_TOTAL.name})",
        "memory_by_adapter": f"sum by (adapter) ({names.MEMORY_USED.name})",
        "memory_quota": f"sum by (adapter) (max by (adapter, gpu) ({names.MEMORY_QUOTA.name}))",
        "kv_ratio": f"{names.KV_USED.name} / {names.KV_TOTAL.name}",
        "kv_hit_rate": share(total(names.KV_HITS, "tenant", RATE), f"{total(names.KV_LOOKUPS, 'tenant', RATE)} > 0"),
        "kv_hit_rate_gauge": f"max by (tenant) ({names.KV_HIT_RATE.name})",
        "engine_time": rate(names.ENGINE_TIME, "engine, owner"),
        "engine_up": names.ENGINE_UP.name,
        "targets_up": 'up{job="loraledger"}',
        "in_flight": f"sum({names.IN_FLIGHT.name})",
        "slots_in_use": f"count({names.MEMORY_USED.name} > 0) or vector(0)",
        "route_reasons": rate(names.ROUTE_DECISIONS, "reason"),
        "route_adapters": rate(names.ROUTE_DECISIONS, "adapter"),
        "warm_hit_rate": warm_hit_share(DEFAULT),
        "warm_hit_rate_gauge": f"min({names.WARM_HIT_RATE.name})",
        "warm_lookups": rate(names.WARM_LOOKUPS, ""),
        "warm_hits": rate(names.WARM_HITS, ""),
        "cold_p99": f"max({names.COLD_START_P99.name})",
        "cold_p50": quantile("0.5", cold, ""),
        "cold_above": share(above(cold, DEFAULT.adapters.cold_ms, "", "1h"), f"{total(cold, '', '1h')} > 0"),
        "cold_loads": total(cold, "adapter", RATE),
        "spool_lines": rate(names.SPOOL_LINES, "instance"),
        "spool_errors": gaps[names.SPOOL_ERRORS.name],
        "meter_gaps": gaps[names.METER_GAPS.name],
        "budget_drift": gaps[names.BUDGET_WRITTEN_OFF.name],
        "unmeasured": gaps[names.METER_MISSING.name],
        "label_overflow": total(names.LABEL_OVERFLOW, "label", RATE),
        "unattributed_share": owner_share(DEFAULT, "unattributed"),
        "system_share": owner_share(DEFAULT, "system"),
        "model_drift": model_drift(DEFAULT),
        "snapshot_age": f"min({names.SNAPSHOT_AGE.name})",
        "quarantine": f"max({names.QUARANTINE.name})",
        "record_gaps": f"max({names.RECORD_GAPS.name})",
        "close_overdue": f"max({names.CLOSE_OVERDUE.name})",
        "price_missing": f"max({names.PRICE_MISSING.name})",
        "budget_used": f"max by (tenant) ({names.BUDGET_USED.name}{{{TENANT}}})",
        "margin": f"max by (tenant) ({names.TENANT_REVENUE.name}) - max by (tenant) ({names.TENANT_COST.name})",
        "uptime": f"time() - {names.PROCESS_START.name}",
    }


def metric_names_used() -> frozenset[str]:
    """Metric families that the boards read; raises MetricUnknown when one is not declared in `telemetry.names`."""
    return families(promql_queries().values(), recorded_names())


@cache
def sql_queries() -> dict[str, str]:
    """Every ClickHouse query on the boards, by file name, with the plugin's macros in it."""
    folder = resources.files("dashboards") / "sql"
    return {
        entry.name.removesuffix(".sql"): entry.read_text(encoding="utf-8").strip()
        for entry in folder.iterdir()
        if entry.name.endswith(".sql")
    }


def expand_macros(sql: str, start: datetime, end: datetime) -> str:
    """The query as Grafana's ClickHouse plugin would send it for [start, end] with every value of every variable chosen."""
    first, last = (f"toDateTime({int(moment.timestamp())})" for moment in (start, end))
    step = f"INTERVAL {SHORTEST_INTERVAL_S} second"
    expanded = re.sub(r"\$__conditionalAll\((?:[^()]|\([^()]*\))*,\s*\$\w+\)", "1=1", sql)
    expanded = re.sub(r"\$__timeFilter\((\w+)\)", rf"\1 >= {first} AND \1 <= {last}", expanded)
    expanded = re.sub(r"\$__timeInterval\((\w+)\)", rf"toStartOfInterval(toDateTime(\1), {step})", expanded)
    return expanded.replace("$__fromTime", first).replace("$__toTime", last)

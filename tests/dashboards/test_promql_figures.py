"""Every PromQL query of the boards on a small world of gateways: what Prometheus answers against what this file computes from the same
series in fractions. Prometheus' own tool asks, once for all; nothing of the product is used but the queries and the recordings they read.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from alerts.rules import rule_file
from dashboards.queries import promql_queries
from tests.dashboards.promql_world import HISTOGRAMS, WORLD

MINUTE: Final = 120
"""The world is asked two hours after it began, over five minutes, for the tenants t1 and t2 of three."""

Labels = Mapping[str, str]
Answer = dict[frozenset[tuple[str, str]], Fraction]
ROWS: Final[list[tuple[str, str, dict[str, str]]]] = []
"""Name, value (a gauge) or `+step` per minute (a counter), labels."""


def _row(name: str, value: str, labels: str, **more: str) -> None:
    ROWS.append((name, value, {"job": "loraledger"} | dict(part.split("=") for part in labels.split()) | more))


for _line in WORLD.strip().splitlines():
    _row(*_line.split(None, 2))
for _name, _labels, _bounds in HISTOGRAMS:
    for _bound, _count in _bounds.items():
        _row(f"{_name}_bucket", f"+{_count}", _labels, le=_bound)
    _row(f"{_name}_count", f"+{_bounds['+Inf']}", _labels)


def total(values: list[Fraction]) -> Fraction:
    return sum(values, Fraction(0))


def pick(name: str, by: str | None, fold: Callable[[list[Fraction]], Fraction] = total, /, **where: str) -> Answer:
    """Steps or values of a name, of the rows with those labels, folded by some labels; `by` None: every series stands for itself."""
    found: dict[frozenset[tuple[str, str]], list[Fraction]] = {}
    for row_name, value, labels in ROWS:
        if row_name == name and all(labels.get(label) in wanted.split("|") for label, wanted in where.items()):
            kept = labels if by is None else {label: labels[label] for label in by.split()}
            found.setdefault(frozenset(kept.items()), []).append(Fraction(value))
    return {key: fold(values) for key, values in found.items()}


def each(change: Callable[..., Fraction], *answers: Answer) -> Answer:
    """The change of each series; of several answers, of the series that all of them have."""
    return {key: change(*(one[key] for one in answers)) for key in answers[0] if all(key in one for one in answers)}


def per_second(name: str, by: str, **where: str) -> Answer:
    return each(lambda step: step / 60, pick(name, by, **where))


def over_five_minutes(name: str, by: str) -> Answer:
    return each(lambda step: step * 5, pick(name, by))


def at_most(name: str, by: str, bound: str, **where: str) -> Answer:
    return pick(f"{name}_bucket", by, le=bound, **where)


def share_above(name: str, by: str, bound: str, **where: str) -> Answer:
    return each(
        lambda whole, within: (whole - within) / whole,
        pick(f"{name}_count", by, **where),
        at_most(name, by, bound, **where),
    )


def quantile(q: str, name: str, by: str, **where: str) -> Answer:
    """Interpolated on a straight line inside the bucket in which the rank falls; above the last finite bound, that bound."""
    counts = pick(f"{name}_bucket", f"{by} le".strip(), **where)
    answer: Answer = {}
    for group in {frozenset(pair for pair in key if pair[0] != "le") for key in counts}:
        bounds = sorted((float(dict(key)["le"]), count) for key, count in counts.items() if group < key)
        rank = Fraction(q) * bounds[-1][1]
        for (low, below), (high, upto) in pairwise([(0.0, Fraction(0)), *bounds]):
            if rank <= upto:
                start = Fraction(str(low))
                part = (rank - below) / (upto - below)
                answer[group] = start if high == float("inf") else start + (Fraction(str(high)) - start) * part
                break
    return answer


CHOSEN: Final = {"tenant": "t1|t2"}
OLD: Final = {"instance": "a|b"}
"""Gateways that have run for more than a quarter of an hour."""


def ratio(part: Answer, whole: Answer) -> Answer:
    return each(lambda one, all_of_it: one / all_of_it, part, {key: value for key, value in whole.items() if value})


def _expected() -> dict[str, Answer]:
    slo, duration, cold = "lora_request_slo_ratio", "lora_request_duration_seconds", "lora_cold_start_duration_ms"
    genai, time = "gen_ai_server_", "loraledger_engine_time_seconds_total"
    busy = pick(time, "engine", owner="tenants|system|unattributed")
    step = "engine step_class"
    return {
        "tenant_slo": pick("lora_tenant_slo_seconds", "tenant", max, **CHOSEN),
        "tenant_judged_yellow": share_above(slo, "tenant", "1.1", **CHOSEN),
        "tenant_judged_red": share_above(slo, "tenant", "1.3", **CHOSEN),
        "tenant_ratio_p99": quantile("0.99", slo, "tenant", **CHOSEN),
        "tenant_burn_rate": each(lambda share: share * 100, share_above(slo, "tenant", "1.0", **CHOSEN)),
        "tenant_above_yellow": share_above(slo, "tenant", "1.1", **CHOSEN),
        "tenant_above_red": share_above(slo, "tenant", "1.3", **CHOSEN),
        "tenant_requests": per_second("lora_request_total", "tenant status", **CHOSEN),
        "tenant_errors": per_second("lora_request_error_total", "tenant error_type", **CHOSEN),
        "tenant_latency_p50": quantile("0.5", duration, "tenant", **CHOSEN),
        "tenant_latency_p99": quantile("0.99", duration, "tenant", **CHOSEN),
        "tenant_in_flight": pick("loraledger_requests_in_flight", "tenant", **CHOSEN),
        "tenant_input_tokens": per_second("loraledger_input_tokens_total", "tenant", **CHOSEN),
        "tenant_output_tokens": per_second("loraledger_output_tokens_total", "tenant", **CHOSEN),
        "tenant_engine_seconds": per_second("loraledger_tenant_engine_seconds_total", "tenant", **CHOSEN),
        "ttft_p99": quantile("0.99", f"{genai}time_to_first_token_seconds", ""),
        "request_p99": quantile("0.99", f"{genai}request_duration_seconds", ""),
        "kv_hit_rate": ratio(
            pick("kv_pool_hit_tokens_total", "tenant", **CHOSEN),
            pick("kv_pool_lookup_tokens_total", "tenant", **CHOSEN),
        ),
        "engine_up": pick("loraledger_engine_up", None),
        "catalog_valid": pick("loraledger_catalog_valid", None),
        "targets_up": pick("up", None, job="loraledger"),
        "uptime": each(lambda start: MINUTE * 60 - start, pick("process_start_time_seconds", None)),
        "in_flight": pick("loraledger_requests_in_flight", ""),
        "slots_in_use": pick("lora_memory_used_bytes", "", lambda values: Fraction(sum(value > 0 for value in values))),
        "kv_ratio": ratio(pick("kv_pool_used_blocks", None), pick("kv_pool_total_blocks", None)),
        "memory_ratio": pick("lora_memory_utilization_ratio", None),
        "device_memory": ratio(
            pick("loraledger_gpu_memory_used_bytes", "gpu"), pick("loraledger_gpu_memory_total_bytes", "gpu")
        ),
        "memory_by_adapter": pick("lora_memory_used_bytes", "adapter"),
        "memory_quota": {frozenset({("adapter", "x")}): Fraction(300 + 50)},
        "engine_time": per_second(time, "engine owner"),
        "kv_hit_rate_gauge": pick("kv_pool_hit_rate", "tenant", max),
        "residency_cost": pick("lora_memory_cost_per_hour", "tenant", max),
        "connections_open": pick("loraledger_connections_open", None),
        "connections_closed": over_five_minutes("loraledger_connections_closed_total", "what"),
        "warm_hit_rate": ratio(
            pick("lora_warm_pool_hit_total", "", **OLD), pick("lora_warm_pool_lookup_total", "", **OLD)
        ),
        "cold_p99": pick("lora_cold_start_p99_ms", "", max),
        "cold_above": share_above(cold, "", "1000.0"),
        "route_reasons": per_second("lora_route_decision_total", "reason"),
        "route_adapters": per_second("lora_route_decision_total", "adapter"),
        "warm_hit_rate_gauge": pick("lora_warm_pool_hit_rate", "", min),
        "warm_lookups": per_second("lora_warm_pool_lookup_total", ""),
        "warm_hits": per_second("lora_warm_pool_hit_total", ""),
        "cold_p50": quantile("0.5", cold, ""),
        "cold_loads": over_five_minutes(f"{cold}_count", "adapter"),
        "routing_cost": per_second("lora_routing_cost_ms_total", "tenant"),
        "margin": each(
            lambda revenue, cost: revenue - cost,
            pick("loraledger_tenant_revenue", "tenant", max, **CHOSEN),
            pick("loraledger_tenant_cost", "tenant", max, **CHOSEN),
        ),
        "tenant_cost_per_mtok": pick("lora_cost_per_million_tokens", "tenant", max, **CHOSEN),
        "budget_used": pick("loraledger_tenant_budget_used_ratio", "tenant", max, **CHOSEN),
        "snapshot_age": pick("loraledger_snapshot_age_seconds", "", min),
        "quarantine": pick("loraledger_quarantine_records", "", max),
        "record_gaps": pick("loraledger_record_gaps", "", max),
        "close_overdue": pick("loraledger_close_overdue_seconds", "", max),
        "price_missing": pick("loraledger_price_missing_seconds", "", max),
        "spool_lines": per_second("loraledger_spool_lines_total", "instance"),
        "spool_errors": over_five_minutes("loraledger_spool_errors_total", "instance"),
        "meter_gaps": over_five_minutes("loraledger_meter_gaps_total", "instance"),
        "unmeasured": over_five_minutes("loraledger_usage_unmeasured_total", "instance"),
        "budget_drift": over_five_minutes("loraledger_budget_written_off_total", "instance"),
        "unattributed_share": ratio(pick(time, "engine", owner="unattributed"), busy),
        "system_share": ratio(pick(time, "engine", owner="system"), busy),
        "model_drift": each(
            lambda measured, predicted: abs(measured - predicted) / predicted,
            pick("loraledger_step_measured_seconds_total", step),
            pick("loraledger_step_predicted_seconds_total", step),
        ),
        "label_overflow": over_five_minutes("loraledger_label_overflow_total", "label"),
    }


def _braced(labels: Labels) -> str:
    return "{" + ", ".join(f'{name}="{value}"' for name, value in sorted(labels.items())) + "}"


def _case(query: str, answer: Answer) -> dict[str, Any]:
    """Rounded to a millionth by both sides: the tool compares to the last bit."""
    asked = query.replace("$__rate_interval", "5m").replace("$tenant", CHOSEN["tenant"])
    samples = [{"labels": _braced(dict(key)), "value": float(round(value, 6))} for key, value in answer.items()]
    return {"expr": f"round({asked}, 1e-6)", "eval_time": f"{MINUTE}m", "exp_samples": samples}


def test_every_query_of_the_boards_has_an_answer_here_and_none_is_empty() -> None:
    expected = _expected()
    assert list(expected) == list(promql_queries())
    assert all(expected.values())


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed: apt-get install prometheus")
def test_every_query_says_what_its_series_say(tmp_path: Path) -> None:
    groups = [
        {"name": group["name"], "interval": "1m", "rules": [rule for rule in group["rules"] if "record" in rule]}
        for group in rule_file()["groups"]
    ]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [group for group in groups if group["rules"]]}))
    series = [
        {
            "series": name + _braced(labels),
            "values": f"1000{value}x{MINUTE}" if value.startswith("+") else f"{value}x{MINUTE}",
        }
        for name, value, labels in ROWS
    ]
    queries = promql_queries()
    cases = [_case(queries[name], answer) for name, answer in _expected().items()]
    test = {"interval": "1m", "input_series": series, "promql_expr_test": cases}
    path = tmp_path / "figures.yaml"
    path.write_text(yaml.safe_dump({"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [test]}))
    done = subprocess.run(
        ["promtool", "test", "rules", str(path)], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]

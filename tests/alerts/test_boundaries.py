"""Each alert at its edges: silent below and at its bound, pending until just short of its duration, firing from then on, and gone when
its window has passed; each guard on both sides. Bounds are typed here anew: no value comes from the promises that the rules are made of.

Prometheus' own tool judges: one process for all cases, each alert with the recordings that it reads in a rule file of its own.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from alerts.rules import alerts, rule_file

JUMP: Final = 70
"""Minute of a counter's one jump: far enough from the start that every window up to an hour is full of samples."""
KEPT: Final = 5
"""Minutes for which an alert keeps firing after its expression was true last."""
LAST: Final = 500
"""Series go on for longer than any case looks."""


@dataclass(frozen=True)
class Edge:
    """Values of `series` at which an alert is silent, and those at which it fires after `wait` minutes.

    `since` is the first minute at which the expression holds, `until` the last (None: it goes on). `of` selects among alerts of one name.
    """

    alert: str
    wait: int
    series: Callable[..., dict[str, str]]
    silent: tuple[Any, ...]
    fires: tuple[Any, ...]
    since: int = 0
    until: int | None = None
    of: str = ""


def flat(value: Any) -> str:
    return f"{value}x{LAST}"


def jump(by: Any, at: int = JUMP) -> str:
    """A counter that stands at 0 and rises once."""
    return f"0x{at - 1} {by}x{LAST}"


def _gauge(name: str, labels: str = 'instance="a"') -> Callable[[Any], dict[str, str]]:
    return lambda value: {f"{name}{{{labels}}}": flat(value)}


def _counter(name: str) -> Callable[[Any], dict[str, str]]:
    return lambda by: {f'{name}{{instance="a", what="x", label="y", engine="e"}}': jump(by)}


def _kv(used: int) -> dict[str, str]:
    return {'kv_pool_used_blocks{instance="a"}': flat(used), 'kv_pool_total_blocks{instance="a"}': flat(1000)}


def _up(ours: Any) -> dict[str, str]:
    found = {'up{job="other", instance="b"}': flat(0)}
    return found if ours is None else {**found, 'up{job="loraledger", instance="a"}': flat(ours)}


def _stuck(open_now: int, ended_at: int | None, by: int = 1) -> dict[str, str]:
    found = {'loraledger_requests_in_flight{tenant="t"}': flat(open_now)}
    return found if ended_at is None else {**found, 'lora_request_total{tenant="t"}': jump(by, ended_at)}


def _warm(lookups: int, hits: int, started_minute: int = -1000, at: int = JUMP) -> dict[str, str]:
    """The start of the process stands in the series as its number of seconds."""
    who = '{job="loraledger", instance="a"}'
    return {
        f"process_start_time_seconds{who}": flat(started_minute * 60),
        f"lora_warm_pool_lookup_total{who}": jump(lookups, at),
        f"lora_warm_pool_hit_total{who}": jump(hits, at),
    }


def _loads(loads: int, slow: int) -> dict[str, str]:
    """Loads of which `slow` took more than a second, and all less than 2.5."""
    name = "lora_cold_start_duration_ms"
    return {
        f'{name}_count{{adapter="a"}}': jump(loads),
        f'{name}_bucket{{adapter="a", le="500.0"}}': jump(0),
        f'{name}_bucket{{adapter="a", le="1000.0"}}': jump(loads - slow),
        f'{name}_bucket{{adapter="a", le="2500.0"}}': jump(loads),
    }


def _owners(owner: str) -> Callable[[Any, Any], dict[str, str]]:
    """Seconds of `owner`, of tenants, and much idle time, which is not busy."""
    name = "loraledger_engine_time_seconds_total"
    return lambda part, tenants: {
        f'{name}{{engine="e", owner="{owner}"}}': jump(part),
        f'{name}{{engine="e", owner="tenants"}}': jump(tenants),
        f'{name}{{engine="e", owner="idle"}}': jump(3000),
    }


def _stalled(seconds: Any) -> dict[str, str]:
    name = "loraledger_engine_system_seconds_total"
    return {f'{name}{{engine="e", cause="stall"}}': jump(seconds), f'{name}{{engine="e", cause="loop"}}': jump(100)}


def _drift(measured: Any, predicted: Any) -> dict[str, str]:
    """One class is off by that; another class of the engine is right."""
    return {
        f'loraledger_step_{what}_seconds_total{{engine="e", step_class="{step_class}"}}': jump(value)
        for what, pair in (("measured", (measured, 5000)), ("predicted", (predicted, 5000)))
        for step_class, value in zip(("prefill", "decode"), pair, strict=True)
    }


def _ages(*ages: int) -> dict[str, str]:
    """Snapshot ages of gateways; none: the gateways run since minute 0 and never saw a snapshot."""
    found = {f'loraledger_snapshot_age_seconds{{instance="{n}"}}': flat(age) for n, age in enumerate(ages)}
    return {**found, 'process_start_time_seconds{instance="0"}': flat(0 if not ages else 100000)}


def _margin(cost: Any, revenue: Any) -> dict[str, str]:
    return {
        f'loraledger_tenant_{name}{{tenant="t", instance="{instance}"}}': flat(value)
        for name, value in (("cost", cost), ("revenue", revenue))
        for instance in "ab"
    }


def _ratios(total: int, within: dict[str, int], at: int = JUMP, earlier: int = 0) -> dict[str, str]:
    """Requests of which so many were within each bound; `earlier` quick ones came half an hour before."""
    steps = {"count": ("", total)} | {f"bucket {bound}": (f', le="{bound}"', value) for bound, value in within.items()}
    return {
        f'lora_request_slo_ratio_{part.split()[0]}{{tenant="t"{bound}}}': (
            f"0x{at - 31} {earlier}x29 {earlier + value}x{LAST}" if earlier else jump(value, at)
        )
        for part, (bound, value) in steps.items()
    }


def _above(bound: str) -> Callable[..., dict[str, str]]:
    """So many requests above `bound`, all of them below the next one; the bounds below are passed by twice as many."""
    bounds = ["1.0", "1.1", "1.3", "2.0"]

    def series(total: int, above: int, earlier: int = 0) -> dict[str, str]:
        place = bounds.index(bound)
        within = {one: max(0, total - 2 * above) for one in bounds[:place]} | {bound: total - above}
        return _ratios(total, within | dict.fromkeys(bounds[place + 1 :], total), earlier=earlier)

    return series


def _flow(bad_per_minute: Any) -> dict[str, str]:
    """From the jump on so many requests a minute, all too slow."""
    name = "lora_request_slo_ratio"
    flow = f"0x{JUMP - 1} {bad_per_minute}+{bad_per_minute}x{LAST}"
    return {f'{name}_count{{tenant="t"}}': flow, f'{name}_bucket{{tenant="t", le="1.0"}}': flat(0)}


def _unpromised(tenant: str, requests: int, slo: bool) -> dict[str, str]:
    found = {f'lora_request_total{{tenant="{tenant}", status="ok"}}': jump(requests)}
    return {**found, f'lora_tenant_slo_seconds{{tenant="{tenant}"}}': flat(2)} if slo else found


def _slos(one: Any, other: Any) -> dict[str, str]:
    return {
        f'lora_tenant_slo_seconds{{tenant="t", instance="{instance}"}}': flat(value)
        for instance, value in (("a", one), ("b", other))
    }


def _end(window: int, at: int = JUMP) -> int:
    """Last minute at which a window still holds the sample before the jump."""
    return at - 1 + window


WHOLE = 10000
EDGES = (
    Edge("LoraGpuMemoryCritical", 2, _gauge("lora_memory_utilization_ratio"), (0.9499, 0.95), (0.9501,)),
    Edge("LoraKvPoolSaturated", 5, _kv, (949, 950), (951,)),
    Edge("LoraEngineDown", 1, _gauge("loraledger_engine_up"), (1,), (0,)),
    Edge("LoraCatalogRefused", 5, _gauge("loraledger_catalog_valid"), (1,), (0,)),
    Edge("LoraTargetGone", 2, _up, (1,), (0, None)),
    Edge("LoraEngineRestarted", 0, _counter("loraledger_engine_restarts_total"), (0,), (1,), JUMP, _end(15)),
    Edge("LoraAttemptsStuck", 5, _stuck, ((0, None),), ((1, None), (1, JUMP, 0))),
    Edge("LoraAttemptsStuck", 5, _stuck, ((0, 3),), ((1, 3), (9, 3)), _end(10, 3) + 1),
    Edge("LoraWarmPoolHitRateLow", 5, _warm, ((1000, 801), (1000, 800)), ((1000, 799),), JUMP, _end(15)),
    Edge("LoraWarmPoolHitRateLow", 5, _warm, ((49, 0),), ((50, 39),), JUMP, _end(15)),
    Edge("LoraWarmPoolHitRateLow", 5, _warm, ((50, 0, JUMP),), ((50, 0, JUMP - 10),), JUMP + 5, _end(15)),
    Edge("LoraColdStartSlow", 5, _loads, ((WHOLE, 99), (WHOLE, 100)), ((WHOLE, 101),), JUMP, _end(60)),
    Edge("LoraColdStartSlow", 5, _loads, ((19, 19), (30, 1)), ((20, 20), (30, 2)), JUMP, _end(60)),
    Edge("LoraSpoolWriteErrors", 0, _counter("loraledger_spool_errors_total"), (0,), (1,), JUMP, _end(5)),
    Edge("LoraTelemetryDropped", 0, _counter("loraledger_telemetry_dropped_total"), (0,), (1,), JUMP, _end(5)),
    Edge("LoraMeterGaps", 0, _counter("loraledger_meter_gaps_total"), (0,), (1,), JUMP, _end(15)),
    Edge("LoraUsageUnmeasured", 0, _counter("loraledger_usage_unmeasured_total"), (0,), (1,), JUMP, _end(60)),
    Edge("LoraBudgetDrift", 0, _counter("loraledger_budget_written_off_total"), (0,), (1,), JUMP, _end(60)),
    Edge("LoraLabelOverflow", 0, _counter("loraledger_label_overflow_total"), (0,), (1,), JUMP, _end(60)),
    Edge(
        "LoraEngineTimeUnattributed", 10, _owners("unattributed"), ((0.99, 999.01), (1, 999)), ((1.01, 998.99),), JUMP,
        _end(60),
    ),
    Edge("LoraEngineTimeUnattributed", 10, _owners("unattributed"), ((1, 58.9),), ((1, 59),), JUMP, _end(60)),
    Edge("LoraEngineTimeSystemHigh", 10, _owners("system"), ((9.99, 990.01), (10, 990)), ((10.01, 989.99),), JUMP, _end(60)),
    Edge("LoraEngineTimeSystemHigh", 10, _owners("system"), ((1, 58.9),), ((1, 59),), JUMP, _end(60)),
    Edge("LoraEngineStall", 0, _stalled, (0.99, 1), (1.01,), JUMP, _end(5)),
    Edge(
        "LoraStepModelDrift", 10, _drift, ((1099, 1000), (1100, 1000), (901, 1000), (900, 1000)), ((1101, 1000), (899, 1000)),
        JUMP, _end(60),
    ),
    Edge("LoraStepModelDrift", 10, _drift, ((120, 59.9),), ((120, 60),), JUMP, _end(60)),
    Edge("LoraSnapshotStale", 10, _ages, ((10799,), (10800,), (20000, 5)), ((10801,), (10801, 20000))),
    Edge("LoraSnapshotStale", 10, _ages, (), ((),), 181),
    Edge("LoraQuarantineNotEmpty", 30, _gauge("loraledger_quarantine_records"), (0,), (1,)),
    Edge("LoraRecordGaps", 15, _gauge("loraledger_record_gaps"), (0,), (1,)),
    Edge("LoraCloseOverdue", 60, _gauge("loraledger_close_overdue_seconds"), (0,), (1,)),
    Edge("LoraPriceMissing", 15, _gauge("loraledger_price_missing_seconds"), (0,), (0.001,)),
    Edge("LoraMarginNegative", 60, _margin, ((10, 10.01), (10, 10)), ((10, 9.99),)),
    Edge("LoraMarginNegative", 60, _margin, ((0.99, 0),), ((1, 0),)),
    # A full 5 minutes are judged alone; then the hour, while the last quarter of it still had one above the bound.
    Edge("LoraTenantLatencyYellow", 5, _above("1.1"), ((WHOLE, 99), (WHOLE, 100)), ((WHOLE, 101),), JUMP, _end(15)),
    Edge("LoraTenantLatencyYellow", 5, _above("1.1"), ((99, 99), (40, 40, 59)), ((100, 100), (40, 40, 60)), JUMP, _end(15)),
    Edge("LoraTenantLatencyRed", 2, _above("1.3"), ((WHOLE, 99), (WHOLE, 100)), ((WHOLE, 101),), JUMP, _end(15)),
    Edge("LoraTenantLatencyRed", 2, _above("1.3"), ((99, 99), (40, 40, 59)), ((100, 100), (40, 40, 60)), JUMP, _end(15)),
    # The recorded rates look back 5 minutes, so a jump is in them for 5; the short window of a row then still holds the last of these.
    Edge(
        "LoraErrorBudgetBurnFast", 2, _above("1.0"), ((WHOLE, 1439), (WHOLE, 1440)), ((WHOLE, 1441),), JUMP, JUMP + 4,
        'window="1h"',
    ),
    Edge("LoraErrorBudgetBurnFast", 2, _flow, (1.6,), (2,), JUMP + 51, None, 'window="1h"'),
    Edge(
        "LoraErrorBudgetBurnFast", 15, _above("1.0"), ((WHOLE, 599), (WHOLE, 600)), ((WHOLE, 601),), JUMP, JUMP + 34,
        'window="6h"',
    ),
    Edge("LoraErrorBudgetBurnFast", 15, _above("1.0"), ((99, 99),), ((100, 100),), JUMP + 4, JUMP + 34, 'window="6h"'),
    Edge(
        "LoraErrorBudgetBurnSlow", 60, _above("1.0"), ((WHOLE, 299), (WHOLE, 300)), ((WHOLE, 301),), JUMP, JUMP + 124,
        'window="1d"',
    ),
    Edge("LoraErrorBudgetBurnSlow", 60, _above("1.0"), ((99, 99),), ((100, 100),), JUMP + 4, JUMP + 124, 'window="1d"'),
    Edge(
        "LoraErrorBudgetBurnSlow", 180, _above("1.0"), ((WHOLE, 99), (WHOLE, 100)), ((WHOLE, 101),), JUMP, JUMP + 364,
        'window="3d"',
    ),
    Edge("LoraErrorBudgetBurnSlow", 180, _above("1.0"), ((99, 99),), ((100, 100),), JUMP + 4, JUMP + 364, 'window="3d"'),
    Edge(
        "LoraTenantWithoutSlo", 10, _unpromised,
        (("t", 0, False), ("t", 1, True), ("other", 1, False), ("unauthenticated", 1, False)), (("t", 1, False),), JUMP, _end(60),
    ),
    Edge("LoraTenantSloDisagrees", 10, _slos, ((2, 2),), ((2, 2.001), (2.001, 2))),
)  # fmt: skip


def _expected(edge: Edge, fires: bool) -> Iterator[tuple[int, str]]:
    """What is seen at which minute: pending or firing, or nothing at all."""
    if not fires:
        yield from ((edge.since + minute, "") for minute in (0, 4, edge.wait, edge.wait + 4))
        return
    if edge.since:
        yield edge.since - 1, ""
    if edge.wait:
        yield edge.since + edge.wait - 1, "pending"
    if edge.until is None:
        yield from ((edge.since + minute, "firing") for minute in (edge.wait, edge.wait + 9))
    else:
        yield from ((edge.since + edge.wait, "firing"), (edge.until + KEPT, "firing"), (edge.until + KEPT + 1, ""))


def _case(edge: Edge, value: Any, fires: bool) -> dict[str, Any]:
    parts = value if isinstance(value, tuple) else (value,)
    chosen = ", ".join(filter(None, (f'alertname="{edge.alert}"', edge.of)))
    return {
        "name": f"{edge.alert} {edge.of} {'fires' if fires else 'is silent'} at {value}",
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in edge.series(*parts).items()],
        "promql_expr_test": [
            {
                "expr": f"max by (alertstate) (ALERTS{{{chosen}}})",
                "eval_time": f"{minute}m",
                "exp_samples": [{"labels": f'{{alertstate="{state}"}}', "value": 1}] if state else [],
            }
            for minute, state in _expected(edge, fires)
        ],
    }


def _files(directory: Path) -> Iterator[Path]:
    groups = rule_file()["groups"]
    for name in {edge.alert: None for edge in EDGES}:
        kept = [
            {**group, "rules": [rule for rule in group["rules"] if "record" in rule or rule["alert"] == name]}
            for group in groups
            if any(rule.get("alert") == name for rule in group["rules"])
        ]
        rules, cases = directory / f"{name}.rules.yaml", directory / f"{name}.yaml"
        rules.write_text(yaml.safe_dump({"groups": kept}))
        tests = [
            _case(edge, value, fires)
            for edge in EDGES
            if edge.alert == name
            for fires, values in ((False, edge.silent), (True, edge.fires))
            for value in values
        ]
        cases.write_text(yaml.safe_dump({"rule_files": [rules.name], "evaluation_interval": "1m", "tests": tests}))
        yield cases


def test_every_alert_has_an_edge_at_which_it_fires_and_one_at_which_it_is_silent() -> None:
    declared = {
        (alert.name, f'window="{alert.labels["window"]}"' if "window" in alert.labels else "") for alert in alerts()
    }
    assert {(edge.alert, edge.of) for edge in EDGES if edge.silent} == declared
    assert {(edge.alert, edge.of) for edge in EDGES if edge.fires} == declared


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed: apt-get install prometheus")
def test_alerts_fire_just_above_their_bounds_for_their_time_and_are_silent_at_and_below(tmp_path: Path) -> None:
    files = list(_files(tmp_path))
    done = subprocess.run(
        ["promtool", "test", "rules", *map(str, files)], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]

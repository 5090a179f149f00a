"""1.099 x and 1.101 x of a promise are told apart, whatever the promise: from the gateway's count to Prometheus' verdict."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from alerts.generate import to_yaml
from alerts.rules import rule_file
from alerts.tenant_rules import SHARE_RED, SHARE_YELLOW
from serving.attempt.measures import observe
from serving.attempt.record import Facts
from telemetry.metrics import Metrics
from telemetry.names import SLO_RATIO_HIST
from telemetry.usage import Status, UsageRecord

pytestmark = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")

ARRIVAL_NS = 1_790_000_000_000_000_000
REQUESTS, SLOW = 100, 2
PLACES = {
    "1.099": (),
    "1.1": (),
    "1.101": (SHARE_YELLOW,),
    "1.299": (SHARE_YELLOW,),
    "1.3": (SHARE_YELLOW,),
    "1.301": (SHARE_YELLOW, SHARE_RED),
}
"""How long the slow ones take, in promises; and what more than 1 % of them breaks."""


def _count(metrics: Metrics, tenant: str, slo: Decimal, took_ns: int) -> None:
    facts = Facts("gw", 0, "r", tenant, ARRIVAL_NS, "m", slo_seconds=slo)
    record = UsageRecord("gw", 0, "r", tenant, ARRIVAL_NS, ARRIVAL_NS + took_ns, Status.OK, slices=())
    observe(metrics, record, facts)


def _series(scrape: str) -> list[dict[str, str]]:
    """The judged histogram as promtool takes it: as many requests again every minute."""
    samples = (
        s
        for family in text_string_to_metric_families(scrape)
        if family.name == SLO_RATIO_HIST.name
        for s in family.samples
    )
    return [{"series": s.name + _braces(s.labels), "values": f"0+{int(s.value)}x10"} for s in samples]


def _braces(labels: dict[str, str]) -> str:
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "}"


def _verdict(record: str, tenants: list[str]) -> dict[str, Any]:
    share = SLOW / REQUESTS
    samples = [{"labels": f'{record}{{tenant="{tenant}"}}', "value": share} for tenant in tenants]
    return {"expr": f"{record} > 0", "eval_time": "10m", "exp_samples": samples}


@settings(max_examples=3, deadline=None)
@given(st.lists(st.decimals("0.000001", 100_000, places=6, allow_nan=False), min_size=1, max_size=12, unique=True))
@example([Decimal("1.009"), Decimal("0.087")])
def test_any_promise_is_judged_exactly(promises: list[Decimal]) -> None:
    metrics = Metrics(cap=10_000)
    broken: dict[str, list[str]] = {SHARE_YELLOW: [], SHARE_RED: []}
    for slo in promises:
        for place, breaks in PLACES.items():
            tenant = f"{slo}-{place}"
            # A whole number of nanoseconds, never across the bound.
            took_ns = int(slo * 1_000_000_000 * Decimal(place))
            for number in range(REQUESTS):
                _count(metrics, tenant, slo, took_ns if number < SLOW else 0)
            for record in breaks:
                broken[record].append(tenant)
    case = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": _series(metrics.render(None)[0].decode()),
                "promql_expr_test": [_verdict(record, tenants) for record, tenants in broken.items()],
            }
        ],
    }
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "rules.yaml").write_text(to_yaml(rule_file()))
        path = Path(directory) / "case.yaml"
        path.write_text(yaml.safe_dump(case))
        done = subprocess.run(
            ["promtool", "test", "rules", str(path)], capture_output=True, text=True, timeout=120, check=False
        )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]

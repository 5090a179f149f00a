"""Promtool judges the PromQL on the boards, and every metric is read by somebody."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from alerts.rules import metric_names_used as rules_metric_names_used
from dashboards.queries import metric_names_used, promql_queries
from telemetry import names


def test_boards_read_declared_metrics_and_recorded_series_only() -> None:
    assert metric_names_used() <= {metric.name for metric in names.METRICS}


def test_every_declared_metric_is_read_by_a_board_or_a_rule() -> None:
    assert {metric.name for metric in names.METRICS} == metric_names_used() | rules_metric_names_used()


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed: apt-get install prometheus")
def test_every_promql_expression_parses(tmp_path: Path) -> None:
    rules = []
    for name, expression in promql_queries().items():
        plain = expression.replace("$__rate_interval", "5m").replace("$tenant", ".*")
        assert "$" not in plain, name
        rules.append({"record": f"board:{name}", "expr": plain})
    path = tmp_path / "boards.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "boards", "rules": rules}]}))
    done = subprocess.run(
        ["promtool", "check", "rules", str(path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_counters_stand_under_rate_or_increase_and_quantiles_keep_le() -> None:
    for name, expression in promql_queries().items():
        for counter in re.findall(r"(?<![\w(])(\w+_total)\b", re.sub(r"(?:rate|increase)\(\w+", "", expression)):
            pytest.fail(f"{name} reads counter {counter} bare")
        if "histogram_quantile" in expression:
            assert re.search(r"sum by \([^)]*\ble\)", expression), name

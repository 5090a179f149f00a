from __future__ import annotations

import dataclasses
import re
from decimal import Decimal

import pytest

from alerts.links import BOARDS, FLEET, Links
from alerts.model import Alert
from alerts.promises import DEFAULT, PromiseNotMeasured, Promises
from alerts.rules import alerts, groups, metric_names_used, recorded_names, rule_file
from telemetry import names


def test_rules_read_declared_metrics_and_recorded_series_only() -> None:
    assert metric_names_used() <= {metric.name for metric in names.METRICS}


def test_a_recording_stands_above_the_alerts_that_read_it_in_its_own_group() -> None:
    recorded = recorded_names()
    for group in groups():
        seen: set[str] = set()
        for rule in group.rules:
            read = {name for name in recorded if name in rule.expr}
            assert read <= seen, (group.name, rule)
            seen.add(getattr(rule, "record", ""))


def test_every_alert_is_complete_and_no_label_carries_a_value() -> None:
    rules = [rule for group in rule_file()["groups"] for rule in group["rules"] if "alert" in rule]
    assert len({(rule["alert"], rule["labels"].get("window")) for rule in rules}) == len(rules)
    for rule in rules:
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert "keep_firing_for" in rule
        assert not any("{{" in value for value in rule["labels"].values())
        assert set(rule["annotations"]) == {"summary", "description", "runbook_url", "dashboard_url"}
        assert any(board.uid in rule["annotations"]["dashboard_url"] for board in BOARDS)
        for text in (rule["annotations"]["summary"], rule["annotations"]["description"]):
            assert not re.search(r"\$value\s*}}", text), "values are humanized"


def test_thresholds_are_those_of_the_promises() -> None:
    memory = next(alert for alert in alerts(DEFAULT) if alert.name == "LoraGpuMemoryCritical")
    assert memory == Alert(
        name="LoraGpuMemoryCritical",
        promise="memory",
        severity="critical",
        expr="lora_memory_utilization_ratio > 0.95",
        for_=120,
        summary="GPU {{ $labels.gpu }} uses {{ $value | humanizePercentage }} of its memory budget",
        description=memory.description,
        board=FLEET,
    )
    assert "of the engine's budget; 80 % to 92 % is healthy." in memory.description
    assert memory in groups(DEFAULT)[1].rules
    faster = alerts(DEFAULT.compressed(60))
    assert [alert.for_ for alert in faster if alert.name == memory.name] == [2]


def test_a_rule_is_a_ticket_at_once_unless_it_says_otherwise() -> None:
    stall = next(alert for alert in alerts() if alert.name == "LoraEngineStall")
    assert (stall.severity, stall.for_, stall.variable, stall.labels) == ("warning", 0, None, {})


def test_each_pair_of_windows_of_the_error_budget_is_an_alert_of_its_own() -> None:
    made = [alert for alert in alerts(Promises()) if "window" in alert.labels]
    assert [(alert.name, alert.labels["window"], alert.for_) for alert in made] == [
        ("LoraErrorBudgetBurnFast", "1h", 120),
        ("LoraErrorBudgetBurnFast", "6h", 900),
        ("LoraErrorBudgetBurnSlow", "1d", 3600),
        ("LoraErrorBudgetBurnSlow", "3d", 10800),
    ]


def test_one_rule_serves_all_tenants() -> None:
    assert len(groups()) == 5
    assert not any("clinic" in alert.expr for alert in alerts())


def test_link_prefixes_are_settable() -> None:
    links = Links("https://wiki.example.org/x/", "https://g.example.org/d/")
    first = next(rule for rule in rule_file(links=links)["groups"][0]["rules"] if "alert" in rule)
    assert first["annotations"]["runbook_url"] == "https://wiki.example.org/x/LoraTenantLatencyYellow"
    assert first["annotations"]["dashboard_url"].startswith("https://g.example.org/d/loraledger-tenants/")


@pytest.mark.parametrize(
    "promises",
    [
        dataclasses.replace(DEFAULT, latency=dataclasses.replace(DEFAULT.latency, yellow=Decimal("1.2"))),
        dataclasses.replace(DEFAULT, latency=dataclasses.replace(DEFAULT.latency, red=Decimal(5))),
        dataclasses.replace(DEFAULT, budget=dataclasses.replace(DEFAULT.budget, bound=Decimal("0.95"))),
        dataclasses.replace(DEFAULT, adapters=dataclasses.replace(DEFAULT.adapters, cold_ms=Decimal(800))),
    ],
    ids=[
        "yellow between two bounds",
        "red at the last bound",
        "budget between two bounds",
        "cold start between two bounds",
    ],
)
def test_a_threshold_that_no_bucket_measures_is_refused(promises: Promises) -> None:
    with pytest.raises(PromiseNotMeasured, match=r"could not judge .* add .* to its buckets"):
        groups(promises)

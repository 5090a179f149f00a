"""All rules, and their rendering to Prometheus' rule file; runbook and board links are added to every alert here. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from alerts.adapter_rules import adapter_rules
from alerts.expressions import duration
from alerts.fleet_rules import engine_rules, memory_rules
from alerts.links import DEFAULT_LINKS, Links
from alerts.metrics_used import families
from alerts.model import Alert, Group, Recording
from alerts.money_rules import money_rules
from alerts.promises import DEFAULT, Promises
from alerts.record_rules import engine_time_rules, label_rules, record_rules
from alerts.tenant_rules import budget_rules, latency_rules, recordings, slo_rules

_GROUPS: Final[dict[str, tuple[Callable[[Promises], Iterable[Recording | Alert]], ...]]] = {
    "loraledger-tenants": (recordings, latency_rules, budget_rules, slo_rules),
    "loraledger-fleet": (memory_rules, engine_rules),
    "loraledger-adapters": (adapter_rules,),
    "loraledger-records": (record_rules, engine_time_rules, label_rules),
    "loraledger-money": (money_rules,),
}
"""Each group's name and what yields its rules, in the order in which Prometheus evaluates them. To add a rule, yield it there."""
SERVICE: Final = "loraledger"
"""Label on every alert, for an Alertmanager that others share."""


def groups(promises: Promises = DEFAULT) -> tuple[Group, ...]:
    """Every rule group; raises PromiseNotMeasured when a threshold is not a bucket bound."""
    promises.check()
    return tuple(
        Group(name, tuple(rule for rules in makers for rule in rules(promises))) for name, makers in _GROUPS.items()
    )


def alerts(promises: Promises = DEFAULT) -> tuple[Alert, ...]:
    """Every alert rule, in order; an alert with several windows appears once per window."""
    return tuple(rule for group in groups(promises) for rule in group.rules if isinstance(rule, Alert))


def recorded_names(promises: Promises = DEFAULT) -> frozenset[str]:
    """Names of the series that the rules record; boards may read them."""
    return frozenset(rule.record for group in groups(promises) for rule in group.rules if isinstance(rule, Recording))


def metric_names_used(promises: Promises = DEFAULT) -> frozenset[str]:
    """Metric families that the rules read; raises MetricUnknown when one is not declared in `telemetry.names`."""
    return families((rule.expr for group in groups(promises) for rule in group.rules), recorded_names(promises))


def rule_file(promises: Promises = DEFAULT, links: Links = DEFAULT_LINKS) -> dict[str, Any]:
    """The rule file as Prometheus reads it, ready to be written as YAML."""
    return {
        "groups": [
            {
                "name": group.name,
                "interval": duration(promises.interval),
                "rules": [_rule(rule, promises, links) for rule in group.rules],
            }
            for group in groups(promises)
        ]
    }


def _rule(rule: Recording | Alert, promises: Promises, links: Links) -> dict[str, Any]:
    if isinstance(rule, Recording):
        return {"record": rule.record, "expr": rule.expr}
    wait = {"for": duration(rule.for_)} if rule.for_ else {}
    return {
        "alert": rule.name,
        "expr": rule.expr,
        **wait,
        "keep_firing_for": duration(promises.keep_firing),
        "labels": {"service": SERVICE, "severity": rule.severity, "promise": rule.promise, **rule.labels},
        "annotations": {
            "summary": rule.summary,
            "description": rule.description,
            "runbook_url": links.runbook(rule.name),
            "dashboard_url": links.board(rule.board, rule.variable),
        },
    }

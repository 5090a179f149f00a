from __future__ import annotations

from alerts.links import FLEET
from alerts.model import Alert, Group, Recording
from alerts.promises import DEFAULT, Promises
from alerts.rows import AlertRow, GroupRows, RecordingRow, rendered
from alerts.tenant_rules import BurnRows


def test_a_row_becomes_its_rule_with_the_thresholds_of_the_promises_filled_in() -> None:
    rows = GroupRows(
        "fleet",
        (
            RecordingRow("gpu:used:max", lambda p: f"max(used) > {p.fleet.memory_critical}"),
            AlertRow(
                name="Full",
                promise="memory",
                severity="critical",
                expr="gpu:used:max",
                for_=lambda p: p.fleet.memory_for,
                summary="{{ $labels.gpu }} is full",
                description=lambda p: f"Above {p.fleet.memory_critical}",
                board=FLEET,
            ),
        ),
    )
    alert = Alert("Full", "memory", "critical", "gpu:used:max", 120, "{{ $labels.gpu }} is full", "Above 0.95", FLEET)
    assert rendered(rows, DEFAULT) == Group("fleet", (Recording("gpu:used:max", "max(used) > 0.95"), alert))
    (faster,) = rows.rows[1].rules(DEFAULT.compressed(60))
    assert isinstance(faster, Alert)
    assert faster.for_ == 2


def test_each_pair_of_windows_of_the_error_budget_is_an_alert_of_its_own() -> None:
    made = BurnRows(fast="Fast", slow="Slow").rules(Promises())
    assert [(alert.name, alert.labels["window"], alert.for_) for alert in made] == [
        ("Fast", "1h", 120),
        ("Fast", "6h", 900),
        ("Slow", "1d", 3600),
        ("Slow", "3d", 10800),
    ]

"""Prometheus' own tool judges the rules: they parse, fire, stay silent, and notice a threshold that moved."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from alerts.generate import GENERATED, files, to_yaml
from alerts.promises import DEFAULT, Promises
from alerts.rules import alerts, rule_file

CASES = Path(__file__).parents[1] / "promtool"
pytestmark = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not installed: apt-get install prometheus"
)

OWN_CASES = {
    "latency": ("tenant_latency.yaml", "loraledger-tenants"),
    "budget": ("budget.yaml", "loraledger-tenants"),
    "fleet": ("fleet.yaml", "loraledger-fleet"),
    "adapters": ("adapters.yaml", "loraledger-adapters"),
}
"""Which cases and which rule group judge each part of the promises; the ledger's part is spread over several."""
LEDGER_CASES = (
    ("records.yaml", "loraledger-records"),
    ("money.yaml", "loraledger-money"),
    ("tenant_slo.yaml", "loraledger-tenants"),
)


def _promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False)


def test_the_rules_and_the_prometheus_configuration_are_valid(tmp_path: Path) -> None:
    for name, text in files().items():
        (tmp_path / name).write_text(text)
    for arguments in (("check", "rules", tmp_path / "rules.yaml"), ("check", "config", tmp_path / "prometheus.yaml")):
        done = _promtool(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("case", sorted(CASES.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_case_fires_or_stays_silent_as_written(case: Path) -> None:
    assert "../../alerts/generated/rules.yaml" in case.read_text()
    assert (GENERATED / "rules.yaml").is_file()
    done = _promtool("test", "rules", case)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_a_case_that_fires_and_one_that_is_silent() -> None:
    cases = "\n".join(path.read_text() for path in CASES.glob("*.yaml"))
    assert {alert.name for alert in alerts()} <= {
        word for word in cases.replace('"', " ").replace(":", " ").split() if word.startswith("Lora")
    }


def _moved(value: Any) -> Iterator[Any]:
    if isinstance(value, Decimal):
        yield from (value * Decimal("1.02"), value * Decimal("0.98"))
    elif value >= 60 and value % 60 == 0:
        yield from (moved for moved in (value + 60, value - 60) if moved)
    else:
        yield from (value + 1, value - 1)


def _mutations() -> Iterator[Any]:
    article = {"latency.yellow", "latency.red", "latency.share", "fleet.memory_critical", "adapters.warm_hit_low"}
    bounds = {"yellow": ("1", "1.3"), "red": ("1.1", "2"), "bound": ("0.9", "1.1"), "cold_ms": ("500", "2500")}
    drawn_only = {"band_low", "band_high"}
    for part in dataclasses.fields(DEFAULT):
        values: Any = getattr(DEFAULT, part.name)
        if isinstance(values, int):
            continue
        for field in dataclasses.fields(values):
            value = getattr(values, field.name)
            if field.name in drawn_only or isinstance(value, tuple):
                continue
            for moved in map(Decimal, bounds[field.name]) if field.name in bounds else _moved(value):
                replaced: dict[str, Any] = {part.name: dataclasses.replace(values, **{field.name: moved})}
                changed = dataclasses.replace(DEFAULT, **replaced)
                name = f"{part.name}.{field.name}"
                marks = () if name in article else (pytest.mark.nightly,)
                yield pytest.param(part.name, changed, id=f"{name} {value} becomes {moved}", marks=marks)
    for row in DEFAULT.budget.rows:
        rows = tuple(one for one in DEFAULT.budget.rows if one is not row)
        changed = dataclasses.replace(DEFAULT, budget=dataclasses.replace(DEFAULT.budget, rows=rows))
        yield pytest.param("budget", changed, id=f"burn rate {row.factor} is dropped", marks=pytest.mark.nightly)
    for seconds in (DEFAULT.keep_firing - 60, DEFAULT.keep_firing + 60):
        changed = dataclasses.replace(DEFAULT, keep_firing=seconds)
        yield pytest.param("latency", changed, id=f"alerts keep firing for {seconds} s", marks=pytest.mark.nightly)


def _fails(promises: Promises, case: str, group: str, directory: Path) -> bool:
    rules = rule_file(promises)
    rules["groups"] = [one for one in rules["groups"] if one["name"] == group]
    (directory / "rules.yaml").write_text(to_yaml(rules))
    moved = directory / case
    moved.write_text((CASES / case).read_text().replace("../../alerts/generated/rules.yaml", "rules.yaml"))
    return _promtool("test", "rules", moved).returncode != 0


@pytest.mark.parametrize(("part", "changed"), list(_mutations()))
def test_a_moved_threshold_fails_a_case(part: str, changed: Promises, tmp_path: Path) -> None:
    pairs = (OWN_CASES[part],) if part in OWN_CASES else LEDGER_CASES
    assert any(_fails(changed, case, group, tmp_path) for case, group in pairs)

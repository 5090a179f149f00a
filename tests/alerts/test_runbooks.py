"""What a runbook tells on-call to type works: its metrics exist, its commands are ours."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from alerts.rules import alerts
from telemetry import names

RUNBOOKS = Path(__file__).parents[2] / "alerts" / "runbooks"
HEADINGS = ["## Meaning", "## Impact", "## First moves", "## How it ends"]
TEXTS = {path.stem: path.read_text() for path in sorted(RUNBOOKS.glob("*.md"))}
ALERTS = sorted({alert.name for alert in alerts()})


def test_every_alert_has_a_runbook_and_every_runbook_an_alert() -> None:
    assert list(TEXTS) == ALERTS


@pytest.mark.parametrize("name", ALERTS)
def test_a_runbook_says_meaning_impact_three_moves_with_commands_and_its_end(name: str) -> None:
    text = TEXTS[name]
    assert text.startswith(f"# {name}\n")
    assert [line for line in text.splitlines() if line.startswith("## ")] == HEADINGS
    moves = text.split("## First moves")[1].split("## How it ends")[0]
    assert re.findall(r"^(\d)\. ", moves, re.MULTILINE) == ["1", "2", "3"]
    assert moves.count("```sh") == 3


def test_every_metric_that_a_runbook_greps_is_declared() -> None:
    series = {
        metric.name + suffix
        for metric in names.METRICS
        for suffix in (("_bucket", "_count", "_sum") if metric.kind == "histogram" else ("",))
    }
    for name, text in TEXTS.items():
        for pattern in re.findall(r"grep -E '\^([^']+)'", text):
            expression = re.compile(pattern)
            assert any(expression.match(one) for one in series), (name, pattern)
            words = re.sub(
                r"\((used\|total|hit\|lookup|errors\|lines|bucket\|count)\)",
                lambda found: found[0].strip("()").split("|")[0],
                pattern,
            )
            for word in re.findall(r"\w+", words):
                assert word in series, (name, word)

from __future__ import annotations

import re
from pathlib import Path

import pytest

from alerts.metrics_page import PAGE, main, page
from telemetry import names


def test_the_committed_page_explains_every_metric_and_no_other() -> None:
    text = PAGE.read_text()
    assert text == page(), "run python -m alerts.metrics_page"
    rows = [
        line.split("|")
        for line in text.split("## Families")[1].split("## Buckets")[0].splitlines()
        if line.startswith("| `")
    ]
    assert [row[1].strip(" `") for row in rows] == [metric.name for metric in names.METRICS]
    assert all(cell.strip() for row in rows for cell in row[2:7]), (
        "kind, unit, labels, meaning and window are all given"
    )


def test_every_label_states_its_bound() -> None:
    used = {label for metric in names.METRICS for label in metric.labels}
    assert set(names.LABEL_BOUNDS) == used
    explained = set(re.findall(r"^\| `(\w+)` \|", PAGE.read_text().split("## Labels")[1], re.MULTILINE))
    assert explained == used


def test_check_notices_an_old_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "metrics.md"
    assert main(["--check", str(path)]) == 1
    assert "is out of date" in capsys.readouterr().err
    assert main([str(path)]) == 0
    assert main(["--check", str(path)]) == 0

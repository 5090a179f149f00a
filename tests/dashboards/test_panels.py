from __future__ import annotations

from typing import Any

import pytest

from alerts.links import FLEET
from dashboards.model import GREEN, RED, ColorStep, Dashboard, Panel, Prom, Sql, Stat, TablePanel, TimeSeries
from dashboards.panels import rendered

UP = Prom("up", "up", "{{instance}}")
FILES = Sql("ingested_files")


def panels(*rows: Panel) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = rendered(Dashboard(FLEET, "Of a test.", rows))["panels"]
    return made


def test_the_kind_of_panel_decides_how_its_query_is_asked() -> None:
    (series, stat), (bars, table) = (
        panels(TimeSeries("a", "a.", UP, "s"), Stat("b", "b.", UP, "s")),
        panels(TimeSeries("c", "c.", FILES, "s"), TablePanel("d", "d.", FILES)),
    )
    assert "instant" not in series["targets"][0]
    assert stat["targets"][0]["instant"] is True
    assert (bars["targets"][0]["format"], table["targets"][0]["format"]) == (0, 1)
    assert bars["targets"][0]["rawSql"].startswith("-- ")


def test_thresholds_begin_at_minus_infinity_and_are_drawn_as_lines_or_bands() -> None:
    steps = (ColorStep(RED, 3),)
    line, band, none = panels(
        TimeSeries("a", "a.", UP, "s", steps),
        TimeSeries("b", "b.", UP, "s", steps, area=True),
        TimeSeries("c", "c.", UP, "s"),
    )
    assert line["fieldConfig"]["defaults"]["thresholds"]["steps"] == [
        {"color": GREEN, "value": None},
        {"color": RED, "value": 3},
    ]
    styles = [panel["fieldConfig"]["defaults"]["custom"]["thresholdsStyle"]["mode"] for panel in (line, band, none)]
    assert styles == ["line", "area", "off"]


def test_a_panel_without_queries_or_with_two_data_sources_is_refused() -> None:
    refused: list[Any] = [(), (UP, FILES)]
    for queries in refused:
        with pytest.raises(ValueError, match="could not draw panel 'x'"):
            panels(TimeSeries("x", "y.", queries, "s"))

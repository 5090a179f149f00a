"""Panels and boards in our words: the only file that speaks to grafanalib, whose output goes through `normalise`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from grafanalib import _gen, core

from alerts.links import Board
from alerts.rules import SERVICE
from dashboards.normalise import normalise

PROMETHEUS: Final = {"type": "prometheus", "uid": "${prometheus_datasource}"}
CLICKHOUSE: Final = {"type": "grafana-clickhouse-datasource", "uid": "${clickhouse_datasource}"}
GREEN: Final = "green"
YELLOW: Final = "yellow"
RED: Final = "red"
BLUE: Final = "blue"
_COLUMNS: Final = 24
_ALERTS: Final = {
    "name": "Firing alerts",
    "datasource": PROMETHEUS,
    "enable": True,
    "iconColor": RED,
    "expr": f'ALERTS{{service="{SERVICE}", alertstate="firing"}}',
    "titleFormat": "{{alertname}}",
    "textFormat": "{{tenant}} {{engine}}",
    "step": "60s",
}
_TIME_SERIES: Final = 0
_TABLE: Final = 1


@dataclass(frozen=True, slots=True)
class Prom:
    """One PromQL query; `legend` is a Grafana legend format. `instant` asks for the newest value only."""

    expr: str
    legend: str = ""
    instant: bool = False

    def target(self, ref: str) -> dict[str, Any]:
        """As Grafana stores it."""
        kind = {"instant": True, "range": False} if self.instant else {"range": True}
        return {
            "refId": ref,
            "datasource": PROMETHEUS,
            "expr": self.expr,
            "legendFormat": self.legend or "__auto",
            "editorMode": "code",
            **kind,
        }


@dataclass(frozen=True, slots=True)
class Sql:
    """One ClickHouse query with the plugin's macros; as a table, or as time series (columns: time, labels, values)."""

    text: str
    series: bool = False

    def target(self, ref: str) -> dict[str, Any]:
        """As Grafana stores it."""
        return {
            "refId": ref,
            "datasource": CLICKHOUSE,
            "editorType": "sql",
            "format": _TIME_SERIES if self.series else _TABLE,
            "rawSql": self.text,
        }


@dataclass(frozen=True, slots=True)
class Step:
    """From `value` upwards the colour is `color`; None is minus infinity."""

    color: str
    value: float | None = None


@dataclass(frozen=True, slots=True)
class Placed:
    """A panel and its size in grid units; boards lay panels out from left to right."""

    panel: core.Panel
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Variable:
    """A choice at the top of a board, all values by default. `query` is PromQL's label_values or SQL."""

    name: str
    label: str
    query: str
    sql: bool = False


def timeseries(
    title: str,
    description: str,
    queries: Sequence[Prom | Sql],
    unit: str,
    *,
    steps: Sequence[Step] = (),
    area: bool = False,
    stacked: bool = False,
    minimum: int | None = 0,
    maximum: int | None = None,
    bars: bool = False,
    width: int = 12,
    height: int = 8,
) -> Placed:
    """Values over time. `steps` are drawn as lines, or as filled bands with `area`."""
    panel = core.TimeSeries(
        **_base(title, description, queries),
        unit=unit,
        thresholds=_steps(steps),
        thresholdsStyleMode=("area" if area else "line") if steps else "off",
        stacking={"mode": "normal", "group": "A"} if stacked else {"mode": "none", "group": "A"},
        fillOpacity=60 if bars else (30 if stacked else 0),
        drawStyle="bars" if bars else "line",
        showPoints="never",
        valueMin=minimum,
        valueMax=maximum,
    )
    return Placed(panel, width, height)


def stat(
    title: str,
    description: str,
    query: Prom | Sql,
    unit: str,
    *,
    steps: Sequence[Step] = (),
    empty: str = "no data",
    decimals: int | None = None,
    width: int = 4,
) -> Placed:
    """One number per series, coloured by `steps`."""
    panel = core.Stat(
        **_base(title, description, [query]),
        format=unit,
        thresholds=_steps(steps),
        color={"mode": "thresholds"},
        noValue=empty,
        decimals=decimals,
    )
    return Placed(panel, width, 4)


def table(title: str, description: str, query: Prom | Sql, *, width: int = 24, height: int = 8) -> Placed:
    """Rows. Units belong into the column names: field overrides do not pass Grafana's strict schema."""
    return Placed(core.Table(**_base(title, description, [query]), thresholds=_steps(())), width, height)


def text(markdown: str, *, width: int = 24, height: int = 3) -> Placed:
    """Words for the reader of the board."""
    return Placed(core.Text(title="", content=markdown), width, height)


def board(
    of: Board, description: str, panels: Sequence[Placed], variables: Sequence[Variable] = (), start: str = "now-6h"
) -> dict[str, Any]:
    """The board as JSON: panels laid out in rows of 24 columns, numbered from 1, data sources chosen by variable."""
    dashboard = core.Dashboard(
        title=of.title,
        uid=of.uid,
        description=description,
        tags=["loraledger"],
        graphTooltip=core.GRAPH_TOOLTIP_MODE_SHARED_CROSSHAIR,
        time=core.Time(start, "now"),
        refresh="30s",
        links=[
            core.DashboardLink(
                title="loraledger", tags=["loraledger"], asDropdown=True, icon="dashboard", includeVars=True
            )
        ],
        annotations=core.Annotations(list=[_ALERTS] if _uses(PROMETHEUS, panels, variables) else []),
        templating=core.Templating(
            list=[*_datasources(panels, variables), *(_variable(variable) for variable in variables)]
        ),
        panels=_laid_out(panels),
    )
    plain: dict[str, Any] = json.loads(json.dumps(dashboard.to_json_data(), cls=_gen.DashboardEncoder))
    return normalise(plain)


def _base(title: str, description: str, queries: Sequence[Prom | Sql]) -> dict[str, Any]:
    if len({type(query) for query in queries}) != 1:
        raise ValueError(f"could not draw panel {title!r}: it needs queries, all to one data source")
    source = PROMETHEUS if isinstance(queries[0], Prom) else CLICKHOUSE
    targets = [query.target(chr(ord("A") + index)) for index, query in enumerate(queries)]
    return {"title": title, "description": description, "dataSource": source, "targets": targets, "maxDataPoints": None}


def _steps(steps: Sequence[Step]) -> list[dict[str, Any]]:
    first = [] if steps and steps[0].value is None else [Step(GREEN)]
    return [{"color": step.color, "value": step.value} for step in (*first, *steps)]


def _laid_out(panels: Sequence[Placed]) -> list[core.Panel]:
    x = y = tallest = 0
    out = []
    for number, placed in enumerate(panels, 1):
        if x + placed.width > _COLUMNS:
            x, y, tallest = 0, y + tallest, 0
        placed.panel.gridPos = core.GridPos(h=placed.height, w=placed.width, x=x, y=y)
        placed.panel.id = number
        x, tallest = x + placed.width, max(tallest, placed.height)
        out.append(placed.panel)
    return out


def _uses(source: dict[str, str], panels: Sequence[Placed], variables: Sequence[Variable]) -> bool:
    of_variables = [CLICKHOUSE if variable.sql else PROMETHEUS for variable in variables]
    return source in of_variables or any(placed.panel.dataSource == source for placed in panels)


def _datasources(panels: Sequence[Placed], variables: Sequence[Variable]) -> list[core.Template]:
    choices = (("prometheus_datasource", "Prometheus", PROMETHEUS), ("clickhouse_datasource", "ClickHouse", CLICKHOUSE))
    return [
        core.Template(name=name, label=label, type="datasource", query=source["type"])
        for name, label, source in choices
        if _uses(source, panels, variables)
    ]


def _variable(variable: Variable) -> core.Template:
    source = CLICKHOUSE if variable.sql else PROMETHEUS
    return core.Template(
        name=variable.name,
        label=variable.label,
        query=variable.query,
        dataSource=source,
        includeAll=True,
        multi=True,
        refresh=2,
    )

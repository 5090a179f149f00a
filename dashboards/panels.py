"""Boards as Grafana reads them: the only file that speaks to grafanalib, whose output goes through `normalise`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from grafanalib import _gen, core

from alerts.rules import SERVICE
from dashboards.model import (
    GREEN,
    RED,
    ColorStep,
    Dashboard,
    Panel,
    Prom,
    Sql,
    Stat,
    TablePanel,
    Text,
    TimeSeries,
    Variable,
    queries_of,
)
from dashboards.normalise import normalise
from dashboards.sql_files import sql_queries

PROMETHEUS: Final = {"type": "prometheus", "uid": "${prometheus_datasource}"}
CLICKHOUSE: Final = {"type": "grafana-clickhouse-datasource", "uid": "${clickhouse_datasource}"}
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
_AS_TIME_SERIES: Final = 0
_AS_TABLE: Final = 1


def rendered(dashboard: Dashboard) -> dict[str, Any]:
    """The board as JSON: panels laid out in rows of 24 columns, numbered from 1, data sources chosen by variable.

    Raises ValueError for a panel whose queries are none, or go to two data sources.
    """
    made = core.Dashboard(
        title=dashboard.board.title,
        uid=dashboard.board.uid,
        description=dashboard.description,
        tags=["loraledger"],
        graphTooltip=core.GRAPH_TOOLTIP_MODE_SHARED_CROSSHAIR,
        time=core.Time(dashboard.start, "now"),
        refresh="30s",
        links=[
            core.DashboardLink(
                title="loraledger", tags=["loraledger"], asDropdown=True, icon="dashboard", includeVars=True
            )
        ],
        annotations=core.Annotations(list=[_ALERTS] if _uses(dashboard, PROMETHEUS) else []),
        templating=core.Templating(
            list=[*_datasources(dashboard), *(_variable(variable) for variable in dashboard.variables)]
        ),
        panels=_laid_out(dashboard.panels),
    )
    plain: dict[str, Any] = json.loads(json.dumps(made.to_json_data(), cls=_gen.DashboardEncoder))
    return normalise(plain)


def _panel(panel: Panel) -> core.Panel:
    match panel:
        case TimeSeries():
            return _time_series(panel)
        case Stat():
            return core.Stat(
                **_queried(panel),
                format=panel.unit,
                thresholds=_steps(panel.steps),
                color={"mode": "thresholds"},
                noValue=panel.empty,
                decimals=panel.decimals,
            )
        case TablePanel():
            return core.Table(**_queried(panel), thresholds=_steps(()))
        case Text():
            return core.Text(title="", content=panel.markdown)


def _time_series(panel: TimeSeries) -> core.Panel:
    bars = isinstance(panel.queries, Sql)
    stacked = panel.stacked or bars
    return core.TimeSeries(
        **_queried(panel),
        unit=panel.unit,
        thresholds=_steps(panel.steps),
        thresholdsStyleMode=("area" if panel.area else "line") if panel.steps else "off",
        stacking={"mode": "normal" if stacked else "none", "group": "A"},
        fillOpacity=60 if bars else (30 if stacked else 0),
        drawStyle="bars" if bars else "line",
        showPoints="never",
        valueMin=panel.minimum,
        valueMax=panel.maximum,
    )


def _queried(panel: TimeSeries | Stat | TablePanel) -> dict[str, Any]:
    queries = queries_of(panel)
    if len({type(query) for query in queries}) != 1:
        raise ValueError(f"could not draw panel {panel.title!r}: it needs queries, all to one data source")
    return {
        "title": panel.title,
        "description": panel.description,
        "dataSource": _source(queries[0]),
        "targets": [_target(panel, query, chr(ord("A") + index)) for index, query in enumerate(queries)],
        "maxDataPoints": None,
    }


def _target(panel: Panel, query: Prom | Sql, letter: str) -> dict[str, Any]:
    """A query as Grafana stores it; a stat asks Prometheus for the newest value only."""
    if isinstance(query, Sql):
        return {
            "refId": letter,
            "datasource": CLICKHOUSE,
            "editorType": "sql",
            "format": _AS_TIME_SERIES if isinstance(panel, TimeSeries) else _AS_TABLE,
            "rawSql": sql_queries()[query.name],
        }
    return {
        "refId": letter,
        "datasource": PROMETHEUS,
        "expr": query.expr,
        "legendFormat": query.legend,
        "editorMode": "code",
        **({"instant": True, "range": False} if isinstance(panel, Stat) else {"range": True}),
    }


def _source(query: Prom | Sql | str) -> dict[str, str]:
    return CLICKHOUSE if isinstance(query, Sql) else PROMETHEUS


def _steps(steps: Sequence[ColorStep]) -> list[dict[str, Any]]:
    first = [] if steps and steps[0].value is None else [ColorStep(GREEN)]
    return [{"color": step.color, "value": step.value} for step in (*first, *steps)]


def _laid_out(panels: Sequence[Panel]) -> list[core.Panel]:
    x = y = tallest = 0
    out = []
    for number, panel in enumerate(panels, 1):
        if x + panel.width > _COLUMNS:
            x, y, tallest = 0, y + tallest, 0
        made = _panel(panel)
        made.gridPos = core.GridPos(h=panel.height, w=panel.width, x=x, y=y)
        made.id = number
        x, tallest = x + panel.width, max(tallest, panel.height)
        out.append(made)
    return out


def _uses(dashboard: Dashboard, source: dict[str, str]) -> bool:
    asked = [query for panel in dashboard.panels for query in queries_of(panel)]
    return source in [_source(query) for query in (*asked, *(variable.query for variable in dashboard.variables))]


def _datasources(dashboard: Dashboard) -> list[core.Template]:
    choices = (("prometheus_datasource", "Prometheus", PROMETHEUS), ("clickhouse_datasource", "ClickHouse", CLICKHOUSE))
    return [
        core.Template(name=name, label=label, type="datasource", query=source["type"])
        for name, label, source in choices
        if _uses(dashboard, source)
    ]


def _variable(variable: Variable) -> core.Template:
    query = variable.query
    return core.Template(
        name=variable.name,
        label=variable.label,
        query=sql_queries()[query.name] if isinstance(query, Sql) else query,
        dataSource=_source(query),
        includeAll=True,
        multi=True,
        refresh=2,
    )

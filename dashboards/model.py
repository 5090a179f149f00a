"""Boards as rows: a panel is its title, what it shows, its query with name and legend, its unit and its thresholds. Pure.

To add a panel, add a row to the board whose rows are about the same thing; panels are laid out in the order of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from alerts.links import Board

GREEN: Final = "green"
YELLOW: Final = "yellow"
RED: Final = "red"
BLUE: Final = "blue"


@dataclass(frozen=True, slots=True)
class Prom:
    """One PromQL query: its name, the expression with Grafana's variables in it, and a Grafana legend format."""

    name: str
    expr: str
    legend: str


@dataclass(frozen=True, slots=True)
class Sql:
    """One ClickHouse query: the file `sql/<name>.sql`, with the plugin's macros in it."""

    name: str


@dataclass(frozen=True, slots=True)
class ColorStep:
    """From `value` upwards the colour is `color`; None is minus infinity."""

    color: str
    value: float | None = None


@dataclass(frozen=True, slots=True)
class TimeSeries:
    """Values over time, from one query or several to one data source.

    An SQL query has columns time, labels, values: sums of intervals, which are drawn as bars on top of each other.

    `steps` are drawn as lines, or as filled bands with `area`. `width` and `height` are in grid units, 24 across.
    """

    title: str
    description: str
    queries: Prom | Sql | tuple[Prom, ...]
    unit: str = "short"
    steps: tuple[ColorStep, ...] = ()
    area: bool = False
    stacked: bool = False
    minimum: int | None = 0
    maximum: int | None = None
    width: int = 12
    height: int = 8


@dataclass(frozen=True, slots=True)
class Stat:
    """The newest number of each series, coloured by `steps`; `empty` stands there while there is none."""

    title: str
    description: str
    queries: Prom | Sql
    unit: str = "short"
    steps: tuple[ColorStep, ...] = ()
    empty: str = "no data"
    decimals: int | None = None
    width: int = 4
    height: int = 4


@dataclass(frozen=True, slots=True)
class TablePanel:
    """Rows. Units belong into the column names: field overrides do not pass Grafana's strict schema."""

    title: str
    description: str
    queries: Sql
    width: int = 24
    height: int = 8


@dataclass(frozen=True, slots=True)
class Text:
    """Markdown for the reader of the board."""

    markdown: str
    width: int = 24
    height: int = 3


Panel = TimeSeries | Stat | TablePanel | Text


@dataclass(frozen=True, slots=True)
class Variable:
    """A choice at the top of a board, all values by default: an SQL query, or Prometheus' `label_values` as text."""

    name: str
    label: str
    query: Sql | str


@dataclass(frozen=True, slots=True)
class Dashboard:
    """One board: its panels in reading order, its variables, and how far back it looks when opened."""

    board: Board
    description: str
    panels: tuple[Panel, ...]
    variables: tuple[Variable, ...] = ()
    start: str = "now-6h"


def queries_of(panel: Panel) -> tuple[Prom | Sql, ...]:
    """The queries of a panel, in the order of their letters; none for text."""
    if isinstance(panel, Text):
        return ()
    return panel.queries if isinstance(panel.queries, tuple) else (panel.queries,)

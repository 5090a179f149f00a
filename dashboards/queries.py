"""Every PromQL expression on the boards, by name, and the metrics that they read. Pure."""

from __future__ import annotations

from alerts.metrics_used import families
from alerts.rules import recorded_names
from dashboards.boards import DASHBOARDS
from dashboards.model import Prom, queries_of


def promql_queries() -> dict[str, str]:
    """Expressions by the names of their queries, with Grafana's variables in them."""
    queries = (query for board in DASHBOARDS for panel in board.panels for query in queries_of(panel))
    return {query.name: query.expr for query in queries if isinstance(query, Prom)}


def metric_names_used() -> frozenset[str]:
    """Metric families that the boards read; raises MetricUnknown when one is not declared in `telemetry.names`."""
    return families(promql_queries().values(), recorded_names())

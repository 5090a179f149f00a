"""Everything this room makes, as one list."""

from __future__ import annotations

import dagster as dg

from pipelines.assets.gateway_snapshot import gateway_snapshot
from pipelines.assets.invoices import invoices
from pipelines.assets.otel_traces import otel_traces
from pipelines.assets.tenant_cost import tenant_cost
from pipelines.assets.usage import cold_starts, engine_time, usage
from pipelines.partitions import Cut


def hourly_assets(cut: Cut) -> list[dg.AssetsDefinition]:
    """What is made hour by hour, in the order of the way of the data."""
    return [otel_traces(cut), usage(cut), engine_time(cut), cold_starts(cut), tenant_cost(cut), gateway_snapshot(cut)]


def monthly_assets(cut: Cut) -> list[dg.AssetsDefinition]:
    """What is made month by month."""
    return [invoices(cut)]

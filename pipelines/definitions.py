"""The one door that Dagster enters."""

from __future__ import annotations

import os

import dagster as dg

from pipelines.checks import checks
from pipelines.graph import hourly_assets, monthly_assets
from pipelines.partitions import cut_from
from pipelines.resources import resources
from pipelines.schedules import hourly, monthly
from pipelines.settings import Settings


def build(settings: Settings) -> dg.Definitions:
    """Assets, checks, schedules and resources; one process, because an embedded ledger belongs to one."""
    cut = cut_from(settings.start)
    every_hour, every_month = hourly_assets(cut), monthly_assets(cut)
    return dg.Definitions(
        assets=[*every_hour, *every_month],
        asset_checks=checks(cut),
        schedules=[hourly(every_hour), monthly(every_month[0])],
        resources=resources(settings),
        executor=dg.in_process_executor,
    )


defs = build(Settings.from_environ(os.environ))

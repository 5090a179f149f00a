"""The one door that Dagster enters."""

from __future__ import annotations

import os

import dagster as dg

from pipelines.assets import WorkResource, asset_check, invoices_asset, step_asset
from pipelines.checks import CHECKS
from pipelines.partitions import hours_from, months_from
from pipelines.schedules import hourly, monthly
from pipelines.settings import Settings
from pipelines.steps import HOURLY


def build(work: WorkResource) -> dg.Definitions:
    """Assets, checks, schedules and resources; one process, because an embedded ledger belongs to one."""
    start = work.settings.start
    every_hour = [step_asset(step, hours_from(start)) for step in HOURLY]
    every_month = invoices_asset(months_from(start))
    return dg.Definitions(
        assets=[*every_hour, every_month],
        asset_checks=[asset_check(check) for check in CHECKS],
        schedules=[hourly(every_hour), monthly(every_month)],
        resources={"work": work},
        executor=dg.in_process_executor,
    )


defs = build(WorkResource(Settings.from_environ(os.environ)))

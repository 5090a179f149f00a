"""When assets are made. Stopped until somebody switches them on."""

from __future__ import annotations

from datetime import UTC, timedelta

import dagster as dg

RANGE_START = "dagster/asset_partition_range_start"
RANGE_END = "dagster/asset_partition_range_end"
_HOUR_KEY = "%Y-%m-%d-%H:%M"


def hourly(assets: list[dg.AssetsDefinition]) -> dg.ScheduleDefinition:
    """Twenty minutes past each hour: the last two whole hours in one run, since a request may end an hour after it arrived."""

    @dg.schedule(cron_schedule="20 * * * *", target=assets, name="every_hour", execution_timezone="UTC")
    def every_hour(context: dg.ScheduleEvaluationContext) -> dg.RunRequest:
        hour = context.scheduled_execution_time.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        first, last = hour - timedelta(hours=2), hour - timedelta(hours=1)
        return dg.RunRequest(
            run_key=f"{last:{_HOUR_KEY}}", tags={RANGE_START: f"{first:{_HOUR_KEY}}", RANGE_END: f"{last:{_HOUR_KEY}}"}
        )

    return every_hour


def monthly(asset: dg.AssetsDefinition) -> dg.ScheduleDefinition:
    """On the fourth, 72 hours after the end of the month before: close that one. While a check is red it stays open, and the run says why."""

    @dg.schedule(cron_schedule="0 6 4 * *", target=[asset], name="every_month", execution_timezone="UTC")
    def every_month(context: dg.ScheduleEvaluationContext) -> dg.RunRequest:
        month = (context.scheduled_execution_time.astimezone(UTC).replace(day=1) - timedelta(days=1)).strftime(
            "%Y-%m-01"
        )
        return dg.RunRequest(
            run_key=month, partition_key=month, run_config={"ops": {"invoices": {"config": {"issue": True}}}}
        )

    return every_month

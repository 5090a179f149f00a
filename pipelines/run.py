"""Makes the same assets in this process, without a Dagster server: for the command line and the demo."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import dagster as dg

from billing.close import GRACE_NS
from billing.facts import HOUR_NS
from billing.periods import to_ns
from billing.store.finance import month_window
from catalog.load import load
from pipelines.checks import checks
from pipelines.errors import ChecksFailed
from pipelines.graph import hourly_assets, monthly_assets
from pipelines.partitions import END_TAG, MONTH_TAG, START_TAG, UNCUT, Window
from pipelines.resources import Desk, Progress, resources
from pipelines.settings import Settings

_QUIET: Final = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@dataclass(frozen=True, slots=True)
class RunReport:
    """What a run made: metadata by asset, and the checks that did not pass but only warn."""

    made: dict[str, dict[str, Any]]
    warnings: tuple[str, ...]


def run_hours(
    settings: Settings, start: datetime, end: datetime, now: datetime, progress: Progress | None = None
) -> RunReport:
    """Take what is new, and derive usage, engine time and cost of [start, end), whole UTC hours, in one run.

    Raises what the work raises (StoreError, NotConserved, PriceMissing, CatalogInvalid), or ChecksFailed when all was made
    and a check is red. Run again, it changes nothing.
    """
    stretch = Window(to_ns(start), to_ns(end))
    return _run(settings, hourly_assets(UNCUT), stretch, {}, {}, now, progress)


def run_month(
    settings: Settings,
    month: str,
    issue: bool,
    now: datetime,
    progress: Progress | None = None,
    *,
    grace_hours: int = GRACE_NS // HOUR_NS,
) -> RunReport:
    """Everything of a billing month up to its invoices: drafts, or with `issue` the closed month's numbered ones.

    A month is closed `grace_hours` after its end (UTC) at the earliest.
    Raises as `run_hours` does; CloseRefused, listing what is red, when the month may not be closed.
    """
    stretch = Window(*month_window(month, load(settings.catalog)))
    config = {"ops": {"invoices": {"config": {"issue": issue, "grace_hours": grace_hours}}}}
    return _run(
        settings, [*hourly_assets(UNCUT), *monthly_assets(UNCUT)], stretch, {MONTH_TAG: month}, config, now, progress
    )


def _run(
    settings: Settings,
    assets: Sequence[dg.AssetsDefinition],
    stretch: Window,
    tags: dict[str, str],
    config: dict[str, Any],
    now: datetime,
    progress: Progress | None,
) -> RunReport:
    desk = Desk(lambda: now, progress) if progress else Desk(lambda: now)
    with dg.DagsterInstance.ephemeral() as instance:
        result = dg.materialize(
            [*assets, *checks(UNCUT)],
            instance=instance,
            resources=resources(settings, desk),
            run_config={**_QUIET, **config},
            tags={START_TAG: str(stretch.start_ns), END_TAG: str(stretch.end_ns), **tags},
            raise_on_error=True,
        )
    red = [check for check in result.get_asset_check_evaluations() if not check.passed]
    lines = {check.check_name: f"{check.check_name}: {check.description}" for check in red}
    errors = [lines[check.check_name] for check in red if check.severity is dg.AssetCheckSeverity.ERROR]
    if errors:
        raise ChecksFailed(errors)
    made = {
        event.asset_key.to_user_string(): {key: value.value for key, value in event.materialization.metadata.items()}
        for event in result.get_asset_materialization_events()
        if event.asset_key is not None
    }
    return RunReport(made, tuple(lines[check.check_name] for check in red))

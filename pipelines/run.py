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
    """What a run made: metadata by asset, the checks that did not pass but only warn, and those that are red."""

    made: dict[str, dict[str, Any]]
    warnings: tuple[str, ...]
    failures: tuple[str, ...] = ()

    @property
    def blocks(self) -> list[dict[str, Any]]:
        """What was found to keep somebody from an invoice, as `billing.blocks.told` says it."""
        return list(self.made["invoices"]["blocks"])

    @property
    def waiting(self) -> list[str]:
        """Tenants that have no invoice, or no draft, because of one of these."""
        return list(self.made["invoices"]["waiting"])

    @property
    def unwritten(self) -> list[str]:
        """Files that could not be written, in words."""
        return list(self.made["invoices"]["failures"])


@dataclass(frozen=True, slots=True)
class Acceptances:
    """Gaps that the provider takes on, by id; why, and who says so."""

    gaps: Sequence[str]
    reason: str
    by: str


def run_hours(
    settings: Settings, start: datetime, end: datetime, now: datetime, progress: Progress | None = None
) -> RunReport:
    """Take what is new, and derive usage, engine time and cost of [start, end), whole UTC hours, in one run.

    Raises what the work raises (StoreError, NotConserved, PriceMissing, CatalogInvalid), or ChecksFailed when all was made
    and a check is red. Run again, it changes nothing.
    """
    stretch = Window(to_ns(start), to_ns(end))
    report = _run(settings, hourly_assets(UNCUT), stretch, {}, {}, now, progress)
    if report.failures:
        raise ChecksFailed(report.failures)
    return report


def run_month(
    settings: Settings,
    month: str,
    issue: bool,
    now: datetime,
    progress: Progress | None = None,
    *,
    grace_hours: int = GRACE_NS // HOUR_NS,
    accept: Acceptances | None = None,
) -> RunReport:
    """Everything of a billing month up to its invoices: drafts, or with `issue` the closed month's numbered ones.

    A month is closed `grace_hours` after its end (UTC) at the earliest, for everybody whom nothing blocks, and after the
    provider took on the gaps to `accept`. Checks that are red are in the report and stop nobody. Raises as `run_hours` does
    otherwise; CloseRefused when the month is not over, GapMissing or AcceptanceInvalid.
    """
    stretch = Window(*month_window(month, load(settings.catalog)))
    wanted: dict[str, Any] = {"issue": issue, "grace_hours": grace_hours}
    if accept is not None:
        wanted |= {"accept_gaps": list(accept.gaps), "reason": accept.reason, "accepted_by": accept.by}
    config = {"ops": {"invoices": {"config": wanted}}}
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
    made = {
        event.asset_key.to_user_string(): {key: value.value for key, value in event.materialization.metadata.items()}
        for event in result.get_asset_materialization_events()
        if event.asset_key is not None
    }
    warnings = [lines[check.check_name] for check in red if check.severity is not dg.AssetCheckSeverity.ERROR]
    return RunReport(made, tuple(warnings), tuple(errors))

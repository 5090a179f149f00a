"""The steps and checks as Dagster's assets and asset checks, each in the hours or the month of its run."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import dagster as dg
from pydantic import Field

from billing.close.month import GRACE_NS
from catalog.durations import HOUR_NS
from pipelines.checks import Check
from pipelines.invoices import Acceptances, invoices
from pipelines.partitions import asset, month, window
from pipelines.settings import Settings
from pipelines.steps import Step
from pipelines.work import Work, open_work


@dataclass(frozen=True)
class WorkResource:
    """Where a run finds its ledger, catalog and folders, and the clock it goes by."""

    settings: Settings
    clock: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))

    def open(self) -> AbstractContextManager[Work]:
        """The work of one asset, at the time of now."""
        return open_work(self.settings, self.clock())


class InvoicesConfig(dg.Config):
    """Drafts by default. `issue` closes the month, which needs it and its grace to be over."""

    issue: bool = False
    grace_hours: int = GRACE_NS // HOUR_NS
    """How long late records are awaited after the month (UTC)."""
    accept_gaps: list[str] = Field(default_factory=list)
    """Ids of gaps that the provider takes on before the month is closed, with `reason` and `accepted_by`."""
    reason: str = ""
    accepted_by: str = ""

    leave_open: bool = False
    """Whether the month may be closed while an earlier one is open."""

    def acceptances(self) -> Acceptances | None:
        """The gaps to take on; None when there are none."""
        return Acceptances(self.accept_gaps, self.reason, self.accepted_by) if self.accept_gaps else None


def step_asset(step: Step, hours: dg.PartitionsDefinition[Any]) -> dg.AssetsDefinition:
    """The dataset that a step makes, by the hour."""

    @asset(hours, name=step.name, group_name="ledger", deps=step.after, description=step.description)
    def make(context: dg.AssetExecutionContext, work: dg.ResourceParam[WorkResource]) -> dg.MaterializeResult[None]:
        with work.open() as opened:
            return dg.MaterializeResult(metadata=step.make(opened, window(context)))

    return make


def invoices_asset(months: dg.PartitionsDefinition[Any]) -> dg.AssetsDefinition:
    """A month's documents."""

    @asset(
        months,
        name="invoices",
        group_name="ledger",
        deps=["tenant_cost"],
        description="A month's documents, as rows and as files: one per tenant and billing month.",
    )
    def make(
        context: dg.AssetExecutionContext, config: InvoicesConfig, work: dg.ResourceParam[WorkResource]
    ) -> dg.MaterializeResult[None]:
        with work.open() as opened:
            figures = invoices(
                opened,
                month(context),
                issue=config.issue,
                grace_ns=config.grace_hours * HOUR_NS,
                accept=config.acceptances(),
                leave_open=config.leave_open,
            )
        return dg.MaterializeResult(metadata=figures)

    return make


def asset_check(check: Check) -> dg.AssetChecksDefinition:
    """A check of the hours that a run made."""
    severity = dg.AssetCheckSeverity.WARN if check.warns else dg.AssetCheckSeverity.ERROR

    @dg.asset_check(asset=check.dataset, name=check.name, blocking=check.blocking, description=check.description)
    def judge(context: dg.AssetCheckExecutionContext, work: dg.ResourceParam[WorkResource]) -> dg.AssetCheckResult:
        with work.open() as opened:
            faults = check.faults(opened, window(context))
        return dg.AssetCheckResult(
            passed=not faults,
            severity=severity,
            description="; ".join(faults) or "as it must be",
            metadata={"faults": len(faults)},
        )

    return judge

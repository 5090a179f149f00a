"""Runs the steps and checks in this process, without an orchestrator: for the command line and the demo."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from billing.close.month import GRACE_NS
from billing.exact.periods import to_ns
from billing.store.catalog_history import known_catalog
from billing.store.finance import month_window
from catalog.durations import HOUR_NS
from pipelines.checks import CHECKS
from pipelines.invoices import Acceptances, invoices
from pipelines.settings import PipelineError, Settings
from pipelines.steps import HOURLY, Figures
from pipelines.work import Progress, Window, Work, open_work, silent


class ChecksFailed(PipelineError):
    """All was made, and checks of severity error did not pass; `failures` are lines of `check: what is wrong`."""

    def __init__(self, failures: Sequence[str]) -> None:
        self.failures = list(failures)
        super().__init__("checks failed:\n" + "\n".join(f"  {failure}" for failure in failures))


@dataclass(frozen=True, slots=True)
class RunReport:
    """What a run made: figures by step, and as `check: what is wrong` the faults that only warn and those that are red."""

    made: dict[str, Figures]
    warnings: tuple[str, ...]
    failures: tuple[str, ...]

    @property
    def blocks(self) -> list[dict[str, Any]]:
        """What was found to keep somebody from an invoice, as `billing.close.blocks.told` says it."""
        return list(self.made["invoices"]["blocks"])

    @property
    def waiting(self) -> list[str]:
        """Tenants that have no invoice, or no draft, because of one of these."""
        return list(self.made["invoices"]["waiting"])

    @property
    def zero(self) -> list[str]:
        """Tenants with no invoice, since theirs would come to 0."""
        return list(self.made["invoices"]["zero"])

    @property
    def unwritten(self) -> list[str]:
        """Files that could not be written, in words."""
        return list(self.made["invoices"]["failures"])

    @property
    def late(self) -> Figures:
        """What `pipelines.invoices.invoices` says of earlier months: `open`, `partly`, `derived`, `learned` and `added`."""
        return {name: self.made["invoices"][name] for name in ("open", "partly", "derived", "learned", "added")}


def run_hours(
    settings: Settings, start: datetime, end: datetime, now: datetime, progress: Progress = silent
) -> RunReport:
    """Take what is new, and derive usage, engine time and cost of [start, end), whole UTC hours.

    Raises what the work raises (StoreError, NotConserved, PriceMissing, CatalogInvalid), or ChecksFailed when all was made
    and a check is red. Run again, it changes nothing.
    """
    window = Window(to_ns(start), to_ns(end))
    with open_work(settings, now, progress) as work:
        report = _judged(work, window, _made(work, window))
    if report.failures:
        raise ChecksFailed(report.failures)
    return report


def run_month(
    settings: Settings,
    month: str,
    issue: bool,
    now: datetime,
    progress: Progress = silent,
    *,
    grace_hours: int = GRACE_NS // HOUR_NS,
    accept: Acceptances | None = None,
    zero: bool = False,
    leave_open: bool = False,
) -> RunReport:
    """Everything of a billing month up to its invoices: drafts, or with `issue` the closed month's numbered ones.

    A month is closed `grace_hours` after its end (UTC) at the earliest, for everybody whom nothing blocks, and after the
    provider took on the gaps to `accept`; `zero` issues documents that come to 0 too. Checks that are red are in the report and
    stop nobody. Raises as `run_hours` does otherwise; CloseRefused when the month is not over, or an earlier one is open and not
    to be left so (`leave_open`), GapMissing or AcceptanceInvalid.
    """
    with open_work(settings, now, progress) as work:
        window = Window(*month_window(month, known_catalog(work.ledger, work.catalog, now).catalog))
        made = _made(work, window)
        how = {"zero": zero, "leave_open": leave_open}
        made["invoices"] = invoices(work, month, issue=issue, grace_ns=grace_hours * HOUR_NS, accept=accept, **how)
        return _judged(work, window, made)


def _made(work: Work, window: Window) -> dict[str, Figures]:
    made = {}
    for step in HOURLY:
        made[step.name] = step.make(work, window)
        work.progress(step.name, 1, 1)
    return made


def _judged(work: Work, window: Window, made: dict[str, Figures]) -> RunReport:
    found = [(check, check.faults(work, window)) for check in CHECKS]
    warnings, failures = (
        tuple(f"{check.name}: {'; '.join(faults)}" for check, faults in found if faults and check.warns is warns)
        for warns in (True, False)
    )
    return RunReport(made, warnings, failures)

"""Rules about what each tenant was promised. One rule serves all tenants, by label. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from alerts.burn_rate import BurnWindow
from alerts.expressions import above, duration, increase, percent, share, total
from alerts.links import TENANTS
from alerts.model import Alert
from alerts.promises import Latency, Promises
from alerts.rows import AlertRow, GroupRows, RecordingRow
from telemetry import names

REQUESTS: Final = "tenant:slo_requests:rate5m"
"""Requests per second that are judged against the SLO, over the shortest window of the burn rates."""
ABOVE_SLO: Final = "tenant:slo_above:rate5m"
"""Of those, the ones slower than the SLO, or failed."""
SHARE_YELLOW: Final = "tenant:slo_above_yellow:share"
SHARE_RED: Final = "tenant:slo_above_red:share"
"""Share of requests above the yellow or red bound, as the alert judges it (window by traffic)."""
SLO: Final = "tenant:slo_seconds:max"
"""The promise in seconds; one series per tenant, however many gateways export it."""
_SLO_RATIO: Final = names.SLO_RATIO_HIST
_REAL: Final = f'tenant!~"{names.OTHER}|unauthenticated"'


def judged_share(latency: Latency, bound: Decimal) -> str:
    """Share of a tenant's requests above `bound` x SLO; no series while too few requests were seen to judge."""
    short, recent, long = (
        duration(seconds) for seconds in (latency.window, latency.recent_window, latency.long_window)
    )
    busy, quiet = (
        share(
            above(_SLO_RATIO, bound, "tenant", window),
            f"{total(_SLO_RATIO, 'tenant', window)} >= {latency.min_requests}",
        )
        for window in (short, long)
    )
    still = f"(round({above(_SLO_RATIO, bound, 'tenant', recent)} * 1e6) > bool 0)"
    return f"{busy}\nor\n{quiet}\n  * {still}"


def _late(bound: Decimal) -> str:
    return f"Tenant {{{{ $labels.tenant }}}}: P99 latency is above {bound} x its SLO"


def _late_share(latency: Latency, bound: Decimal) -> str:
    return (
        f"{{{{ $value | humanizePercentage }}}} of the requests of tenant {{{{ $labels.tenant }}}} took longer than {bound} x the promised "
        f"time or failed; {percent(latency.share)} may."
    )


def _without_slo(promises: Promises) -> str:
    # Of gateways that still answer: one that is gone takes its SLOs along at once, its requests only after the window.
    requests = increase(names.REQUESTS.name, duration(promises.ledger.slo_missing_window), _REAL)
    return f"sum by (tenant) ({requests} and {names.REQUESTS.name}) > 0\nunless on (tenant) {names.SLO_SECONDS.name}"


@dataclass(frozen=True, slots=True)
class BurnRows:
    """The error budget's alerts: one rule for each pair of windows in `Budget.rows`, told apart by the label `window`."""

    fast: str
    """Name of the alerts that page."""
    slow: str
    """Name of those that open a ticket."""

    def rules(self, promises: Promises) -> tuple[Alert, ...]:
        """In the order of `Budget.rows`."""
        return tuple(self._alert(promises, row) for row in promises.budget.rows)

    def _alert(self, promises: Promises, row: BurnWindow) -> Alert:
        budget, window = promises.budget, duration(row.long)
        days = f"{(30 / row.factor).quantize(Decimal('0.1')).normalize():f}"
        return Alert(
            name=self.fast if row.severity == "critical" else self.slow,
            promise="budget",
            severity=row.severity,
            expr=_burning(promises, row),
            for_=row.for_,
            summary=f"Tenant {{{{ $labels.tenant }}}} burns its error budget {row.factor} times too fast",
            description=(
                f"{{{{ $value | humanizePercentage }}}} of the requests of tenant {{{{ $labels.tenant }}}} over {window} were slower than the "
                f"SLO or failed; at this pace the 30-day budget of {percent(budget.share)} is gone in {days} days."
            ),
            board=TENANTS,
            variable="tenant",
            labels={"window": window},
        )


def _burning(promises: Promises, row: BurnWindow) -> str:
    budget = promises.budget
    threshold = f"{row.threshold(budget.share).normalize():f}"

    def bad_share(window: int) -> str:
        if window == budget.rate_window:
            return share(ABOVE_SLO, REQUESTS)
        text = duration(window)
        return share(f"sum_over_time({ABOVE_SLO}[{text}])", f"sum_over_time({REQUESTS}[{text}])")

    seen = f"round(sum_over_time({REQUESTS}[{duration(row.long)}]) * {promises.interval})"
    return f"{bad_share(row.long)} > {threshold}\nand {bad_share(row.short)} > {threshold}\nand {seen} >= {budget.min_requests}"


TENANT_RULES: Final = GroupRows(
    "loraledger-tenants",
    (
        RecordingRow(SLO, f"max by (tenant) ({names.SLO_SECONDS.name})"),
        RecordingRow(REQUESTS, lambda p: total(_SLO_RATIO, "tenant", duration(p.budget.rate_window), how="rate")),
        RecordingRow(
            ABOVE_SLO,
            lambda p: above(_SLO_RATIO, p.budget.bound, "tenant", duration(p.budget.rate_window), how="rate"),
        ),
        RecordingRow(SHARE_YELLOW, lambda p: judged_share(p.latency, p.latency.yellow)),
        RecordingRow(SHARE_RED, lambda p: judged_share(p.latency, p.latency.red)),
        AlertRow(
            name="LoraTenantLatencyYellow",
            promise="latency",
            severity="warning",
            expr=lambda p: f"{SHARE_YELLOW} > {p.latency.share:f}",
            for_=lambda p: p.latency.yellow_for,
            summary=lambda p: _late(p.latency.yellow),
            description=lambda p: _late_share(p.latency, p.latency.yellow),
            board=TENANTS,
            variable="tenant",
        ),
        AlertRow(
            name="LoraTenantLatencyRed",
            promise="latency",
            severity="critical",
            expr=lambda p: f"{SHARE_RED} > {p.latency.share:f}",
            for_=lambda p: p.latency.red_for,
            summary=lambda p: _late(p.latency.red),
            description=lambda p: _late_share(p.latency, p.latency.red),
            board=TENANTS,
            variable="tenant",
        ),
        BurnRows(fast="LoraErrorBudgetBurnFast", slow="LoraErrorBudgetBurnSlow"),
        AlertRow(
            name="LoraTenantWithoutSlo",
            promise="slo-known",
            severity="warning",
            expr=_without_slo,
            for_=lambda p: p.ledger.slo_for,
            summary="Tenant {{ $labels.tenant }} sends requests but has no SLO",
            description=lambda p: (
                f"{{{{ $value | humanize }}}} requests in {duration(p.ledger.slo_missing_window)} are judged by no promise: "
                "no latency alert can fire for this tenant."
            ),
            board=TENANTS,
            variable="tenant",
        ),
        AlertRow(
            name="LoraTenantSloDisagrees",
            promise="slo-known",
            severity="warning",
            expr=f"max by (tenant) ({names.SLO_SECONDS.name}) - min by (tenant) ({names.SLO_SECONDS.name}) > 0",
            for_=lambda p: p.ledger.slo_for,
            summary="Gateways disagree about the SLO of tenant {{ $labels.tenant }}",
            description="The gateways' SLOs for this tenant lie {{ $value | humanizeDuration }} apart: one of them runs an old catalog.",
            board=TENANTS,
            variable="tenant",
        ),
    ),
)

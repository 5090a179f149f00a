"""Rules about what each tenant was promised. One rule serves all tenants, by label. No I/O."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from alerts.burn_rate import BurnWindow
from alerts.expressions import above, duration, increase, percent, share, total
from alerts.links import TENANTS
from alerts.model import Alert, Group, Recording
from alerts.promises import Latency, Promises
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
_REAL: Final = f'tenant!~"{names.OTHER}|unauthenticated"'


def judged_share(latency: Latency, bound: Decimal) -> str:
    """Share of a tenant's requests above `bound` x SLO; no series while too few requests were seen to judge."""
    short, recent, long = (
        duration(seconds) for seconds in (latency.window, latency.recent_window, latency.long_window)
    )
    slo = names.SLO_RATIO_HIST
    busy = share(above(slo, bound, "tenant", short), f"{total(slo, 'tenant', short)} >= {latency.min_requests}")
    quiet = share(above(slo, bound, "tenant", long), f"{total(slo, 'tenant', long)} >= {latency.min_requests}")
    still = f"(round({above(slo, bound, 'tenant', recent)} * 1e6) > bool 0)"
    return f"{busy}\nor\n{quiet}\n  * {still}"


def _latency(promises: Promises, colour: str, series: str, bound: Decimal, for_: int) -> Alert:
    share_text = f"{promises.latency.share:f}"
    return Alert(
        name=f"LoraTenantLatency{colour}",
        promise="latency",
        severity="critical" if colour == "Red" else "warning",
        expr=f"{series} > {share_text}",
        for_=for_,
        summary=f"Tenant {{{{ $labels.tenant }}}}: P99 latency is above {bound} x its SLO",
        description=(
            f"{{{{ $value | humanizePercentage }}}} of the requests of tenant {{{{ $labels.tenant }}}} took longer than {bound} x the promised "
            f"time or failed; {percent(promises.latency.share)} may."
        ),
        board=TENANTS,
        variable="tenant",
    )


def _burn(promises: Promises, row: BurnWindow) -> Alert:
    budget = promises.budget
    threshold = f"{row.threshold(budget.share).normalize():f}"

    def bad_share(window: int) -> str:
        if window == budget.rate_window:
            return share(ABOVE_SLO, REQUESTS)
        text = duration(window)
        return share(f"sum_over_time({ABOVE_SLO}[{text}])", f"sum_over_time({REQUESTS}[{text}])")

    seen = f"round(sum_over_time({REQUESTS}[{duration(row.long)}]) * {promises.interval})"
    return Alert(
        name="LoraErrorBudgetBurnFast" if row.severity == "critical" else "LoraErrorBudgetBurnSlow",
        promise="budget",
        severity=row.severity,
        expr=f"{bad_share(row.long)} > {threshold}\nand {bad_share(row.short)} > {threshold}\nand {seen} >= {budget.min_requests}",
        for_=row.for_,
        summary=f"Tenant {{{{ $labels.tenant }}}} burns its error budget {row.factor} times too fast",
        description=(
            f"{{{{ $value | humanizePercentage }}}} of the requests of tenant {{{{ $labels.tenant }}}} over {duration(row.long)} were slower than the "
            f"SLO or failed; at this pace the 30-day budget of {percent(budget.share)} is gone in {_days(row.factor)} days."
        ),
        board=TENANTS,
        variable="tenant",
        labels={"window": duration(row.long)},
    )


def _days(factor: Decimal) -> str:
    return f"{(30 / factor).quantize(Decimal('0.1')).normalize():f}"


def tenant_group(promises: Promises) -> Group:
    """Recordings and alerts of the tenants' promises."""
    latency, ledger = promises.latency, promises.ledger
    slo = names.SLO_RATIO_HIST
    seen = duration(ledger.slo_missing_window)
    rate_window = duration(promises.budget.rate_window)
    return Group(
        "loraledger-tenants",
        (
            Recording(SLO, f"max by (tenant) ({names.SLO_SECONDS.name})"),
            Recording(REQUESTS, total(slo, "tenant", rate_window, how="rate")),
            Recording(ABOVE_SLO, above(slo, promises.budget.bound, "tenant", rate_window, how="rate")),
            Recording(SHARE_YELLOW, judged_share(latency, latency.yellow)),
            Recording(SHARE_RED, judged_share(latency, latency.red)),
            _latency(promises, "Yellow", SHARE_YELLOW, latency.yellow, latency.yellow_for),
            _latency(promises, "Red", SHARE_RED, latency.red, latency.red_for),
            *(_burn(promises, row) for row in promises.budget.rows),
            Alert(
                name="LoraTenantWithoutSlo",
                promise="slo-known",
                severity="warning",
                # Of gateways that still answer: one that is gone takes its SLOs along at once, its requests only after the window.
                expr=f"sum by (tenant) ({increase(names.REQUESTS.name, seen, _REAL)} and {names.REQUESTS.name}) > 0\nunless on (tenant) {names.SLO_SECONDS.name}",
                for_=ledger.slo_for,
                summary="Tenant {{ $labels.tenant }} sends requests but has no SLO",
                description=f"{{{{ $value | humanize }}}} requests in {seen} are judged by no promise: no latency alert can fire for this tenant.",
                board=TENANTS,
                variable="tenant",
            ),
            Alert(
                name="LoraTenantSloDisagrees",
                promise="slo-known",
                severity="warning",
                expr=f"max by (tenant) ({names.SLO_SECONDS.name}) - min by (tenant) ({names.SLO_SECONDS.name}) > 0",
                for_=ledger.slo_for,
                summary="Gateways disagree about the SLO of tenant {{ $labels.tenant }}",
                description="The gateways' SLOs for this tenant lie {{ $value | humanizeDuration }} apart: one of them runs an old catalog.",
                board=TENANTS,
                variable="tenant",
            ),
        ),
    )

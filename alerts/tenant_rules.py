"""Rules about what each tenant was promised. One rule serves all tenants, by label. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from functools import partial
from typing import Final

from alerts.expressions import above, duration, increase, percent, share, total
from alerts.links import TENANTS
from alerts.model import Alert, Recording
from alerts.promises import BurnWindow, Latency, Promises, Severity
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

_alert = partial(Alert, board=TENANTS, variable="tenant")


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


def recordings(promises: Promises) -> Iterator[Recording]:
    """What the alerts below and the boards read."""
    bound, window, latency = promises.budget.bound, duration(promises.budget.rate_window), promises.latency
    yield Recording(SLO, f"max by (tenant) ({names.SLO_SECONDS.name})")
    yield Recording(REQUESTS, total(_SLO_RATIO, "tenant", window, how="rate"))
    yield Recording(ABOVE_SLO, above(_SLO_RATIO, bound, "tenant", window, how="rate"))
    yield Recording(SHARE_YELLOW, judged_share(latency, latency.yellow))
    yield Recording(SHARE_RED, judged_share(latency, latency.red))


def latency_rules(promises: Promises) -> Iterator[Alert]:
    """The P99 promise: yellow opens a ticket, red pages."""
    latency = promises.latency
    rows: tuple[tuple[str, Severity, str, Decimal, int], ...] = (
        ("LoraTenantLatencyYellow", "warning", SHARE_YELLOW, latency.yellow, latency.yellow_for),
        ("LoraTenantLatencyRed", "critical", SHARE_RED, latency.red, latency.red_for),
    )
    for name, severity, recorded, bound, for_ in rows:
        yield _alert(
            name=name,
            promise="latency",
            severity=severity,
            expr=f"{recorded} > {latency.share:f}",
            for_=for_,
            summary=f"Tenant {{{{ $labels.tenant }}}}: P99 latency is above {bound} x its SLO",
            description=(
                f"{{{{ $value | humanizePercentage }}}} of the requests of tenant {{{{ $labels.tenant }}}} took longer than {bound} x the promised "
                f"time or failed; {percent(latency.share)} may."
            ),
        )


def budget_rules(promises: Promises) -> Iterator[Alert]:
    """The error budget: one rule for each pair of windows in `Budget.rows`, told apart by the label `window`."""
    budget = promises.budget
    for row in budget.rows:
        window, days = duration(row.long), f"{(30 / row.factor).quantize(Decimal('0.1')).normalize():f}"
        yield _alert(
            name="LoraErrorBudgetBurnFast" if row.severity == "critical" else "LoraErrorBudgetBurnSlow",
            promise="budget",
            severity=row.severity,
            expr=_burning(promises, row),
            for_=row.for_,
            summary=f"Tenant {{{{ $labels.tenant }}}} burns its error budget {row.factor} times too fast",
            description=(
                f"{{{{ $value | humanizePercentage }}}} of the requests of tenant {{{{ $labels.tenant }}}} over {window} were slower than the "
                f"SLO or failed; at this pace the 30-day budget of {percent(budget.share)} is gone in {days} days."
            ),
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


def slo_rules(promises: Promises) -> Iterator[Alert]:
    """Every tenant that is served has one SLO, the same at every gateway."""
    ledger = promises.ledger
    yield _alert(
        name="LoraTenantWithoutSlo",
        promise="slo-known",
        expr=_without_slo(promises),
        for_=ledger.slo_for,
        summary="Tenant {{ $labels.tenant }} sends requests but has no SLO",
        description=(
            f"{{{{ $value | humanize }}}} requests in {duration(ledger.slo_missing_window)} are judged by no promise: "
            "no latency alert can fire for this tenant."
        ),
    )
    yield _alert(
        name="LoraTenantSloDisagrees",
        promise="slo-known",
        expr=f"max by (tenant) ({names.SLO_SECONDS.name}) - min by (tenant) ({names.SLO_SECONDS.name}) > 0",
        for_=ledger.slo_for,
        summary="Gateways disagree about the SLO of tenant {{ $labels.tenant }}",
        description="The gateways' SLOs for this tenant lie {{ $value | humanizeDuration }} apart: one of them runs an old catalog.",
    )


def _without_slo(promises: Promises) -> str:
    # Of gateways that still answer: one that is gone takes its SLOs along at once, its requests only after the window.
    requests = increase(names.REQUESTS.name, duration(promises.ledger.slo_missing_window), _REAL)
    return f"sum by (tenant) ({requests} and {names.REQUESTS.name}) > 0\nunless on (tenant) {names.SLO_SECONDS.name}"

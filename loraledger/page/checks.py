"""Active alerts: as Prometheus tells them, or as the ledger's own checks find them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from alerts.promises import Promises
from billing.close.blocks import Kind
from billing.close.month import MonthState
from billing.close.reconcile import Reconciliation
from catalog.durations import SECOND_NS
from catalog.owners import BUSY, TimeOwner
from loraledger.page.view import ActiveAlert, Alerts, LedgerCheck, Money, Severity

LEDGER: Final = "the ledger’s own checks"
NOT_ASKED: Final = f"{LEDGER}; Prometheus was not asked"
PROMETHEUS: Final = "Prometheus"
_RANK: Final = {Severity.CRITICAL: 0, Severity.WARNING: 1}


def ledger_alerts(
    state: MonthState, found: Reconciliation, money: Sequence[Money], overdue: Sequence[str], promises: Promises
) -> Alerts:
    """What the ledger alone can tell, by the names and thresholds of the alert rules. `overdue` months should be closed."""
    limits = promises.ledger
    active: list[ActiveAlert] = []
    checks: list[LedgerCheck] = []

    def judge(name: str, what: str, good: bool, text: str, severity: Severity = Severity.WARNING) -> None:
        checks.append(LedgerCheck(what, text, good))
        if not good:
            active.append(ActiveAlert(name, severity, "", f"{what}: {text}", f"alerts/runbooks/{name}.md"))

    missing = found.missing_ns or found.missing_cost
    checks.append(
        LedgerCheck(
            "conservation",
            f"{found.missing_ns:,} ns and {found.missing_cost} missing" if missing else "0 ns missing",
            not missing,
        )
    )
    quarantined = state.count(Kind.QUARANTINE)
    judge("LoraQuarantineNotEmpty", "quarantine", not quarantined, f"{quarantined} records wait")
    gaps = state.count(Kind.RECORDS)
    judge("LoraRecordGaps", "record gaps", not gaps, f"{gaps} numbers missing")
    unpriced = state.count(Kind.PRICE)
    judge("LoraPriceMissing", "prices", not unpriced, f"{unpriced} engine-hours without one")
    busy = sum(found.owners[owner] for owner in BUSY)
    for name, owner, limit in (
        ("LoraEngineTimeUnattributed", TimeOwner.UNATTRIBUTED, limits.unattributed),
        ("LoraEngineTimeSystemHigh", TimeOwner.SYSTEM, limits.system),
    ):
        owned = found.owners[owner]
        few = busy < limits.min_busy_seconds * SECOND_NS
        text = f"{owned / (busy or 1):.1%} of busy time" + (
            f", judged from {limits.min_busy_seconds} s on" if few else f", limit {float(limit):.1%}"
        )
        judge(name, f"{owner} time", few or owned <= limit * busy, text)
    judge(
        "LoraCloseOverdue", "close", not overdue, f"{', '.join(overdue)} not closed" if overdue else "nothing overdue"
    )
    losing = [row for row in money if row.margin < 0 and row.cost >= limits.margin_min_cost]
    checks.append(
        LedgerCheck("margin", f"below cost: {', '.join(row.tenant for row in losing) or 'nobody'}", not losing)
    )
    active += [
        ActiveAlert(
            "LoraMarginNegative",
            Severity.WARNING,
            row.tenant,
            f"costs {row.cost:,.2f}, pays {row.revenue:,.2f} {found.currency}",
            "alerts/runbooks/LoraMarginNegative.md",
        )
        for row in losing
    ]
    return Alerts(tuple(_sorted(active)), NOT_ASKED, tuple(checks))


def prometheus_alerts(answer: Mapping[str, Any], address: str, checks: Sequence[LedgerCheck]) -> Alerts:
    """The firing ones in the answer of `/api/v1/alerts`; KeyError, TypeError or ValueError when it is no such answer."""
    if answer["status"] != "success":
        raise ValueError(f"it says {answer['status']!r}")
    active = []
    for alert in answer["data"]["alerts"]:
        if alert["state"] != "firing":
            continue
        labels, notes = alert["labels"], alert["annotations"]
        severity = Severity.CRITICAL if labels.get("severity") == "critical" else Severity.WARNING
        subject = next((labels[key] for key in ("tenant", "engine", "adapter", "gpu", "instance") if key in labels), "")
        active.append(
            ActiveAlert(
                labels["alertname"],
                severity,
                subject,
                notes.get("summary", ""),
                notes.get("runbook_url", ""),
                datetime.fromisoformat(alert["activeAt"]),
            )
        )
    return Alerts(tuple(_sorted(active)), f"{PROMETHEUS} at {address}", tuple(checks))


def _sorted(active: Sequence[ActiveAlert]) -> list[ActiveAlert]:
    return sorted(active, key=lambda alert: (_RANK[alert.severity], alert.name, alert.subject))

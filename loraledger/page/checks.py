"""Active alerts: as Prometheus tells them, or as the ledger's own checks find them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from alerts.promises import Promises, Severity
from billing.close.blocks import Kind
from billing.close.month import MonthState
from billing.close.reconcile import Reconciliation
from catalog.durations import SECOND_NS
from catalog.owners import BUSY, TimeOwner
from loraledger.page.view import ActiveAlert, Alerts, LedgerCheck, Money

LEDGER: Final = "the ledger’s own checks"
NOT_ASKED: Final = f"{LEDGER}; Prometheus was not asked"
PROMETHEUS: Final = "Prometheus"


def ledger_alerts(
    state: MonthState, found: Reconciliation, money: Sequence[Money], overdue: Sequence[str], promises: Promises
) -> Alerts:
    """What the ledger alone can tell, by the names and thresholds of the alert rules. `overdue` months should be closed."""
    limits = promises.ledger
    active: list[ActiveAlert] = []
    checks: list[LedgerCheck] = []

    def fire(name: str, subject: str, summary: str) -> None:
        active.append(ActiveAlert(name, "warning", subject, summary, f"alerts/runbooks/{name}.md"))

    def judge(what: str, good: bool, text: str, name: str | None = None) -> None:
        checks.append(LedgerCheck(what, text, good))
        if name is not None and not good:
            fire(name, "", f"{what}: {text}")

    missing = found.missing_ns or found.missing_cost
    said = f"{found.missing_ns:,} ns and {found.missing_cost} missing" if missing else "0 ns missing"
    judge("conservation", not missing, said)
    for what, kind, counted, name in (
        ("quarantine", Kind.QUARANTINE, "records wait", "LoraQuarantineNotEmpty"),
        ("record gaps", Kind.RECORDS, "numbers missing", "LoraRecordGaps"),
        ("prices", Kind.PRICE, "engine-hours without one", "LoraPriceMissing"),
    ):
        count = state.count(kind)
        judge(what, not count, f"{count} {counted}", name)
    busy = sum(found.owners[owner] for owner in BUSY)
    few = busy < limits.min_busy_seconds * SECOND_NS
    for owner, limit, name in (
        (TimeOwner.UNATTRIBUTED, limits.unattributed, "LoraEngineTimeUnattributed"),
        (TimeOwner.SYSTEM, limits.system, "LoraEngineTimeSystemHigh"),
    ):
        owned = found.owners[owner]
        judged = f"judged from {limits.min_busy_seconds} s on" if few else f"limit {float(limit):.1%}"
        text = f"{owned / (busy or 1):.1%} of busy time, {judged}"
        judge(f"{owner} time", few or owned <= limit * busy, text, name)
    late = f"{', '.join(overdue)} not closed" if overdue else "nothing overdue"
    judge("close", not overdue, late, "LoraCloseOverdue")
    losing = [row for row in money if row.margin < 0 and row.cost >= limits.margin_min_cost]
    judge("margin", not losing, f"below cost: {', '.join(row.tenant for row in losing) or 'nobody'}")
    for row in losing:
        fire("LoraMarginNegative", row.tenant, f"costs {row.cost:,.2f}, pays {row.revenue:,.2f} {found.currency}")
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
        severity: Severity = "critical" if labels.get("severity") == "critical" else "warning"
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
    return sorted(active, key=lambda alert: (alert.severity != "critical", alert.name, alert.subject))

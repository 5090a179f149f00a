from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from alerts.promises import DEFAULT
from alerts.rules import alerts
from billing.close.blocks import Block, Kind
from billing.close.month import MonthState
from billing.close.reconcile import Reconciliation
from catalog.owners import TimeOwner
from loraledger.page.checks import ledger_alerts, prometheus_alerts
from loraledger.page.view import Money

SOUND = Reconciliation(
    start_ns=0,
    end_ns=1,
    owners={**dict.fromkeys(TimeOwner, 0), TimeOwner.TENANTS: 100 * 10**9},
    rented_ns=100 * 10**9,
    costs={**dict.fromkeys(TimeOwner, Decimal(0)), TimeOwner.TENANTS: Decimal(100)},
    attributed_cost=Decimal(100),
    currency="EUR",
    usage_ns=0,
    meter_ns=0,
    uneven_attempts=0,
    unmeasured_attempts=0,
)
STATE = MonthState("2026-10", 0)


def found(kind: Kind) -> MonthState:
    return replace(STATE, blocks=[Block(kind, ("e",), "two of them", records=2)])


def money(tenant: str, cost: str, revenue: str) -> Money:
    return Money(tenant, 1, 1, 1, 1, 0, 0, 0, Decimal(cost), Decimal(revenue), None, 0.5, 0.5)


def fired(state: MonthState = STATE, found: Reconciliation = SOUND, rows: Any = (), overdue: Any = ()) -> list[str]:
    return [alert.name for alert in ledger_alerts(state, found, rows, overdue, DEFAULT).active]


def owned(owner: TimeOwner, ns: int) -> Reconciliation:
    return replace(SOUND, owners={**SOUND.owners, TimeOwner.TENANTS: 100 * 10**9 - ns, owner: ns})


def test_a_sound_month_is_silent_and_says_what_was_looked_at() -> None:
    found = ledger_alerts(STATE, SOUND, [money("clinic", "4", "5")], [], DEFAULT)
    assert found.active == ()
    assert [check.what for check in found.checks] == [
        "conservation", "quarantine", "record gaps", "prices", "unattributed time", "system time", "close", "margin",
    ]  # fmt: skip
    assert all(check.good for check in found.checks)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("LoraQuarantineNotEmpty", {"state": found(Kind.QUARANTINE)}),
        ("LoraRecordGaps", {"state": found(Kind.RECORDS)}),
        ("LoraPriceMissing", {"state": found(Kind.PRICE)}),
        ("LoraEngineTimeUnattributed", {"found": owned(TimeOwner.UNATTRIBUTED, 10**8 + 1)}),
        ("LoraEngineTimeSystemHigh", {"found": owned(TimeOwner.SYSTEM, 10**9 + 1)}),
        ("LoraCloseOverdue", {"overdue": ["2026-09"]}),
        ("LoraMarginNegative", {"rows": [money("freeride", "10", "9.99")]}),
    ],
)
def test_each_trouble_fires_its_alert_alone_by_the_name_of_its_rule(name: str, arguments: dict[str, Any]) -> None:
    assert fired(**arguments) == [name]
    assert name in {rule.name for rule in alerts()}


def test_limits_are_the_rules_own_and_hardly_busy_engines_are_not_judged() -> None:
    assert fired(found=owned(TimeOwner.UNATTRIBUTED, 10**8)) == []
    idle = {**dict.fromkeys(TimeOwner, 0), TimeOwner.TENANTS: 10**9, TimeOwner.SYSTEM: 10**9}
    assert fired(found=replace(SOUND, owners=idle)) == []
    assert fired(rows=[money("tiny", "0.5", "0")]) == []


def test_an_unowned_nanosecond_is_no_alert_but_a_red_check() -> None:
    found = ledger_alerts(STATE, replace(SOUND, rented_ns=SOUND.rented_ns + 1), [], [], DEFAULT)
    assert [check.what for check in found.checks if not check.good] == ["conservation"]


def answer(*alerts: dict[str, Any]) -> dict[str, Any]:
    return {"status": "success", "data": {"alerts": list(alerts)}}


def alert(name: str, severity: str, state: str = "firing", **labels: str) -> dict[str, Any]:
    return {
        "labels": {"alertname": name, "severity": severity, **labels},
        "annotations": {"summary": f"{name} it is", "runbook_url": f"https://runbooks.example.com/{name}"},
        "state": state,
        "activeAt": "2026-10-05T10:00:00.123456789Z",
        "value": "1e+00",
    }


def test_of_prometheus_only_what_fires_is_shown_worst_first() -> None:
    found = prometheus_alerts(
        answer(alert("B", "warning", tenant="bank"), alert("P", "critical", "pending"), alert("C", "critical")),
        "http://p",
        (),
    )
    assert [(one.name, one.severity, one.subject) for one in found.active] == [
        ("C", "critical", ""),
        ("B", "warning", "bank"),
    ]
    assert found.active[0].since is not None
    assert found.active[0].since.isoformat() == "2026-10-05T10:00:00.123456+00:00"


@pytest.mark.parametrize(
    "raw", [{}, {"status": "error"}, {"status": "success", "data": []}, answer({"state": "firing"})]
)
def test_what_is_no_answer_is_refused(raw: dict[str, Any]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        prometheus_alerts(raw, "http://p", ())

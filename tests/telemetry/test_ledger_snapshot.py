from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from telemetry.ledger_snapshot import LedgerSnapshot, Standing, TenantFigures

TENANT: dict[str, Any] = {
    "charged": None,
    "cost": "1.000000000000000001",
    "cost_per_million_tokens": "6000.000012",
    "memory_cost_per_hour": "0.000000",
    "month": "2026-10",
    "revenue": "0.000000000000000000",
}
STANDING = {"close_overdue_ns": 0, "price_missing_ns": 5, "quarantine_records": 2, "record_gaps": 3}
FORM: dict[str, Any] = {
    "charged_until": "2026-10-05T10:59:59.500000+00:00",
    "counted": {"gw-1": [[0, 59], [61, 61]], "gw-2": []},
    "ledger": STANDING,
    "published_at": "2026-10-05T11:00:00+00:00",
    "tenants": {"bank": TENANT, "clinic": TENANT | {"cost": "0", "revenue": "0", "charged": "0"}},
}


def test_the_file_is_read_and_written_in_one_form() -> None:
    text = json.dumps(FORM, indent=1, sort_keys=True)
    snapshot = LedgerSnapshot.from_json(text)
    assert snapshot.to_json() == text
    assert snapshot.published_at == datetime(2026, 10, 5, 11, tzinfo=UTC)
    assert snapshot.ledger == Standing(2, 3, 0, 5)
    assert snapshot.counted == {"gw-1": ((0, 59), (61, 61)), "gw-2": ()}
    assert snapshot.tenants["bank"].cost == Decimal("1.000000000000000001")
    assert snapshot.tenants["bank"].charged is None


def test_what_the_ledger_did_not_say_is_absent_and_what_a_later_one_says_is_passed_over() -> None:
    short = {"published_at": "2026-10-05T11:00:00Z", "tenants": {"bank": {"colour": "red"}}, "weather": [1.5]}
    snapshot = LedgerSnapshot.from_json(json.dumps(short))
    assert snapshot.tenants == {"bank": TenantFigures()}
    assert (snapshot.ledger, snapshot.counted, snapshot.charged_until) == (Standing(), {}, None)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"published_at": "2026-10-05T11:00:00"}, r"timezone component - at `\$.published_at`"),
        ({"published_at": None}, r"at `\$.published_at`"),
        ({"tenants": []}, r"at `\$.tenants`"),
        ({"tenants": {"bank": {"charged": "much"}}}, r"Invalid decimal string - at `\$.tenants\[...\].charged`"),
        ({"tenants": {"bank": {"charged": "NaN"}}}, r"an amount is not a number - at `\$.tenants\[...\]`"),
        ({"tenants": {"bank": {"charged": "-0.01"}}}, r"an amount is below 0 - at `\$.tenants\[...\]`"),
        ({"tenants": {"bank": {"revenue": "-Infinity"}}}, r"an amount is not a number - at `\$.tenants\[...\]`"),
        ({"tenants": {"bank": {"cost": "1E+999999999"}}}, r"not below 10\^20 with at most 18 decimals"),
        ({"tenants": {"bank": {"charged": "1E-19"}}}, r"not below 10\^20 with at most 18 decimals"),
        ({"tenants": {"bank": {"month": "2026-13"}}}, r"at `\$.tenants\[...\].month`"),
        ({"ledger": {"record_gaps": -1}}, r">= 0 - at `\$.ledger.record_gaps`"),
        ({"counted": {"gw-1": [[5, 9], [0, 3]]}}, "ranges of counted attempts are not ascending"),
        ({"counted": {"gw-1": [[5, 3]]}}, "ranges of counted attempts are not ascending"),
        ({"counted": {"gw-1": [[-1, 3]]}}, r">= 0 - at `\$.counted"),
        ({"ledger": {"record_gaps": 1.5}}, r"at `\$.ledger.record_gaps`"),
        ({"ledger": {"record_gaps": True}}, r"at `\$.ledger.record_gaps`"),
        ({"counted": {"gw-1": [[0]]}}, "length 2"),
        ({"counted": {"gw-1": [["0", 1]]}}, r"Expected `int`, got `str`"),
        ({"charged_until": 5}, r"at `\$.charged_until`"),
    ],
)
def test_what_is_no_snapshot_is_refused_with_the_place(change: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        LedgerSnapshot.from_json(json.dumps(FORM | change))

from __future__ import annotations

from decimal import Decimal

import pytest

from alerts.expressions import above, duration, le, percent, share
from telemetry import names


@pytest.mark.parametrize(("seconds", "text"), [(45, "45s"), (90, "90s"), (300, "5m"), (3600, "1h"), (259200, "3d")])
def test_durations_use_one_unit(seconds: int, text: str) -> None:
    assert duration(seconds) == text


def test_a_duration_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="must be positive"):
        duration(0)


@pytest.mark.parametrize(
    ("bound", "matcher"),
    [("1.1", 'le="1.1"'), ("1", 'le=~"1([.]0)?"'), ("1000", 'le=~"1000([.]0)?"'), ("1.10", 'le="1.1"')],
)
def test_whole_bounds_match_both_spellings(bound: str, matcher: str) -> None:
    assert le(Decimal(bound)) == matcher


def test_the_share_above_a_bound_sums_before_it_divides() -> None:
    assert share(above(names.SLO_RATIO_HIST, Decimal("1.1"), "tenant", "5m"), "x") == (
        "round(1e9 * (sum by (tenant) (increase(lora_request_slo_ratio_count[5m]))"
        ' - sum by (tenant) (increase(lora_request_slo_ratio_bucket{le="1.1"}[5m]))) / (x)) / 1e9'
    )


def test_percent_is_written_without_trailing_zeros() -> None:
    assert [percent(Decimal(text)) for text in ("0.01", "0.001", "0.80", "1")] == ["1 %", "0.1 %", "80 %", "100 %"]

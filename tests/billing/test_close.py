from __future__ import annotations

import pytest

from billing.close import MonthState, free_sequence, overdue_ns, refusals
from billing.periods import BillingMonth

END = 1_793_491_200_000_000_000


def test_a_green_month_that_is_over_may_be_closed() -> None:
    assert refusals(MonthState("2026-10", END), END) == []


def test_late_records_are_awaited_as_long_as_grace_says() -> None:
    hour = 3_600_000_000_000
    state = MonthState("2026-10", END)
    assert refusals(state, END + 72 * hour, 72 * hour) == []
    (line,) = refusals(state, END + 72 * hour - 1, 72 * hour)
    assert line.startswith("grace: late records are awaited until 2026-11-04T00:00:00+00:00")


def test_everything_that_is_red_is_listed_at_once() -> None:
    state = MonthState(
        "2026-10", END, quarantined=[("tenant 'x' is not in the catalog", 2)], gaps={"attempts gw-1": 3}, open_attempts=4,
        unpriced_hours=["engine cpu-0 (h9) at 2026-10-01T00:00:00+00:00"], missing_ns=5, uneven_hours=6, uneven_attempts=7,
        unexplained=["3 output tokens of eng-1 between meter and usage"],
    )  # fmt: skip
    found = refusals(state, END - 1)
    assert [line.split(":")[0].split(" ")[0] for line in found] == [
        "the", "quarantine", "record", "4", "not", "conservation", "conservation", "completeness", "counters",
    ]  # fmt: skip
    assert "2026-10-31T" in found[0] or "2026-11-01T" in found[0]


def test_a_month_is_overdue_once_its_72_hours_and_a_morning_are_over() -> None:
    due = BillingMonth("2026-10").end_ns + (3 * 24 + 12) * 3_600_000_000_000
    assert [overdue_ns("2026-10", now) for now in (due - 1, due, due + 7)] == [0, 0, 7]
    assert overdue_ns("", due + 7) == 0


@pytest.mark.parametrize(
    ("taken", "free"),
    [
        pytest.param([], 1, id="the first of a year"),
        pytest.param(["LL-2026-0001", "LL-2026-0002"], 3, id="one above the highest"),
        pytest.param(["LL-2025-0009", "CN-2026-0004"], 1, id="other years and series do not count"),
        pytest.param(["LL-2026-9999", "LL-2026-10000"], 10001, id="numbers are compared as numbers"),
    ],
)
def test_numbers_continue_their_series_and_year(taken: list[str], free: int) -> None:
    assert free_sequence(taken, "LL", 2026) == free

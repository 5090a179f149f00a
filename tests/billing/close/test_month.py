from __future__ import annotations

import pytest

from billing.close.blocks import Block, Kind, blocked
from billing.close.month import MonthState, free_sequence, open_before, overdue_ns, refusals, series_fault
from billing.exact.periods import BillingMonth

END = 1_793_491_200_000_000_000


def test_a_green_month_that_is_over_may_be_closed() -> None:
    assert refusals(MonthState("2026-10", END), END) == []


def test_late_records_are_awaited_as_long_as_grace_says() -> None:
    hour = 3_600_000_000_000
    state = MonthState("2026-10", END)
    assert refusals(state, END + 72 * hour, 72 * hour) == []
    (line,) = refusals(state, END + 72 * hour - 1, 72 * hour)
    assert line.startswith("grace: late records are awaited until 2026-11-04T00:00:00+00:00")


def test_what_blocks_somebody_is_no_refusal_and_is_told_by_tenant() -> None:
    gap = Block(Kind.RECORDS, ("attempts gw-1", "3", "4"), "2 missing", ("bank", "clinic"), records=2)
    torn = Block(Kind.QUARANTINE, ("x",), "not JSON", records=1)
    state = MonthState("2026-10", END, [gap, torn])
    assert refusals(state, END) == []
    (line,) = refusals(state, END - 1)
    assert line.startswith("the month is not over")
    assert (state.count(Kind.RECORDS), state.count(Kind.RECORDS, Kind.QUARANTINE)) == (2, 3)
    assert blocked(state.blocks, ["bank"]) == {"clinic": [gap]}


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
        pytest.param(["LL-2026-2026-0007"], 1, id="nor does a series that begins alike"),
        pytest.param(["LL-2026-9999", "LL-2026-10000"], 10001, id="numbers are compared as numbers"),
    ],
)
def test_numbers_continue_their_series_and_year(taken: list[str], free: int) -> None:
    assert free_sequence(taken, "LL", 2026) == free


@pytest.mark.parametrize(
    ("newest", "fault"),
    [
        pytest.param([], None, id="nothing was issued"),
        pytest.param([("invoice", "LL-2026-0003"), ("credit_note", "CN-2026-0001")], None, id="it goes on"),
        pytest.param([("invoice", "AB-2025-0003")], None, id="another year had another"),
        pytest.param([("invoice", "AB-2026-0003"), ("invoice", "LL-2026-0001")], None, id="the newest one goes on"),
        pytest.param(
            [("invoice", "LL-2026-0003"), ("invoice", "AB-2026-0001")], "AB-2026-0001", id="an older one again"
        ),
        pytest.param([("invoice", "LL-2026-2026-0003")], "keep LL-2026 until", id="one that begins alike"),
        pytest.param([("credit_note", "LL-2025-0001")], "another kind, LL-2025-0001", id="another kind had it once"),
    ],
)
def test_a_series_is_of_one_kind_and_the_only_one_of_its_year(newest: list[tuple[str, str]], fault: str | None) -> None:
    found = series_fault(newest, "invoice", "LL", 2026)
    assert found == fault if fault is None else fault in (found or "")


@pytest.mark.parametrize(
    ("stands", "found"),
    [
        pytest.param({}, [], id="nothing is known"),
        pytest.param({"2026-08": ""}, ["2026-08", "2026-09", "2026-10"], id="from the first with costs on"),
        pytest.param({"2026-08": "closed", "2026-10": ""}, ["2026-09", "2026-10"], id="one without costs counts"),
        pytest.param(
            {"2026-08": "", "2026-09": "closed", "2026-10": "partly closed"}, [], id="what lies before the first close"
        ),
        pytest.param({"2026-10": ""}, ["2026-10"], id="the month before"),
    ],
)
def test_which_earlier_months_are_open(stands: dict[str, str], found: list[str]) -> None:
    assert open_before("2026-11", stands) == found

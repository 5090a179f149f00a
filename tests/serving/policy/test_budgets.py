"""Budgets: nothing counted twice, nothing forgotten, and an overshoot that is no more than what was in flight beyond its holds."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from catalog import tariff
from catalog.durations import HOUR_NS, MINUTE_NS, SECOND_NS
from catalog.model import CostPlus, GpuPrice, PerToken, Plan, PriceBook, Slo, Tenant
from serving.policy import budgets
from serving.policy.admission import Ask, QuotaRefusal
from serving.policy.budgets import LATE_NS, Account, Published
from serving.policy.charges import Terms
from telemetry.usage import Slice, Status, UsageRecord

BY_TOKEN = PerToken(kind="per_token", input=Decimal(2), cached_input=Decimal(1), output=Decimal(1_000_000))
"""One unit of money per output token."""


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * SECOND_NS


NOON = at("2026-10-15T12:00")


def terms(budget: str = "10", plan: Plan = BY_TOKEN) -> Terms:
    hours = (GpuPrice(gpu_type="demo", start=datetime(2026, 1, 1, tzinfo=UTC), per_hour=Decimal(3600)),)
    tenant = Tenant(id="acme", name="Acme", slo=Slo(p99_seconds=Decimal(1)), plan=plan)
    return Terms(Decimal(budget), tenant, tariff.calendar(tenant), (PriceBook(version="v1", gpu_hours=hours),), "demo")


def record(
    seq: int = 0,
    output: int = 1,
    ended_ns: int = NOON,
    slices: tuple[Slice, ...] | None = (),
    **fields: Any,
) -> UsageRecord:
    made = UsageRecord("gw-1", seq, "r", "clinic", ended_ns, ended_ns, Status.OK, gpu_type="demo", gpu_count=2)
    return replace(made, output_tokens_computed=output, output_tokens_delivered=output, slices=slices, **fields)


def asks(output: int) -> Ask:
    return Ask(output, 1)


def take(
    account: Account, agreed: Terms, output: int, seq: int, now_ns: int = NOON, mono_ns: int = 0
) -> QuotaRefusal | None:
    """Ask for `output` tokens and hold them for a minute if there is money."""
    refused = account.refusal(agreed, asks(output), now_ns, mono_ns)
    if refused is None:
        account.admit(agreed, asks(output), seq, now_ns, mono_ns + MINUTE_NS)
    return refused


def test_the_budget_may_be_used_up_and_not_exceeded_and_it_is_said_until_when() -> None:
    account, agreed = Account(), terms()
    for seq in range(10):
        assert take(account, agreed, 1, seq) is None
    refused = take(account, agreed, 1, 10)
    assert refused is not None
    assert (refused.reason, refused.retry_after_s) == ("monthly_budget", 1), "what is in flight may cost less"
    for seq in range(10):
        account.settle(agreed, seq, record(seq), NOON)
    refused = take(account, agreed, 1, 10)
    assert refused == QuotaRefusal(
        "monthly_budget",
        16 * 24 * 3600 + 12 * 3600,
        "10.00 charged in 2026-10 and 0.00 held for requests in flight, this one may take 1.00, of 10.00",
    )
    assert take(account, agreed, 1, 10, at("2026-11-01T00:00")) is None


def test_three_cold_processes_take_the_published_50_as_50() -> None:
    figures = Published(NOON, "2026-10", Fraction(50))
    for _ in range(3):
        account = Account()
        for _ in range(2):
            account.learn(figures)
        assert account.spent(terms("50"), NOON, 0) == 50
        assert take(account, terms("50"), 1, 0) is not None
        assert take(account, terms("51"), 1, 0) is None


def test_a_hold_whose_attempt_never_settles_expires() -> None:
    account, agreed = Account(), terms()
    assert take(account, agreed, 10, 0) is None
    assert take(account, agreed, 1, 1, mono_ns=MINUTE_NS - 1) is not None
    assert take(account, agreed, 10, 1, mono_ns=MINUTE_NS) is None
    assert account.written_off == 1
    account.settle(agreed, 0, record(0, 4), NOON)
    account.settle(agreed, 1, None, NOON)
    assert account.spent(agreed, NOON, 0) == 4, "a late end is charged all the same"


def test_what_no_figure_ever_has_is_written_off_after_ten_minutes() -> None:
    account, agreed = Account(), terms()
    for seq, ended_ns in enumerate((NOON, NOON, NOON + 5 * MINUTE_NS)):
        assert take(account, agreed, 1, seq, ended_ns) is None
        account.settle(agreed, seq, record(seq, ended_ns=ended_ns), ended_ns)
    account.learn(Published(NOON + LATE_NS, "2026-10", Fraction(1), ((0, 0),)))
    assert account.spent(agreed, NOON + LATE_NS, 0) == 3
    account.learn(Published(NOON + LATE_NS + MINUTE_NS, "2026-10", Fraction(1), ((0, 0),)))
    assert account.spent(agreed, NOON + LATE_NS, 0) == 2
    assert account.written_off == 1


def test_without_figures_or_with_another_months_the_own_charges_count() -> None:
    account, agreed = Account(), terms()
    assert take(account, agreed, 2, 0) is None
    account.settle(agreed, 0, record(0, 2), NOON)
    assert account.spent(agreed, NOON, 0) == 2
    account.learn(Published(NOON - 20 * 24 * HOUR_NS, "2026-09", Fraction(1000), ((0, 9),)))
    assert account.spent(agreed, NOON, 0) == 2, "last month's figures have no attempt of this one"
    account.learn(Published(NOON, "2026-10", Fraction(7), ((0, 9),)))
    account.learn(Published(NOON - SECOND_NS, "2026-10", Fraction(6)))
    assert account.spent(agreed, NOON, 0) == 7, "older figures change nothing"
    month_later = NOON + 31 * 24 * HOUR_NS
    assert account.spent(agreed, month_later, 0) == 0


def test_time_that_is_not_known_is_charged_as_held() -> None:
    account, agreed = Account(), terms(plan=CostPlus(kind="cost_plus"))
    assert take(account, agreed, 100, 0) is None
    account.settle(agreed, 0, record(slices=None), NOON)
    assert account.spent(agreed, NOON, 0) == 1


def test_holds_by_time_follow_what_a_token_was_measured_to_take() -> None:
    account, agreed = Account(), terms("1000000", CostPlus(kind="cost_plus"))
    assert take(account, agreed, 100, 0) is None
    assert account.spent(agreed, NOON, 0) == 1, "10 ms a token, while nothing is known"
    spent = (Slice(NOON, 3 * SECOND_NS, SECOND_NS, 0),)
    account.settle(agreed, 0, replace(record(0, 60, slices=spent, input_tokens=40), gpu_count=1), NOON)
    assert take(account, agreed, 100, 1) is None
    assert account.spent(agreed, NOON, 0) == 4 + 4


def test_more_attempts_than_are_told_apart_are_still_summed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets, "MOST_KNOWN", 40)
    account, agreed = Account(), terms("1000")
    for seq in range(100):
        ended_ns = NOON + seq * 12 * SECOND_NS
        assert take(account, agreed, 1, seq, ended_ns) is None
        account.settle(agreed, seq, record(seq, ended_ns=ended_ns), ended_ns)
    now_ns = NOON + 20 * MINUTE_NS
    assert account.spent(agreed, now_ns, 0) == 100
    account.learn(Published(now_ns, "2026-10", Fraction(100), ((0, 99),)))
    assert account.spent(agreed, now_ns, 0) == 100 + 25, "sums of the last ten minutes wait for their time"
    account.learn(Published(now_ns + LATE_NS, "2026-10", Fraction(100), ((0, 99),)))
    assert account.spent(agreed, now_ns, 0) == 100
    assert account.written_off == 0


EVENTS = st.lists(
    st.tuples(st.sampled_from(["ask", "end", "book", "publish"]), st.integers(0, 50), st.integers(0, 30)), max_size=80
)


@given(EVENTS)
def test_no_history_counts_an_attempt_twice_or_forgets_it(history: list[tuple[str, int, int]]) -> None:
    """The ledger books attempts in any order, and what others spend is in its figures too."""
    account, agreed, now_ns = Account(), terms("1000000"), NOON
    running: dict[int, int] = {}
    waiting: dict[int, int] = {}
    booked: dict[int, int] = {}
    others, published, seq = 0, 0, 0
    for event, number, wait in history:
        now_ns += wait * SECOND_NS // 10
        if event == "ask":
            assert take(account, agreed, number, seq, now_ns) is None
            running[seq], seq = number, seq + 1
        elif event == "end" and running:
            ended = list(running)[number % len(running)]
            output = running.pop(ended) * number // 25
            account.settle(agreed, ended, record(ended, output, now_ns), now_ns)
            waiting[ended] = output
        elif event == "book" and waiting:
            chosen = list(waiting)[number % len(waiting)]
            booked[chosen] = waiting.pop(chosen)
        elif event == "publish":
            others, published = others + number, others + number
            charged = Fraction(others + sum(booked.values()))
            account.learn(Published(now_ns, "2026-10", charged, ranges(booked)))
        own = sum(booked.values()) + sum(waiting.values()) + sum(running.values())
        assert account.spent(agreed, now_ns, 0) == published + own
    assert account.written_off == 0


def ranges(seqs: dict[int, int]) -> tuple[tuple[int, int], ...]:
    found: list[list[int]] = []
    for seq in sorted(seqs):
        if found and found[-1][1] == seq - 1:
            found[-1][1] = seq
        else:
            found.append([seq, seq])
    return tuple((first, last) for first, last in found)


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 8), st.booleans()), max_size=60),
    st.integers(0, 20),
    st.randoms(use_true_random=False),
)
def test_the_overshoot_is_what_in_flight_attempts_came_to_beyond_their_holds(
    requests: list[tuple[int, int, bool]], budget: int, random: Any
) -> None:
    account, agreed = Account(), terms(str(budget))
    flying: dict[int, tuple[int, int]] = {}
    spent, beyond = 0, 0
    for seq, (asked, used, one_ends) in enumerate(requests):
        if one_ends and flying:
            ended = random.choice(list(flying))
            spent += flying[ended][1]
            account.settle(agreed, ended, record(ended, flying.pop(ended)[1]), NOON)
        if take(account, agreed, asked, seq) is None:
            flying[seq] = asked, used
            beyond = sum(max(0, came_to - held) for held, came_to in flying.values())
    assert spent + sum(used for _, used in flying.values()) <= budget + beyond

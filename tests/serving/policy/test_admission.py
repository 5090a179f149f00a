"""Quotas: exact rates, nothing taken by a refusal, everything given back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from catalog.durations import MINUTE_NS
from catalog.model import Quotas
from serving.policy.admission import Ask, Demand, Load, Misfit, QuotaRefusal, admit, longest_output, misfit, settle

SECOND = 1_000_000_000


def taken(answer: Load | QuotaRefusal) -> Load:
    assert isinstance(answer, Load)
    return answer


def refused(answer: Load | QuotaRefusal) -> QuotaRefusal:
    assert isinstance(answer, QuotaRefusal)
    return answer


def test_without_quotas_everything_is_admitted() -> None:
    assert taken(admit(Quotas(), Load(), Ask(10**9, 10**6), 0)).kv_blocks == 10**6


def test_a_minutes_worth_passes_at_once_and_then_one_every_interval() -> None:
    quotas, load = Quotas(requests_per_minute=4), Load()
    for _ in range(4):
        load = taken(admit(quotas, load, Ask(1, 1), 0))
    assert refused(admit(quotas, load, Ask(1, 1), 0)) == QuotaRefusal(
        "requests_per_minute", 15, "more than 4 requests in a minute"
    )
    assert refused(admit(quotas, load, Ask(1, 1), 15 * SECOND - 1)).retry_after_s == 1
    load = taken(admit(quotas, load, Ask(1, 1), 15 * SECOND))
    assert refused(admit(quotas, load, Ask(1, 1), 15 * SECOND)).retry_after_s == 15


def test_tokens_are_charged_by_estimate_and_settled_by_use() -> None:
    quotas = Quotas(tokens_per_minute=600)
    ask = Ask(400, 25)
    load = taken(admit(quotas, Load(), ask, 0))
    assert refused(admit(quotas, load, ask, 0)).reason == "tokens_per_minute"
    cheaper = settle(quotas, load, ask, 100, 0)
    assert taken(admit(quotas, cheaper, ask, 0))
    dearer = settle(quotas, load, ask, 1200, 0)
    assert refused(admit(quotas, dearer, Ask(1, 1), 0)).retry_after_s == 61
    unknown = settle(quotas, load, ask, None, 0)
    assert unknown == Load(None, load.tokens, 0)


def test_every_answer_is_a_request_a_seat_and_blocks_of_its_own() -> None:
    quotas = Quotas(requests_per_minute=10, seats_in_flight=9)
    eight = Demand(prompts=(20,), choices=8, limit=1000, block=16).ask(4)
    assert eight == Ask(tokens=20 + 8 * 4, kv_blocks=1 + 8, prompt_tokens=20, seats=8)
    load = taken(admit(quotas, Load(), eight, 0))
    assert refused(admit(quotas, load, Ask(1, 1, seats=2), 0)).reason == "seats_in_flight"
    load = settle(quotas, load, eight, None, 0)
    assert (load.seats, load.kv_blocks) == (0, 0)
    assert refused(admit(quotas, load, Ask(1, 1, seats=3), 0)).reason == "requests_per_minute"
    assert taken(admit(quotas, load, Ask(1, 1, seats=2), 0))


def test_blocks_in_flight_come_back_when_the_request_ends() -> None:
    quotas = Quotas(kv_blocks_in_flight=10)
    load = taken(admit(quotas, Load(), Ask(96, 6), 0))
    refusal = refused(admit(quotas, load, Ask(80, 5), 0))
    assert (refusal.reason, refusal.retry_after_s) == ("kv_blocks_in_flight", 1)
    assert settle(quotas, load, Ask(96, 6), 50, 0) == Load()


def test_a_demand_counts_prompts_output_and_choices_within_the_engines_length() -> None:
    def needs(*prompts: int, output: int, choices: int = 1) -> tuple[int, int, int]:
        ask = Demand(prompts, choices, limit=1000, block=16).ask(output)
        return ask.tokens, ask.kv_blocks, ask.prompt_tokens

    assert needs(101, output=27) == (128, 8, 101)
    # Six whole blocks of the prompt are shared; the rest of it, 5 tokens, and 27 more take two blocks of each choice.
    assert needs(101, output=27, choices=3) == (101 + 3 * 27, 6 + 3 * 2, 101)
    # The last token of a prompt is always computed, so its block is never shared.
    assert needs(96, output=1, choices=2) == (96 + 2, 5 + 2 * 2, 96)
    assert needs(99, output=10**9) == (1000, 63, 99)
    assert needs(10**7, output=5, choices=2) == (1000, 62 + 2, 1000)
    assert needs(20, 40, output=4, choices=2) == (60 + 4 * 4, 1 + 2 + 2 + 2, 60)
    assert needs(0, output=0) == (0, 0, 0)


@given(
    st.lists(st.integers(0, 1200), min_size=1, max_size=4),
    st.integers(1, 8),
    st.one_of(st.none(), st.integers(1, 200)),
    st.one_of(st.none(), st.integers(1, 4000)),
)
def test_the_longest_output_is_what_the_quotas_leave_and_not_a_token_more(
    prompts: list[int], choices: int, blocks: int | None, rate: int | None
) -> None:
    quotas = Quotas(kv_blocks_in_flight=blocks, tokens_per_minute=rate)
    demand = Demand(tuple(prompts), choices, limit=1000, block=16)
    longest = longest_output(demand, lambda ask: misfit(quotas, ask) is None)
    assert 0 <= longest <= demand.most_output
    if longest:
        assert taken(admit(quotas, Load(), demand.ask(longest), 0)), "it fits an idle tenant"
    if longest < demand.most_output:
        assert isinstance(misfit(quotas, demand.ask(longest + 1)), Misfit)


def test_what_no_quota_can_ever_hold_is_told_from_what_must_wait() -> None:
    quotas = Quotas(requests_per_minute=4, tokens_per_minute=600, kv_blocks_in_flight=10, seats_in_flight=3)
    assert misfit(quotas, Ask(600, 10, seats=3)) is None
    assert misfit(quotas, Ask(601, 1)) == Misfit("tokens_per_minute", "it needs up to 601 tokens, of 600")
    assert misfit(quotas, Ask(1, 11)) == Misfit("kv_blocks_in_flight", "it needs up to 11 KV blocks, of 10")
    assert misfit(quotas, Ask(1, 1, seats=4)) == Misfit("seats_in_flight", "it needs up to 4 sequences, of 3")
    assert misfit(quotas, Ask(1, 1, seats=5)) == Misfit("requests_per_minute", "it needs up to 5 sequences, of 4")
    assert misfit(Quotas(), Ask(10**9, 10**9, seats=10**9)) is None


@given(
    st.lists(st.tuples(st.integers(0, 30 * SECOND), st.integers(1, 400), st.integers(0, 500)), max_size=40),
    st.integers(1, 300),
    st.integers(1, 2000),
)
def test_no_sequence_of_requests_passes_more_than_the_rates_allow(
    asks: list[tuple[int, int, int]], requests: int, tokens: int
) -> None:
    quotas = Quotas(requests_per_minute=requests, tokens_per_minute=tokens)
    load, now, count = Load(), 0, 0
    for wait, estimate, used in asks:
        now += wait
        ask = Ask(min(estimate, tokens), 1)
        answer = admit(quotas, load, ask, now)
        if isinstance(answer, QuotaRefusal):
            assert answer.retry_after_s >= 1
            later = admit(quotas, load, ask, now + answer.retry_after_s * SECOND)
            assert not isinstance(later, QuotaRefusal) or later.reason != answer.reason
            continue
        load = settle(quotas, answer, ask, used, now)
        count += 1
    assert count <= requests + now * requests // MINUTE_NS
    assert load.kv_blocks == 0

"""Quotas: exact rates, nothing taken by a refusal, everything given back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from catalog.model import Quotas
from serving.admission import MINUTE_NS, Ask, Load, Refusal, admit, settle

SECOND = 1_000_000_000


def taken(answer: Load | Refusal) -> Load:
    assert isinstance(answer, Load)
    return answer


def refused(answer: Load | Refusal) -> Refusal:
    assert isinstance(answer, Refusal)
    return answer


def test_without_quotas_everything_is_admitted() -> None:
    assert taken(admit(Quotas(), Load(), Ask(10**9, 10**6), 0)).kv_blocks == 10**6


def test_a_minutes_worth_passes_at_once_and_then_one_every_interval() -> None:
    quotas, load = Quotas(requests_per_minute=4), Load()
    for _ in range(4):
        load = taken(admit(quotas, load, Ask(1, 1), 0))
    assert refused(admit(quotas, load, Ask(1, 1), 0)) == Refusal(
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


def test_a_request_larger_than_a_minute_needs_a_full_bucket_and_leaves_a_debt() -> None:
    quotas = Quotas(tokens_per_minute=600)
    load = taken(admit(quotas, Load(), Ask(1200, 1), 0))
    assert refused(admit(quotas, load, Ask(1, 1), 0)).retry_after_s == 61
    assert refused(admit(quotas, load, Ask(1200, 1), 0)).retry_after_s == 120
    assert taken(admit(quotas, load, Ask(1200, 1), 2 * MINUTE_NS))


def test_blocks_in_flight_come_back_when_the_request_ends() -> None:
    quotas = Quotas(kv_blocks_in_flight=10)
    load = taken(admit(quotas, Load(), Ask(96, 6), 0))
    refusal = refused(admit(quotas, load, Ask(80, 5), 0))
    assert (refusal.reason, refusal.retry_after_s) == ("kv_blocks_in_flight", 1)
    assert settle(quotas, load, Ask(96, 6), 50, 0) == Load()


def test_an_estimate_counts_prompt_output_and_choices_within_the_engines_length() -> None:
    def blocks(**given: int) -> tuple[int, int]:
        ask = Ask.estimate(**{"prompt_chars": 0, "prompt_tokens": 0, "choices": 1, "limit": 1000, "block": 16, **given})
        return ask.tokens, ask.kv_blocks

    assert blocks(prompt_chars=300, output_tokens=27) == (128, 8)
    assert blocks(prompt_chars=300, output_tokens=27, choices=3) == (182, 12)
    assert blocks(prompt_tokens=99, output_tokens=10**9) == (1000, 63)
    assert blocks(prompt_chars=10**7, output_tokens=5, choices=2) == (1000, 63)


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
        ask = Ask(estimate, 1)
        answer = admit(quotas, load, ask, now)
        if isinstance(answer, Refusal):
            assert answer.retry_after_s >= 1
            later = admit(quotas, load, ask, now + answer.retry_after_s * SECOND)
            assert not isinstance(later, Refusal) or later.reason != answer.reason
            continue
        load = settle(quotas, answer, ask, used, now)
        count += 1
    assert count <= requests + now * requests // MINUTE_NS
    assert load.kv_blocks == 0

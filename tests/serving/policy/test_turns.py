"""Who is next, and which adapter gives its slot back."""

from __future__ import annotations

from random import Random

import pytest

from serving.policy.turns import NOBODY, PATIENCE, FlowStanding, Rules, admitted, draining, joined, rank, settled

RULES = Rules(slots=2, quantum_ns=100)
NOW = 10_000
NONE: frozenset[str] = frozenset()


def waits(adapter: str | None, time: int = 0, since: int = NOW) -> FlowStanding:
    return FlowStanding(adapter, time=time, passed_ns=since)


def test_a_flow_that_comes_back_has_no_credit_and_keeps_its_debt() -> None:
    assert joined(FlowStanding("a", time=5), [70, 40], 9) == FlowStanding("a", time=40, passed_ns=9)
    assert joined(FlowStanding("a", time=90), [70, 40], 9).time == 90
    assert joined(FlowStanding("a", time=5), [], 9).time == 5


def test_a_flow_pays_what_was_computed_over_its_weight() -> None:
    flow = admitted(FlowStanding("a", weight=3, passed_ns=1), 300, True, 7)
    assert flow == FlowStanding("a", 3, 100, 7)
    assert admitted(flow, 0, False, 8).passed_ns is None
    assert settled(flow, 300, 900).time == 300
    assert settled(flow, 300, 0).time == 0


def test_the_furthest_behind_goes_first_and_before_it_who_was_passed_over_for_too_long() -> None:
    late = NOW - PATIENCE * RULES.quantum_ns
    order = [
        waits("a", 9**9, late - 1),
        waits("b", 9**9, late),
        waits("c", 5, late + 1),
        waits(None, 6),
        FlowStanding("d"),
    ]
    assert [rank(flow, RULES, NOW) for flow in order] == [(0, late - 1), (0, late), (1, 5), (1, 6), NOBODY]
    assert sorted([*reversed(order)], key=lambda flow: rank(flow, RULES, NOW)) == order


@pytest.mark.parametrize(
    ("what", "holders", "before", "waiting", "drained"),
    [
        ("nobody waits", {"a": 0, "b": 0}, NONE, [], NONE),
        ("a slot is free", {"a": 0}, NONE, [waits("c", 0, 0)], NONE),
        ("only base rows wait", {"a": 0, "b": 0}, NONE, [waits(None, 0, 0)], NONE),
        ("one waited less than a quantum", {"a": 0, "b": 0}, NONE, [waits("c", 0, NOW - 99)], NONE),
        ("it waited a quantum", {"a": 0, "b": 0}, NONE, [waits("c", 0, NOW - 100), waits("a", 7)], {"b"}),
        ("slots were held too short", {"a": NOW - 99, "b": NOW - 99}, NONE, [waits("c", 0, 0)], NONE),
        (
            "the one ahead drains",
            {"a": 0, "b": 0},
            NONE,
            [waits("c", 5, NOW - 100), waits("a", 7), waits("b", 8)],
            {"b"},
        ),
        (
            "holders are further behind",
            {"a": 0, "b": 0},
            NONE,
            [waits("c", 5, NOW - 100), waits("a", 5), waits("b", 4)],
            NONE,
        ),
        (
            "two wait, and one of two is ahead",
            {"a": 0, "b": 0},
            NONE,
            [waits("c", 5, NOW - 100), waits("d", 5, NOW - 100), waits("a", 4), waits("b", 6)],
            {"b"},
        ),
        (
            "what began goes on",
            {"a": 0, "b": 0},
            frozenset("a"),
            [waits("c", 5, NOW - 100), waits("a", 4), waits("b", 6)],
            {"a"},
        ),
        ("what began ends with nobody waiting", {"a": 0, "b": 0}, frozenset("a"), [waits("a", 4)], NONE),
        (
            "passed over for long counts more than virtual time",
            {"a": 0, "b": 0},
            NONE,
            [waits("c", 9, NOW - PATIENCE * 100), waits("a", 1), waits("b", 2)],
            {"b"},
        ),
    ],
)
def test_an_adapter_gives_its_slot_back(
    what: str, holders: dict[str, int], before: frozenset[str], waiting: list[FlowStanding], drained: set[str]
) -> None:
    assert draining(holders, before, waiting, RULES, NOW) == drained, what


def test_backlogged_flows_get_engine_time_by_their_weights() -> None:
    """Whatever a request is predicted to take and takes."""
    random, had = Random(3), {"a": 0, "b": 0, "c": 0}
    flows = {name: FlowStanding(name, weight, passed_ns=0) for name, weight in (("a", 1), ("b", 1), ("c", 3))}
    for now in range(3000):
        name = min(flows, key=lambda name: rank(flows[name], Rules(3, 10**9), now))
        predicted, took = random.randrange(1000), random.randrange(500, 1500)
        flows[name] = settled(admitted(flows[name], predicted, True, now), predicted, took)
        had[name] += took
    assert had["a"] == pytest.approx(had["b"], rel=0.01)
    assert had["c"] == pytest.approx(3 * had["a"], rel=0.01)

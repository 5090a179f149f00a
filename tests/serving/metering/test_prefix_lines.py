"""The line by which requests of one tenant share a stored prefix, from the engine's events to what is recorded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from serving.metering.accounting import Accountant
from serving.step_model.profile import Profile
from serving.wire.events import EngineStep, Entered, Hello, PrefixHit, StepRow, Woke
from telemetry.engine_time import PrefixReshare

MS = 1_000_000
UTC = 1_790_000_000_000 * MS
PROFILE = Profile(a=10 * 10**9, b_p=10**9, b_d=10**9, c_p=0, c_d=0, any_lora=0, per_adapter=0, lora_token=10**9)
"""Step 10 ms, token 1 ms, LoRA token 1 ms more."""


class Engine:
    """Steps that follow each other without a pause; each takes what the profile predicts unless it is said."""

    def __init__(self) -> None:
        self.meter = Accountant(PROFILE, "gpu-a")
        self.now = 0
        self.start("eng-1")

    def start(self, emitter: str) -> None:
        self.seq = 0
        self.meter.take(Hello(emitter, "gpu-a", self.now, UTC + self.now))
        self.meter.take(Woke(self.now))

    def enter(self, request: str, tenant: str = "acme", adapter: str | None = None, prompt: int = 64) -> None:
        self.meter.take(Entered(request, f"gw-1:{request}", tenant, adapter, prompt, self.now))

    def step(
        self,
        *rows: tuple[str, int, int],
        hits: Sequence[tuple[str, str, int, int]] = (),
        preempted: Sequence[str] = (),
        ms: int = 0,
    ) -> None:
        told = tuple(PrefixHit(user, f"gw-1:{payer}", low, high) for user, payer, low, high in hits)
        cached = tuple((hit.request, hit.high) for hit in told)
        lasts = (ms or 10 + sum(tokens for _, tokens, _ in rows)) * MS
        self.meter.take(
            EngineStep(
                self.seq,
                self.now,
                self.now + lasts,
                tuple(StepRow(*row) for row in rows),
                cached,
                (),
                tuple(preempted),
                (),
                True,
                hits=told,
            )
        )
        self.seq += 1
        self.now += lasts


def moved(line: PrefixReshare) -> dict[str, float]:
    line.check()
    return {move.attempt.removeprefix("gw-1:"): move.ns / MS for move in line.moves}


def test_a_prefix_is_dealt_anew_with_each_request_that_uses_it() -> None:
    engine = Engine()
    engine.enter("first")
    engine.enter("same step")
    engine.step(("first", 60, 0), ("same step", 12, 48), hits=[("same step", "first", 0, 48)])
    engine.enter("later")
    engine.step(("first", 1, 60), ("same step", 1, 60), ("later", 16, 32), hits=[("later", "first", 0, 32)])
    lines = engine.meter.reshared()
    assert engine.meter.reshared() == []
    assert [(line.emitter, line.seq, line.engine) for line in lines] == [("eng-1", 0, "gpu-a"), ("eng-1", 1, "gpu-a")]
    assert [line.at_ns - UTC for line in lines] == [82 * MS, (82 + 28) * MS]
    assert [(line.tenant, line.adapter) for line in lines] == [("acme", None)] * 2
    assert moved(lines[0]) == {"first": -24, "same step": 24}
    # 32 tokens: halves become thirds.
    assert [round(ns, 3) for ns in moved(lines[1]).values()] == [-5.333, 10.667, -5.333]


def test_what_moves_is_the_measured_cost_of_the_tokens_themselves() -> None:
    """Not the fixed cost of the step, and no more than the step had without its stall; with the adapter's part."""
    engine = Engine()
    engine.enter("first", adapter="law")
    engine.step(("first", 32, 0), ms=2 * (10 + 64))
    engine.enter("stalled", adapter="law")
    engine.step(("stalled", 32, 0), ms=1000 * (10 + 64))
    engine.enter("a", adapter="law")
    engine.enter("b", adapter="law")
    engine.step(("a", 1, 32), ("b", 1, 32), hits=[("a", "first", 0, 32), ("b", "stalled", 0, 32)])
    of_first, of_stalled = engine.meter.reshared()
    assert of_first.adapter == "law"
    assert moved(of_first) == {"a": 64, "first": -64}
    assert moved(of_stalled) == {"b": 96, "stalled": -96}


def test_a_prefix_that_several_had_computed_is_paid_to_each_of_them() -> None:
    engine = Engine()
    engine.enter("first")
    engine.step(("first", 32, 0))
    engine.enter("second")
    engine.step(("second", 32, 32), hits=[("second", "first", 0, 32)])
    engine.enter("third")
    engine.step(("third", 2, 64), hits=[("third", "first", 0, 32), ("third", "second", 32, 64)])
    _, line = engine.meter.reshared()
    assert [round(ns, 3) for ns in moved(line).values()] == [-5.333, -21.333, 26.667]


def test_tenants_never_share_and_a_hit_between_two_is_remembered() -> None:
    engine = Engine()
    for request, tenant in (("first", "acme"), ("other", "globex"), ("stray", ""), ("own", "acme")):
        engine.enter(request, tenant)
    engine.step(("first", 64, 0), ("stray", 64, 0))
    engine.step(("other", 4, 60), ("own", 4, 60), hits=[("other", "first", 0, 48), ("own", "stray", 0, 48)])
    assert engine.meter.reshared() == []
    assert engine.meter.cross_tenant_hits == {("acme", "globex")}


def test_what_a_preempted_request_repeats_is_not_shared_twice() -> None:
    engine = Engine()
    engine.enter("first")
    engine.step(("first", 64, 0))
    engine.step(("first", 64, 0), preempted=["first"])
    engine.enter("second")
    engine.step(("second", 16, 48), hits=[("second", "first", 0, 48)])
    (line,) = engine.meter.reshared()
    assert moved(line) == {"first": -24, "second": 24}


def test_another_process_begins_with_nothing_stored_and_a_stream_of_its_own() -> None:
    engine = Engine()
    engine.enter("first")
    engine.step(("first", 64, 0))
    engine.enter("second")
    engine.step(("second", 16, 48), hits=[("second", "first", 0, 48)])
    engine.start("eng-2")
    engine.enter("third")
    engine.step(("third", 16, 48), hits=[("third", "first", 0, 48)])
    engine.enter("fourth")
    engine.step(("fourth", 48, 16), hits=[("fourth", "third", 48, 64)])
    lines = engine.meter.reshared()
    assert [(line.emitter, line.seq) for line in lines] == [("eng-1", 0), ("eng-2", 0)]
    assert moved(lines[1]) == {"fourth": 8, "third": -8}


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 4), st.integers(1, 60)), min_size=1, max_size=12))
@settings(max_examples=60, deadline=None)
def test_lines_change_no_window_and_no_tenants_sum(story: list[tuple[str, int, int]]) -> None:
    """Requests of three tenants that find what any earlier one had computed: windows are those of a meter without hits."""
    told, silent = Engine(), Engine()
    tenants: list[str] = []
    for number, (tenant, back, ms) in enumerate(story):
        hits = [(f"r{number}", f"r{number - back}", 0, 32)] if 0 < back <= number else []
        for engine in (told, silent):
            engine.enter(f"r{number}", tenant)
            engine.step((f"r{number}", 40, 0), hits=hits if engine is told else (), ms=ms)
        tenants.append(tenant)
    assert told.meter.windows(told.now) == silent.meter.windows(silent.now)
    by_tenant: Counter[str] = Counter()
    for seq, line in enumerate(told.meter.reshared()):
        line.check()
        assert line.seq == seq
        for move in line.moves:
            owner = tenants[int(move.attempt.removeprefix("gw-1:r"))]
            assert owner == line.tenant
            by_tenant[owner] += move.ns
    assert not any(by_tenant.values())
    assert silent.meter.reshared() == []

"""Whatever order the scheduler works in, steps do not overlap and every nanosecond can be accounted for."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from catalog.owners import TimeOwner
from serving.inside.recorder import HELD_EVERY_NS, Recorder
from serving.metering.accounting import Accountant
from serving.step_model.profile import DEFAULT_PROFILE
from serving.wire.channel import Ended, Message, Occupancy, OutgoingMessage
from serving.wire.events import Aborted, Bye, EngineStep, Entered, Hello, Loaded, LoadSpan, Mark, Rows, Woke
from telemetry.engine_time import SystemCause

UTC = 1_790_000_000_000_000_000


class Bench:
    """A recorder on a clock that only the test moves, with a scheduler's bookkeeping of requests."""

    def __init__(self) -> None:
        self.now = 5_000_000_000
        self.sent: list[Message] = []
        self.recorder = Recorder(self.hear, lambda: self.now, lambda: UTC)
        self.live: dict[str, int] = {}
        self.open: list[int] = []
        self.steps = 0
        self.recorder.hello("eng-1", "cpu-0")

    def hear(self, told: OutgoingMessage) -> None:
        self.sent.append(told.step() if isinstance(told, Ended) else told)

    def enter(self, name: str, adapter: str | None = None) -> None:
        self.live[name] = 0
        self.recorder.entered(name, f"gw-1:{name}", "bank", adapter, 10)

    def schedule(self) -> None:
        entry = self.now
        self.now += 100
        before = list(self.live.values())
        rows = Rows(list(self.live), [10 if none == 0 else 1 for none in before], before)
        self.live = {name: had + n for name, n, had in zip(*rows, strict=True)}
        self.open.append(self.steps)
        self.recorder.began(self.steps, entry, rows, (), ())
        self.steps += 1

    def finish(self, leaving: list[str]) -> None:
        for name in leaving:
            del self.live[name]
            self.recorder.left(name)
        self.recorder.ended(self.open.pop(0), self.now, lambda: bool(self.live))

    def abort(self, name: str) -> None:
        del self.live[name]
        self.recorder.left(name)
        self.recorder.aborted(bool(self.live))

    def steps_sent(self) -> list[EngineStep]:
        return [event for event in self.sent if isinstance(event, EngineStep)]


OFTEN = ["enter", "schedule", "schedule", "finish", "finish", "abort", "load", "call"]
OPERATIONS = st.lists(
    st.tuples(st.sampled_from(OFTEN), st.integers(0, 50_000_000)),
    max_size=60,
)


@given(OPERATIONS)
def test_steps_never_overlap_and_everything_is_accounted_for(operations: list[tuple[str, int]]) -> None:
    bench = Bench()
    for count, (what, ns) in enumerate(operations):
        bench.now += ns
        names = list(bench.live)
        if what == "enter":
            bench.enter(f"r{count}", "law" if ns % 2 else None)
        elif what == "schedule" and bench.live and len(bench.open) < 2:
            bench.schedule()
        elif what == "finish" and bench.open:
            bench.finish(names[: ns % 2])
        elif what == "abort" and names:
            bench.abort(names[ns % len(names)])
        elif what == "load":
            started = bench.now
            bench.now += 2_000_000
            bench.recorder.loaded([LoadSpan("law", "read", started, bench.now, False, 7)])
        elif what == "call":
            bench.recorder.did(SystemCause.UTILITY, bench.now - ns // 2)
    while bench.open:
        bench.now += 1_000
        bench.finish(list(bench.live))
    for name in list(bench.live):
        bench.abort(name)
    bench.now += 1_000
    bench.recorder.bye()

    steps = bench.steps_sent()
    assert [step.seq for step in steps] == list(range(bench.steps))
    assert all(one.end_ns <= other.start_ns for one, other in pairwise(steps))
    marks = [mark for step in steps for mark in step.marks]
    assert all(one.end_ns <= other.start_ns for one, other in pairwise(marks))
    accountant = Accountant(DEFAULT_PROFILE, "cpu-0")
    for event in bench.sent:
        assert not isinstance(event, Occupancy)
        accountant.take(event)
    windows = accountant.windows(bench.now)
    assert windows[0].start_ns == UTC
    assert windows[-1].end_ns - UTC == bench.now - 5_000_000_000
    assert accountant.totals.owners[TimeOwner.UNATTRIBUTED] == 0
    for entered in (event for event in bench.sent if isinstance(event, Entered)):
        assert accountant.measured(entered.attempt) is not None


def test_a_pipelined_step_begins_where_the_one_before_it_ended() -> None:
    bench = Bench()
    bench.enter("a")
    bench.schedule()
    bench.schedule()
    bench.now += 1_000
    bench.finish([])
    bench.now += 500
    bench.finish(["a"])
    first, second = bench.steps_sent()
    assert second.start_ns == first.end_ns
    assert (first.work_left, second.work_left) == (True, False)
    assert second.finished == ("a",)


def test_what_the_thread_did_between_two_steps_goes_with_the_second() -> None:
    bench = Bench()
    bench.recorder.did(SystemCause.UTILITY, bench.now)
    bench.enter("a")
    bench.schedule()
    bench.recorder.did(SystemCause.UTILITY, bench.now)
    bench.finish([])
    ended = bench.now
    bench.now += 30
    bench.recorder.did(SystemCause.METER, ended)
    bench.now += 20
    bench.recorder.did(SystemCause.INTAKE, ended + 10)
    bench.schedule()
    bench.finish(["a"])
    first, second = bench.steps_sent()
    assert first.marks == (), "idle, or inside a step"
    assert second.marks == (
        Mark(SystemCause.METER, ended, ended + 30),
        Mark(SystemCause.INTAKE, ended + 30, ended + 50),
    )


def test_loads_and_aborts_go_with_the_step_they_happen_in_and_alone_between_steps() -> None:
    bench = Bench()
    span = LoadSpan("law", "read", bench.now, bench.now, False, 1)
    bench.recorder.loaded([span])
    bench.enter("a")
    bench.enter("b")
    bench.schedule()
    bench.recorder.loaded([span])
    bench.abort("a")
    bench.finish([])
    bench.abort("b")
    kinds = [type(event) for event in bench.sent]
    assert kinds == [Hello, Loaded, Woke, Entered, Entered, EngineStep, Aborted]
    (step,) = bench.steps_sent()
    assert step.loads == (span,)
    assert step.finished == ("a",)
    assert bench.sent[-1] == Aborted(("b",), bench.now, False)


def test_the_wall_clock_is_read_once_so_its_steps_move_nothing() -> None:
    bench = Bench()
    wall = iter([UTC] * 3)
    bench.recorder = Recorder(bench.hear, lambda: bench.now, lambda: next(wall))
    bench.recorder.hello("eng-1", "cpu-0")
    bench.enter("a")
    bench.schedule()
    bench.now += 1_000
    bench.finish(["a"])
    bench.recorder.bye()
    assert next(wall, None) is None, "asked three times, for the one anchor"
    assert bench.steps_sent()[0].end_ns == bench.now


def test_waking_is_told_once_for_each_time_the_engine_ran_empty() -> None:
    bench = Bench()
    for name in ("a", "b"):
        bench.enter(name)
        bench.enter(name + "2")
        bench.schedule()
        bench.finish([name, name + "2"])
    bench.recorder.bye()
    assert sum(isinstance(event, Woke) for event in bench.sent) == 2
    assert isinstance(bench.sent[-1], Bye)


def test_a_step_that_was_never_noted_leaves_a_hole_in_the_numbers() -> None:
    bench = Bench()
    bench.enter("a")
    bench.recorder.ended("unknown", bench.now, lambda: True)
    bench.schedule()
    bench.finish([])
    assert [step.seq for step in bench.steps_sent()] == [1]


def test_what_the_engine_holds_is_told_when_it_changes_and_not_too_often() -> None:
    bench = Bench()
    for used, at_once in ((1, False), (1, True), (2, False), (3, True)):
        bench.recorder.holds(Occupancy(used, 100, ()), at_once)
    bench.now += HELD_EVERY_NS
    bench.recorder.holds(Occupancy(4, 100, ()), False)
    assert [event.kv_blocks_used for event in bench.sent if isinstance(event, Occupancy)] == [1, 3, 4]


def test_a_request_that_nobody_wants_any_more_is_told_once_with_the_step_it_leaves_in() -> None:
    bench = Bench()
    bench.enter("a")
    bench.enter("b")
    bench.schedule()
    bench.recorder.left("a", given_up=True)
    del bench.live["a"]
    bench.finish([])
    bench.schedule()
    bench.finish(["b"])
    assert [(step.finished, step.aborted) for step in bench.steps_sent()] == [(("a",), ("a",)), (("b",), ())]


def test_the_wall_clock_is_believed_where_two_readings_around_it_are_closest() -> None:
    readings = iter([100, 190, 200, 210, 300, 390])
    walls = iter([1_000, 2_000, 3_000])
    sent: list[OutgoingMessage] = []
    Recorder(sent.append, lambda: next(readings), lambda: next(walls)).hello("eng-1", "cpu-0")
    assert sent == [Hello("eng-1", "cpu-0", 205, 2_000)]


def test_a_mark_begins_no_earlier_than_the_one_before_it_ended() -> None:
    bench = Bench()
    bench.enter("a")
    start = bench.now
    bench.now += 50
    bench.recorder.did(SystemCause.LOOP, start)
    bench.now += 50
    bench.recorder.did(SystemCause.LOOP, start)
    bench.now += 50
    bench.recorder.did(SystemCause.LOOP, bench.now - 20)
    bench.schedule()
    bench.finish(["a"])
    marks = bench.steps_sent()[0].marks
    assert [(mark.start_ns - start, mark.end_ns - start) for mark in marks] == [(0, 50), (50, 100), (130, 150)]

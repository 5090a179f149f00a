"""Events become tiles: whatever is told, in whatever order, each moment has one owner."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.owners import TimeOwner
from serving.metering import timeline
from serving.metering.tiles import StepRun, Tile
from serving.metering.timeline import EngineTimeline, EventRefused
from serving.wire.events import Aborted, EngineStep, Event, Hello, Loaded, LoadSpan, Mark, StepRow, Woke
from telemetry.engine_time import SystemCause

HELLO = Hello("eng-1", "gpu-a", mono_ns=100, utc_ns=1_000)
NS = st.integers(90, 200)
SPANS = st.builds(LoadSpan, st.sampled_from(["law", "med"]), st.just("read"), NS, NS, st.booleans(), st.just(0))
MARKS = st.builds(Mark, st.sampled_from([SystemCause.METER, SystemCause.INTAKE]), NS, NS)
STEPS = st.builds(
    EngineStep,
    seq=st.integers(0, 6),
    start_ns=NS,
    end_ns=NS,
    rows=st.sampled_from([(), (StepRow("r", 1, 0),)]),
    cached=st.just(()),
    finished=st.just(()),
    preempted=st.just(()),
    loads=st.lists(SPANS, max_size=2).map(tuple),
    work_left=st.booleans(),
    marks=st.lists(MARKS, max_size=2).map(tuple),
)
EVENTS = st.one_of(
    STEPS,
    STEPS,
    st.builds(Woke, NS),
    st.builds(Aborted, st.just(("r",)), NS, st.booleans()),
    st.builds(Loaded, st.lists(SPANS, max_size=2).map(tuple)),
    NS,
)
"""A number is a look at an engine that may be idle."""


def step(
    start: int,
    end: int,
    seq: int = 0,
    loads: tuple[LoadSpan, ...] = (),
    left: bool = True,
    marks: tuple[Mark, ...] = (),
) -> EngineStep:
    return EngineStep(seq, start, end, (StepRow("r", 1, 0),), (), (), (), loads, left, marks)


def load(start: int, end: int) -> LoadSpan:
    return LoadSpan("law", "read", start, end, False, 0)


def told(*events: Event) -> tuple[EngineTimeline, list[Tile]]:
    line = timeline.begin(HELLO)
    tiles: list[Tile] = []
    for event in events:
        line, new = timeline.advance(line, event)
        tiles += new
    return line, tiles


def owners(tiles: list[Tile]) -> list[tuple[int, int, object]]:
    names = {LoadSpan: "load", StepRun: "step"}
    return [(t.start_ns - 900, t.end_ns - 900, names.get(type(t.owner), t.owner)) for t in tiles]


def tell(line: EngineTimeline, event: Event | int) -> tuple[EngineTimeline, list[Tile]]:
    return timeline.stay_idle(line, event + 900) if isinstance(event, int) else timeline.advance(line, event)


@given(st.lists(EVENTS, max_size=12), NS)
@settings(max_examples=300, deadline=None)
def test_tiles_follow_each_other_from_hello_to_the_end_and_every_load_ends_once(
    events: list[Event | int], last: int
) -> None:
    line = timeline.begin(HELLO)
    tiles: list[Tile] = []
    reported: list[LoadSpan] = []
    for event in events:
        try:
            after, new = tell(line, event)
        except EventRefused:
            continue
        assert after.cursor_ns == (new[-1].end_ns if new else line.cursor_ns)
        line, tiles = after, tiles + new
        if isinstance(event, EngineStep | Loaded):
            reported += timeline.in_utc(line, event.loads)
    tiles += timeline.end(line, last)

    assert tiles[0].start_ns == HELLO.utc_ns if tiles else line.cursor_ns == HELLO.utc_ns
    assert tiles[-1].end_ns == max(line.reached_ns, last + 900) if tiles else True
    assert all(before.end_ns == tile.start_ns for before, tile in pairwise(tiles))
    for tile in tiles:
        may_be_empty = isinstance(tile.owner, StepRun | LoadSpan)
        assert tile.start_ns < tile.end_ns or (may_be_empty and tile.start_ns == tile.end_ns)
    ended = [tile.owner for tile in tiles if isinstance(tile.owner, LoadSpan) and tile.owner.end_ns == tile.end_ns]
    ended += [span for tile in tiles if isinstance(tile.owner, StepRun) for span in tile.owner.loads]
    assert sorted(ended) == sorted(reported)


def test_between_steps_a_load_comes_first_then_idle_time_then_marks_then_the_loop() -> None:
    line, tiles = told(
        Woke(120),
        Loaded((load(110, 114),)),
        step(135, 140, marks=(Mark(SystemCause.INTAKE, 118, 123), Mark(SystemCause.METER, 125, 126))),
    )
    assert owners(tiles) == [
        (100, 110, TimeOwner.IDLE),
        (110, 114, "load"),
        (114, 120, TimeOwner.IDLE),
        (120, 123, SystemCause.INTAKE),
        (123, 125, SystemCause.LOOP),
        (125, 126, SystemCause.METER),
        (126, 135, SystemCause.LOOP),
        (135, 140, "step"),
    ]
    assert line == EngineTimeline(anchor_ns=900, cursor_ns=1_040, idle_from_ns=None, next_step=1)


def test_a_load_that_reaches_into_a_step_is_the_steps_from_there_on() -> None:
    _, tiles = told(Woke(100), step(110, 130, loads=(load(105, 115), load(120, 130))))
    assert owners(tiles) == [(100, 105, SystemCause.LOOP), (105, 110, "load"), (110, 130, "step")]
    run = tiles[-1].owner
    assert isinstance(run, StepRun)
    assert [(span.start_ns, span.end_ns) for span in run.loads] == [(1_005, 1_015), (1_020, 1_030)]


def test_after_a_lost_step_only_what_was_told_has_an_owner() -> None:
    _, tiles = told(Woke(110), step(130, 140, seq=2, loads=(load(115, 120),), left=False), step(150, 160, seq=3))
    assert owners(tiles) == [
        (100, 110, TimeOwner.IDLE),
        (110, 115, TimeOwner.UNATTRIBUTED),
        (115, 120, "load"),
        (120, 130, TimeOwner.UNATTRIBUTED),
        (130, 140, "step"),
        # Idle since 140 until a moment that nobody told.
        (140, 150, TimeOwner.UNATTRIBUTED),
        (150, 160, "step"),
    ]


def test_the_time_of_a_process_ends_as_it_was_left() -> None:
    idle, _ = told(Woke(100), step(100, 110, left=False))
    busy, _ = told(Woke(100), step(100, 110), Loaded((load(115, 120),)))
    assert owners(timeline.end(idle, 130)) == [(110, 130, TimeOwner.IDLE)]
    assert timeline.die(idle) == []
    assert owners(timeline.end(busy, 130)) == [
        (110, 115, TimeOwner.UNATTRIBUTED),
        (115, 120, "load"),
        (120, 130, TimeOwner.UNATTRIBUTED),
    ]
    assert owners(timeline.die(busy)) == [(110, 115, TimeOwner.UNATTRIBUTED), (115, 120, "load")]


def test_an_idle_engine_is_tiled_until_it_is_looked_at_but_never_over_what_is_not_told_yet() -> None:
    line, tiles = timeline.stay_idle(timeline.begin(HELLO), 1_020)
    assert owners(tiles) == [(100, 120, TimeOwner.IDLE)]
    assert timeline.stay_idle(line, 1_020) == (line, [])
    awake, _ = timeline.advance(line, Woke(125))
    assert timeline.stay_idle(awake, 1_090) == (awake, [])


def test_a_mark_of_something_that_is_in_steps_only_is_refused() -> None:
    with pytest.raises(EventRefused, match="marks time before it as stall"):
        told(Woke(100), step(110, 120, marks=(Mark(SystemCause.STALL, 101, 105),)))

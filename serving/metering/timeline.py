"""Turns the events of one engine process into tiles, or refuses an event. Pure: a timeline and an event give the next timeline.

One anchor (`Hello`) turns monotonic time into UTC. Time is tiled up to a cursor; what lies after it waits for the next step, since
a load may be reported later than the idle time that it interrupted. A step has all its time. Between steps time is a load's, idle
(from an engine that ran empty until `Woke`), of the cause that a mark tells, or the engine's loop; after steps were lost what
nothing tells of is unattributed.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Final, NamedTuple

from catalog.owners import TimeOwner
from serving.metering.tiles import Cover, StepRun, Tile, Unowned, lay
from serving.wire.events import Aborted, Bye, EngineStep, Event, Hello, Loaded, LoadSpan, Woke
from telemetry.engine_time import SystemCause

_OF_STEPS: Final = frozenset({SystemCause.EMPTY_STEP, SystemCause.STALL})
_ORDER: Final = itemgetter(0, 1)


class EventRefused(ValueError):
    """An event contradicts what was taken before it, and was not taken.

    The accountant goes on as if the event had been lost: time that it would have explained becomes unattributed.
    """

    def __init__(self, event: Event, fact: str) -> None:
        self.event = event
        super().__init__(f"could not take {type(event).__name__} event: {fact}")


class EngineTimeline(NamedTuple):
    """The time of one engine process: tiled up to `cursor_ns`, and what is known of the time after it. Instants are UTC.

    `anchor_ns` is what to add to monotonic time. `idle_from_ns` is since when the engine has no request, None while it has.
    `covers` and `loads` were reported and wait for a step, in order of time. `next_step` is the number that is expected.
    """

    anchor_ns: int
    cursor_ns: int
    idle_from_ns: int | None
    covers: tuple[Cover, ...] = ()
    loads: tuple[LoadSpan, ...] = ()
    next_step: int = 0

    @property
    def known_ns(self) -> int:
        """Where the time begins of which only the next event will tell whose it is."""
        return self.covers[-1].end_ns if self.covers else self.cursor_ns

    @property
    def reached_ns(self) -> int:
        """How far the events taken so far explain time."""
        return max(self.known_ns, self.loads[-1].end_ns) if self.loads else self.known_ns


Advance = tuple[EngineTimeline, list[Tile]]
"""The timeline as it is then, and the tiles from the old cursor to the new one."""


def begin(hello: Hello) -> EngineTimeline:
    """An engine process comes up: it has no request."""
    return EngineTimeline(hello.utc_ns - hello.mono_ns, hello.utc_ns, hello.utc_ns)


def advance(line: EngineTimeline, event: Event) -> Advance:
    """Take one event of a process that has begun; EventRefused when it goes backward or overlaps what was taken."""
    match event:
        case EngineStep():
            return _step(line, event)
        case Loaded():
            return line._replace(loads=_with_loads(line, event)), []
        case Woke():
            return _woke(line, event), []
        case Aborted():
            return _aborted(line, event), []
        case Bye():
            if event.at_ns + line.anchor_ns < line.reached_ns:
                raise EventRefused(event, "it lies before time that is already taken")
            return line, end(line, event.at_ns)
        case _:
            return line, []


def stay_idle(line: EngineTimeline, to_ns: int) -> Advance:
    """The engine is still idle at `to_ns`: tile until then. Nothing happens when it is not, or when that is known already."""
    if line.idle_from_ns is None or to_ns <= max(line.idle_from_ns, line.reached_ns):
        return line, []
    tiles = lay(line.cursor_ns, to_ns, line.loads, (*line.covers, _since(line, to_ns)), SystemCause.LOOP)
    return EngineTimeline(line.anchor_ns, to_ns, to_ns, next_step=line.next_step), tiles


def end(line: EngineTimeline, at_mono_ns: int) -> list[Tile]:
    """The last tiles of a process that ends at `at_mono_ns`, or where its last event ended if that is later."""
    to_ns = max(at_mono_ns + line.anchor_ns, line.reached_ns)
    return lay(line.cursor_ns, to_ns, line.loads, (*line.covers, _since(line, to_ns)), SystemCause.LOOP)


def die(line: EngineTimeline) -> list[Tile]:
    """The last tiles of a process that died without a word: its time ends with its last event."""
    return lay(line.cursor_ns, line.reached_ns, line.loads, line.covers, TimeOwner.UNATTRIBUTED)


def _step(line: EngineTimeline, event: EngineStep) -> Advance:
    start_ns, end_ns = event.start_ns + line.anchor_ns, event.end_ns + line.anchor_ns
    if event.seq < line.next_step:
        raise EventRefused(event, f"seq {event.seq} came after seq {line.next_step - 1}")
    if start_ns < line.cursor_ns or end_ns < start_ns:
        raise EventRefused(event, f"[{event.start_ns}, {event.end_ns}) goes backward or overlaps")
    loads = _with_loads(line, event)
    if loads and loads[-1].end_ns > end_ns:
        raise EventRefused(event, f"{loads[-1].kind} of {loads[-1].adapter} ends after the step that reports it")
    lost = event.seq > line.next_step
    covers = _covers(line, event, start_ns, lost)
    tiles = lay(line.cursor_ns, start_ns, loads, covers, TimeOwner.UNATTRIBUTED if lost else SystemCause.LOOP)
    inside = tuple(load for load in loads if load.end_ns > start_ns)
    tiles.append(Tile(start_ns, end_ns, StepRun(event, inside)))
    return EngineTimeline(
        line.anchor_ns,
        end_ns,
        None if event.work_left else end_ns,
        tuple(cover for cover in line.covers if cover.end_ns > end_ns),
        next_step=event.seq + 1,
    ), tiles


def _covers(line: EngineTimeline, event: EngineStep, start_ns: int, lost: bool) -> Sequence[Cover]:
    """What is known of the time before a step that begins at `start_ns`, loads apart."""
    covers = list(line.covers)
    if line.idle_from_ns is not None:
        # An engine that steps without rows still has no request; one with rows got them at a moment that was not told.
        still: Unowned = TimeOwner.UNATTRIBUTED if event.rows or lost else TimeOwner.IDLE
        covers.append(Cover(line.idle_from_ns, start_ns, still))
    for cause, since_ns, until_ns in event.marks:
        if cause in _OF_STEPS:
            raise EventRefused(event, f"it marks time before it as {cause.value}, which is in steps only")
        covers.append(Cover(since_ns + line.anchor_ns, until_ns + line.anchor_ns, cause))
    return sorted(covers, key=_ORDER)


def _woke(line: EngineTimeline, event: Woke) -> EngineTimeline:
    at_ns = event.at_ns + line.anchor_ns
    waited = _since(line, at_ns)
    if at_ns < waited.start_ns:
        raise EventRefused(event, f"it lies {waited.start_ns - at_ns} ns inside time that is already taken")
    return line._replace(covers=(*line.covers, waited), idle_from_ns=None)


def _since(line: EngineTimeline, to_ns: int) -> Cover:
    """The time after the last event: idle if that said so, else unattributed."""
    if line.idle_from_ns is None:
        return Cover(line.known_ns, to_ns, TimeOwner.UNATTRIBUTED)
    return Cover(line.idle_from_ns, to_ns, TimeOwner.IDLE)


def _aborted(line: EngineTimeline, event: Aborted) -> EngineTimeline:
    if event.work_left or line.idle_from_ns is not None:
        return line
    at_ns = event.at_ns + line.anchor_ns
    if at_ns < line.known_ns:
        raise EventRefused(event, "it lies before time that is already taken")
    return line._replace(idle_from_ns=at_ns)


def _with_loads(line: EngineTimeline, event: Loaded | EngineStep) -> tuple[LoadSpan, ...]:
    """The loads that wait, and those of this event, in UTC; EventRefused when they overlap or lie in time that is tiled."""
    if not event.loads:
        return line.loads
    loads = sorted((*line.loads, *in_utc(line, event.loads)), key=lambda load: (load.start_ns, load.end_ns))
    at_ns = line.cursor_ns
    for load in loads:
        if load.end_ns < load.start_ns:
            fact = f"{load.kind} of {load.adapter} ends {load.start_ns - load.end_ns} ns before it starts"
            raise EventRefused(event, fact)
        if load.start_ns < at_ns:
            fact = f"{load.kind} of {load.adapter} starts {at_ns - load.start_ns} ns inside time that is already taken"
            raise EventRefused(event, fact)
        at_ns = load.end_ns
    return tuple(loads)


def in_utc(line: EngineTimeline, loads: Sequence[LoadSpan]) -> list[LoadSpan]:
    """Loads of this process as events tell them, in UTC."""
    anchor_ns = line.anchor_ns
    return [load._replace(start_ns=load.start_ns + anchor_ns, end_ns=load.end_ns + anchor_ns) for load in loads]

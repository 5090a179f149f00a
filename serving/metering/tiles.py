"""Tiles: the time of one engine process cut into stretches that follow each other, each with one owner."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from catalog.owners import TimeOwner
from serving.wire.events import EngineStep, LoadSpan
from telemetry.engine_time import SystemCause

Unowned = Literal[TimeOwner.IDLE, TimeOwner.UNATTRIBUTED]
"""Time that neither the engine nor a load of an adapter used."""


class StepRun(NamedTuple):
    """A step as an owner of its whole time; `loads` are those that end inside it, in UTC and in order of time."""

    step: EngineStep
    loads: tuple[LoadSpan, ...]


class Tile(NamedTuple):
    """[start_ns, end_ns) in UTC belongs to this owner. A load may have several tiles; the last one ends where it ends."""

    start_ns: int
    end_ns: int
    owner: Unowned | SystemCause | LoadSpan | StepRun


class Cover(NamedTuple):
    """[start_ns, end_ns) in UTC has this owner as far as no step, no load and no earlier cover takes it."""

    start_ns: int
    end_ns: int
    owner: Unowned | SystemCause


def lay(
    start_ns: int, end_ns: int, loads: Sequence[LoadSpan], covers: Iterable[Cover], rest: Unowned | SystemCause
) -> list[Tile]:
    """The tiles of [start, end): its loads first, then its covers, then `rest`.

    Both come in order of time, and no load ends before `start_ns`. A load without length has a tile without length.
    """
    tiles: list[Tile] = []
    at = start_ns
    for load in loads:
        if load.start_ns >= end_ns and load.end_ns > end_ns:
            break
        if at < load.start_ns:
            tiles += _lay_covers(at, load.start_ns, covers, rest)
            at = load.start_ns
        until = min(load.end_ns, end_ns)
        tiles.append(Tile(at, until, load))
        at = until
    if at < end_ns:
        tiles += _lay_covers(at, end_ns, covers, rest)
    return tiles


def _lay_covers(start_ns: int, end_ns: int, covers: Iterable[Cover], rest: Unowned | SystemCause) -> list[Tile]:
    tiles: list[Tile] = []
    at = start_ns
    for cover in covers:
        begin, until = max(cover.start_ns, at), min(cover.end_ns, end_ns)
        if begin >= until:
            continue
        if begin > at:
            tiles.append(Tile(at, begin, rest))
        tiles.append(Tile(begin, until, cover.owner))
        at = until
    if at < end_ns:
        tiles.append(Tile(at, end_ns, rest))
    return tiles

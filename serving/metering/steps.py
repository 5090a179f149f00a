"""Splits a step: adapter loads come off first, then a stall of the machine, and the rest is shared among its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from catalog.apportionment import deal
from serving.metering.attempts import AttemptBook, Request
from serving.metering.loads import is_cold
from serving.metering.parts import NO_SAVING
from serving.metering.tiles import StepRun
from serving.metering.windows import WindowBook
from serving.step_model.profile import Profile, RowWork
from serving.step_model.split import RowShare, split_step
from serving.step_model.step_class import step_class
from serving.wire.events import LoadSpan
from telemetry.engine_time import SystemCause

STALL_FACTOR: Final = 3
"""What a step takes above this many times its prediction belongs to nobody in it."""


class Piece(NamedTuple):
    """What of a step lies in [start_ns, end_ns), inside one UTC minute: `net_ns` of it, loads apart, are `stall_ns` and `shares`.

    A step without rows has neither: its `net_ns` is nobody's.
    """

    start_ns: int
    end_ns: int
    net_ns: int
    stall_ns: int
    predicted_ns: int
    shares: list[RowShare]


class StepSplit(NamedTuple):
    """A step split among its rows, and at UTC minutes into `pieces`. `loads` are those inside it.

    By row, in the step's order: `requests`, what they did (`works`), and an estimate of what a prefix hit saved them (`saved`).
    """

    requests: list[Request]
    works: list[RowWork]
    saved: list[tuple[int, int]]
    pieces: list[Piece]
    loads: tuple[LoadSpan, ...]

    @property
    def attempts(self) -> list[str]:
        """Whose rows were in it."""
        return list(dict.fromkeys(request.attempt.key for request in self.requests))

    @property
    def took_ns(self) -> list[int]:
        """What each row has of the step, loads and stalls apart."""
        return [sum(map(sum, shares)) for shares in zip(*(piece.shares for piece in self.pieces), strict=True)]


def split_run(run: StepRun, minutes: Sequence[tuple[int, int]], attempts: AttemptBook, model: Profile) -> StepSplit:
    """Split a step that is cut into `minutes` (UTC), each by itself, and tell `attempts` how far their requests came."""
    step, loads = run
    start_ns = minutes[0][0]
    attempts.preempt(step.preempted)
    cached = dict(step.cached)
    requests: list[Request] = []
    works: list[RowWork] = []
    hits: dict[int, int] = {}
    for index, row in enumerate(step.rows):
        request = attempts.find(row, start_ns)
        if request.cached is None:
            found = cached.get(row.request, row.before)
            request.start(found, start_ns)
            hits[index] = found
        requests.append(request)
        works.append(request.work(row))
        request.reached = max(request.reached, row.before + row.tokens)

    predicted_ns = model.predict_ns(works)
    pieces = split_at_minutes(works, minutes, loads, predicted_ns, model)
    net_ns = sum(piece.net_ns - piece.stall_ns for piece in pieces)
    saved = [NO_SAVING] * len(works)
    if hits:
        mixed = len({work.adapter for work in works}) > 1
        for index, found in hits.items():
            saving = model.kv_saved_ns(found, works[index].adapter is not None, mixed)
            saved[index] = scaled(saving, net_ns, predicted_ns)
    return StepSplit(requests, works, saved, pieces, loads)


def book_step(split: StepSplit, book: WindowBook) -> None:
    """Book a step that begins at the book's cursor. Tokens, and what a prefix hit saved, count where it ends."""
    attempts = [request.attempt for request in split.requests]
    name = step_class(split.works)
    for piece in split.pieces:
        ended = piece is split.pieces[-1]
        if not attempts:
            book.system(SystemCause.EMPTY_STEP, piece.net_ns)
        elif ended:
            book.system(SystemCause.STALL, piece.stall_ns)
            book.share(attempts, piece.shares, map(_first_time, split.works), split.saved)
        else:
            book.system(SystemCause.STALL, piece.stall_ns)
            book.share(attempts, piece.shares)
        _book_loads(piece, split, book)
        book.step(name, piece.net_ns - piece.stall_ns, piece.predicted_ns, ended)
        book.move(piece.end_ns)


def split_at_minutes(
    works: Sequence[RowWork],
    minutes: Sequence[tuple[int, int]],
    loads: Sequence[LoadSpan],
    predicted_ns: int,
    model: Profile,
) -> list[Piece]:
    """The pieces of a step with these rows, `predicted_ns` for all of it; a stall and the prediction are dealt by net time."""
    net = [end_ns - start_ns - sum(_inside(load, start_ns, end_ns) for load in loads) for start_ns, end_ns in minutes]
    stall_ns = max(sum(net) - STALL_FACTOR * predicted_ns, 0) if predicted_ns else 0
    pieces: list[Piece] = []
    parts = zip(minutes, net, deal(stall_ns, net), deal(predicted_ns, net), strict=True)
    for (start_ns, end_ns), net_ns, stalled_ns, expected_ns in parts:
        shares = split_step(net_ns - stalled_ns, works, model) if works else []
        pieces.append(Piece(start_ns, end_ns, net_ns, stalled_ns, expected_ns, shares))
    return pieces


def scaled(saving: tuple[int, int], took_ns: int, predicted_ns: int) -> tuple[int, int]:
    """A saving by the model in the measured time of the step that had it: its rows are charged what it took, not what was predicted."""
    if not predicted_ns:
        return saving
    return saving[0] * took_ns // predicted_ns, saving[1] * took_ns // predicted_ns


def _first_time(work: RowWork) -> tuple[int, int]:
    """Prefill and decode tokens of a row that had not been computed before."""
    if not work.recompute:
        return work.prefill, work.decode
    return max(work.prefill - work.recompute, 0), work.decode - max(work.recompute - work.prefill, 0)


def _book_loads(piece: Piece, split: StepSplit, book: WindowBook) -> None:
    """Loads inside a piece of a step: cold, or, into the slot again, the adapter time of those who use it."""
    for load in split.loads:
        took_ns = _inside(load, piece.start_ns, piece.end_ns)
        users = [request for request in split.requests if request.adapter == load.adapter]
        if is_cold(load):
            book.cold(load.adapter, took_ns)
        elif not users:
            book.system(SystemCause.LOOP, took_ns)
        else:
            parts = deal(took_ns, [1] * len(users), [user.id for user in users])
            book.share([user.attempt for user in users], [RowShare(0, ns, 0) for ns in parts])


def _inside(load: LoadSpan, start_ns: int, end_ns: int) -> int:
    """How much of a load lies in [start, end)."""
    return max(min(load.end_ns, end_ns) - max(load.start_ns, start_ns), 0)

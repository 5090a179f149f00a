"""Books one step: adapter loads come off first, then a stall of the machine, and the rest is split among its rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from serving.metering.attempts import Attempts, Request
from serving.metering.events import LoadSpan, Step
from serving.metering.loads import is_cold
from serving.metering.models import StepModel, split_step
from serving.metering.prefix_lines import PrefixLines
from serving.metering.profile import RowWork
from serving.metering.split import RowShare, deal
from serving.metering.windows import WindowBook, minutes
from telemetry.engine_time import SystemCause

_NOTHING: Final = (0, 0)
STALL_FACTOR: Final = 3
"""What a step takes above this many times its prediction belongs to nobody in it."""


def book_step(
    step: Step,
    interval: tuple[int, int],
    spans: Sequence[LoadSpan],
    book: WindowBook,
    attempts: Attempts,
    prefixes: PrefixLines,
    profile: StepModel,
) -> list[str]:
    """Book `interval` (UTC; the book's cursor stands at its start) and return the attempts that were in the step.

    A UTC minute inside it cuts it: each piece is split by itself. Tokens, and what a prefix hit saved, count where it ends.
    """
    start_ns, end_ns = interval
    attempts.preempt(step.preempted)
    cached = dict(step.cached)
    requests: list[Request] = []
    works: list[RowWork] = []
    saved: list[tuple[int, int]] = []
    for row in step.rows:
        request = attempts.find(row, start_ns)
        saving = _NOTHING
        if request.cached is None:
            found = cached.get(row.request, row.before)
            request.start(found, start_ns)
            saving = profile.kv_saved_ns(found, request.adapter is not None)
        requests.append(request)
        works.append(request.work(row))
        saved.append(saving)
        request.reached = max(request.reached, row.before + row.tokens)

    pieces = list(minutes(start_ns, end_ns))
    free = [_free(piece, spans) for piece in pieces]
    predicted = profile.predict_ns(works)
    stall = max(sum(free) - STALL_FACTOR * predicted, 0) if predicted else 0
    net_ns = sum(free) - stall
    saved = [scaled(saving, net_ns, predicted) if saving != _NOTHING else saving for saving in saved]
    took = [0] * len(works)
    parts = zip(pieces, free, deal(stall, free), deal(predicted, free), strict=True)
    for (start, end), net, stalled, expected in parts:
        last = end == end_ns
        shares: list[RowShare] = []
        if works:
            book.system(SystemCause.STALL, stalled)
            shares = split_step(net - stalled, works, profile)
        else:
            book.system(SystemCause.EMPTY_STEP, net)
        for request, work, share, saving in zip(requests, works, shares, saved, strict=True):
            if last:
                book.share(request.attempt, share, _first_time(work), saving)
            else:
                book.share(request.attempt, share)
        took = [ns + sum(share) for ns, share in zip(took, shares, strict=True)] if shares else took
        _book_loads(start, end, spans, requests, book)
        book.step(expected, last)
        book.move(end)
    prefixes.step(requests, works, took, step.hits, profile, end_ns)
    return list(dict.fromkeys(request.attempt.key for request in requests))


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


def _book_loads(
    start_ns: int, end_ns: int, spans: Iterable[LoadSpan], requests: list[Request], book: WindowBook
) -> None:
    """Loads inside [start, end) of a step: cold, or, into the slot again, the adapter time of those who use it."""
    for span in spans:
        took = min(span.end_ns, end_ns) - max(span.start_ns, start_ns)
        if took <= 0:
            continue
        users = [request for request in requests if request.adapter == span.adapter]
        if is_cold(span):
            book.cold(span.adapter, took)
        elif not users:
            book.system(SystemCause.LOOP, took)
        else:
            for request, ns in zip(users, deal(took, [1] * len(users), [user.id for user in users]), strict=True):
                book.share(request.attempt, RowShare(0, ns, 0))


def _free(piece: tuple[int, int], spans: Iterable[LoadSpan]) -> int:
    start_ns, end_ns = piece
    inside = sum(max(min(span.end_ns, end_ns) - max(span.start_ns, start_ns), 0) for span in spans)
    return end_ns - start_ns - inside

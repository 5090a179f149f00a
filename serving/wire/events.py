"""What the engine process tells the collector: small values, sent without blocking, in the order things happened.

All instants are CLOCK_MONOTONIC nanoseconds of the host; `Hello` carries the one anchor that turns them into UTC, so that
a step of the wall clock later on cannot move or stretch measured time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from telemetry.engine_time import SystemCause


class Hello(NamedTuple):
    """The meter of one engine process is up. `mono_ns` and `utc_ns` were read together; measured time begins at `mono_ns`."""

    emitter: str
    engine: str
    mono_ns: int
    utc_ns: int


class Entered(NamedTuple):
    """A request is known to the scheduler. `cached_tokens` is not known before its first row: see `StepRow.before`.

    `prompt` tells an attempt's prompts apart: the engine has a request for each choice of a prompt, and those share it.
    Empty: the engine's names of its requests tell.
    """

    request: str
    attempt: str
    tenant: str
    adapter: str | None
    prompt_tokens: int
    at_ns: int
    prompt: str = ""


class StepRow(NamedTuple):
    """One request inside one step: `tokens` were computed after `before` tokens that were already there."""

    request: str
    tokens: int
    before: int


class LoadSpan(NamedTuple):
    """Engine-thread time that an adapter took: `kind` is `read` (disk, parse, host copy) or `activate` (device slot).

    `first` marks an activation that ends a load (cold time); an activation without it re-activates a host-resident adapter
    (adapter time of the requests that use it).
    """

    adapter: str
    kind: str
    start_ns: int
    end_ns: int
    first: bool
    size_bytes: int


class Rows(NamedTuple):
    """The rows of a step by column, as the engine's thread has them at hand: a `StepRow` for each would cost it too much."""

    requests: Sequence[str]
    tokens: Sequence[int]
    before: Sequence[int]


class Mark(NamedTuple):
    """What the engine's thread did between two steps: its part of the loop has a cause."""

    cause: SystemCause
    start_ns: int
    end_ns: int


class PrefixHit(NamedTuple):
    """A request found tokens [low, high) of its prompt already computed, by attempt `payer`."""

    request: str
    payer: str
    low: int
    high: int


class EngineStep(NamedTuple):
    """One engine step: [start_ns, end_ns) does not overlap any other step.

    `finished` are requests that left the scheduler in or before this step (stopped or aborted), `preempted` those thrown out.
    `loads` happened since the previous step ended or inside this one. `work_left` is False when the scheduler ran empty.
    `cached` gives (request, prefix-cache tokens) for requests whose first row is in this step. `marks` lie before the step,
    in order of time, and do not overlap. `aborted` are those of `finished` that were given up. `hits` say who had computed
    what the requests in `cached` found.
    """

    seq: int
    start_ns: int
    end_ns: int
    rows: tuple[StepRow, ...]
    cached: tuple[tuple[str, int], ...]
    finished: tuple[str, ...]
    preempted: tuple[str, ...]
    loads: tuple[LoadSpan, ...]
    work_left: bool
    marks: tuple[Mark, ...] = ()
    aborted: tuple[str, ...] = ()
    hits: tuple[PrefixHit, ...] = ()


class Aborted(NamedTuple):
    """Requests left the scheduler between steps (the client hung up)."""

    requests: tuple[str, ...]
    at_ns: int
    work_left: bool


class Woke(NamedTuple):
    """The first request arrived at an engine that had none: idle time ended at `at_ns`."""

    at_ns: int


class Loaded(NamedTuple):
    """An adapter was loaded between steps (`add_lora`)."""

    loads: tuple[LoadSpan, ...]


class Bye(NamedTuple):
    """The engine process ends in order; measured time ends at `at_ns`."""

    at_ns: int


Event = Hello | Entered | EngineStep | Aborted | Woke | Loaded | Bye

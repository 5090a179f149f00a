"""Attempts while the engine has them: what each engine request computed, and what its attempt adds up to."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Container, Iterable
from dataclasses import astuple, dataclass, field, replace
from typing import Final

from catalog.durations import MINUTE_NS, QUARTER_NS
from serving.metering.parts import Parts
from serving.metering.tally import Tally
from serving.step_model.profile import RowWork
from serving.wire.events import Entered, StepRow
from telemetry.usage import UNKNOWN_TENANT, Slice

_CHOICE: Final = re.compile(r"^\d+_")
"""vLLM calls the k-th of several choices of a prompt `k_<name of all>`."""
KEEP_NS: Final = 10 * MINUTE_NS
"""How long figures that nobody asked for are kept after the attempt left the engine."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What the engine spent on one attempt, all its engine requests together.

    Instants are UTC nanoseconds. `input_tokens` (inclusive of cached) counts each prompt that got into a step, once, however
    many choices were asked of it; `cached_tokens` is what the first of a prompt's choices to run found of it: what the others
    found, this one computed. `cached_tokens` and `first_scheduled_ns` are None when nothing got into a step.
    `output_tokens` of all choices were computed, delivered or not.
    """

    slices: tuple[Slice, ...]
    input_tokens: int
    cached_tokens: int | None
    output_tokens: int
    preemptions: int
    first_scheduled_ns: int | None
    entered_ns: int
    method: str
    profile: str


@dataclass(slots=True)
class AttemptWork:
    """One attempt and its parts so far; `slices` holds what it has by quarter hour."""

    key: str
    tenant: str
    adapter: str | None
    entered_ns: int
    requests: list[Request] = field(default_factory=list)
    firsts: dict[str, Request] = field(default_factory=dict)
    """By prompt, the first of its requests to get into a step."""
    slices: dict[int, Parts] = field(default_factory=dict)
    left_ns: int = 0
    forgotten: bool = False

    @property
    def in_engine(self) -> bool:
        """Whether any of its requests is still there."""
        return any(not request.left for request in self.requests)

    @property
    def input_tokens(self) -> int:
        """Tokens of its prompts."""
        return sum(request.prompt for request in self.firsts.values())

    @property
    def cached_tokens(self) -> int:
        """Tokens of its prompts that were there before it came."""
        return sum(request.cached or 0 for request in self.firsts.values())

    @property
    def output_tokens(self) -> int:
        """Tokens sampled for it."""
        return sum(request.outputs for request in self.requests)

    def parts(self, at_ns: int) -> Parts:
        """What it has in the quarter hour that holds `at_ns`, to be added to."""
        return self.slices.setdefault(at_ns - at_ns % QUARTER_NS, Parts())


@dataclass(slots=True)
class Request:
    """One engine request: a choice of `prompt_key`, whose `prompt` tokens it reads.

    `reached` tokens stand computed (cached ones included); below `lost` they are a repetition.
    """

    id: str
    attempt: AttemptWork
    prompt_key: str
    prompt: int
    adapter: str | None
    reached: int = 0
    lost: int = 0
    cached: int | None = None
    preemptions: int = 0
    scheduled_ns: int | None = None
    left: bool = False
    late: bool = False
    """A row of a request that had left already: it is no request of its own."""

    def start(self, cached: int, at_ns: int) -> None:
        """It is in a step for the first time, and found `cached` tokens of its prompt computed."""
        self.cached = self.reached = cached
        self.scheduled_ns = at_ns
        self.attempt.firsts.setdefault(self.prompt_key, self)

    @property
    def read(self) -> int:
        """Tokens of its prompt, once it got into a step."""
        return self.prompt if self.scheduled_ns is not None else 0

    @property
    def again(self) -> bool:
        """Whether it reads a prompt that another choice of it read before."""
        return self.scheduled_ns is not None and self.attempt.firsts.get(self.prompt_key) is not self

    def work(self, row: StepRow) -> RowWork:
        """The row as the step model sees it. Repeated tokens come in one chunk, so they count as prefill."""
        if row.before >= self.prompt and row.before >= self.lost:
            return RowWork(0, row.tokens, row.before, self.adapter, 0, self.id)
        prefill = min(max(max(self.prompt, self.lost) - row.before, 0), row.tokens)
        again = min(max(self.lost - row.before, 0), row.tokens)
        return RowWork(prefill, row.tokens - prefill, row.before, self.adapter, again, self.id)

    @property
    def outputs(self) -> int:
        """Tokens sampled: one by the step that completes the prompt, one by each token computed after it."""
        return max(self.reached - self.prompt + 1, 0)


class AttemptBook:
    """All attempts that are in the engine, and those that left it and were not forgotten yet."""

    def __init__(self) -> None:
        self._attempts: dict[str, AttemptWork] = {}
        self._requests: dict[str, Request] = {}
        self._gone: dict[str, Request] = {}
        self._left: deque[tuple[int, str]] = deque()
        self._tally = Tally()

    def tally(self) -> Tally:
        """What was counted so far."""
        staying = self._requests.values()
        return replace(
            self._tally,
            in_flight_requests=len(staying),
            in_flight_prompt_tokens=sum(request.read for request in staying),
            in_flight_cached_tokens=sum(request.cached or 0 for request in staying),
            in_flight_output_tokens=sum(request.outputs for request in staying),
        )

    def __contains__(self, key: str) -> bool:
        return key in self._attempts

    def enter(self, event: Entered, at_ns: int) -> Request:
        """A request is known to the engine; a second one with the same attempt key belongs to the same attempt."""
        key = event.attempt or event.request
        attempt = self._attempts.get(key)
        if attempt is None:
            tenant = event.tenant or UNKNOWN_TENANT
            attempt = self._attempts[key] = AttemptWork(key, tenant, event.adapter, at_ns)
        prompt_key = event.prompt or _CHOICE.sub("", event.request)
        request = Request(event.request, attempt, prompt_key, event.prompt_tokens, event.adapter)
        attempt.requests.append(request)
        self._requests[event.request] = request
        return request

    def find(self, row: StepRow, at_ns: int) -> Request:
        """The request of a row.

        One whose entry was lost becomes an attempt of its own, tenant `unknown`. One that had left, whose figures may be
        written already, becomes an attempt of its own with its tenant: the engine computed more than was asked of it.
        """
        request = self._requests.get(row.request)
        if request is not None:
            return request
        prompt = row.before + row.tokens if row.tokens > 1 else row.before
        gone = self._gone.get(row.request)
        if gone is None:
            return self.enter(Entered(row.request, "", "", None, prompt, at_ns), at_ns)
        if gone.attempt.key == row.request:
            return gone
        late = self.enter(Entered(row.request, "", gone.attempt.tenant, gone.adapter, gone.prompt, at_ns), at_ns)
        late.reached = late.cached = row.before
        late.late = True
        self.leave((row.request,), at_ns)
        return late

    def preempt(self, requests: Iterable[str]) -> None:
        """These were thrown out: what they had computed so far will be computed again."""
        for name in requests:
            if (request := self._requests.get(name)) is not None:
                request.preemptions += 1
                request.lost = max(request.lost, request.reached)

    def leave(self, requests: Iterable[str] | None, at_ns: int, given_up: Container[str] | None = ()) -> None:
        """These left the engine (None: all of it); `given_up` are those that nobody wanted any more (None: all of these)."""
        for name in list(self._requests) if requests is None else requests:
            request = self._requests.pop(name, None)
            if request is None:
                continue
            request.left = True
            self._gone[name] = request
            self._count(request, given_up is None or name in given_up)
            attempt = request.attempt
            if attempt.in_engine:
                continue
            attempt.left_ns = at_ns
            if attempt.forgotten:
                self._delete(attempt)
            else:
                self._left.append((at_ns, attempt.key))

    def measured(self, key: str, method: str, profile: str) -> Measured | None:
        """The attempt's figures; None while any of its requests is in the engine, or when it is not known."""
        attempt = self._attempts.get(key)
        if attempt is None or attempt.in_engine:
            return None
        requests = attempt.requests
        started = [request.scheduled_ns for request in requests if request.scheduled_ns is not None]
        return Measured(
            slices=tuple(Slice(start, *astuple(parts)) for start, parts in sorted(attempt.slices.items())),
            input_tokens=attempt.input_tokens,
            cached_tokens=attempt.cached_tokens if started else None,
            output_tokens=attempt.output_tokens,
            preemptions=sum(request.preemptions for request in requests),
            first_scheduled_ns=min(started, default=None),
            entered_ns=attempt.entered_ns,
            method=method,
            profile=profile,
        )

    def forget(self, key: str, claimed: bool = False) -> None:
        """Free what is kept of an attempt, once it has left the engine: until then its time still needs its name.

        `claimed` when its figures were handed to whoever writes its usage record.
        """
        attempt = self._attempts.get(key)
        if attempt is None:
            return
        if attempt.in_engine:
            attempt.forgotten = True
            return
        if claimed:
            self._tally.claimed_attempts += 1
            self._tally.claimed_prompt_tokens += attempt.input_tokens
            self._tally.claimed_cached_tokens += attempt.cached_tokens
            self._tally.claimed_output_tokens += attempt.output_tokens
        self._delete(attempt)

    def drop_stale(self, now_ns: int) -> None:
        """Free attempts that left the engine KEEP_NS ago or more and were not asked for."""
        while self._left and self._left[0][0] <= now_ns - KEEP_NS:
            at_ns, key = self._left.popleft()
            attempt = self._attempts.get(key)
            if attempt is not None and not attempt.in_engine and attempt.left_ns == at_ns:
                self._delete(attempt)

    def _count(self, request: Request, given_up: bool) -> None:
        tally = self._tally
        if request.late:
            return
        cached = request.cached or 0
        tally.requests += 1
        tally.prompt_tokens += request.read
        tally.cached_tokens += cached
        tally.output_tokens += request.outputs
        tally.preemptions += request.preemptions
        if request.again:
            tally.again_prompt_tokens += request.prompt
            tally.again_cached_tokens += cached
        if given_up:
            tally.aborted_requests += 1
            tally.aborted_prompt_tokens += request.read
            tally.aborted_cached_tokens += cached
            tally.aborted_output_tokens += request.outputs

    def _delete(self, attempt: AttemptWork) -> None:
        del self._attempts[attempt.key]
        for request in attempt.requests:
            if self._gone.get(request.id) is request:
                del self._gone[request.id]

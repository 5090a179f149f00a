"""vLLM's waiting queue with turns: `serving.policy.turns` says whose request is next, this keeps the requests and the seats.

To vLLM it seems empty while nothing in it may start: what waits for a slot is not looked at in each step. Its length is the truth.
A fault ends the turns, never the engine: from then on it is first come, first served, as vLLM's own.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from vllm.v1.core.sched.request_queue import FCFSRequestQueue, RequestQueue
from vllm.v1.request import RequestStatus

from serving.policy import turns
from serving.policy.turn_cost import TurnCost
from serving.policy.turns import FlowStanding, Rules
from serving.step_model.profile import Profile

LOOK_EVERY_NS: Final = 100_000_000
"""How often the clock alone may change whose turn it is."""
MOST_FLOWS: Final = 4_096
"""Beyond so many, those that want nothing are forgotten."""
FIRST_ANSWER: Final = 64
"""Tokens expected of a flow's first answer."""

NOTHING: Final[Mapping[str, int]] = {}

logger = logging.getLogger("vllm.loraledger.turns")


class Whose(NamedTuple):
    """Whose a request is, and its tenant's weight."""

    tenant: str
    adapter: str | None
    weight: int


class _Flow:
    __slots__ = ("answer", "line", "seated", "standing")

    def __init__(self, standing: FlowStanding) -> None:
        self.standing = standing
        self.line: deque[Any] = deque()
        self.seated = 0
        self.answer = FIRST_ANSWER


class _Seat(NamedTuple):
    flow: _Flow
    reading: int
    predicted: int
    cached: int
    had: int
    """Tokens when it came: its prompt, and after a preemption what it had answered."""


class TurnQueue(RequestQueue):  # type: ignore[misc]
    """Called from the engine's thread only. `whose` reads a request; `clock` is CLOCK_MONOTONIC in nanoseconds."""

    def __init__(
        self,
        rules: Rules,
        profile: Profile,
        whose: Callable[[Any], Whose],
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.faults = 0
        self.rules, self._whose, self._clock = rules, whose, clock
        self._cost = TurnCost(profile)
        self._plain: FCFSRequestQueue | None = None
        self._waiting: dict[str, Any] = {}
        self._flows: dict[tuple[str, str | None], _Flow] = {}
        self._returned: deque[Any] = deque()
        self._seats: dict[str, _Seat] = {}
        self._holders: dict[str, int] = {}
        self._draining: frozenset[str] = frozenset()
        self._popped: Any = None
        self._next: Any = None
        self._known = False
        self._look_ns = 0

    def step(self, running: int) -> None:
        """A step is going to be scheduled, while so many rows have a seat."""
        if self._plain is None:
            self._try(self._step, running)

    def stepped(self, scheduled: Mapping[str, int]) -> None:
        """It was scheduled: so many tokens of each request, which vLLM counts as computed already."""
        if self._popped is not None and self._plain is None:
            self._try(self._seat, scheduled)

    def left(self, request: Any) -> None:
        """A request left the scheduler, for whatever reason."""
        if self._plain is None:
            self._try(self._leave, request)

    def add_request(self, request: Any) -> None:
        """See vLLM."""
        if self._plain is not None:
            self._plain.add_request(request)
            return
        self._waiting[request.request_id] = request
        self._try(self._enter, request, False)

    def prepend_request(self, request: Any) -> None:
        """See vLLM: it was preempted, or passed over in this step."""
        if self._plain is not None:
            self._plain.prepend_request(request)
            return
        self._waiting[request.request_id] = request
        self._try(self._enter, request, True)

    def prepend_requests(self, requests: Iterable[Any]) -> None:
        """See vLLM."""
        for request in requests:
            self.prepend_request(request)

    def peek_request(self) -> Any:
        """See vLLM: the request whose turn it is. IndexError when none may start."""
        if self._plain is None:
            self._try(self._find)
        if self._plain is not None:
            return self._plain.peek_request()
        if self._next is None:
            raise IndexError("nobody's turn")
        return self._next

    def pop_request(self) -> Any:
        """See vLLM: what was peeked at."""
        request = self.peek_request()
        if self._plain is not None:
            return self._plain.pop_request()
        del self._waiting[request.request_id]
        self._try(self._take, request)
        return request

    def remove_request(self, request: Any) -> None:
        """See vLLM."""
        self.remove_requests((request,))

    def remove_requests(self, requests: Iterable[Any]) -> None:
        """See vLLM. Requests that do not wait are no fault."""
        if self._plain is not None:
            self._plain.remove_requests(requests)
            return
        here = [r for r in requests if self._waiting.pop(r.request_id, None) is not None]
        self._try(self._drop, here)

    def __bool__(self) -> bool:
        """Whether one of its requests may start."""
        if self._plain is None and (self._popped is not None or not self._known):
            self._try(self._find)
        return bool(self._plain) if self._plain is not None else self._next is not None

    def __len__(self) -> int:
        """How many wait, whether they may start or not."""
        return len(self._waiting) if self._plain is None else len(self._plain)

    def __iter__(self) -> Iterator[Any]:
        """All that wait, in the order they came."""
        return iter(list(self._waiting.values()) if self._plain is None else self._plain)

    def _try(self, act: Callable[..., None], *args: Any) -> None:
        try:
            act(*args)
        except Exception:
            self.faults += 1
            logger.exception("turns ended by a fault, from now on it is first come, first served")
            first = sorted(self._waiting.values(), key=lambda r: (not r.num_preemptions, r.arrival_time))
            self._plain = FCFSRequestQueue(first)

    def _step(self, running: int) -> None:
        self._cost.step()
        if not running and self._waiting:
            self._find()
            if self._next is None:
                raise RuntimeError("nobody may start in an empty engine")
        now = self._clock()
        if self._waiting and now >= self._look_ns:
            self._look_ns = now + LOOK_EVERY_NS
            waiting = [flow.standing for flow in self._flows.values() if flow.line]
            # A preempted row goes before all others.
            waiting += [FlowStanding(self._whose(r).adapter, passed_ns=0) for r in self._returned]
            self._draining = turns.draining(self._holders, self._draining, waiting, self.rules, now)
            self._known = False

    def _flow(self, request: Any) -> _Flow:
        tenant, adapter, weight = self._whose(request)
        flow = self._flows.get((tenant, adapter))
        if flow is None:
            if len(self._flows) >= MOST_FLOWS:
                self._flows = {key: flow for key, flow in self._flows.items() if flow.line or flow.seated}
            flow = self._flows[tenant, adapter] = _Flow(FlowStanding(adapter, weight))
        elif flow.standing.weight != weight:
            flow.standing = flow.standing._replace(weight=weight)
        return flow

    def _enter(self, request: Any, again: bool) -> None:
        self._seat()
        self._leave(request)
        self._known = False
        if request.status is RequestStatus.PREEMPTED:
            self._returned.appendleft(request)
            return
        flow = self._flow(request)
        if not flow.line and flow.standing.passed_ns is None:
            busy = () if flow.seated else (f.standing.time for f in self._flows.values() if f.line or f.seated)
            flow.standing = turns.joined(flow.standing, busy, self._clock())
        if again:
            flow.line.appendleft(request)
        else:
            flow.line.append(request)

    def _find(self) -> None:
        self._seat()
        if self._known:
            return
        self._known = True
        self._next = next((r for r in self._returned if self._may_start(self._whose(r).adapter, True)), None)
        if self._next is not None:
            return
        now = self._clock()
        open_ = [flow for flow in self._flows.values() if flow.line and self._may_start(flow.standing.adapter)]
        if open_:
            self._next = min(open_, key=lambda flow: turns.rank(flow.standing, self.rules, now)).line[0]

    def _may_start(self, adapter: str | None, again: bool = False) -> bool:
        if adapter is None or adapter in self._holders:
            return again or adapter not in self._draining
        return len(self._holders) < self.rules.slots

    def _take(self, request: Any) -> None:
        if self._returned and request is self._returned[0]:
            self._returned.popleft()
        elif request.status is RequestStatus.PREEMPTED:
            self._returned.remove(request)
        else:
            self._flow(request).line.popleft()
        self._popped, self._known = request, False

    def _drop(self, requests: list[Any]) -> None:
        self._seat()
        self._known = False
        gone = {r.request_id for r in requests}
        if gone:
            self._returned = deque(r for r in self._returned if r.request_id not in gone)
        for flow in {id(flow): flow for flow in map(self._flow, requests)}.values():
            flow.line = deque(r for r in flow.line if r.request_id not in gone)
            if not flow.line:
                flow.standing = flow.standing._replace(passed_ns=None)

    def _seat(self, scheduled: Mapping[str, int] = NOTHING) -> None:
        """What was popped last has a seat if vLLM took it; what it passed over comes back by itself."""
        request, self._popped = self._popped, None
        if request is None or request.status is not RequestStatus.RUNNING:
            return
        flow, now = self._flow(request), self._clock()
        adapter = flow.standing.adapter
        had = request.num_tokens
        cached = request.num_computed_tokens - scheduled.get(request.request_id, 0)
        answer = max(1, min(flow.answer, request.max_tokens - request.num_output_tokens))
        predicted = self._cost.predict(adapter, cached, had - cached, answer)
        flow.standing = turns.admitted(flow.standing, predicted, bool(flow.line), now)
        flow.seated += 1
        self._seats[request.request_id] = _Seat(flow, self._cost.came(adapter), predicted, cached, had)
        if adapter is not None:
            self._holders.setdefault(adapter, now)

    def _leave(self, request: Any) -> None:
        self._seat()
        seat = self._seats.pop(request.request_id, None)
        if seat is None:
            return
        flow, adapter = seat.flow, seat.flow.standing.adapter
        answered = max(0, request.num_tokens - seat.had)
        # A preemption takes its tokens away before it is told.
        reached = seat.had if answered or request.num_preemptions else request.num_computed_tokens
        prefill = max(0, min(seat.had, reached) - seat.cached)
        computed = self._cost.went(adapter, seat.reading) + self._cost.own(adapter, seat.cached, prefill, answered)
        flow.standing = turns.settled(flow.standing, seat.predicted, computed)
        flow.seated -= 1
        if request.status is RequestStatus.FINISHED_STOPPED or request.status is RequestStatus.FINISHED_LENGTH_CAPPED:
            flow.answer = (3 * flow.answer + request.num_output_tokens) // 4
        if adapter is not None and adapter not in self._cost.rows:
            del self._holders[adapter]
            self._draining -= {adapter}
        self._known = False

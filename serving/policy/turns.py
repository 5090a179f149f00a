"""Whose turn it is in an engine's own queue: virtual time over flows, and device slots that come free.

A flow is one tenant's use of one adapter. Its virtual time is the engine time that it took, over its weight; the flow that is
furthest behind goes first. A flow that was passed over for PATIENCE quanta goes before all that were not, the longest wait first:
so none starves, however the times stand. Times of the clock are nanoseconds, engine time is picoseconds of the step model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

PATIENCE: Final = 4
"""Quanta after which a flow that waits goes first, whatever it has had."""
WEIGHTS: Final = range(1, 1001)

Rank = tuple[int, int]
"""Lower goes first."""
NOBODY: Final[Rank] = (2, 0)


class Rules(NamedTuple):
    """An engine's `slots` for adapters, and how long one keeps its slot while another's flow, further behind, waits."""

    slots: int
    quantum_ns: int


class FlowStanding(NamedTuple):
    """Where a flow stands: `time` is its virtual time; `passed_ns` since when it has waited with none of its requests admitted."""

    adapter: str | None
    weight: int = 1
    time: int = 0
    passed_ns: int | None = None


def joined(flow: FlowStanding, busy: Iterable[int], now_ns: int) -> FlowStanding:
    """The flow with its first waiting request. Time in which it wanted nothing is no credit: it begins no further behind than
    the furthest of the `busy` flows' virtual times."""
    return flow._replace(time=max(flow.time, min(busy, default=flow.time)), passed_ns=now_ns)


def admitted(flow: FlowStanding, predicted: int, waits: bool, now_ns: int) -> FlowStanding:
    """The flow after one of its requests got a seat; `waits` when others of it still do."""
    return flow._replace(time=flow.time + predicted // flow.weight, passed_ns=now_ns if waits else None)


def settled(flow: FlowStanding, predicted: int, computed: int) -> FlowStanding:
    """The flow after a request left its seat, for which `predicted` was charged and which took `computed`."""
    return flow._replace(time=flow.time - predicted // flow.weight + computed // flow.weight)


def rank(flow: FlowStanding, rules: Rules, now_ns: int) -> Rank:
    """Its place among those that wait."""
    if flow.passed_ns is None:
        return NOBODY
    if now_ns - flow.passed_ns >= PATIENCE * rules.quantum_ns:
        return (0, flow.passed_ns)
    return (1, flow.time)


def draining(
    holders: Mapping[str, int], before: frozenset[str], waiting: Iterable[FlowStanding], rules: Rules, now_ns: int
) -> frozenset[str]:
    """The adapters that admit no new row, so that their slot comes free.

    `holders` has the time since which each adapter has held its slot, `before` is the last answer. Each adapter outside that waited
    for a quantum drains one that has held its slot for a quantum and ranks behind it; once begun, a drain goes on while somebody waits for it.
    """
    best: dict[str, Rank] = {}
    since: dict[str, int] = {}
    for flow in waiting:
        if flow.adapter is not None and flow.passed_ns is not None:
            best[flow.adapter] = min(best.get(flow.adapter, NOBODY), rank(flow, rules, now_ns))
            since[flow.adapter] = min(since.get(flow.adapter, now_ns), flow.passed_ns)
    outside = sorted(
        best[adapter] for adapter in best if adapter not in holders and now_ns - since[adapter] >= rules.quantum_ns
    )
    wanted = outside[max(0, rules.slots - len(holders)) :]
    begun = [adapter for adapter in holders if adapter in before]
    others = [
        (best.get(adapter, NOBODY), adapter)
        for adapter, held_ns in holders.items()
        if adapter not in before and now_ns - held_ns >= rules.quantum_ns
    ]
    drained = begun[: len(wanted)]
    for outsider, (holder, adapter) in zip(wanted[len(drained) :], sorted(others, reverse=True), strict=False):
        if outsider >= holder:
            break
        drained.append(adapter)
    return frozenset(drained)

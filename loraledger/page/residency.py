"""When an adapter was in an engine, from what the ledger knows: its loads, its uses and the life of the engine process. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from loraledger.page.view import Lane, Stay, Timeline

Row = Mapping[str, Any]

MAX_LANES: Final = 24
"""More lanes than this are no picture; the least used are left out, and the page says how many."""


def timeline(
    span: tuple[int, int], loads: Sequence[Row], uses: Sequence[Row], extents: Sequence[Row], order: Sequence[str]
) -> Timeline:
    """Lanes of [start, end), adapters in the given order, of the most used ones.

    `loads` have adapter, engine, emitter, start_ns, engine_ns; `uses` adapter_name, engine_id, first_ns, last_ns, attempts;
    `extents` emitter and last_ns.
    """
    start_ns, end_ns = span
    ends = {row["emitter"]: min(row["last_ns"], end_ns) for row in extents}
    by_lane: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in loads:
        by_lane[row["engine"], row["adapter"]].append(row)
    used: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    attempts: dict[tuple[str, str], int] = defaultdict(int)
    for row in uses:
        lane = row["engine_id"], row["adapter_name"]
        used[lane].append((row["first_ns"], min(row["last_ns"], end_ns)))
        attempts[lane] += row["attempts"]
    lanes = [
        Lane(
            adapter,
            engine,
            _stays(by_lane[engine, adapter], used[engine, adapter], ends, span),
            tuple(used[engine, adapter]),
            tuple(row["start_ns"] for row in by_lane[engine, adapter] if start_ns <= row["start_ns"] < end_ns),
        )
        for engine, adapter in sorted({*by_lane, *used})
    ]
    rank = {adapter: number for number, adapter in enumerate(order)}
    kept = sorted(lanes, key=lambda lane: -attempts[lane.engine, lane.adapter])[:MAX_LANES]
    kept.sort(key=lambda lane: (lane.engine, rank.get(lane.adapter, len(rank)), lane.adapter))
    return Timeline(start_ns, end_ns, tuple(kept), len(lanes) - len(kept))


def _stays(
    loads: Sequence[Row], uses: Sequence[tuple[int, int]], ends: Mapping[str, int], span: tuple[int, int]
) -> tuple[Stay, ...]:
    by_process: dict[str, list[Row]] = defaultdict(list)
    for row in sorted(loads, key=lambda row: int(row["start_ns"])):
        by_process[row["emitter"]].append(row)
    found = []
    for process, rows in by_process.items():
        # A load of a process whose windows never came is known, its end is not.
        last = ends.get(process, rows[-1]["start_ns"] + rows[-1]["engine_ns"])
        for row, after in pairwise([*(row["start_ns"] for row in rows), last]):
            inside = [min(end, after) for first, end in uses if first < after and end > row]
            sure = max([row, *inside])
            if after > span[0]:
                found.append(Stay(max(row, span[0]), max(sure, span[0]), after))
    return tuple(sorted(found, key=lambda stay: stay.start_ns))

"""Sends the demo's traffic over real sockets, loopback only, bounded in count and time."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import httpx

from loraledger.traffic import TrafficCall


@dataclass
class LoadReport:
    """What the clients saw: replies by HTTP status (0 = hung up on purpose), and how long it took."""

    seconds: float = 0.0
    statuses: Counter[int] = field(default_factory=Counter)


async def drive(
    url: str, plan: Sequence[TrafficCall], *, at_once: int, budget_s: float, done: Callable[[int], None]
) -> LoadReport:
    """Send `plan` in order, `at_once` in flight; `done(n)` after each. Calls not begun within `budget_s` are left out."""
    report = LoadReport()
    began = time.monotonic()
    queue = iter(plan)
    finished = 0

    async def worker(client: httpx.AsyncClient) -> None:
        nonlocal finished
        for call in queue:
            if time.monotonic() - began > budget_s:
                return
            report.statuses[await _send(client, call)] += 1
            finished += 1
            done(finished)

    limits = httpx.Limits(max_connections=at_once + 2)
    async with httpx.AsyncClient(base_url=url, timeout=120, limits=limits) as client, asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(worker(client))
    report.seconds = time.monotonic() - began
    return report


async def _send(client: httpx.AsyncClient, call: TrafficCall) -> int:
    headers = {"authorization": f"Bearer {call.key}"}
    if not call.stream:
        return (await client.post(call.path, json=call.body, headers=headers)).status_code
    async with client.stream("POST", call.path, json=call.body, headers=headers) as reply:
        chunks = 0
        async for line in reply.aiter_lines():
            chunks += line.startswith("data:")
            if call.hang_up_after is not None and chunks >= call.hang_up_after:
                return 0
        return reply.status_code

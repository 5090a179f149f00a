"""Minutes of everything at once: hang-ups, several samples, a KV pool too small for its load, eight adapters on two slots.

`LORALEDGER_SOAK_S` (default 600) says how long the load lasts. Run with `-s` it prints what it found.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from billing.close.counters import ABORT, SEVERAL, Gap
from billing.close.reconcile import Reconciliation
from catalog.owners import TimeOwner
from loraledger.books import Books
from loraledger.child import ServeProcess
from loraledger.settings import Settings
from loraledger.traffic import TrafficCall, calls
from telemetry.engine_time import SystemCause

ROOT = Path(__file__).parents[2]
SOAK_S = float(os.environ.get("LORALEDGER_SOAK_S", "600"))
AT_ONCE = 16
KV_BYTES = 5 << 20
"""40 blocks of 32 tokens: less than half of what sixteen requests want."""

pytestmark = [pytest.mark.engine, pytest.mark.nightly]


@dataclass(frozen=True)
class Soak:
    replies: Counter[int]
    found: Reconciliation
    gaps: list[Gap]
    causes: dict[str, int]
    preemptions: int
    loads: Counter[str]
    statuses: Counter[str]
    minutes: int

    def busy_ns(self) -> int:
        return self.found.rented_ns - self.found.owners[TimeOwner.DOWN] - self.found.owners[TimeOwner.IDLE]


def _catalog(path: Path) -> Path:
    raw = yaml.safe_load((ROOT / "examples" / "catalog.yaml").read_text())
    raw["engines"][0] |= {
        "max_cpu_loras": 8,
        "kv_cache_bytes": KV_BYTES,
        "max_model_len": 1024,
        "max_num_seqs": AT_ONCE,
    }
    for tenant in raw["tenants"]:
        tenant.pop("quotas", None)
        tenant["slo"] = {"p99_seconds": "60"}
    path.write_text(yaml.safe_dump(raw))
    return path


def _plan(seed: int, count: int) -> list[TrafficCall]:
    """The demo's traffic, with long outputs, some hang-ups early and late, and some prompts sampled twice."""
    rng = random.Random(seed)
    plan = []
    for call in calls(seed, count):
        body: dict[str, Any] = {**call.body}
        if isinstance(body.get("messages"), list) and call.tenant != "nobody":
            body["max_tokens"] = rng.randrange(32, 160)
        kind = rng.random()
        if kind < 0.12:
            plan.append(replace(call, body={**body, "stream": True}, hang_up_after=rng.choice([1, 2, 10, 40])))
        elif kind < 0.18:
            plan.append(replace(call, body={**body, "n": 2}, hang_up_after=None))
        else:
            plan.append(replace(call, body=body))
    return plan


async def _send(client: httpx.AsyncClient, call: TrafficCall) -> int:
    """The status of the reply; 0 for a client that hung up, on purpose or because a slow machine made it wait too long."""
    headers = {"authorization": f"Bearer {call.key}"}
    try:
        if not call.stream:
            return (await client.post(call.path, json=call.body, headers=headers)).status_code
        async with client.stream("POST", call.path, json=call.body, headers=headers) as reply:
            chunks = 0
            async for line in reply.aiter_lines():
                chunks += line.startswith("data:")
                if call.hang_up_after is not None and chunks >= call.hang_up_after:
                    return 0
            return reply.status_code
    except httpx.TimeoutException:
        return 0


async def _drive(url: str, plan: Iterable[TrafficCall]) -> Counter[int]:
    """Replies by status, AT_ONCE at a time, for SOAK_S seconds."""
    statuses: Counter[int] = Counter()
    until = time.monotonic() + SOAK_S
    queue = iter(plan)

    async def work(client: httpx.AsyncClient) -> None:
        while time.monotonic() < until:
            statuses[await _send(client, next(queue))] += 1

    async with httpx.AsyncClient(base_url=url, timeout=120) as client, asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(work(client))
    return statuses


@pytest.fixture(scope="module")
def soak(tmp_path_factory: pytest.TempPathFactory) -> Soak:
    home = tmp_path_factory.mktemp("soak")
    environ = {**os.environ, "LORALEDGER_HOME": str(home), "LORALEDGER_CATALOG": str(_catalog(home / "catalog.yaml"))}
    settings = Settings.from_environ(environ)
    with ServeProcess(settings, lambda _: None) as server:
        replies = asyncio.run(_drive(server.url, _plan(11, int(SOAK_S * 60))))
        time.sleep(2)
    books = Books.of(settings)
    month = books.current_month()
    books.ingest([])
    books.month(month, issue=False)
    with books.open() as ledger:
        causes = ledger.ask("SELECT sumMap(system_causes) AS causes, count() AS minutes FROM engine_time").dicts()[0]
        preempted = ledger.ask("SELECT sum(ifNull(preemptions, 0)) AS n FROM usage").dicts()[0]
        loads = ledger.ask("SELECT cause, count() AS n FROM cold_starts GROUP BY cause").dicts()
        statuses = ledger.ask("SELECT status, count() AS n FROM usage GROUP BY status").dicts()
    made = Soak(
        replies=replies,
        found=books.reconcile(month),
        gaps=books.engine_gaps(month),
        causes=dict(causes["causes"]),
        preemptions=preempted["n"],
        loads=Counter({row["cause"]: row["n"] for row in loads}),
        statuses=Counter({row["status"]: row["n"] for row in statuses}),
        minutes=causes["minutes"],
    )
    _print(made)
    return made


def _print(soak: Soak) -> None:
    busy = soak.busy_ns()
    lines = [
        f"\n{soak.replies.total()} requests in {SOAK_S:.0f} s, replies {dict(soak.replies)}",
        f"records {dict(soak.statuses)}, loads {dict(soak.loads)}, preemptions {soak.preemptions}, {soak.minutes} minutes",
        *(f"  {owner:<14}{ns:>20,} ns {ns / busy:8.3%} of busy time" for owner, ns in soak.found.owners.items()),
        *(f"    system: {cause:<12}{ns:>14,} ns {ns / busy:8.3%}" for cause, ns in sorted(soak.causes.items())),
        *(
            f"  {gap.what}: {gap.larger} {gap.counts[0]:,} - {gap.smaller} {gap.counts[1]:,}: {dict(gap.causes)}, unexplained {gap.unexplained}"
            for gap in soak.gaps
        ),
    ]
    sys.stdout.write("\n".join(lines) + "\n")


def test_every_nanosecond_has_an_owner_and_none_is_without_a_cause(soak: Soak) -> None:
    soak.found.check()
    assert soak.found.owners[TimeOwner.UNATTRIBUTED] == 0
    assert soak.found.uneven_attempts == soak.found.unmeasured_attempts == 0
    assert soak.found.record_difference_ns == 0


def test_all_that_should_have_happened_did(soak: Soak) -> None:
    owners = soak.found.owners
    assert soak.preemptions > 0
    assert owners[TimeOwner.RECOMPUTE] > 0
    assert owners[TimeOwner.COLD] > 0
    assert soak.loads.total() >= 8
    assert soak.statuses["client_abort"] > 0
    assert soak.statuses["server_error"] == soak.statuses["lost"] == 0


def test_system_time_is_broken_down_and_its_causes_are_all_of_it(soak: Soak) -> None:
    assert set(soak.causes) <= {cause.value for cause in SystemCause}
    assert sum(soak.causes.values()) == soak.found.owners[TimeOwner.SYSTEM]


def test_the_engine_the_meter_and_the_records_agree_and_every_gap_has_a_name(soak: Soak) -> None:
    assert [gap.unexplained for gap in soak.gaps] == [0] * len(soak.gaps)
    causes = {cause for gap in soak.gaps for cause in gap.causes}
    assert SEVERAL in causes
    assert causes <= {SEVERAL, ABORT}

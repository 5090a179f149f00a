"""What metering costs: processor time per step in the engine's thread, and throughput with and without.

    python bench/meter_overhead.py [--pairs 12] [--requests 96] [--cost-only]

The first table needs no engine: real recorder, real channel, another process that listens. The second runs two real engines
side by side, one with the meter and one with vLLM's own scheduler, in turns; each pair has seen the same minute of the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from vllm.v1.request import RequestStatus  # noqa: TID251

from catalog.model import BaseModelSpec, Engine
from serving.engine import vllm_flags, vllm_launch
from serving.engine.collector import Collector
from serving.engine.tiny_model import make_tiny_model
from serving.inside.prefix_owners import BlockOwner, PrefixOwners
from serving.inside.recorder import Recorder
from serving.metering.accounting import Accountant
from serving.policy.turns import Rules
from serving.step_model.profile import DEFAULT_PROFILE
from serving.wire.channel import Occupancy, Receiver, Sender
from telemetry.engine_time import MeterWindow, SystemCause

BASE = "tiny-llama"
ROWS = (8, 32, 256)
STEPS = 2_000
CHANGES_EVERY = 40
"""Steps after which one request of the batch leaves and another comes, as when outputs are 40 x rows tokens long."""
BLOCK, PROMPT_BLOCKS = 32, 64
"""The one that comes has a prompt of 2048 tokens."""
STEP_NS = 20_000_000
"""A decode step of the tiny model with some twenty requests; a GPU's steps are 10 to 50 ms."""
TARGET_US = 50.0


@dataclass(frozen=True)
class Cost:
    """Microseconds of processor time per step."""

    rows: int
    engine_us: float
    engine_p99_us: float


def _listen(address: str, ready: Any) -> None:
    receiver = Receiver(address)
    ready.set()
    quiet = 0
    while quiet < 20:
        quiet = 0 if receiver.wait(0.1) else quiet + 1
        while receiver.take() is not None:
            quiet = 0
    receiver.close()


class Turns:
    """The queue that takes turns, with so many seats; as many requests wait in 24 flows for 8 slots that 8 adapters hold."""

    def __init__(self, rows: int) -> None:
        from serving.inside.turn_queue import TurnQueue, Whose

        self._queue = TurnQueue(Rules(8, 500_000_000), DEFAULT_PROFILE, lambda request: Whose(*request.whose))
        self._seated: list[Any] = []
        for n in range(2 * rows):
            self._queue.add_request(_request(f"first-{n}", n % 8 if n < rows else 8 + n % 16, n % 24))
            if n < rows:
                self._admit()

    def change(self, name: str, number: int) -> None:
        """The oldest row leaves, another request comes, and whose turn it is gets the seat."""
        gone = self._seated.pop(0)
        gone.status = RequestStatus.FINISHED_LENGTH_CAPPED
        self._queue.left(gone)
        self._queue.add_request(_request(name, number % 24, number % 24))
        self._admit()

    def step(self, scheduled: dict[str, int]) -> None:
        """What each step asks of it."""
        self._queue.step(len(self._seated))
        bool(self._queue)
        self._queue.stepped(scheduled)

    def check(self) -> None:
        """A fault would have made it cheap."""
        if self._queue.faults:
            raise SystemExit("the turns ended by a fault")

    def _admit(self) -> None:
        if self._queue:
            self._seated.append(self._queue.pop_request())
            self._seated[-1].status = RequestStatus.RUNNING


def _request(name: str, adapter: int, tenant: int) -> Any:
    return SimpleNamespace(
        request_id=name,
        whose=(f"tenant-{tenant}", f"adapter-{adapter % 24}", 1),
        status=RequestStatus.WAITING,
        num_tokens=200,
        num_computed_tokens=0,
        num_output_tokens=40,
        max_tokens=40,
        num_preemptions=0,
        arrival_time=0.0,
    )


def meter_cost(rows: int, directory: Path, turns: Turns | None = None) -> Cost:
    """The meter's and the turns' work for STEPS steps of so many requests, between which the thread sleeps as if it computed."""
    from serving.inside.scheduler import _rows

    address = f"ipc://{directory}/cost-{rows}-{turns is not None}"
    spawn = multiprocessing.get_context("spawn")
    ready = spawn.Event()
    listener = spawn.Process(target=_listen, args=(address, ready), daemon=True)
    listener.start()
    ready.wait(60)
    sender = Sender(address)
    recorder = Recorder(sender.send)
    recorder.hello("eng-bench", "cpu-0")
    prefixes = PrefixOwners(BLOCK, lambda payer, user: None)
    prompt = [os.urandom(32) for _ in range(PROMPT_BLOCKS)]
    names = [f"chatcmpl-{random.getrandbits(128):032x}-{n:08x}" for n in range(rows)]
    took: list[int] = []
    for step in range(STEPS):
        if step % CHANGES_EVERY == 0:
            recorder.left(names[0])
            names = [*names[1:], f"chatcmpl-{random.getrandbits(128):032x}-{step:08x}"]
            # A request begins: of its prompt it finds all but the last block, which somebody else had computed.
            prompt = [*prompt[:-1], os.urandom(32)]
            begins = [(names[-1], BlockOwner(f"gw-bench:{step}", "salt"), prompt, BLOCK * (PROMPT_BLOCKS - 1))]
        else:
            begins = []
        # As vLLM makes them: a list of its own for every step, of the same strings.
        ongoing = SimpleNamespace(req_ids=list(names), num_computed_tokens=[200 + step] * rows)
        output = SimpleNamespace(
            scheduled_new_reqs=[],
            scheduled_cached_reqs=ongoing,
            num_scheduled_tokens=dict.fromkeys(names, 1),
            total_num_scheduled_tokens=rows,
            preempted_req_ids=None,
        )
        entry_ns = time.monotonic_ns()
        started = time.thread_time_ns()
        if turns is not None:
            if begins:
                turns.change(names[-1], step // CHANGES_EVERY)
            turns.step(output.num_scheduled_tokens)
        hits = [hit for request in begins for hit in prefixes.started(*request)]
        recorder.began(
            id(output), entry_ns, _rows(output, output.scheduled_new_reqs), [], output.preempted_req_ids or (), hits
        )
        noted = time.thread_time_ns()
        time.sleep(0.001)
        end_ns = time.monotonic_ns()
        again = time.thread_time_ns()
        recorder.ended(id(output), end_ns, lambda: True)
        if recorder.holds_due:
            recorder.holds(Occupancy(step, 1000, ("a", "b"), ("a", "b", "c", "d")), at_once=False)
        recorder.did(SystemCause.METER, end_ns)
        took.append(noted - started + time.thread_time_ns() - again)
    if turns is not None:
        turns.check()
    sender.close()
    listener.join(10)
    if sender.lost:
        raise SystemExit(f"{sender.lost} messages were lost at {rows} rows")
    took.sort()
    return Cost(rows, took[len(took) // 2] / 1e3, took[len(took) * 99 // 100] / 1e3)


def show_cost(what: str, costs: Sequence[Cost]) -> None:
    print(f"Processor time of the {what} per step, microseconds (share of a 20 ms step)")
    print(f"{'rows':>6} {'engine thread, median':>24} {'p99':>8}")
    for cost in costs:
        median = f"{cost.engine_us:.1f} ({cost.engine_us * 1e5 / STEP_NS:.2f} %)"
        print(f"{cost.rows:>6} {median:>24} {cost.engine_p99_us:>8.1f}")
    worst = max(costs, key=lambda cost: cost.engine_us)
    verdict = "within" if worst.engine_us <= TARGET_US else "ABOVE"
    print(f"engine thread at {worst.rows} rows: {worst.engine_us:.1f} us, {verdict} the target of {TARGET_US:.0f} us\n")


class Side:
    """One engine, with or without the meter."""

    def __init__(self, metered: bool, directory: Path, home: Path) -> None:
        self.metered = metered
        self.windows: list[MeterWindow] = []
        address = f"ipc://{directory}/side-{int(metered)}"
        spec, engine = BaseModelSpec(name=BASE), Engine(id=f"bench-{int(metered)}", gpu_type="cpu", max_loras=4)
        model = vllm_launch.model_path(spec, home, lambda _: None)
        vllm_launch.set_environment(engine, spec, model, home / "bench.log")
        flags = vllm_flags.server_flags(engine, spec, model, address, f"eng-{int(metered)}")
        self._collector: Collector | None = None
        if metered:
            accountant = Accountant(DEFAULT_PROFILE, engine.id)
            self._collector = Collector(Receiver(address), accountant, self._hear)
            self._collector.start()
        else:
            for flag in ("--scheduler-cls", "--additional-config"):
                at = flags.index(flag)
                flags[at : at + 2] = []
        self.client = vllm_launch.start_client(vllm_flags.parse(flags), engine.max_grammar_chars)

    def _hear(self, value: Any) -> None:
        if isinstance(value, MeterWindow):
            self.windows.append(value)

    async def run(self, requests: int, seed: int, adapters: Sequence[Path]) -> float:
        """Output tokens per second over so many requests, 32 at once."""
        from vllm import SamplingParams  # noqa: TID251
        from vllm.lora.request import LoRARequest  # noqa: TID251

        rng = random.Random(seed)
        tokens = 0
        plan = iter(range(requests))

        async def work() -> None:
            nonlocal tokens
            for n in plan:
                number = rng.randrange(5)
                lora = LoRARequest(f"adapter-{number}", number, str(adapters[number - 1])) if number else None
                prompt = {"prompt_token_ids": [rng.randrange(10, 2000) for _ in range(48)]}
                params = SamplingParams(max_tokens=rng.randrange(24, 72), ignore_eos=True, temperature=0)
                replies = [r async for r in self.client.generate(prompt, params, f"r{seed}-{n}", lora_request=lora)]
                tokens += len(replies[-1].outputs[0].token_ids)

        began = time.monotonic()
        await asyncio.gather(*(work() for _ in range(32)))
        return tokens / (time.monotonic() - began)

    async def stop(self) -> None:
        await vllm_launch.stop_client(self.client)
        if self._collector is not None:
            await asyncio.to_thread(self._collector.stop, 5)


async def throughput(pairs: int, requests: int, directory: Path) -> None:
    home = directory / "home"
    home.mkdir()
    adapters = make_tiny_model(home / "models").adapter_paths[:4]
    without = Side(False, directory, home)
    metered = Side(True, directory, home)
    try:
        for side in (without, metered):
            await side.run(requests, 0, adapters)
        rates: list[tuple[float, float]] = []
        for pair in range(1, pairs + 1):
            found: dict[bool, float] = {}
            for side in (without, metered) if pair % 2 else (metered, without):
                found[side.metered] = await side.run(requests, pair, adapters)
            rates.append((found[False], found[True]))
            print(f"pair {pair:>2}: {found[False]:8.0f} tok/s without, {found[True]:8.0f} with", file=sys.stderr)
    finally:
        await metered.stop()
        await without.stop()
    show_rates(rates)
    show_windows(metered.windows)


def show_rates(rates: Sequence[tuple[float, float]]) -> None:
    changes = [with_ / without - 1 for without, with_ in rates]
    rng = random.Random(7)
    means = sorted(statistics.fmean(rng.choices(changes, k=len(changes))) for _ in range(10_000))
    low, high = means[250], means[9_749]
    print(f"Throughput over {len(rates)} pairs: {statistics.fmean(r for r, _ in rates):.0f} tok/s without the meter,")
    print(
        f"{statistics.fmean(r for _, r in rates):.0f} with it: {statistics.fmean(changes):+.2%} (95 % CI {low:+.2%} to {high:+.2%}, bootstrap)"
    )


def show_windows(windows: Sequence[MeterWindow]) -> None:
    busy = sum(w.end_ns - w.start_ns - w.idle_ns for w in windows)
    steps = sum(w.steps for w in windows)
    causes: dict[str, int] = {}
    for window in windows:
        for cause, ns in window.system_ns.items():
            causes[cause] = causes.get(cause, 0) + ns
    if not steps:
        return
    print(
        f"The metered engine: {steps} steps, {busy / steps / 1e6:.2f} ms busy each; system {sum(causes.values()) / busy:.2%} of busy time"
    )
    print("  " + json.dumps({cause: f"{ns / busy:.3%}" for cause, ns in sorted(causes.items())}))
    print(f"  unattributed {sum(w.unattributed_ns for w in windows)} ns")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--pairs", type=int, default=12)
    options.add_argument("--requests", type=int, default=96)
    options.add_argument("--cost-only", action="store_true")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="ll-bench-") as name:
        pairs = [(meter_cost(rows, Path(name)), meter_cost(rows, Path(name), Turns(rows))) for rows in ROWS]
        show_cost("meter alone", [alone for alone, _ in pairs])
        show_cost("meter and the turns", [both for _, both in pairs])
        if not chosen.cost_only:
            asyncio.run(throughput(chosen.pairs, chosen.requests, Path(name)))


if __name__ == "__main__":
    main()

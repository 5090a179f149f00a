"""Turns against first come, first served: six flows on two device slots, on the real engine with the tiny model.

`python -m bench.turns [--seconds 60] [--pairs 2] [--quanta 250,1000,2000]`. Each flow is three clients whose answers have 24, 32 and 40
tokens and whose next request follows at once. Two engines are up together, one a policy, and run in turns, so that each pair has
seen the same minutes of the machine. The quanta make the curve: one run each, beside the first come, first served of the pairs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any, Final, Literal

from bench.truth.machine import describe
from catalog.engines import TURN_MS
from catalog.model import BaseModelSpec, Engine
from serving.engine import vllm_flags, vllm_launch
from serving.engine.collector import Collector
from serving.engine.tiny_model import make_tiny_model
from serving.metering.accounting import Accountant
from serving.step_model.profile import DEFAULT_PROFILE
from serving.wire.channel import Receiver
from serving.wire.keys import ATTEMPT_ARG, TENANT_ARG
from telemetry.engine_time import MeterWindow

OUT: Final = Path(__file__).with_name("results") / "turns.json"
BASE: Final = "tiny-llama"
FLOWS: Final = 6
ANSWERS: Final = (24, 32, 40)
PROMPT: Final = 48
SETTLE_S: Final = 2.5
"""The collector closes its windows every second."""
TARGETS: Final = {
    "max_over_min": 1.25,
    "worst_wait_s": 4.0,
    "throughput_of_fcfs": 0.85,
    "throughput_of_fcfs_by_cpu": 0.85,
}
Policy = Literal["fair", "fcfs"]
Result = dict[str, Any]


class Side:
    """One engine that takes turns in one way."""

    def __init__(self, policy: Policy, turn_ms: int, directory: Path, home: Path) -> None:
        self.policy, self.turn_ms = policy, turn_ms
        name = f"{policy}-{turn_ms}"
        spec = BaseModelSpec(name=BASE)
        engine = Engine(id=name, gpu_type="cpu", max_loras=2, max_cpu_loras=8, turns=policy, turn_ms=turn_ms)
        model = vllm_launch.model_path(spec, home, lambda _: None)
        vllm_launch.set_environment(engine, spec, model, home / f"{name}.log")
        self._busy: Counter[str] = Counter()
        address = f"ipc://{directory}/{name}"
        self._collector = Collector(Receiver(address), Accountant(DEFAULT_PROFILE, name), self._hear)
        self._collector.start()
        flags = vllm_flags.server_flags(engine, spec, model, address, f"eng-{name}")
        others = {process.pid for process in multiprocessing.active_children()}
        self._client = vllm_launch.start_client(vllm_flags.parse(flags), engine.max_grammar_chars)
        self._pids = {process.pid for process in multiprocessing.active_children()} - others

    def _hear(self, value: Any) -> None:
        if isinstance(value, MeterWindow):
            for share in value.shares:
                self._busy[share.tenant] += share.base_ns + share.adapter_ns + share.recompute_ns

    async def run(self, seconds: float, seed: int, adapters: list[Path]) -> Result:
        """The scenario for so long; what still runs then is given up, and has waited until then if nothing of it came."""
        await asyncio.sleep(SETTLE_S)
        before, cpu_s = Counter(self._busy), self._cpu_s()
        end = time.monotonic() + seconds
        waits: Counter[str] = Counter()
        tokens: Counter[str] = Counter()
        clients = [
            self._serve(
                f"flow-{flow}", LoRa(flow + 1, adapters[flow]), f"{seed}-{flow}-{n}", answer, end, waits, tokens
            )
            for n, answer in enumerate(ANSWERS)
            for flow in range(FLOWS)
        ]
        await asyncio.gather(*clients)
        cpu_s = self._cpu_s() - cpu_s
        await asyncio.sleep(SETTLE_S)
        busy = self._busy - before
        times = [busy[f"flow-{flow}"] for flow in range(FLOWS)]
        return {
            "policy": self.policy,
            "turn_ms": self.turn_ms if self.policy == "fair" else None,
            "engine_ms": [ns // 1_000_000 for ns in times],
            "tokens": [tokens[f"flow-{flow}"] for flow in range(FLOWS)],
            "max_over_min": round(max(times) / min(times), 3) if min(times) else None,
            "worst_wait_s": round(max(waits.values()) / 1000, 2),
            "tokens_per_s": round(tokens.total() / seconds, 1),
            "tokens_per_cpu_s": round(tokens.total() / cpu_s, 1),
        }

    def _cpu_s(self) -> float:
        """Processor time of the engine's process so far, which others on the machine do not lengthen."""
        stats = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in self._pids]
        return sum(int(stat[11]) + int(stat[12]) for stat in stats) / os.sysconf("SC_CLK_TCK")

    async def _serve(
        self, tenant: str, lora: LoRa, name: str, answer: int, end: float, waits: Counter[str], tokens: Counter[str]
    ) -> None:
        """One client until the end. Its wait is from the request to the first token."""
        random, number = Random(name), 0
        while time.monotonic() < end:
            number, asked, first = number + 1, time.monotonic(), 0.0
            prompt = [random.randrange(10, 2000) for _ in range(PROMPT)]
            try:
                async with asyncio.timeout_at(asyncio.get_running_loop().time() + end - asked):
                    async for reply in self._ask(tenant, lora, f"{name}-{number}", prompt, answer):
                        first = first or time.monotonic()
                        tokens[tenant] += len(reply.outputs[0].token_ids)
            except TimeoutError:
                pass
            waited = int(1000 * ((first or time.monotonic()) - asked))
            waits[tenant] = max(waits[tenant], waited)

    def _ask(self, tenant: str, lora: LoRa, name: str, prompt: list[int], answer: int) -> Any:
        from vllm import SamplingParams  # noqa: TID251
        from vllm.lora.request import LoRARequest  # noqa: TID251
        from vllm.sampling_params import RequestOutputKind  # noqa: TID251

        params = SamplingParams(
            max_tokens=answer,
            ignore_eos=True,
            temperature=0,
            output_kind=RequestOutputKind.DELTA,
            extra_args={ATTEMPT_ARG: f"bench:{name}", TENANT_ARG: tenant},
        )
        request = LoRARequest(f"adapter-{lora.number}", lora.number, str(lora.path))
        return self._client.generate({"prompt_token_ids": prompt}, params, name, lora_request=request)

    async def stop(self) -> None:
        await vllm_launch.stop_client(self._client)
        await asyncio.to_thread(self._collector.stop, 5)


class LoRa:
    """An adapter as vLLM numbers it."""

    def __init__(self, number: int, path: Path) -> None:
        self.number, self.path = number, path


async def measure(chosen: argparse.Namespace, directory: Path) -> Result:
    home = directory / "home"
    home.mkdir()
    adapters = list(make_tiny_model(home / "models").adapter_paths[:FLOWS])
    fcfs = Side("fcfs", chosen.turn_ms, directory, home)
    fair = Side("fair", chosen.turn_ms, directory, home)
    runs: list[Result] = []
    curve: list[Result] = []
    try:
        for side in (fcfs, fair):
            await side.run(5, 0, adapters)
        for pair in range(1, chosen.pairs + 1):
            for side in (fcfs, fair) if pair % 2 else (fair, fcfs):
                runs.append({"pair": pair} | await side.run(chosen.seconds, pair, adapters))
                print(json.dumps(runs[-1]), file=sys.stderr, flush=True)
        chosen.out.write_text(json.dumps(summary(runs, curve) | {"machine": describe()}, indent=1) + "\n")
        await fair.stop()
        for turn_ms in chosen.quanta:
            fair = Side("fair", turn_ms, directory, home)
            await fair.run(5, 0, adapters)
            curve.append(await fair.run(chosen.seconds, 1, adapters))
            print(json.dumps(curve[-1]), file=sys.stderr, flush=True)
            await fair.stop()
    finally:
        await fcfs.stop()
    return summary(runs, curve) | {"machine": describe(), "load": os.getloadavg()}


def summary(runs: list[Result], curve: list[Result]) -> Result:
    fair = [run for run in runs if run["policy"] == "fair"]
    shares, by_cpu = (
        [run[unit] / next(r[unit] for r in runs if r["policy"] == "fcfs" and r["pair"] == run["pair"]) for run in fair]
        for unit in ("tokens_per_s", "tokens_per_cpu_s")
    )
    plain = fmean(run["tokens_per_cpu_s"] for run in runs if run["policy"] == "fcfs")
    for run in curve:
        run["throughput_of_fcfs_by_cpu"] = round(run["tokens_per_cpu_s"] / plain, 3)
    found = {
        "max_over_min": max(run["max_over_min"] or float("inf") for run in fair),
        "worst_wait_s": max(run["worst_wait_s"] for run in fair),
        "throughput_of_fcfs": round(fmean(shares), 3),
        "throughput_of_fcfs_by_cpu": round(fmean(by_cpu), 3),
    }
    met = {
        name: found[name] >= limit if name.startswith("throughput") else found[name] <= limit
        for name, limit in TARGETS.items()
    }
    return {
        **found,
        "targets": TARGETS,
        "met": met,
        "pairs": [round(s, 3) for s in shares],
        "runs": runs,
        "curve": curve,
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=60)
    options.add_argument("--pairs", type=int, default=2)
    options.add_argument("--turn-ms", type=int, default=TURN_MS)
    options.add_argument(
        "--quanta", type=lambda said: [int(ms) for ms in said.split(",") if ms], default=[250, 1_000, 2_000]
    )
    options.add_argument("--out", type=Path, default=OUT)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="ll-bench-") as name:
        found = asyncio.run(measure(chosen, Path(name)))
    chosen.out.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps({name: found[name] for name in (*TARGETS, "met", "pairs")}))


if __name__ == "__main__":
    main()

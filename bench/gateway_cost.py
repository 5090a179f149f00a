"""What the gateway itself costs a request, against another commit of it: alone, and when many come at once; in pairs.

`python -m bench.gateway_cost --base ROOT` starts two processes, one on each checkout, that serve the same requests before an
engine which answers at once, with all telemetry on and a spool on a real disk, whose syncs are counted and timed. Only one of the two works at a time; the order
inside a pair is drawn, and half of the rounds start the older code's process first, half the newer's. Requests enter at the
ASGI app: what the HTTP server below costs is in neither.
Pin it to one processor (`taskset -c 1`): the load, the gateway and the spool's writer then share that processor.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, Self

from bench import telemetry_cost
from bench.truth import machine
from serving.metering.accounting import Measured
from telemetry.metrics import Metrics
from telemetry.spool import Spool
from telemetry.tracing import Tracing
from telemetry.usage import Slice
from tests.fakes.fake_engine import FakeEngine, ManualClock

ROOT: Final = Path(__file__).parents[1]
RESULT: Final = ROOT / "bench" / "results" / "gateway_cost.json"
ALONE: Final = 60
"""Requests one after the other in one half of a pair."""
MANY: Final = 1200
AT_ONCE: Final = 32
WARM_UP: Final = 300
SYNCS: Final[list[int]] = []
"""Nanoseconds of each sync of the disk that is over."""
REPLY: Final = {
    "id": "chatcmpl-0", "object": "chat.completion", "created": 0, "model": "",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "E11.9 " * 16}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 48, "completion_tokens": 16, "total_tokens": 64, "prompt_tokens_details": {"cached_tokens": 32}},
}  # fmt: skip


class Prompt(FakeEngine):
    """Answers at once, and its meter knows everything at once."""

    @property
    def app(self) -> Any:
        """A reply without work."""
        raw = json.dumps(REPLY).encode()

        async def answer(scope: Any, receive: Any, send: Any) -> None:
            await receive()
            headers = [(b"content-type", b"application/json")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": raw})

        return answer

    def knows(self, attempt: str) -> bool:
        """Every attempt."""
        return True

    async def measured(self, attempt: str, timeout_s: float) -> Measured | None:
        """What an attempt of that size takes."""
        now = time.time_ns()
        spent = Slice(now - now % (900 * 10**9), 2_000_000, 300_000, 0, 400_000, 50_000)
        return Measured((spent,), 48, 32, 16, 0, now, now, "engine-step/1", "bench")


async def work(home: Path) -> None:
    """Serve what the parent asks for, a line each, and say what it took."""
    vars(os).update(fsync=timed_sync)
    spool = Spool(home / "spool")
    clock = SimpleNamespace(utc_ns=time.time_ns, mono_ns=time.monotonic_ns)
    vars(telemetry_cost).update(ManualClock=lambda: clock, FakeEngine=lambda _: Prompt(ManualClock()))
    built, engine = telemetry_cost.gateway(home, spool, Tracing(spool), Metrics(), None)
    await built.start()
    for line in iter(sys.stdin.readline, ""):
        kind, count = line.split()
        before = os.times()
        if kind == "alone":
            found: Any = [await alone(built) for _ in range(int(count))]
        else:
            found = await many(built, int(count))
        after = os.times()
        print(json.dumps({"found": found, "cpu": sum(after[:2]) - sum(before[:2])}), flush=True)
    await built.stop(1.0)
    await engine.stop()
    spool.close()
    assert not spool.dropped
    assert not spool.errors


async def many(built: Any, count: int) -> float:
    """Requests a second, `AT_ONCE` of them under way."""
    rest = iter(range(count))

    async def one_after_the_other() -> None:
        for _ in rest:
            await telemetry_cost.ask(built)

    began = time.perf_counter()
    await asyncio.gather(*(one_after_the_other() for _ in range(AT_ONCE)))
    return count / (time.perf_counter() - began)


async def alone(built: Any) -> tuple[float, int, float]:
    """Milliseconds of one request, how often the disk was synced meanwhile, and how long that took."""
    before = len(SYNCS)
    took = (await telemetry_cost.ask(built))[1]
    meanwhile = SYNCS[before:]
    return took / 1e6, len(meanwhile), sum(meanwhile) / 1e6


def timed_sync(fd: int, sync: Callable[[int], None] = os.fsync) -> None:
    """`os.fsync`, and how long it took."""
    began = time.perf_counter_ns()
    sync(fd)
    SYNCS.append(time.perf_counter_ns() - began)


class Worker:
    """A process on one checkout."""

    def __init__(self, root: Path) -> None:
        self._home = tempfile.TemporaryDirectory()
        home = Path(self._home.name)
        text = (root / "examples" / "catalog.yaml").read_text()
        (home / "catalog.yaml").write_text(text.replace("cpu-0", "fake-0"))
        command = [sys.executable, "-P", __file__, "--work", str(home)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root, env=os.environ | {"PYTHONPATH": str(root)}
        )  # fmt: skip

    def ask(self, kind: str, count: int) -> dict[str, Any]:
        """Let it work."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(kind, count, file=self._process.stdin, flush=True)
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def __enter__(self) -> Self:
        self.ask("many", WARM_UP)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()
        self._home.cleanup()
        assert self._process.returncode == 0


def rounds(base: Path, pairs: int, seed: int, base_first: bool) -> list[dict[str, Any]]:
    """Pairs of two fresh processes."""
    found, drawn = [], random.Random(seed)
    with Worker(base if base_first else ROOT) as one, Worker(ROOT if base_first else base) as other:
        sides = {"base": one if base_first else other, "new": other if base_first else one}
        for _ in range(pairs):
            order = drawn.sample(sorted(sides), 2)
            pair: dict[str, Any] = {}
            for name in order:
                took, syncs, in_syncs = zip(*sides[name].ask("alone", ALONE)["found"], strict=True)
                pair[name] = {
                    "alone_ms": statistics.median(took),
                    "syncs": statistics.mean(syncs),
                    "sync_ms": sum(in_syncs) / max(1, sum(syncs)),
                    "outside_ms": statistics.median(a - b for a, b in zip(took, in_syncs, strict=True)),
                }
            for name in order:
                answer = sides[name].ask("many", MANY)
                pair[name] |= {"per_s": answer["found"], "cpu_ms": answer["cpu"] / MANY * 1e3}
            found.append(pair)
    return found


def result(base: Path, base_commit: str, pairs: int, seed: int, beside: str) -> dict[str, Any]:
    """All rounds, half of them in each order of creation."""
    found = [
        pair for number in range(4) for pair in rounds(base, -(-pairs // 4), seed + number, base_first=number % 2 == 0)
    ]

    def of(values: Iterable[float]) -> list[float]:
        return [round(one, 3) for one in telemetry_cost.interval(list(values), seed, statistics.median)]

    def both(name: str) -> dict[str, list[float]]:
        return {side: of(pair[side][name] for pair in found) for side in ("base", "new")}

    return {
        "machine": machine.describe(),
        "beside": beside,
        "base_commit": base_commit,
        "pairs": len(found),
        "at_once": AT_ONCE,
        "alone_ms": both("alone_ms"),
        "alone_syncs": both("syncs"),
        "one_sync_ms": both("sync_ms"),
        "alone_outside_syncs_ms": both("outside_ms"),
        "alone_saved_ms": of(pair["base"]["alone_ms"] - pair["new"]["alone_ms"] for pair in found),
        "per_s": both("per_s"),
        "cpu_ms": both("cpu_ms"),
        "throughput_ratio": of(pair["new"]["per_s"] / pair["base"]["per_s"] for pair in found),
    }


def said(values: list[float], unit: str) -> str:
    """A median and its interval, as the documentation says them."""
    return "{:.2f} {} [{:.2f}, {:.2f}]".format(values[0], unit, *values[1:])


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--base", type=Path, help="a checkout of the commit to compare with")
    options.add_argument("--pairs", type=int, default=24)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--beside", default="nothing else", help="what else ran on the machine")
    options.add_argument("--write", action="store_true", help=f"keep it as {RESULT.relative_to(ROOT)}")
    options.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.work is not None:
        asyncio.run(work(chosen.work))
        return
    if chosen.base is None:
        options.error("--base is needed")
    base = chosen.base.resolve()
    commit = subprocess.check_output(["git", "-C", base, "rev-parse", "--short", "HEAD"], text=True).strip()
    text = json.dumps(result(base, commit, chosen.pairs, chosen.seed, chosen.beside), indent=1)
    print(text)
    if chosen.write:
        RESULT.write_text(text + "\n")


if __name__ == "__main__":
    main()

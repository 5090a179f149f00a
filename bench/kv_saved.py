"""T_kv against the truth: what a stored prefix saved, as the meter estimates it, and as cold minus warm engine time.

`python -m bench.kv_saved` takes some minutes after `bench.attribution_error`, whose engine and profile it uses.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import fmean, median, stdev
from typing import Any, Final

from bench.truth.machine import describe
from bench.truth.measure import OFF_CORE, RETRIES, profile_of, say, start, timed
from serving.calibration.phases import CalibrationCall, draw_tokens
from serving.calibration.step_engine import StepEngine, TimedStep
from serving.metering.steps import scaled
from serving.step_model.profile import Profile

OUT: Final = Path(__file__).with_name("results") / "kv_saved.json"
WORK: Final = Path(__file__).parents[1] / "build" / "truth"
MODEL: Final = "mid"
SEED: Final = 11
PAIRS: Final = 15
STUDENT: Final = 2.145
"""97.5 % point of Student's t for the mean of so many pairs."""
TAIL: Final = 32
OUTPUT: Final = 4
LEAST_CACHED: Final = 128
KNOWN: Final = 0.10
TARGETS: Final = {"median_error": 0.05, "worst_error": 0.15}
Result = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Cell:
    """`users` requests hit a prefix of `cached` tokens each, beside others in the batch.

    `one_prefix` means that all use the same one: then, without the stored copy, only the first would have computed it.
    """

    name: str
    cached: int
    adapter: str | None = None
    users: int = 1
    beside: int = 0
    one_prefix: bool = False

    def calls(self) -> tuple[list[CalibrationCall], list[CalibrationCall]]:
        """(what fills the cache, what is measured)."""
        random = Random(f"{SEED} {self.name}")
        heads = [draw_tokens(random, self.cached) for _ in range(1 if self.one_prefix else self.users)]
        fill = [
            CalibrationCall(f"fill-{n}", "acme", head + draw_tokens(random, TAIL), 1, self.adapter)
            for n, head in enumerate(heads)
        ]
        measured = [
            CalibrationCall(
                f"user-{n}", "acme", heads[n % len(heads)] + draw_tokens(random, TAIL), OUTPUT, self.adapter
            )
            for n in range(self.users)
        ]
        others = [
            CalibrationCall(f"other-{n}", "dune", draw_tokens(random, 24 + 8 * n), 6, None if n % 2 else "adapter-5")
            for n in range(self.beside)
        ]
        return fill, [*measured, *others]


CELLS: Final = (
    *(Cell(f"alone, base, {h}", h) for h in (128, 256, 512, 832)),
    *(Cell(f"alone, adapter, {h}", h, "adapter-4") for h in (128, 256, 512, 832)),
    Cell("among seven, base, 512", 512, beside=6),
    Cell("among seven, adapter, 512", 512, "adapter-4", beside=6),
    Cell("two at once, own prefixes, 384", 384, "adapter-4", users=2),
    Cell("four at once, one prefix, 512", 512, users=4, one_prefix=True),
)


def busy(engine: StepEngine, calls: list[CalibrationCall], fill: list[CalibrationCall]) -> list[TimedStep]:
    """The steps of the calls from a cold cache, or with `fill` computed just before; again when the core was not ours."""
    for _ in range(RETRIES + 1):
        if fill:
            engine.run(fill)
        steps, off = timed(engine, calls, warm=bool(fill))
        if off <= OFF_CORE:
            break
    return steps


def estimate(steps: list[TimedStep], profile: Profile) -> int:
    """What the meter books as saved in a run: for each request that began with cached tokens, in its first step."""
    saved = 0
    seen: set[str] = set()
    for duration_ns, rows in steps:
        for row in rows:
            if row.key not in seen and row.before:
                saving = profile.kv_saved_ns(
                    row.before, row.adapter is not None, len({other.adapter for other in rows}) > 1
                )
                saved += sum(scaled(saving, duration_ns, profile.predict_ns(rows)))
        seen.update(row.key for row in rows)
    return saved


def measure(cell: Cell, engine: StepEngine, profile: Profile) -> Result:
    """One cell: interleaved pairs of cold and warm, and the meter's estimate (the median of the warm runs)."""
    fill, calls = cell.calls()
    busy(engine, calls, [])
    saved, estimates = [], []
    for _ in range(PAIRS):
        cold, warm = busy(engine, calls, []), busy(engine, calls, fill)
        saved.append(sum(step.duration_ns for step in cold) - sum(step.duration_ns for step in warm))
        estimates.append(estimate(warm, profile))
    truth, said = median(saved), median(estimates)
    half = STUDENT * stdev(saved) / PAIRS**0.5
    by_model = sum(profile.kv_saved_ns(cell.cached, cell.adapter is not None)) * cell.users
    found = {
        "cell": cell.name,
        "cached_tokens": cell.cached,
        "saved_ms": _ms(truth),
        "ci95_ms": [_ms(fmean(saved) - half), _ms(fmean(saved) + half)],
        "known_to": round(half / truth, 4),
        "estimate_ms": _ms(said),
        "error": round(said / truth - 1, 4),
        "by_model_alone_ms": _ms(by_model),
        "error_by_model_alone": round(by_model / truth - 1, 4),
    }
    if cell.one_prefix:
        found["error_of_the_stored_copy"] = round(said / cell.users / truth - 1, 4)
    return found


def summary(cells: list[Result]) -> Result:
    """Median and worst error over the cells whose truth is known well enough; one shared prefix is another question."""
    counted = [c for c in cells if c["known_to"] <= KNOWN and "error_of_the_stored_copy" not in c]
    errors = [abs(c["error"]) for c in counted]
    figures = {"median_error": round(median(errors), 4), "worst_error": max(errors)}
    return {
        "cells_counted": len(counted),
        **figures,
        "targets": {
            name: {"target": limit, "measured": figures[name], "met": figures[name] <= limit}
            for name, limit in TARGETS.items()
        },
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--work", type=Path, default=WORK, help="models and profiles (default build/truth)")
    options.add_argument("--out", type=Path, default=OUT, help="the result (default bench/results/kv_saved.json)")
    chosen = options.parse_args()
    profile = profile_of(MODEL, chosen.work)
    engine = start(MODEL, chosen.work)
    cells = []
    try:
        for cell in CELLS:
            cells.append(measure(cell, engine, profile))
            say(json.dumps(cells[-1]))
    finally:
        engine.close()
    found = {**summary(cells), "model": MODEL, "profile": profile.hash, "machine": describe(), "cells": cells}
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    chosen.out.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps({name: found[name] for name in ("cells_counted", "median_error", "worst_error")}))


def _ms(ns: float) -> float:
    return round(ns / 1e6, 2)


if __name__ == "__main__":
    main()

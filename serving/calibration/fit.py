"""Fits a step profile from steps that an engine really ran.

Non-negative least squares on relative residuals with Huber weights, trained on half of the phases and judged on the other:
steps of one phase are near copies of each other, so steps picked at random would judge themselves.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from serving.step_model.profile import Profile, RowWork

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

LEAST_STEPS: Final = 200
_ROUNDS: Final = 30
_PPM: Final = 1_000_000
_PS: Final = 1000


class CalibrationRefused(ValueError):
    """These steps cannot give a profile; `fact` says why and what to measure."""

    def __init__(self, fact: str) -> None:
        self.fact = fact
        super().__init__(f"could not fit step profile: {fact}")


class StepSample(NamedTuple):
    """One measured step, adapter loads taken out of it; `phase` names the stretch of like load that it was part of."""

    phase: int
    duration_ns: int
    rows: tuple[RowWork, ...]


def to_line(sample: StepSample) -> str:
    """One line of JSON: `[phase, nanoseconds, [[prefill, decode, before, adapter, recompute, key], ...]]`."""
    return json.dumps([sample.phase, sample.duration_ns, sample.rows], separators=(",", ":"))


def from_line(line: str) -> StepSample:
    """What `to_line` wrote; ValueError when it is not that."""
    try:
        phase, duration_ns, rows = json.loads(line)
        return StepSample(int(phase), int(duration_ns), tuple(RowWork(*row) for row in rows))
    except TypeError as error:
        raise ValueError(f"not a logged step: {error}") from error


def fit(steps: Sequence[StepSample], build: str = "") -> Profile:
    """A profile from the even half of the phases; its `error_ppm` are median errors over the odd half, by step class.

    Steps without rows or time are left out. CalibrationRefused below 200 steps or two phases.
    """
    usable = [step for step in steps if step.rows and step.duration_ns > 0]
    if len(usable) < LEAST_STEPS:
        raise CalibrationRefused(f"{len(usable)} steps with rows, {LEAST_STEPS} are needed; run more load")
    phases = sorted({step.phase for step in usable})
    if len(phases) < 2:
        raise CalibrationRefused("all steps are of one phase; vary concurrency, lengths and adapters over several")
    trained = set(phases[::2])
    a, b_p, b_d, c_p, c_d, any_lora, per_adapter, lora_token = _huber([s for s in usable if s.phase in trained])
    profile = Profile(a, b_p, b_d, c_p, c_d, any_lora, per_adapter, lora_token, build=build, steps=len(usable))
    profile.error_ppm.update(errors_ppm(profile, [step for step in usable if step.phase not in trained]))
    profile.seen.update(_largest(usable))
    return profile


def errors_ppm(profile: Profile, steps: Sequence[StepSample]) -> dict[str, int]:
    """Median of |predicted / measured - 1| in parts per million for `prefill`, `decode` and `mixed` steps, where any."""
    found: dict[str, list[int]] = {}
    for step in steps:
        error = abs(profile.predict_ns(step.rows) - step.duration_ns) * _PPM // step.duration_ns
        found.setdefault(step_class(step.rows), []).append(error)
    return {name: sorted(values)[len(values) // 2] for name, values in sorted(found.items())}


def _largest(steps: Sequence[StepSample]) -> dict[str, int]:
    return {
        "rows": max(len(step.rows) for step in steps),
        "tokens": max(sum(row.prefill + row.decode for row in step.rows) for step in steps),
        "context": max(row.before + row.prefill + row.decode for step in steps for row in step.rows),
        "adapters": max(len({row.adapter for row in step.rows} - {None}) for step in steps),
    }


def step_class(rows: Sequence[RowWork]) -> str:
    """`prefill`, `decode` or `mixed`, by the tokens in the step."""
    prefill, decode = any(row.prefill for row in rows), any(row.decode for row in rows)
    return "mixed" if prefill and decode else "prefill" if prefill else "decode"


def _features(step: StepSample) -> list[int]:
    """What each coefficient is multiplied with, in the order of Profile's fields, in half units."""
    rows = step.rows
    lora = [row for row in rows if row.adapter is not None]
    return [
        2,
        2 * sum(row.prefill for row in rows),
        2 * sum(row.decode for row in rows),
        sum(row.prefill * (2 * row.before + row.prefill + 1) for row in rows),
        2 * sum(row.decode * (row.before + row.prefill + 1) for row in rows),
        2 * bool(lora),
        2 * len({row.adapter for row in lora}),
        2 * sum(row.prefill + row.decode for row in lora),
    ]


def _huber(steps: Sequence[StepSample]) -> list[int]:
    """Whole picoseconds. Each round weighs a step down as far as its relative residual sticks out of the last round's."""
    import numpy as np

    duration = np.array([step.duration_ns for step in steps], dtype=float)
    wanted = np.ones(len(steps))
    relative = np.array([_features(step) for step in steps], dtype=float) / duration[:, None]
    size = np.linalg.norm(relative, axis=0)
    size[size == 0] = 1.0
    relative /= size
    weight = np.ones(len(steps))
    solution = np.zeros(relative.shape[1])
    for _ in range(_ROUNDS):
        root = np.sqrt(weight)
        before, solution = solution, non_negative(relative * root[:, None], wanted * root)
        residual = np.abs(relative @ solution - wanted)
        bound = max(1.345 * 1.4826 * float(np.median(residual)), 1e-6)
        weight = np.minimum(1.0, bound / np.maximum(residual, 1e-12))
        if np.allclose(before, solution, rtol=1e-6, atol=1e-12):
            break
    return [round(float(value) * 2 * _PS) for value in solution / size]


def non_negative(matrix: Array, wanted: Array) -> Array:
    """The x >= 0 that brings `matrix @ x` closest to `wanted` (Lawson and Hanson's active set)."""
    import numpy as np

    columns = matrix.shape[1]
    x = np.zeros(columns)
    free = np.zeros(columns, dtype=bool)
    tolerance = 1e-10 * float(np.abs(matrix.T @ wanted).max(initial=0.0))
    for _ in range(10 * columns):
        slope = matrix.T @ (wanted - matrix @ x)
        slope[free] = -np.inf
        best = int(np.argmax(slope))
        if slope[best] <= tolerance:
            break
        free[best] = True
        while True:
            trial = np.zeros(columns)
            trial[free] = np.linalg.lstsq(matrix[:, free], wanted, rcond=None)[0]
            blocked = free & (trial <= 0)
            if not blocked.any():
                x = trial
                break
            step = float(np.min(x[blocked] / (x[blocked] - trial[blocked])))
            x = x + step * (trial - x)
            free &= x > 1e-14
            x[~free] = 0.0
    return x

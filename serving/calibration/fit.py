"""Fits a step profile from steps that an engine really ran.

Non-negative least squares on relative residuals with Huber weights, trained on half of the phases and judged on the other:
steps of one phase are near copies of each other, so steps picked at random would judge themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import exp, log
from typing import TYPE_CHECKING, Any, Final

from serving.calibration.corners import count
from serving.step_model.profile import KINDS, METHODS, Profile
from serving.step_model.sample import StepSample
from serving.step_model.step_class import step_class

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

LEAST_STEPS: Final = 200
BETTER: Final = 0.95
"""A roofline is taken when its error is below this part of the error of a cost per token."""
_ROUNDS: Final = 30
_COARSE_ROUNDS: Final = 6
_RIDGES: Final = 9
_NARROWINGS: Final = 3
_PPM: Final = 1_000_000
_PS: Final = 1000


class CalibrationRefused(ValueError):
    """These steps cannot give a profile; `fact` says why and what to measure."""

    def __init__(self, fact: str) -> None:
        self.fact = fact
        super().__init__(f"could not fit step profile: {fact}")


def fit(steps: Sequence[StepSample], build: str = "") -> Profile:
    """A profile from the even half of the phases; its `error_ppm` are median errors over the odd half, by step class.

    Both forms of the matrix products are fitted, a cost per token and a roofline, and the one is taken that predicts the odd half
    better: the mean over step classes of the median error, a roofline only when it is clearly (`BETTER`) better.
    Steps without rows or time are left out. CalibrationRefused below 200 steps or two phases.
    """
    usable = [step for step in steps if step.rows and step.duration_ns > 0]
    if len(usable) < LEAST_STEPS:
        raise CalibrationRefused(f"{len(usable)} steps with rows, {LEAST_STEPS} are needed; run more load")
    phases = sorted({step.phase for step in usable})
    if len(phases) < 2:
        raise CalibrationRefused("all steps are of one phase; vary concurrency, lengths and adapters over several")
    trained = set(phases[::2])
    shown = [step for step in usable if step.phase in trained]
    held = [step for step in usable if step.phase not in trained]
    linear, roofline = _linear(shown), _roofline(shown)
    chosen = roofline if _score(roofline, held) < BETTER * _score(linear, held) else linear
    profile = replace(chosen, build=build, steps=len(usable))
    profile.error_ppm.update(errors_ppm(profile, held))
    profile.seen.update(_largest(usable))
    profile.corners.update(count(step.rows for step in usable))
    return profile


def errors_ppm(profile: Profile, steps: Sequence[StepSample]) -> dict[str, int]:
    """Median of |predicted / measured - 1| in parts per million by step class, where there are any."""
    found: dict[str, list[int]] = {}
    for step in steps:
        error = abs(profile.predict_ns(step.rows) - step.duration_ns) * _PPM // step.duration_ns
        found.setdefault(step_class(step.rows), []).append(error)
    return {name: sorted(values)[len(values) // 2] for name, values in sorted(found.items())}


def _score(profile: Profile, steps: Sequence[StepSample]) -> float:
    errors = errors_ppm(profile, steps)
    return sum(errors.values()) / len(errors)


def _largest(steps: Sequence[StepSample]) -> dict[str, int]:
    return {
        "rows": max(len(step.rows) for step in steps),
        "tokens": max(sum(row.prefill + row.decode for row in step.rows) for step in steps),
        "context": max(row.before + row.prefill + row.decode for step in steps for row in step.rows),
        "adapters": max(len({row.adapter for row in step.rows} - {None}) for step in steps),
    }


def _features(step: StepSample) -> list[int]:
    """What each coefficient of `KINDS` is multiplied with, in their order, in half units."""
    rows = step.rows
    lora = [row for row in rows if row.adapter is not None]
    mixed = len({row.adapter for row in rows}) > 1
    lora_tokens = sum(row.prefill + row.decode for row in lora)
    return [
        2,
        2 * sum(row.prefill for row in rows),
        2 * sum(row.decode for row in rows),
        sum(row.prefill * (2 * row.before + row.prefill + 1) for row in rows),
        2 * sum(row.decode * (row.before + row.prefill + 1) for row in rows),
        2 * bool(lora),
        2 * len({row.adapter for row in lora}),
        2 * lora_tokens,
        2 * any(row.prefill for row in rows),
        2 * (mixed and bool(lora)),
        2 * mixed * lora_tokens,
    ]


def _profile(coefficients: Sequence[int]) -> Profile:
    named: dict[str, Any] = dict(zip(METHODS[KINDS], coefficients, strict=True))
    return Profile(**named)


def _linear(steps: Sequence[StepSample]) -> Profile:
    return _profile(_huber(steps, [_features(step) for step in steps])[0])


def _roofline(steps: Sequence[StepSample]) -> Profile:
    """The ridge, weights / token in tokens, is searched for between one token and half the largest step; the rest is linear."""
    features = [_features(step) for step in steps]
    tokens = [sum(row.prefill + row.decode for row in step.rows) for step in steps]

    def at(ridge: float, rounds: int) -> tuple[list[int], float]:
        more = [[*row, 2 * max(ridge, size)] for row, size in zip(features, tokens, strict=True)]
        return _huber(steps, more, rounds)

    most = max(tokens) / 2
    low, high = 0.0, log(max(most, 2.0))
    for _ in range(_NARROWINGS):
        ridges = [low + (high - low) * part / (_RIDGES - 1) for part in range(_RIDGES)]
        best = min(ridges, key=lambda ridge: at(exp(ridge), _COARSE_ROUNDS)[1])
        width = (high - low) / (_RIDGES - 1)
        low, high = max(best - width, 0.0), best + width
    *others, token = at(exp(best), _ROUNDS)[0]
    return replace(_profile(others), weights=round(token * exp(best)), token=token)


def _huber(
    steps: Sequence[StepSample], features: Sequence[Sequence[float]], rounds: int = _ROUNDS
) -> tuple[list[int], float]:
    """Whole picoseconds, and the mean loss. Each round weighs a step down as far as its relative residual sticks out of the last round's."""
    import numpy as np

    duration = np.array([step.duration_ns for step in steps], dtype=float)
    wanted = np.ones(len(steps))
    relative = np.array(features, dtype=float) / duration[:, None]
    size = np.linalg.norm(relative, axis=0)
    size[size == 0] = 1.0
    relative /= size
    weight = np.ones(len(steps))
    solution = np.zeros(relative.shape[1])
    for _ in range(rounds):
        root = np.sqrt(weight)
        before, solution = solution, non_negative(relative * root[:, None], wanted * root)
        residual = np.abs(relative @ solution - wanted)
        bound = max(1.345 * 1.4826 * float(np.median(residual)), 1e-6)
        weight = np.minimum(1.0, bound / np.maximum(residual, 1e-12))
        if np.allclose(before, solution, rtol=1e-6, atol=1e-12):
            break
    return [round(float(value) * 2 * _PS) for value in solution / size], float(np.median(residual))


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

import random
from collections.abc import Callable

import pytest

from serving.calibration.fit import CalibrationRefused, StepSample, errors_ppm, fit, step_class
from serving.step_model.profile import COEFFICIENTS, Profile, RowWork

KNOWN = Profile(
    a=3_060_000_000,
    b_p=51_000_000,
    b_d=130_000_000,
    c_p=28_000,
    c_d=500_000,
    any_lora=3_800_000_000,
    per_adapter=3_400_000_000,
    lora_token=44_000_000,
    build="known",
)
"""A profile with every term in it; how the built-in one was fitted is no business of these tests."""

Noise = Callable[[random.Random], float]


def steps_of(profile: Profile, count: int, noise: Noise, seed: int = 3) -> list[StepSample]:
    """Steps as random phases give them: a phase is all prefill, all decode or both, with 0 to 4 adapters."""
    order = random.Random(seed)
    steps = []
    for i in range(count):
        phase = i // 20
        kind, adapters = phase % 3, [None, "a", "b", "c", "d"][: 1 + phase % 5]
        rows = []
        for _ in range(order.randrange(1, 13)):
            adapter = order.choice(adapters)
            if kind == 0 or (kind == 2 and order.random() < 0.3):
                rows.append(RowWork(order.randrange(16, 900), 0, order.choice([0, 0, 256]), adapter))
            else:
                rows.append(RowWork(0, 1, order.randrange(16, 2000), adapter))
        steps.append(StepSample(phase, round(profile.predict_ns(rows) * noise(order)), tuple(rows)))
    return steps


def test_a_known_profile_is_found_again_under_noise_and_stalls() -> None:
    """3 % noise, and one step in fifty takes ten times as long."""

    def noise(order: random.Random) -> float:
        return order.gauss(1, 0.03) * (10 if order.random() < 0.02 else 1)

    found = fit(steps_of(KNOWN, 3000, noise), build="test")
    for name in COEFFICIENTS:
        # A decode token is 1 % of a step, so noise of 3 % blurs it more than the others.
        within = 0.15 if name == "b_d" else 0.05
        assert getattr(found, name) == pytest.approx(getattr(KNOWN, name), rel=within), name
    for step in steps_of(KNOWN, 200, lambda _: 1.0, seed=4):
        assert found.predict_ns(step.rows) == pytest.approx(step.duration_ns, rel=0.02)
    assert found.steps == 3000
    assert found.build == "test"
    assert found.seen["adapters"] == 4
    assert found.seen["rows"] == 12
    assert 256 + 800 < found.seen["context"] <= 2000
    assert set(found.error_ppm) == {"prefill", "decode", "mixed"}
    assert all(10_000 < error < 30_000 for error in found.error_ppm.values())


def test_two_hundred_exact_steps_give_the_profile_itself() -> None:
    found = fit(steps_of(KNOWN, 200, lambda _: 1.0))
    for name in COEFFICIENTS:
        assert getattr(found, name) == pytest.approx(getattr(KNOWN, name), rel=1e-3), name
    assert max(found.error_ppm.values()) < 100


def test_no_coefficient_goes_below_zero() -> None:
    """Where LoRA costs nothing, noise would pull its terms to either side."""
    free = Profile(a=3 * 10**9, b_p=5 * 10**7, b_d=10**8, c_p=0, c_d=0, any_lora=0, per_adapter=0, lora_token=0)
    found = fit(steps_of(free, 600, lambda order: order.gauss(1, 0.05)))
    assert min(getattr(found, name) for name in COEFFICIENTS) == 0
    assert found.a == pytest.approx(free.a, rel=0.05)
    assert found.b_p == pytest.approx(free.b_p, rel=0.05)


def test_too_few_steps_or_one_phase_are_refused() -> None:
    steps = steps_of(KNOWN, 199, lambda _: 1.0)
    with pytest.raises(CalibrationRefused, match="199 steps with rows, 200 are needed"):
        fit([*steps, StepSample(0, 10, ()), StepSample(0, 0, steps[0].rows)])
    with pytest.raises(CalibrationRefused, match="one phase"):
        fit([step._replace(phase=1) for step in [*steps, steps[0]]])


def test_errors_are_medians_by_class() -> None:
    prefill, decode = RowWork(10, 0, 0), RowWork(0, 1, 9)
    assert [step_class(rows) for rows in ([prefill], [decode], [prefill, decode])] == ["prefill", "decode", "mixed"]
    exact = KNOWN.predict_ns([decode])
    steps = [StepSample(0, exact * k, (decode,)) for k in (1, 2, 4)]
    assert errors_ppm(KNOWN, steps) == {"decode": 500_000}

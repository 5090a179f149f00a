from __future__ import annotations

from pipelines.checks import CHECKS
from pipelines.steps import HOURLY


def test_every_step_stands_behind_the_steps_that_it_is_made_from() -> None:
    made: set[str] = set()
    for step in HOURLY:
        assert made.issuperset(step.after), step.name
        made.add(step.name)
    assert len(made) == len(HOURLY)


def test_every_check_judges_a_dataset_that_a_step_makes() -> None:
    assert {check.dataset for check in CHECKS} <= {step.name for step in HOURLY}
    assert len({check.name for check in CHECKS}) == len(CHECKS)

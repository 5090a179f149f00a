"""How long is waited before an engine is started again."""

from __future__ import annotations

from serving.policy.restarts import RestartPolicy, Restarts

POLICY = RestartPolicy(first_s=1.0, most_s=20.0, steady_s=300.0, spread=0.5)


def waits(count: int, draw: float) -> list[float]:
    life, out = Restarts().came_up(0.0), []
    for _ in range(count):
        life = life.failed(POLICY, 10.0)
        out.append(life.wait_s(POLICY, draw))
    return out


def test_each_failure_doubles_the_wait_up_to_a_bound() -> None:
    assert waits(7, draw=0.0) == [1.0, 2.0, 4.0, 8.0, 16.0, 20.0, 20.0]
    assert waits(5000, draw=0.0)[-1] == 20.0


def test_chance_only_shortens_a_wait() -> None:
    assert waits(3, draw=0.5) == [0.75, 1.5, 3.0]


def test_an_engine_that_lives_long_has_not_failed_before() -> None:
    life = Restarts(failures=5).came_up(100.0)
    assert life.failed(POLICY, 399.0).failures == 6
    assert life.failed(POLICY, 400.0).failures == 1

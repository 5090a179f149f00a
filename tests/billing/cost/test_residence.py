from __future__ import annotations

import pytest

from billing.cost.residence import Move, byte_ns

ENDS = {"p": 100, "q": 60}


@pytest.mark.parametrize(
    ("moves", "held"),
    [
        pytest.param([], {}, id="nothing was loaded"),
        pytest.param([Move("p", "a", 10, True, 3)], {"a": 270}, id="until the process said its last word"),
        pytest.param([Move("p", "a", 10, True, 3), Move("p", "a", 30, False)], {"a": 60}, id="until it left"),
        pytest.param(
            [Move("p", "a", 90, True, 5), Move("p", "a", 10, True, 3), Move("p", "a", 30, False)],
            {"a": 60 + 50},
            id="two stays, in whatever order they are told",
        ),
        pytest.param(
            [Move("p", "a", 10, True, 3), Move("p", "a", 40, True, 5)],
            {"a": 90 + 300},
            id="until it was loaded again where nobody says when it left",
        ),
        pytest.param([Move("p", "a", -50, True, 1)], {"a": 100}, id="only what lies in the window counts"),
        pytest.param([Move("p", "a", -50, True, 1), Move("p", "a", -10, False)], {}, id="it had left before"),
        pytest.param(
            [Move("p", "a", 0, True, 1), Move("q", "a", 0, True, 1)], {"a": 160}, id="each process holds its own"
        ),
        pytest.param([Move("p", "a", 20, False)], {}, id="a departure whose load nobody knows"),
    ],
)
def test_a_stay_counts_its_bytes_as_long_as_it_lasts(moves: list[Move], held: dict[str, int]) -> None:
    assert byte_ns(moves, ENDS, 0, 1000) == held

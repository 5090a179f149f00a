"""Exact Shapley values of a measured game, and how well they are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import factorial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


def matrix(players: int) -> Array:
    """The linear map from the values of all subsets (column = mask, the empty one included) to the players' values."""
    import numpy as np

    weight = [factorial(s) * factorial(players - s - 1) / factorial(players) for s in range(players)]
    rows = np.zeros((players, 1 << players))
    for mask in range(1 << players):
        size = mask.bit_count()
        for player in range(players):
            # A subset counts for its members as what they brought, and against the others as what they would start from.
            rows[player, mask] = weight[size - 1] if mask >> player & 1 else -weight[size]
    return rows


def exact(values: Sequence[float]) -> list[float]:
    """The players' Shapley values of a game given by mask; `values[0]` is the empty set's. Their sum is the last value."""
    players = (len(values) - 1).bit_length()
    if len(values) != 1 << players:
        raise ValueError(f"{len(values)} values are no game of whole players")
    return [float(value) for value in matrix(players) @ values]


def medians(runs: Mapping[int, Sequence[int]], players: int) -> list[float]:
    """Median of each subset's runs by mask, 0 for the empty set; KeyError when a subset was not measured."""
    import numpy as np

    return [0.0, *(float(np.median(runs[mask])) for mask in range(1, 1 << players))]


def noise(runs: Mapping[int, Sequence[int]]) -> Array:
    """Relative deviations of single runs from their subset's mean, of all subsets together, widened to be unbiased."""
    import numpy as np

    parts = []
    for values in runs.values():
        if len(values) > 1:
            measured = np.asarray(values, dtype=float)
            parts.append((measured / measured.mean() - 1) * (len(values) / (len(values) - 1)) ** 0.5)
    return np.concatenate(parts)


def noise_of_one_run(runs: Mapping[int, Sequence[int]]) -> float:
    """Relative standard deviation of a run, by the median so that a few stalls do not count."""
    import numpy as np

    return float(1.4826 * np.median(np.abs(noise(runs))))


def resampled(runs: Mapping[int, Sequence[int]], players: int, draws: int, seed: int) -> Array:
    """`draws` x players Shapley values of games as they might have been measured.

    Each subset's median is taken anew from as many runs as it had, with deviations drawn from those of all subsets: three runs
    of one subset alone say too little about its spread.
    """
    import numpy as np

    random = np.random.default_rng(seed)
    pool = noise(runs)
    centre = medians(runs, players)
    games = np.zeros((draws, 1 << players))
    for mask in range(1, 1 << players):
        drawn = random.choice(pool, size=(draws, len(runs[mask])))
        games[:, mask] = centre[mask] * (1 + np.median(drawn, axis=1))
    shares: Array = games @ matrix(players).T
    return shares

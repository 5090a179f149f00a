"""The Shapley value of max(weights, token x tokens): what a step's matrix products cost on a device that must read all weights.

Whoever is there shares the weights, and compute above them belongs to the tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb, factorial
from typing import Final

from serving.step_model.profile import Profile

MOST_SIZES: Final = 4
"""Steps with more different row sizes below the ridge are dealt by the fluid limit, which is within some percent."""


def matmul_values(tokens: Sequence[int], profile: Profile) -> tuple[list[int], int]:
    """Values for rows of these sizes, in picoseconds, as numerators over one denominator. A row without tokens brings nothing.

    Exact while few different row sizes lie below the ridge, else the fluid limit W/n + c t (1 - W/(c T)); the sum is exact
    either way.
    """
    count = sum(size > 0 for size in tokens)
    total = sum(tokens)
    if not count:
        return [0] * len(tokens), 1
    if profile.token * total <= profile.weights:
        return [profile.weights * (size > 0) for size in tokens], count
    below = sorted({size for size in tokens if 0 < size * profile.token < profile.weights})
    if len(below) > MOST_SIZES:
        excess = profile.token * total - profile.weights
        return [profile.weights * total * (size > 0) + excess * size * count for size in tokens], count * total
    values = {size: _exact(size, tokens, count, below, profile) for size in set(tokens) if size}
    return [values.get(size, 0) for size in tokens], factorial(count)


def _exact(size: int, tokens: Sequence[int], count: int, below: Sequence[int], profile: Profile) -> int:
    """`count!` times the value of a row of this size.

    Above the ridge a row always brings its own compute; so only coalitions of the others that lie below are counted, by
    how many rows and tokens they have.
    """
    coalitions = {(0, 0): 1}
    for other in below:
        rows = sum(one == other for one in tokens) - (other == size)
        grown: dict[tuple[int, int], int] = {}
        for (members, held), ways in coalitions.items():
            for more in range(rows + 1):
                if (held + more * other) * profile.token >= profile.weights:
                    break
                key = (members + more, held + more * other)
                grown[key] = grown.get(key, 0) + ways * comb(rows, more)
        coalitions = grown
    own = profile.token * size
    value = own * factorial(count)
    for (members, held), ways in coalitions.items():
        brought = profile.matmul(held + size) - profile.matmul(held)
        value += ways * factorial(members) * factorial(count - members - 1) * (brought - own)
    return value

"""Shares whole units by weight so that the parts add up to them exactly: the largest-remainder method. Integers only.

Nanoseconds of a step, steps of a quantity, cents of an invoice: whatever is shared, is shared by this rule.
"""

from __future__ import annotations

from collections.abc import Sequence


def deal(total: int, weights: Sequence[int], keys: Sequence[str] | None = None) -> list[int]:
    """Share `total` by weights that are not negative; what is left goes to the largest remainders.

    Ties go to the smaller key, then to the earlier part. Equal weights differ by at most 1; no weight gets nothing, unless no
    part has any: then all get the same. A negative total is shared like its positive, and negated.
    """
    if total < 0:
        return [-part for part in deal(-total, weights, keys)]
    whole = sum(weights)
    if whole == 0:
        weights = [1] * len(weights)
        whole = len(weights)
    parts: list[int] = []
    rests: list[int] = []
    for weight in weights:
        part, rest = divmod(total * weight, whole)
        parts.append(part)
        rests.append(rest)
    if left := total - sum(parts):
        top_up(parts, rests, left, keys)
    return parts


def top_up(parts: list[int], remainders: Sequence[int], left: int, keys: Sequence[str] | None = None) -> None:
    """Add 1 to the `left` parts with the largest remainders; ties go to the smaller key, then to the earlier part."""
    last = sorted(remainders, reverse=True)[left - 1]
    ties: list[tuple[str, int]] = []
    for i, remainder in enumerate(remainders):
        if remainder > last:
            parts[i] += 1
            left -= 1
        elif remainder == last:
            ties.append((keys[i] if keys else "", i))
    for _, i in sorted(ties)[:left]:
        parts[i] += 1

"""Deals the time of one engine step to the requests in it: method `engine-step/1`.

The closed-form Shapley value of the step model, over integer pots:

    a    every row equally              L    LoRA rows equally, when there is any
    e    per adapter, its rows equally  own  b_p p + b_d d + c_p p (before + (p + 1) / 2) + c_d d (before + 1) + l (LoRA tokens)

A row's weight is its part of every pot over their common denominator, so nothing is rounded before the measured nanoseconds
are dealt by largest remainder: first to the rows, then inside a row to base (a, b, c), adapter (L, e, l) and recompute.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm
from typing import NamedTuple

from catalog.apportionment import deal
from serving.step_model.profile import METHOD, Profile, RowWork

__all__ = ["METHOD", "Curve", "RowShare", "RowWork", "own_curves", "split_step"]


class Curve(NamedTuple):
    """What the first t prefill tokens of a row cost by themselves in its step: (linear t + square t²) / weight of the row's share."""

    linear: int
    square: int
    weight: int


class RowShare(NamedTuple):
    """Nanoseconds of one row: base model, what LoRA added, and what only repeats work lost to a preemption."""

    base_ns: int
    adapter_ns: int
    recompute_ns: int


def adapter_rows(rows: Sequence[RowWork]) -> dict[str, int]:
    """How many rows each adapter of a step has."""
    sizes: dict[str, int] = {}
    for row in rows:
        if row[3] is not None:
            sizes[row[3]] = sizes.get(row[3], 0) + 1
    return sizes


def split_step(duration_ns: int, rows: Sequence[RowWork], profile: Profile) -> list[RowShare]:
    """Share `duration_ns` among `rows`, in their order; the sum is exact.

    Rows of equal work differ by at most 1 ns. A row that is wholly recompute counts as recompute with all its parts;
    of any other row only the recomputed tokens' own cost does. ValueError on a negative time, or time without rows.
    """
    if duration_ns < 0 or (duration_ns and not rows):
        raise ValueError(f"could not split step: {duration_ns} ns over {len(rows)} rows")
    sizes = adapter_rows(rows)
    lora_rows = sum(sizes.values())
    scale = lcm(len(rows) or 1, lora_rows or 1, *sizes.values())
    base_pot = 2 * profile.a * scale // (len(rows) or 1)
    lora_pot = 2 * profile.any_lora * scale // (lora_rows or 1)
    lora_pots = {name: lora_pot + 2 * profile.per_adapter * scale // size for name, size in sizes.items()}
    lora_token = 2 * profile.lora_token * scale
    b_p, b_d = 2 * profile.b_p * scale, 2 * profile.b_d * scale
    c_p, c_d = profile.c_p * scale, 2 * profile.c_d * scale

    weights: list[int] = []
    loras: list[int] = []
    keys: list[str] = []
    for prefill, decode, before, adapter, _, key in rows:
        weight = base_pot
        if prefill:
            weight += (b_p + c_p * (2 * before + prefill + 1)) * prefill
        if decode:
            weight += (b_d + c_d * (before + prefill + 1)) * decode
        lora = 0 if adapter is None else lora_pots[adapter] + lora_token * (prefill + decode)
        weights.append(weight + lora)
        loras.append(lora)
        keys.append(key)

    shares: list[RowShare] = []
    for ns, row, weight, lora in zip(deal(duration_ns, weights, keys), rows, weights, loras, strict=True):
        if row[4]:
            shares.append(_with_recompute(ns, row, weight, lora, scale, profile))
        elif lora:
            adapter_ns = (2 * ns * lora + weight) // (2 * weight)
            shares.append(RowShare(ns - adapter_ns, adapter_ns, 0))
        else:
            shares.append(RowShare(ns, 0, 0))
    return shares


def own_curves(rows: Sequence[RowWork], profile: Profile) -> list[Curve]:
    """For every row the part of its share that is its prefill tokens' own: b_p, c_p and l, without pots and decode tokens."""
    sizes = adapter_rows(rows)
    scale = lcm(len(rows) or 1, sum(sizes.values()) or 1, *sizes.values())
    curves: list[Curve] = []
    for row in rows:
        linear = 2 * profile.b_p + profile.c_p * (2 * row.before + 1)
        weight = profile.own(row.prefill, row.decode, row.before) * scale + 2 * profile.a * scale // len(rows)
        if row.adapter is not None:
            linear += 2 * profile.lora_token
            weight += 2 * profile.lora_token * (row.prefill + row.decode) * scale
            weight += 2 * profile.any_lora * scale // sum(sizes.values())
            weight += 2 * profile.per_adapter * scale // sizes[row.adapter]
        curves.append(Curve(linear * scale, profile.c_p * scale, weight))
    return curves


def _with_recompute(ns: int, row: RowWork, weight: int, lora: int, scale: int, profile: Profile) -> RowShare:
    if row.recompute >= row.prefill + row.decode:
        return RowShare(0, 0, ns)
    if weight == 0:
        return RowShare(ns, 0, 0)
    again = min(row.recompute, row.prefill)
    base_again = profile.own(again, 0, row.before) * scale
    if row.recompute > again:
        base_again += 2 * (profile.b_d + profile.c_d * (row.before + row.prefill + 1)) * (row.recompute - again) * scale
    lora_again = 0 if row.adapter is None else 2 * profile.lora_token * row.recompute * scale
    base, adapter, recompute = deal(ns, (weight - lora - base_again, lora - lora_again, base_again + lora_again))
    return RowShare(base, adapter, recompute)

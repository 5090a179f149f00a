"""Deals the time of one engine step to the requests in it: the closed-form Shapley value of the step model, over integer pots.

    a      every row equally                    L   LoRA rows equally, when there is any
    P      rows that prefill equally, when there is any
    e      per adapter, its rows equally        own  b_p p + b_d d + c_p p (before + (p + 1) / 2) + c_d d (before + 1) + l (LoRA tokens)
    M, m   those who mix kinds (`mixing`)       max(weights, token x tokens)  those who compute (`roofline`)

A row's weight is its part of every pot over their common denominator, so nothing is rounded before the measured nanoseconds
are dealt by largest remainder: first to the rows, then inside a row to base, adapter (L, e, l, M, m) and recompute. What a row
without adapter has of M and m stands in its base part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import lcm
from typing import NamedTuple

from catalog.apportionment import deal
from serving.step_model import mixing
from serving.step_model.mixing import RowsOfKind
from serving.step_model.profile import Profile, RowWork
from serving.step_model.roofline import matmul_values


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


class _Pots(NamedTuple):
    """What a row of some kind has of its step whatever it computes, and of each LoRA token; half picoseconds over `_Weighed.scale`."""

    base: int
    lora: int
    lora_token: int
    again_token: int
    """Of a token that is computed again: nobody beside it carries a part."""


class _Weighed(NamedTuple):
    """A step's weights, in half picoseconds over `scale`: by row its weight, its LoRA part, and what of the matrix products is above the weights."""

    scale: int
    pots: dict[str | None, _Pots]
    weights: list[int]
    loras: list[int]
    above: list[int]


def split_step(duration_ns: int, rows: Sequence[RowWork], profile: Profile) -> list[RowShare]:
    """Share `duration_ns` among `rows`, in their order; the sum is exact.

    Rows of equal work differ by at most 1 ns. A row that is wholly recompute counts as recompute with all its parts;
    of any other row only the recomputed tokens' own cost does. ValueError on a negative time, or time without rows.
    """
    if duration_ns < 0 or (duration_ns and not rows):
        raise ValueError(f"could not split step: {duration_ns} ns over {len(rows)} rows")
    weighed = _weigh(rows, profile)
    shares: list[RowShare] = []
    parts = zip(
        deal(duration_ns, weighed.weights, [row[5] for row in rows]), rows, weighed.weights, weighed.loras, strict=True
    )
    for ns, row, weight, lora in parts:
        if row[4]:
            shares.append(_with_recompute(ns, row, len(shares), weighed, profile))
        elif lora:
            adapter_ns = (2 * ns * lora + weight) // (2 * weight)
            shares.append(RowShare(ns - adapter_ns, adapter_ns, 0))
        else:
            shares.append(RowShare(ns, 0, 0))
    return shares


def own_curves(rows: Sequence[RowWork], profile: Profile) -> list[Curve]:
    """For every row the part of its share that is its prefill tokens' own: no pots, no decode tokens, no reading of weights."""
    weighed = _weigh(rows, profile)
    curves: list[Curve] = []
    for row, weight, above in zip(rows, weighed.weights, weighed.above, strict=True):
        tokens = row.prefill + row.decode
        if not tokens:
            curves.append(Curve(0, 0, weight))
            continue
        linear = (2 * profile.b_p + profile.c_p * (2 * row.before + 1)) * weighed.scale
        if row.adapter is not None:
            linear += weighed.pots[row.adapter].lora_token
        # What lies above the weights is known for the row as a whole: each of its tokens has the same part.
        curves.append(Curve(linear * tokens + above, profile.c_p * weighed.scale * tokens, weight * tokens))
    return curves


def _kinds(rows: Sequence[RowWork], profile: Profile) -> dict[str | None, RowsOfKind]:
    """The rows of a step by adapter, None for the base model's."""
    counts = Counter([row[3] for row in rows])
    tokens: dict[str | None, int] = {}
    if profile.mixed_token and len(counts) > 1:
        for prefill, decode, _, adapter, recompute, _ in rows:
            # Nobody beside a preempted row pays for what it has to compute again.
            tokens[adapter] = tokens.get(adapter, 0) + prefill + decode - recompute
    return {name: RowsOfKind(count, tokens.get(name, 0)) for name, count in counts.items()}


def _weigh(rows: Sequence[RowWork], profile: Profile) -> _Weighed:
    prefills = sum([row[0] > 0 for row in rows]) if profile.any_prefill else 0
    scale, pots = _pots(_kinds(rows, profile), prefills, profile)
    products, above = [0] * len(rows), [0] * len(rows)
    if profile.weights or profile.token:
        values, whole = matmul_values([row.prefill + row.decode for row in rows], profile)
        grown = lcm(scale, whole)
        pots = {name: _Pots(*(part * (grown // scale) for part in kind)) for name, kind in pots.items()}
        scale = grown
        products = [2 * value * (scale // whole) for value in values]
        reading = 2 * profile.weights * scale // (sum(value > 0 for value in values) or 1)
        above = [product - reading if product else 0 for product in products]

    weights: list[int] = []
    loras: list[int] = []
    prefill_pot = 2 * profile.any_prefill * scale // (prefills or 1)
    b_p, b_d = 2 * profile.b_p * scale, 2 * profile.b_d * scale
    c_p, c_d = profile.c_p * scale, 2 * profile.c_d * scale
    for (prefill, decode, before, adapter, recompute, _), weight in zip(rows, products, strict=True):
        base, lora, lora_token, again_token = pots[adapter]
        weight += base
        if prefill:
            weight += (b_p + c_p * (2 * before + prefill + 1)) * prefill + prefill_pot
        if decode:
            weight += (b_d + c_d * (before + prefill + 1)) * decode
        if lora_token:
            lora += lora_token * (prefill + decode)
        if recompute:
            lora += (again_token - lora_token) * recompute
        weights.append(weight + lora)
        loras.append(lora)
    return _Weighed(scale, pots, weights, loras, above)


def _pots(kinds: dict[str | None, RowsOfKind], prefills: int, profile: Profile) -> tuple[int, dict[str | None, _Pots]]:
    """(scale, pots by kind) of all but the matrix products."""
    rows = sum(kind.rows for kind in kinds.values()) or 1
    lora_rows = sum(kind.rows for name, kind in kinds.items() if name is not None) or 1
    mixes = len(kinds) > 1 and bool(profile.mixed or profile.mixed_token)
    scale = lcm(
        rows,
        prefills or 1,
        lora_rows,
        *(kind.rows for kind in kinds.values()),
        mixing.denominator(kinds) if mixes else 1,
    )
    mixed = mixing.shares(kinds, scale) if mixes else {}
    base = 2 * profile.a * scale // rows
    pots: dict[str | None, _Pots] = {}
    for name, kind in kinds.items():
        part = mixed.get(name, _NOT_MIXED)
        joint = 2 * (profile.mixed * part.fixed + profile.mixed_token * part.others)
        if name is None:
            pots[name] = _Pots(base + joint, 0, 0, 0)
            continue
        lora = 2 * profile.any_lora * scale // lora_rows + 2 * profile.per_adapter * scale // kind.rows
        token = 2 * (profile.lora_token * scale + profile.mixed_token * part.own)
        again = 2 * (profile.lora_token + profile.mixed_token * mixes) * scale
        pots[name] = _Pots(base, lora + joint, token, again)
    return scale, pots


_NOT_MIXED = mixing.Mixing(0, 0, 0)


def _with_recompute(ns: int, row: RowWork, index: int, weighed: _Weighed, profile: Profile) -> RowShare:
    weight, lora, scale = weighed.weights[index], weighed.loras[index], weighed.scale
    tokens = row.prefill + row.decode
    if row.recompute >= tokens:
        return RowShare(0, 0, ns)
    if weight == 0:
        return RowShare(ns, 0, 0)
    again = min(row.recompute, row.prefill)
    base_again = profile.own(again, 0, row.before) * scale + weighed.above[index] * row.recompute // tokens
    if row.recompute > again:
        base_again += 2 * (profile.b_d + profile.c_d * (row.before + row.prefill + 1)) * (row.recompute - again) * scale
    lora_again = weighed.pots[row.adapter].again_token * row.recompute
    base, adapter, recompute = deal(ns, (weight - lora - base_again, lora - lora_again, base_again + lora_again))
    return RowShare(base, adapter, recompute)

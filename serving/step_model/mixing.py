"""What it costs that rows of different kinds share a step, as two games with their Shapley values in closed form.

The kinds of a step are the base model and each adapter in it. LoRA kernels run one matrix product over a whole batch of one kind;
a batch of several is gathered and scattered row by row. So a step of two kinds or more costs a fixed M more, and m more for every
token of a LoRA row. Nobody alone causes that: an adapter's rows without others would have had the fast path, and so would the others.

For n rows, n_g of them of kind g, m_g = n - n_g of other kinds, T_g tokens in the rows of adapter g:

    M    a row of kind k gets the sum over g != k of 1/m_g - 1/n: it pays when it is the first to join rows of one kind
    m t  a LoRA row of kind k with t tokens gets t m_k / (m_k + 1); every row of another kind gets T_k / (m_k (m_k + 1))
"""

from __future__ import annotations

from collections.abc import Mapping
from math import lcm
from typing import Final, NamedTuple

BASE: Final = None
"""The kind of a row without adapter."""


class RowsOfKind(NamedTuple):
    """All rows of one kind in a step; `tokens` are those of its rows that were not computed before."""

    rows: int
    tokens: int


class Mixing(NamedTuple):
    """Numerators over `Mixed.scale`: what a row of this kind has of M, of others' m, and of m for each of its own tokens."""

    fixed: int
    others: int
    own: int


def denominator(kinds: Mapping[str | None, RowsOfKind]) -> int:
    """The least number over which `shares` is whole; 1 for a step of one kind."""
    if len(kinds) < 2:
        return 1
    rows = sum(kind.rows for kind in kinds.values())
    outside = [rows - kind.rows for kind in kinds.values()]
    return lcm(rows, *(others * (others + 1) for others in outside))


def shares(kinds: Mapping[str | None, RowsOfKind], scale: int) -> dict[str | None, Mixing]:
    """By kind; `scale` is a multiple of `denominator`. A step of one kind has nothing to share."""
    if len(kinds) < 2:
        return dict.fromkeys(kinds, Mixing(0, 0, 0))
    rows = sum(kind.rows for kind in kinds.values())
    joined = {name: scale // (rows - kind.rows) - scale // rows for name, kind in kinds.items()}
    carried = {
        name: 0 if name is BASE else kind.tokens * scale // ((rows - kind.rows) * (rows - kind.rows + 1))
        for name, kind in kinds.items()
    }
    fixed, others = sum(joined.values()), sum(carried.values())
    return {
        name: Mixing(
            fixed - joined[name],
            others - carried[name],
            0 if name is BASE else scale * (rows - kind.rows) // (rows - kind.rows + 1),
        )
        for name, kind in kinds.items()
    }

"""Corners of the load: batches that random traffic seldom holds and a real day does, on which a profile must not only extrapolate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from serving.step_model.profile import RowWork
from serving.step_model.step_class import STEP_CLASSES, step_class

FEW: Final = 5
"""A corner that the fit met in fewer steps is called unseen."""
CROWD: Final = 4
"""So many rows of the other kind make one row a lone one."""
LONG: Final = 512
"""Tokens of context from which a row is long."""
Rows = Sequence[RowWork]


def _lone(rows: Rows, lora: bool) -> bool:
    ours = sum((row.adapter is not None) == lora for row in rows)
    return ours == 1 and len(rows) - ours >= CROWD


def _long(rows: Rows, lora: bool) -> bool:
    return any((row.adapter is not None) == lora and row.before + row.prefill + row.decode >= LONG for row in rows)


_OTHERS: Final[Mapping[str, Callable[[Rows], bool]]] = {
    "one LoRA row among base rows": lambda rows: _lone(rows, True),
    "one base row among LoRA rows": lambda rows: _lone(rows, False),
    "two adapters": lambda rows: len({row.adapter for row in rows} - {None}) == 2,
    "a single row": lambda rows: len(rows) == 1,
    "long context": lambda rows: _long(rows, False),
    "long context with an adapter": lambda rows: _long(rows, True),
}
CORNERS: Final = (*STEP_CLASSES, *_OTHERS)


def corners_of(rows: Rows) -> list[str]:
    """The corners that a step is in: its class, and others."""
    return [step_class(rows), *(name for name, holds in _OTHERS.items() if holds(rows))]


def count(steps: Iterable[Rows]) -> dict[str, int]:
    """How many of the steps are in each corner; corners without any are left out."""
    found = dict.fromkeys(CORNERS, 0)
    for rows in steps:
        for name in corners_of(rows):
            found[name] += 1
    return {name: steps for name, steps in found.items() if steps}


def unseen(counted: Mapping[str, int]) -> list[str]:
    """Corners that a fit met in fewer than FEW steps: there a profile extrapolates."""
    return [name for name in CORNERS if counted.get(name, 0) < FEW]

"""Which class a step is of: steps of one class run the same kernels, so a step model is judged class by class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from serving.step_model.profile import RowWork

TOKENS: Final = ("prefill", "decode", "mixed")
ADAPTERS: Final = ("none", "alone", "beside-base", "several")
STEP_CLASSES: Final = tuple(f"{tokens}-{adapters}" for tokens in TOKENS for adapters in ADAPTERS)


def step_class(rows: Sequence[RowWork]) -> str:
    """One of STEP_CLASSES: by the tokens in the step, and by its adapters: none, one alone, one beside base rows, several."""
    prefill = decode = False
    kinds: set[str | None] = set()
    for row in rows:
        prefill = prefill or row[0] > 0
        decode = decode or row[1] > 0
        kinds.add(row[3])
    tokens = "decode" if not prefill else "mixed" if decode else "prefill"
    adapters = len(kinds) - (None in kinds)
    if adapters > 1:
        return f"{tokens}-several"
    return f"{tokens}-none" if not adapters else f"{tokens}-alone" if len(kinds) == 1 else f"{tokens}-beside-base"

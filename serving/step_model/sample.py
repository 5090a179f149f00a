"""A measured step, as a step model is fitted from, and its line in a file."""

from __future__ import annotations

import json
from typing import NamedTuple

from serving.step_model.profile import RowWork


class StepSample(NamedTuple):
    """One measured step, adapter loads taken out of it; `phase` names the stretch of like load that it was part of."""

    phase: int
    duration_ns: int
    rows: tuple[RowWork, ...]


def to_line(sample: StepSample) -> str:
    """One line of JSON: `[phase, nanoseconds, [[prefill, decode, before, adapter, recompute, key], ...]]`."""
    return json.dumps([sample.phase, sample.duration_ns, sample.rows], separators=(",", ":"))


def from_line(line: str) -> StepSample:
    """What `to_line` wrote; ValueError when it is not that."""
    try:
        phase, duration_ns, rows = json.loads(line)
        return StepSample(int(phase), int(duration_ns), tuple(RowWork(*row) for row in rows))
    except TypeError as error:
        raise ValueError(f"not a logged step: {error}") from error

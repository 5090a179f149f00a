"""Steps of an engine that nobody steps by hand, kept in a file for `loraledger calibrate --steps`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from catalog.durations import SECOND_NS
from serving.step_model.profile import RowWork
from serving.step_model.sample import StepSample, to_line

MOST_STEPS: Final = 100_000
"""Some 50 MB; what comes later is not kept."""
PAUSE_NS: Final = SECOND_NS
"""An engine that stood still for so long begins another phase: who learns from one half of them is judged by the other."""


class StepFile:
    """Appends steps to a file. It holds counts of tokens, adapters' names and request ids, never a prompt."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8", buffering=1)
        self._phase = 0
        self._kept = 0
        self._last_ns = 0

    def hear(self, start_ns: int, end_ns: int, net_ns: int, rows: Sequence[RowWork]) -> None:
        """A step that ran from `start_ns` to `end_ns`, `net_ns` of it without adapter loads; one without rows is not kept."""
        if not rows or self._kept >= MOST_STEPS:
            return
        self._phase += start_ns - self._last_ns >= PAUSE_NS and self._kept > 0
        self._kept += 1
        self._last_ns = end_ns
        self._file.write(to_line(StepSample(self._phase, net_ns, tuple(rows))) + "\n")

    def close(self) -> None:
        """Close the file."""
        self._file.close()

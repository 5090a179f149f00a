"""The five numbers of a share of engine time. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from serving.step_model.split import RowShare

NO_SAVING: Final = (0, 0)
"""What a row saved that hit no prefix."""


@dataclass(slots=True)
class Parts:
    """Nanoseconds by what they were for: three were measured, and two are what cached prefixes saved, by estimate."""

    base_ns: int = 0
    adapter_ns: int = 0
    recompute_ns: int = 0
    kv_saved_base_ns: int = 0
    kv_saved_adapter_ns: int = 0

    def add(self, share: RowShare, saved: tuple[int, int]) -> None:
        """Add what a row has of a step, and what a prefix saved it: (base, adapter)."""
        base_ns, adapter_ns, recompute_ns = share
        self.base_ns += base_ns
        self.adapter_ns += adapter_ns
        self.recompute_ns += recompute_ns
        if saved is not NO_SAVING:
            self.kv_saved_base_ns += saved[0]
            self.kv_saved_adapter_ns += saved[1]

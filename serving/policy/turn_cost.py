"""What each row of an engine's batch takes of its steps, by the step model, at a price per step that does not grow with the rows.

What rows share (the step, the LoRA path, an adapter) is kept as running sums of one row's part, read when a row comes and when it
goes; what a row has by itself follows from its tokens. Picoseconds. Near the split that bills (`step_model.split`), not equal to it:
turns need what is fair over seconds, and the engine's thread has no time for more.
"""

from __future__ import annotations

from serving.step_model.profile import Profile


class TurnCost:
    """The rows in the batch now, by adapter, and the running sums of their steps."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._step = profile.a + profile.weights
        self._rows = 0
        self._lora_rows = 0
        self._every = 0
        self._lora = 0
        self._by: dict[str, int] = {}
        self.rows: dict[str, int] = {}
        """Rows by adapter, base rows apart; an adapter without rows is not in it."""

    def step(self) -> None:
        """One more step of the rows that are there."""
        if not self._rows:
            return
        kinds = len(self.rows) + (self._rows > self._lora_rows)
        self._every += (self._step + (self._profile.mixed if kinds > 1 else 0)) // self._rows
        if self._lora_rows:
            self._lora += self._profile.any_lora // self._lora_rows
            each, by = self._profile.per_adapter, self._by
            for adapter, rows in self.rows.items():
                by[adapter] += each // rows

    def came(self, adapter: str | None) -> int:
        """A row joins; the sums' reading for it."""
        self._rows += 1
        if adapter is not None:
            self._lora_rows += 1
            self.rows[adapter] = self.rows.get(adapter, 0) + 1
            self._by.setdefault(adapter, 0)
        return self._reading(adapter)

    def went(self, adapter: str | None, reading: int) -> int:
        """A row that came at `reading` leaves; what it had of the shared costs."""
        took = self._reading(adapter) - reading
        self._rows -= 1
        if adapter is not None:
            self._lora_rows -= 1
            self.rows[adapter] -= 1
            if not self.rows[adapter]:
                del self.rows[adapter], self._by[adapter]
        return took

    def own(self, adapter: str | None, cached: int, prefill: int, decode: int) -> int:
        """What a row has by itself: `prefill` tokens after `cached` ones, then `decode` tokens one by one."""
        profile = self._profile
        middle = cached + prefill + decode // 2
        halves = profile.own(prefill, 0, cached) + profile.own(0, decode, middle)
        return halves // 2 + (profile.lora_token * (prefill + decode) if adapter is not None else 0)

    def predict(self, adapter: str | None, cached: int, prefill: int, decode: int) -> int:
        """What such a row is going to take in a batch like the one that is there."""
        profile = self._profile
        shared = self._step // (self._rows + 1)
        if adapter is not None:
            shared += profile.any_lora // (self._lora_rows + 1)
            shared += profile.per_adapter // (self.rows.get(adapter, 0) + 1)
        return self.own(adapter, cached, prefill, decode) + shared * (decode + 1)

    def _reading(self, adapter: str | None) -> int:
        return self._every if adapter is None else self._every + self._lora + self._by[adapter]

"""How much and how long the gateway allows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of the gateway, bytes and seconds."""

    body_bytes: int = 4 << 20
    body_s: float = 60.0
    engine_s: float = 600.0
    abort_grace_s: float = 5.0
    meter_s: float = 2.0
    durable_s: float = 2.0
    count_s: float = 2.0
    room_s: float = 10.0
    health_s: float = 2.0
    hold_grace_s: float = 60.0

    @property
    def hold_s(self) -> float:
        """Longer than any attempt lasts after its admission: a budget's hold that is older belongs to none."""
        engine = self.engine_s + 2 * self.abort_grace_s
        return self.room_s + engine + self.meter_s + self.durable_s + self.hold_grace_s

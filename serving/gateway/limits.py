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
    room_s: float = 10.0
    health_s: float = 2.0

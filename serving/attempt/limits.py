"""How much and how long the gateway allows, and where its time comes from."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of the gateway, bytes and seconds.

    A client has `body_s` to send its request, and may keep a connection idle or half sent for `idle_s`. It has `deliver_s` to
    take each piece of a reply, `deliver_total_s` for all that it was waited for; while the gateway stops, `hurry_s` for
    either. Requests in flight then have `drain_s` to end. `connections` are bounded in total and per address, and so are
    attempts without a good key.
    """

    body_bytes: int = 4 << 20
    body_s: float = 25.0
    idle_s: float = 25.0
    deliver_s: float = 15.0
    deliver_total_s: float = 240.0
    engine_s: float = 600.0
    abort_grace_s: float = 5.0
    meter_s: float = 2.0
    durable_s: float = 2.0
    count_s: float = 2.0
    room_s: float = 10.0
    health_s: float = 2.0
    hold_grace_s: float = 60.0
    drain_s: float = 5.0
    hurry_s: float = 2.0
    connections: int = 2048
    connections_per_address: int = 256
    unauthenticated_per_minute: int = 30

    @property
    def hold_s(self) -> float:
        """Longer than any attempt lasts after its admission: a budget's hold that is older belongs to none."""
        engine = self.engine_s + 2 * self.abort_grace_s
        return self.room_s + engine + self.meter_s + self.durable_s + self.hold_grace_s


@dataclass(frozen=True, slots=True)
class Clock:
    """`utc_ns` names instants, `mono_ns` measures: durations never depend on a step of the wall clock."""

    utc_ns: Callable[[], int] = time.time_ns
    mono_ns: Callable[[], int] = time.monotonic_ns

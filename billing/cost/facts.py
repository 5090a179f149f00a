"""The facts that billing prices: engine minutes and tenant quarter hours, integers of nanoseconds. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

PROVIDER: Final = "provider"
"""Reserved owner: what no tenant carries (a load that no request followed, idle under the default policy)."""
COLD: Final = "cold"
"""`TenantQuarter.status` of rows that hold only shared cold time."""


class NotConserved(ValueError):
    """Parts do not sum to their whole; `missing_ns` is whole minus parts. Never clamped, never spread."""

    def __init__(self, what: str, missing_ns: int) -> None:
        self.what, self.missing_ns = what, missing_ns
        super().__init__(f"{what}: parts miss {missing_ns} ns of the whole")


@dataclass(frozen=True, slots=True)
class MeasuredMinute:
    """All windows of one engine in one UTC minute, summed; nanoseconds."""

    engine: str
    start_ns: int
    wall_ns: int
    idle_ns: int
    tenants_ns: int
    cold_ns: int
    recompute_ns: int
    system_ns: int
    unattributed_ns: int


MEASURED_PARTS: Final = ("wall_ns", "idle_ns", "tenants_ns", "cold_ns", "recompute_ns", "system_ns", "unattributed_ns")


@dataclass(frozen=True, slots=True)
class EngineMinute(MeasuredMinute):
    """One engine in one UTC minute that begins at `start_ns`, in nanoseconds of engine wall time (not times GPUs).

    `wall_ns` is time the meter covered, `down_ns` rented time it did not (start-up included); rented = wall + down.
    wall = tenants + cold + recompute + system + unattributed + idle.
    """

    down_ns: int
    gpu_type: str
    gpu_count: int

    @property
    def busy_ns(self) -> int:
        """Wall time that was not idle."""
        return self.tenants_ns + self.cold_ns + self.recompute_ns + self.system_ns + self.unattributed_ns

    @property
    def rented_ns(self) -> int:
        """Time that is paid for."""
        return self.wall_ns + self.down_ns

    def check(self) -> None:
        """Raise NotConserved unless busy + idle = wall, or a part is negative."""
        parts = [getattr(self, name) for name in (*MEASURED_PARTS, "down_ns")]
        if (missing := self.wall_ns - self.busy_ns - self.idle_ns) or min(parts) < 0:
            raise NotConserved(f"engine {self.engine}, minute {self.start_ns}", missing)


class QuarterKey(NamedTuple):
    """What makes two parts belong to the same row."""

    tenant: str
    adapter: str
    engine: str
    status: str
    start_ns: int


@dataclass(frozen=True, slots=True)
class TenantQuarter:
    """One tenant, adapter, engine and status in one UTC quarter hour: engine wall nanoseconds, tokens, requests.

    `adapter` is `base` for requests without one. `base_ns`, `adapter_ns` and `cold_ns` are measured, `kv_saved_*` are
    estimates. T_B = base + kv_saved_base, T_A = adapter + kv_saved_adapter, T_kv = kv_saved_base + kv_saved_adapter,
    T_cold = cold; so T_B + T_A - T_kv + T_cold is what was measured. `requests` counts attempts by the quarter they finished in.
    """

    tenant: str
    adapter: str
    engine: str
    status: str
    start_ns: int
    base_ns: int = 0
    adapter_ns: int = 0
    kv_saved_base_ns: int = 0
    kv_saved_adapter_ns: int = 0
    cold_ns: int = 0
    requests: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0

    @property
    def key(self) -> QuarterKey:
        """Its identity."""
        return QuarterKey(self.tenant, self.adapter, self.engine, self.status, self.start_ns)

    @property
    def measured_ns(self) -> int:
        """T_B + T_A - T_kv + T_cold."""
        return self.base_ns + self.adapter_ns + self.cold_ns


@dataclass(frozen=True, slots=True)
class ColdLoad:
    """Cold engine time of one adapter in one quarter hour of one engine, which begins at `start_ns`, before it is shared among tenants."""

    engine: str
    adapter: str
    start_ns: int
    cold_ns: int

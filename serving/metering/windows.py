"""The meter's windows while they fill: a cursor over one engine process's time, cut at UTC minutes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from serving.metering.attempts import Attempt
from serving.metering.split import RowShare
from telemetry.engine_time import MINUTE_NS, MeterWindow, Share, SystemCause

BUSY_NS: Final = 1_000_000_000
"""A window with work in it is closed at the first event after this long."""
IDLE_NS: Final = 10 * BUSY_NS
"""A window that is nothing but idle may be this long."""


@dataclass(slots=True)
class Totals:
    """Nanoseconds since the accountant began, by owner and by tenant (`recompute` belongs to no tenant)."""

    owners: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("tenants", "cold", "recompute", "system", "idle", "unattributed"), 0)
    )
    causes: dict[str, int] = field(default_factory=lambda: dict.fromkeys((cause.value for cause in SystemCause), 0))
    """The owner `system` by cause."""
    tenant_ns: dict[str, int] = field(default_factory=dict)
    tenant_adapter_ns: dict[str, int] = field(default_factory=dict)
    predicted_ns: int = 0
    """What the step model predicted for the steps that ran."""


def minutes(start_ns: int, end_ns: int) -> Iterator[tuple[int, int]]:
    """[start, end) cut at UTC minutes; one empty piece when it is empty."""
    while True:
        cut = min(end_ns, start_ns - start_ns % MINUTE_NS + MINUTE_NS)
        yield start_ns, cut
        if cut >= end_ns:
            return
        start_ns = cut


class WindowBook:
    """Time of one emitter from `start_ns` on (UTC). Book what passed, then `move` the cursor to where it passed to.

    `basis` is (method, profile's hash) of whoever splits the steps.
    """

    def __init__(self, emitter: str, engine: str, start_ns: int, basis: tuple[str, str], totals: Totals) -> None:
        self.cursor = start_ns
        self.ready: list[MeterWindow] = []
        self._emitter = emitter
        self._engine = engine
        self._method, self._profile = basis
        self._totals = totals
        self._seq = 0
        self._begin(start_ns)

    def _begin(self, start_ns: int) -> None:
        self._start = start_ns
        self._idle = 0
        self._unattributed = 0
        self._steps = 0
        self._predicted = 0
        self._system: dict[str, int] = {}
        self._cold: dict[str, int] = {}
        self._shares: dict[tuple[str, str | None], list[int]] = {}
        self._tenants: dict[str, str] = {}

    def idle(self, ns: int) -> None:
        """Nobody was there."""
        self._idle += ns
        self._totals.owners["idle"] += ns

    def unattributed(self, ns: int) -> None:
        """Time passed without a cause that was seen."""
        self._unattributed += ns
        self._totals.owners["unattributed"] += ns

    def system(self, cause: SystemCause, ns: int) -> None:
        """Time of nobody although requests were there."""
        if ns:
            self._system[cause.value] = self._system.get(cause.value, 0) + ns
            self._totals.owners["system"] += ns
            self._totals.causes[cause.value] += ns

    def cold(self, adapter: str, ns: int) -> None:
        """Time that loading `adapter` took."""
        self._cold[adapter] = self._cold.get(adapter, 0) + ns
        self._totals.owners["cold"] += ns

    def step(self, predicted_ns: int, ended: bool) -> None:
        """A step, or the piece of one that lies in this window, with its prediction; it counts where it ends."""
        self._steps += ended
        self._predicted += predicted_ns
        self._totals.predicted_ns += predicted_ns

    def share(
        self, attempt: Attempt, share: RowShare, tokens: tuple[int, int] = (0, 0), saved: tuple[int, int] = (0, 0)
    ) -> None:
        """Time of one attempt, here and in the attempt's own slices."""
        # Called for every row of every step: written out, since loops over seven fields would cost most of the accounting.
        base_ns, adapter_ns, recompute_ns = share
        prefill, decode = tokens
        saved_base_ns, saved_adapter_ns = saved
        if not (base_ns or adapter_ns or recompute_ns or prefill or decode or saved_base_ns or saved_adapter_ns):
            return
        key = attempt.key, attempt.adapter
        into = self._shares.get(key)
        if into is None:
            into = self._shares[key] = [0] * 7
            self._tenants[attempt.key] = attempt.tenant
        into[0] += base_ns
        into[1] += adapter_ns
        into[2] += recompute_ns
        into[3] += prefill
        into[4] += decode
        if saved_base_ns or saved_adapter_ns:
            into[5] += saved_base_ns
            into[6] += saved_adapter_ns
        attempt.add(self.cursor, base_ns, adapter_ns, recompute_ns, saved_base_ns, saved_adapter_ns)
        totals, tenant, measured = self._totals, attempt.tenant, base_ns + adapter_ns
        totals.owners["tenants"] += measured
        totals.owners["recompute"] += recompute_ns
        totals.tenant_ns[tenant] = totals.tenant_ns.get(tenant, 0) + measured
        totals.tenant_adapter_ns[tenant] = totals.tenant_adapter_ns.get(tenant, 0) + adapter_ns

    def move(self, to_ns: int) -> None:
        """All time up to `to_ns`, at most the end of the cursor's minute, is booked."""
        self.cursor = to_ns
        length = to_ns - self._start
        if to_ns % MINUTE_NS == 0 or length >= (IDLE_NS if self._idle == length else BUSY_NS):
            self.close()

    def close(self) -> None:
        """Close the window at the cursor; NotConserved when what was booked is not its length."""
        if self.cursor == self._start and not self._steps:
            return
        window = MeterWindow(
            emitter=self._emitter,
            seq=self._seq,
            engine=self._engine,
            start_ns=self._start,
            end_ns=self.cursor,
            steps=self._steps,
            idle_ns=self._idle,
            system_ns=self._system,
            cold_ns=self._cold,
            unattributed_ns=self._unattributed,
            shares=tuple(
                Share(key, self._tenants[key], adapter, *parts) for (key, adapter), parts in self._shares.items()
            ),
            predicted_ns=self._predicted,
            method=self._method,
            profile=self._profile,
        )
        window.check()
        self.ready.append(window)
        self._seq += 1
        self._begin(self.cursor)

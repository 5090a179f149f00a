"""The meter's windows while they fill: a cursor over one engine process's time, cut at UTC minutes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass, field
from itertools import repeat
from typing import Final, NamedTuple

from catalog.durations import MINUTE_NS, SECOND_NS
from catalog.owners import MEASURED, TimeOwner
from serving.metering.attempts import AttemptWork
from serving.metering.loads import is_cold
from serving.metering.parts import NO_SAVING, Parts
from serving.metering.tiles import Unowned
from serving.step_model.split import RowShare
from serving.wire.events import LoadSpan
from telemetry.engine_time import MeterWindow, Share, SystemCause

BUSY_NS: Final = SECOND_NS
"""A window with work in it is closed at the first event after this long."""
IDLE_NS: Final = 10 * BUSY_NS
"""A window that is nothing but idle may be this long."""
_NO_STEPS: Final = (0, 0)
_NO_TOKENS: Final = repeat((0, 0))
_NO_SAVINGS: Final = repeat(NO_SAVING)
_TENANTS, _COLD, _RECOMPUTE, _SYSTEM, _IDLE, _UNATTRIBUTED = MEASURED
"""For what is counted in every step: to look a member up in its class would cost more than to count."""


class StepTime(NamedTuple):
    """What steps of a class took, loads and stalls apart, and what the step model predicted."""

    measured_ns: int
    predicted_ns: int


@dataclass(slots=True)
class Totals:
    """Nanoseconds since the accountant began, by owner and by tenant (`recompute` belongs to no tenant)."""

    owners: dict[TimeOwner, int] = field(default_factory=lambda: dict.fromkeys(MEASURED, 0))
    causes: dict[str, int] = field(default_factory=lambda: dict.fromkeys((cause.value for cause in SystemCause), 0))
    """The owner `system` by cause."""
    tenant_ns: dict[str, int] = field(default_factory=dict)
    tenant_adapter_ns: dict[str, int] = field(default_factory=dict)
    steps: dict[str, StepTime] = field(default_factory=dict)
    """The steps that ran, by class."""


def minutes(start_ns: int, end_ns: int) -> list[tuple[int, int]]:
    """[start, end) cut at UTC minutes; one empty piece when it is empty."""
    pieces: list[tuple[int, int]] = []
    while (cut_ns := start_ns - start_ns % MINUTE_NS + MINUTE_NS) < end_ns:
        pieces.append((start_ns, cut_ns))
        start_ns = cut_ns
    pieces.append((start_ns, end_ns))
    return pieces


@dataclass(slots=True)
class _Row:
    """What an attempt has of the window that fills; `slice` is what it has of the quarter hour in which the window lies."""

    attempt: AttemptWork
    slice: Parts
    parts: Parts = field(default_factory=Parts)
    prefill: int = 0
    decode: int = 0

    def share(self, adapter: str | None) -> Share:
        base_ns, adapter_ns, recompute_ns, *saved = astuple(self.parts)
        names = self.attempt.key, self.attempt.tenant, adapter
        return Share(*names, base_ns, adapter_ns, recompute_ns, self.prefill, self.decode, *saved)


class WindowBook:
    """The windows of one engine, of one process after the other: book what passed since `cursor`, then `move` it to now.

    `basis` is (method, profile's hash) of whoever splits the steps.
    """

    def __init__(self, engine: str, basis: tuple[str, str], totals: Totals) -> None:
        self.cursor = 0
        self._engine = engine
        self._method, self._profile = basis
        self._totals = totals
        self._ready: list[MeterWindow] = []
        self.begin("", 0)

    def begin(self, emitter: str, start_ns: int) -> None:
        """A process comes up: windows of its own, from number 0. Those not taken yet stay."""
        self._emitter = emitter
        self._seq = 0
        self._open(start_ns)

    def _open(self, start_ns: int) -> None:
        self.cursor = self._start = start_ns
        self._idle = 0
        self._unattributed = 0
        self._steps = 0
        self._predicted = 0
        self._system: dict[str, int] = {}
        self._cold: dict[str, int] = {}
        self._shares: dict[tuple[str, str | None], _Row] = {}

    def take(self) -> list[MeterWindow]:
        """Windows that were closed since the last call."""
        out, self._ready = self._ready, []
        return out

    def between(self, owner: Unowned | SystemCause | LoadSpan, to_ns: int) -> None:
        """Time between two steps, from the cursor to `to_ns`: the cursor moves there."""
        ns = to_ns - self.cursor
        if owner is TimeOwner.IDLE:
            self._idle += ns
            self._totals.owners[_IDLE] += ns
        elif owner is TimeOwner.UNATTRIBUTED:
            self._unattributed += ns
            self._totals.owners[_UNATTRIBUTED] += ns
        elif isinstance(owner, SystemCause):
            self.system(owner, ns)
        elif is_cold(owner):
            self.cold(owner.adapter, ns)
        else:
            self.system(SystemCause.LOOP, ns)
        self.move(to_ns)

    def system(self, cause: SystemCause, ns: int) -> None:
        """Time of nobody although requests were there."""
        if ns:
            self._system[cause.value] = self._system.get(cause.value, 0) + ns
            self._totals.owners[_SYSTEM] += ns
            self._totals.causes[cause.value] += ns

    def cold(self, adapter: str, ns: int) -> None:
        """Time that loading `adapter` took."""
        if ns:
            self._cold[adapter] = self._cold.get(adapter, 0) + ns
            self._totals.owners[_COLD] += ns

    def step(self, name: str, took_ns: int, predicted_ns: int, ended: bool) -> None:
        """A step of this class, or the piece of one that lies in this window, with its prediction; it counts where it ends."""
        self._steps += ended
        self._predicted += predicted_ns
        if predicted_ns:
            so_far = self._totals.steps.get(name, _NO_STEPS)
            self._totals.steps[name] = StepTime(so_far[0] + took_ns, so_far[1] + predicted_ns)

    def share(
        self,
        attempts: Iterable[AttemptWork],
        shares: Iterable[RowShare],
        tokens: Iterable[tuple[int, int]] = _NO_TOKENS,
        saved: Iterable[tuple[int, int]] = _NO_SAVINGS,
    ) -> None:
        """Time of attempts, here and in their own slices; with (prefill, decode) tokens and what a prefix saved, (base, adapter)."""
        # Called for every step with every row of it: what can be asked once is asked before the loop.
        cursor, into_shares, totals = self.cursor, self._shares, self._totals
        tenant_ns, tenant_adapter_ns = totals.tenant_ns, totals.tenant_adapter_ns
        measured_ns = again_ns = 0
        for attempt, share, (prefill, decode), saving in zip(attempts, shares, tokens, saved, strict=False):
            base_ns, adapter_ns, recompute_ns = share
            if not (base_ns or adapter_ns or recompute_ns or prefill or decode or saving != NO_SAVING):
                continue
            key = attempt.key, attempt.adapter
            row = into_shares.get(key)
            if row is None:
                row = into_shares[key] = _Row(attempt, attempt.parts(cursor))
            elif row.attempt is not attempt:  # Its key came again after it was forgotten.
                row.attempt, row.slice = attempt, attempt.parts(cursor)
            row.prefill += prefill
            row.decode += decode
            row.parts.add(share, saving)
            row.slice.add(share, saving)
            tenant, ns = attempt.tenant, base_ns + adapter_ns
            measured_ns += ns
            again_ns += recompute_ns
            tenant_ns[tenant] = tenant_ns.get(tenant, 0) + ns
            tenant_adapter_ns[tenant] = tenant_adapter_ns.get(tenant, 0) + adapter_ns
        totals.owners[_TENANTS] += measured_ns
        totals.owners[_RECOMPUTE] += again_ns

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
            shares=tuple(row.share(adapter) for (_, adapter), row in self._shares.items()),
            predicted_ns=self._predicted,
            method=self._method,
            profile=self._profile,
        )
        window.check()
        self._ready.append(window)
        self._seq += 1
        self._open(self.cursor)

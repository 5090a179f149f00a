"""Pairs the phases of adapter loads: a read, and the first activation that may come much later, inside a step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from msgspec.structs import replace

from serving.wire.events import LoadSpan
from telemetry.engine_time import AdapterLoad, LoadCause


def is_cold(span: LoadSpan) -> bool:
    """Whether the span ends a load or is part of it; otherwise it moves a host-resident adapter back into its slot."""
    return span.kind == "read" or span.first


@dataclass(frozen=True, slots=True)
class _Expected:
    cause: LoadCause
    adapter_hash: str | None
    fetch_ns: int | None


class LoadBook:
    """Loads of one engine: those that wait for their first activation, and the finished ones not handed out yet."""

    def __init__(self, engine: str) -> None:
        self._engine = engine
        self._emitter = ""
        self._seq = 0
        self._expected: dict[str, _Expected] = {}
        self._claimed: dict[tuple[str, int], _Expected] = {}
        self._waiting: dict[str, AdapterLoad] = {}
        self._finished: list[AdapterLoad] = []

    @property
    def expecting(self) -> bool:
        """Whether a load was announced that did not show itself yet."""
        return bool(self._expected)

    def expect(
        self, adapter: str, cause: LoadCause, adapter_hash: str | None = None, fetch_ns: int | None = None
    ) -> None:
        """Announce the next load of `adapter`: why it happens, and what its fetch took."""
        self._expected[adapter] = _Expected(cause, adapter_hash, fetch_ns)

    def withdraw(self, adapter: str) -> None:
        """What was announced will not come, if it did not yet (it failed, or was not needed)."""
        self._expected.pop(adapter, None)

    def begin(self, emitter: str) -> None:
        """A new engine process: numbering starts at 0."""
        self._emitter, self._seq = emitter, 0
        self._claimed.clear()

    def arrived(self, spans: Iterable[LoadSpan]) -> None:
        """Spans were reported, to be booked later: a read is the load that was announced."""
        for span in spans:
            if span.kind == "read" and span.adapter in self._expected:
                self._claimed[span.adapter, span.start_ns] = self._expected.pop(span.adapter)

    def record(self, span: LoadSpan, stalled: Iterable[str] = ()) -> None:
        """A cold span, whole, that was booked; `stalled` are the attempts of the step it held up."""
        load = self._waiting.get(span.adapter)
        if load is not None and span.kind == "read":
            self._finish(load)
            load = None
        if load is None:
            load = self._begun(span)
        took = span.end_ns - span.start_ns
        load = self._waiting[span.adapter] = replace(
            load,
            engine_ns=load.engine_ns + took,
            size_bytes=span.size_bytes or load.size_bytes,
            stalled=tuple(dict.fromkeys((*load.stalled, *stalled))),
            **{"read_ns" if span.kind == "read" else "activate_ns": took},
        )
        if span.kind != "read":
            self._finish(load)

    def end(self) -> None:
        """The engine process ended: loads without an activation are finished as they are."""
        for load in list(self._waiting.values()):
            self._finish(load)

    def take(self) -> list[AdapterLoad]:
        """The loads that finished since the last call."""
        out, self._finished = self._finished, []
        return out

    def _begun(self, span: LoadSpan) -> AdapterLoad:
        """The load that begins with this span; it has no number before it is finished."""
        expected = self._claimed.pop((span.adapter, span.start_ns), None)
        expected = expected or self._expected.pop(span.adapter, _Expected(LoadCause.REQUEST, None, None))
        return AdapterLoad(
            emitter=self._emitter,
            seq=-1,
            engine=self._engine,
            adapter=span.adapter,
            adapter_hash=expected.adapter_hash,
            cause=expected.cause,
            start_ns=span.start_ns,
            engine_ns=0,
            fetch_ns=expected.fetch_ns,
        )

    def _finish(self, load: AdapterLoad) -> None:
        del self._waiting[load.adapter]
        self._finished.append(replace(load, seq=self._seq))
        self._seq += 1

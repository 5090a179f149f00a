"""Tells the moments of one engine process, and what it and its meter have counted, numbered from 0 each."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Final

from serving.engine.vllm_counters import FrontEndTotals
from serving.metering.tally import Tally
from telemetry.engine_time import EngineCounters, EngineSession, EngineValue, SessionEvent

Sink = Callable[[EngineValue], None]

COUNTERS_EVERY: Final = 12
"""How many heartbeats pass between two readings of the engine's own counters."""


@dataclass(slots=True)
class SessionReporter:
    """One engine process. `totals` is None where the engine's front end is out of reach: then no counters are told."""

    engine: str
    gpu_type: str
    gpu_count: int
    emitter: str
    sink: Sink
    totals: FrontEndTotals | None = None
    tally: Callable[[], Tally] = Tally
    alive: Callable[[], bool] = lambda: False
    seq: int = 0
    counted: int = 0
    beats: int = 0
    start_ns: int = 0

    def tell(self, event: SessionEvent, at_ns: int) -> None:
        """One moment."""
        seq, self.seq = self.seq, self.seq + 1
        self.start_ns = self.start_ns or at_ns
        names = self.emitter, seq, self.engine, self.emitter
        self.sink(EngineSession(*names, event, at_ns, self.gpu_type, self.gpu_count))

    def count(self, final: bool) -> None:
        """What vLLM and the meter have counted so far; `final` when the process ended in order."""
        if (totals := self.totals) is None:
            return
        seq, self.counted = self.counted, self.counted + 1
        counters = EngineCounters(
            emitter=self.emitter,
            seq=seq,
            engine=self.engine,
            start_ns=self.start_ns,
            at_ns=time.time_ns(),
            final=final,
            prompt_tokens=totals.prompt_tokens,
            output_tokens=totals.output_tokens,
            preemptions=totals.preemptions,
            cached_tokens=totals.cached_tokens,
            requests=dict(totals.requests),
            meter=asdict(self.tally()),
        )
        self.sink(counters)

    def beat(self) -> None:
        """A sign of life while the process is alive."""
        if self.alive():
            self.tell(SessionEvent.HEARTBEAT, time.time_ns())
            self.beats += 1
            if self.beats % COUNTERS_EVERY == 0:
                self.count(final=False)

"""The meter's own stream: where an engine's time went, window by window, and its adapter loads. No I/O.

Windows of one emitter (one engine process) follow each other without gaps: the end of one is the start of the next,
and they are cut at UTC minutes. What a crash leaves unwritten is therefore seen as time without a window.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import field

from telemetry.values import Int64, Value


class NotConserved(ValueError):
    """The parts of a window do not add up to its length, or the moves of a re-share line not to nothing."""


class SystemCause(StrEnum):
    """Why engine time belongs to nobody although requests were there."""

    LOOP = "loop"
    """Between two steps: the engine's own loop and queues, and its input and output threads, which take turns with it."""
    METER = "meter"
    """Between two steps: the meter says what it saw."""
    INTAKE = "intake"
    """Between two steps: a request is taken into the scheduler."""
    UTILITY = "utility"
    """Between two steps: a call such as adding an adapter, beyond what the load itself took."""
    EMPTY_STEP = "empty_step"
    """A step without tokens (it flushes finished requests)."""
    STALL = "stall"
    """What a step took above 3 x its predicted time."""


class LoadCause(StrEnum):
    """What made an adapter load happen."""

    REQUEST = "request"
    WARM = "warm"
    REGISTRATION = "registration"
    RELOAD = "reload"


class Share(Value, frozen=True):
    """Engine time of one attempt inside one window.

    `attempt` is `emitter:seq` of its usage record; a request that came to the engine past the gateway has the engine's
    own request id and tenant `unknown`.
    """

    attempt: str
    tenant: str
    adapter: str | None
    base_ns: Int64
    adapter_ns: Int64
    recompute_ns: Int64
    prefill_tokens: Int64
    decode_tokens: Int64
    kv_saved_base_ns: Int64 = 0
    kv_saved_adapter_ns: Int64 = 0


class MeterWindow(Value, frozen=True):
    """[start_ns, end_ns) of one engine, UTC nanoseconds: `end - start` = idle + system + cold + shares + unattributed.

    `idle_ns` is measured between the moment the engine ran out of requests and the moment the next one arrived, never
    a remainder. `unattributed_ns` is what the meter saw pass without a cause. `seq` counts windows of `emitter` from 0.
    """

    emitter: str
    seq: Int64
    engine: str
    start_ns: Int64
    end_ns: Int64
    steps: Int64
    idle_ns: Int64
    system_ns: dict[str, Int64] = field(default_factory=dict)
    cold_ns: dict[str, Int64] = field(default_factory=dict)
    unattributed_ns: Int64 = 0
    shares: tuple[Share, ...] = ()
    predicted_ns: Int64 = 0
    """What the step model predicted for the steps of this window (drift = measured / predicted)."""
    method: str = "engine-step/1"
    profile: str = ""

    def check(self) -> None:
        """Raise NotConserved unless the parts sum to the length, to the nanosecond."""
        parts = self.idle_ns + sum(self.system_ns.values()) + sum(self.cold_ns.values()) + self.unattributed_ns
        parts += sum(s.base_ns + s.adapter_ns + s.recompute_ns for s in self.shares)
        if missing := self.end_ns - self.start_ns - parts:
            raise NotConserved(
                f"meter window {self.emitter}:{self.seq} of engine {self.engine}: parts miss {missing} ns"
            )


class AdapterLoad(Value, frozen=True):
    """One load of one adapter into an engine: cold time, by phase. None means the phase was not measured.

    `engine_ns` is what the engine's thread lost to it (read + parse + first activation); it equals the sum of this load's entries
    in the windows' `cold_ns`. `fetch_ns` ran off the engine's thread and is reported, never summed.
    `stalled` names the attempts that waited in the step that this load held up; empty when it ran between steps.
    """

    emitter: str
    seq: Int64
    engine: str
    adapter: str
    adapter_hash: str | None
    cause: LoadCause
    start_ns: Int64
    engine_ns: Int64
    fetch_ns: Int64 | None = None
    read_ns: Int64 | None = None
    activate_ns: Int64 | None = None
    size_bytes: Int64 | None = None
    stalled: tuple[str, ...] = ()


class AdapterLeft(Value, frozen=True):
    """An adapter left an engine's host memory at `at_ns` (UTC), while the process went on. `seq` counts lines of `emitter` from 0."""

    emitter: str
    seq: Int64
    engine: str
    adapter: str
    at_ns: Int64


class PrefixMove(Value, frozen=True):
    """Nanoseconds to be added to one attempt's measured time in views by request; negative for the attempt that computed the prefix."""

    attempt: str
    ns: Int64


class PrefixReshare(Value, frozen=True):
    """At `at_ns` (UTC) a request used a prefix that others of its tenant had computed or used: who carries how much more or less.

    The moves add up to 0 and stay inside the tenant: no bill and no window changes by them. `adapter` is that of all the
    attempts, since prefixes are stored by adapter. `seq` counts lines of `emitter` from 0.
    """

    emitter: str
    seq: Int64
    engine: str
    at_ns: Int64
    tenant: str
    adapter: str | None
    moves: tuple[PrefixMove, ...]

    def check(self) -> None:
        """Raise NotConserved unless the moves add up to 0."""
        if rest := sum(move.ns for move in self.moves):
            raise NotConserved(
                f"prefix re-share {self.emitter}:{self.seq} of tenant {self.tenant}: moves leave {rest} ns"
            )


MeterValue = MeterWindow | AdapterLoad | AdapterLeft | PrefixReshare
"""What the meter of an engine gives."""


class SessionEvent(StrEnum):
    """Moments in the life of an engine process."""

    STARTED = "started"
    UP = "up"
    HEARTBEAT = "heartbeat"
    STOPPED = "stopped"


class EngineSession(Value, frozen=True):
    """One moment of one engine process. Rented on demand means: from `started` to `stopped` (or the last sign of life)."""

    emitter: str
    seq: Int64
    engine: str
    session: str
    event: SessionEvent
    at_ns: Int64
    gpu_type: str
    gpu_count: Int64


class EngineCounters(Value, frozen=True):
    """What one engine process says it did since it began, beside what its meter counted, at one moment.

    `requests` are those that ended, by vLLM's finish reason; `prompt_tokens` and `output_tokens` are vLLM's own totals, of
    requests that gave at least one token, and `cached_tokens` those of the prompts that were found computed (None in lines of
    before it was told). `start_ns` is when the process began. `meter` has the fields of `serving.metering.tally.Tally`.
    `final` marks the last word of a process that ended in order: nothing is in flight.
    """

    emitter: str
    seq: Int64
    engine: str
    start_ns: Int64
    at_ns: Int64
    final: bool
    prompt_tokens: Int64
    output_tokens: Int64
    preemptions: Int64
    requests: dict[str, Int64] = field(default_factory=dict)
    meter: dict[str, Int64] = field(default_factory=dict)
    cached_tokens: Int64 | None = None


EngineValue = MeterValue | EngineSession | EngineCounters
"""What is told of an engine process and by its meter."""


class Opened(Value, frozen=True):
    """An attempt entered the gateway; without a later closed usage record it becomes status `lost`."""

    emitter: str
    seq: Int64
    request_id: str
    tenant: str
    arrival_ns: Int64
    trace_id: str | None = None
    adapter: str | None = None
    engine: str | None = None

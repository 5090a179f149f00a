"""The meter's own stream: where an engine's time went, window by window, and its adapter loads. Standard library only.

Windows of one emitter (one engine process) follow each other without gaps: the end of one is the start of the next,
and they are cut at UTC minutes. What a crash leaves unwritten is therefore seen as time without a window.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from telemetry.wire import is_int64, is_text, wrong_fields

_Value = TypeVar("_Value")


class NotConserved(ValueError):
    """The parts of a window do not add up to its length; `missing_ns` is length minus parts."""

    def __init__(self, window: MeterWindow, missing_ns: int) -> None:
        self.missing_ns = missing_ns
        super().__init__(
            f"meter window {window.emitter}:{window.seq} of engine {window.engine}: parts miss {missing_ns} ns"
        )


class NotBalanced(ValueError):
    """The moves of a re-share line do not add up to nothing; `rest_ns` is their sum."""

    def __init__(self, line: PrefixReshare, rest_ns: int) -> None:
        self.rest_ns = rest_ns
        super().__init__(f"prefix re-share {line.emitter}:{line.seq} of tenant {line.tenant}: moves leave {rest_ns} ns")


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


@dataclass(frozen=True, slots=True)
class Share:
    """Engine time of one attempt inside one window.

    `attempt` is `emitter:seq` of its usage record; a request that came to the engine past the gateway has the engine's
    own request id and tenant `unknown`.
    """

    attempt: str
    tenant: str
    adapter: str | None
    base_ns: int
    adapter_ns: int
    recompute_ns: int
    prefill_tokens: int
    decode_tokens: int
    kv_saved_base_ns: int = 0
    kv_saved_adapter_ns: int = 0


@dataclass(frozen=True, slots=True)
class MeterWindow:
    """[start_ns, end_ns) of one engine, UTC nanoseconds: `end - start` = idle + system + cold + shares + unattributed.

    `idle_ns` is measured between the moment the engine ran out of requests and the moment the next one arrived, never
    a remainder. `unattributed_ns` is what the meter saw pass without a cause. `seq` counts windows of `emitter` from 0.
    """

    emitter: str
    seq: int
    engine: str
    start_ns: int
    end_ns: int
    steps: int
    idle_ns: int
    system_ns: dict[str, int] = field(default_factory=dict)
    cold_ns: dict[str, int] = field(default_factory=dict)
    unattributed_ns: int = 0
    shares: tuple[Share, ...] = ()
    predicted_ns: int = 0
    """What the step model predicted for the steps of this window (drift = measured / predicted)."""
    method: str = "engine-step/1"
    profile: str = ""

    def check(self) -> None:
        """Raise NotConserved unless the parts sum to the length, to the nanosecond."""
        parts = self.idle_ns + sum(self.system_ns.values()) + sum(self.cold_ns.values()) + self.unattributed_ns
        parts += sum(s.base_ns + s.adapter_ns + s.recompute_ns for s in self.shares)
        if missing := self.end_ns - self.start_ns - parts:
            raise NotConserved(self, missing)

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> MeterWindow:
        """Read one line of JSON; KeyError, TypeError or ValueError when it is not a window."""
        raw = _object(text)
        raw["shares"] = tuple(_sound(Share(**part)) for part in raw["shares"])
        window = _sound(cls(**raw))
        for name, parts in (("system_ns", window.system_ns), ("cold_ns", window.cold_ns)):
            if not isinstance(parts, dict) or not all(is_text(k) and is_int64(v) for k, v in parts.items()):
                raise ValueError(f"{name} must map names to 64-bit integers")
        return window


@dataclass(frozen=True, slots=True)
class AdapterLoad:
    """One load of one adapter into an engine: cold time, by phase. None means the phase was not measured.

    `engine_ns` is what the engine's thread lost to it (read + parse + first activation); it equals the sum of this load's entries
    in the windows' `cold_ns`. `fetch_ns` ran off the engine's thread and is reported, never summed.
    `stalled` names the attempts that waited in the step that this load held up; empty when it ran between steps.
    """

    emitter: str
    seq: int
    engine: str
    adapter: str
    adapter_hash: str | None
    cause: LoadCause
    start_ns: int
    engine_ns: int
    fetch_ns: int | None = None
    read_ns: int | None = None
    activate_ns: int | None = None
    size_bytes: int | None = None
    stalled: tuple[str, ...] = ()

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> AdapterLoad:
        """Read one line of JSON; KeyError, TypeError or ValueError when it is not a load."""
        raw = _object(text)
        raw["cause"] = LoadCause(raw["cause"])
        raw["stalled"] = tuple(raw["stalled"])
        if not all(map(is_text, raw["stalled"])):
            raise ValueError("stalled must be a list of strings")
        return _sound(cls(**raw))


@dataclass(frozen=True, slots=True)
class PrefixMove:
    """Nanoseconds to be added to what was measured of one attempt, in a view by request; negative for who had paid them."""

    attempt: str
    ns: int


@dataclass(frozen=True, slots=True)
class PrefixReshare:
    """At `at_ns` (UTC) a request used a prefix that others of its tenant had computed or used: who carries how much more or less.

    The moves add up to 0 and stay inside the tenant: no bill and no window changes by them. `adapter` is that of all the
    attempts, since prefixes are stored by adapter. `seq` counts lines of `emitter` from 0.
    """

    emitter: str
    seq: int
    engine: str
    at_ns: int
    tenant: str
    adapter: str | None
    moves: tuple[PrefixMove, ...]

    def check(self) -> None:
        """Raise NotBalanced unless the moves add up to 0."""
        if rest := sum(move.ns for move in self.moves):
            raise NotBalanced(self, rest)

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> PrefixReshare:
        """Read one line of JSON; KeyError, TypeError or ValueError when it is not one."""
        raw = _object(text)
        raw["moves"] = tuple(_sound(PrefixMove(**move)) for move in raw["moves"])
        return _sound(cls(**raw))


MeterValue = MeterWindow | AdapterLoad | PrefixReshare
"""What the meter of an engine gives."""


class SessionEvent(StrEnum):
    """Moments in the life of an engine process."""

    STARTED = "started"
    UP = "up"
    HEARTBEAT = "heartbeat"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class EngineSession:
    """One moment of one engine process. Rented on demand means: from `started` to `stopped` (or the last sign of life)."""

    emitter: str
    seq: int
    engine: str
    session: str
    event: SessionEvent
    at_ns: int
    gpu_type: str
    gpu_count: int

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> EngineSession:
        """Read one line of JSON; KeyError, TypeError or ValueError when it is not one."""
        raw = _object(text)
        raw["event"] = SessionEvent(raw["event"])
        return _sound(cls(**raw))


@dataclass(frozen=True, slots=True)
class EngineCounters:
    """What one engine process says it did since it began, beside what its meter counted, at one moment.

    `requests` are those that ended, by vLLM's finish reason; `prompt_tokens` and `output_tokens` are vLLM's own totals, of
    requests that gave at least one token, and `cached_tokens` those of the prompts that were found computed (None in lines of
    before it was told). `start_ns` is when the process began. `meter` has the fields of `serving.metering.tally.Tally`.
    `final` marks the last word of a process that ended in order: nothing is in flight.
    """

    emitter: str
    seq: int
    engine: str
    start_ns: int
    at_ns: int
    final: bool
    prompt_tokens: int
    output_tokens: int
    preemptions: int
    requests: dict[str, int] = field(default_factory=dict)
    meter: dict[str, int] = field(default_factory=dict)
    cached_tokens: int | None = None

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> EngineCounters:
        """Read one line of JSON; KeyError, TypeError or ValueError when it is not one."""
        counters = _sound(cls(**_object(text)))
        for name, parts in (("requests", counters.requests), ("meter", counters.meter)):
            if not isinstance(parts, dict) or not all(is_text(k) and is_int64(v) for k, v in parts.items()):
                raise ValueError(f"{name} must map names to 64-bit integers")
        if type(counters.final) is not bool:
            raise ValueError("final must be true or false")
        return counters


EngineValue = MeterValue | EngineSession | EngineCounters
"""What is told of an engine process and by its meter."""


@dataclass(frozen=True, slots=True)
class Opened:
    """An attempt entered the gateway; without a later closed usage record it becomes status `lost`."""

    emitter: str
    seq: int
    request_id: str
    tenant: str
    arrival_ns: int
    trace_id: str | None = None
    adapter: str | None = None
    engine: str | None = None

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> Opened:
        """Read one line of JSON; KeyError, TypeError or ValueError when it is not one."""
        return _sound(cls(**_object(text)))


def _object(text: str | bytes) -> dict[str, Any]:
    try:
        raw = json.loads(text)
    except RecursionError as error:
        raise ValueError("not JSON: nested too deep") from error
    if not isinstance(raw, dict):
        raise TypeError("not a JSON object")
    return raw


def _sound(value: _Value) -> _Value:
    if wrong := wrong_fields(value):
        raise ValueError("; ".join(wrong))
    return value

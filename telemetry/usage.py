"""The usage record: what one attempt at a request used, in the words that billing prices. Standard library only.

The JSON form (`to_json` / `from_json`) is public and versioned: it is what the spool carries on the root span, what
`loraledger ingest` takes as plain lines, and what any other system may write.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Final

from catalog.durations import QUARTER_NS
from telemetry.wire import wrong_fields

SCHEMA: Final = "loraledger.usage/1"
UNAUTHENTICATED: Final = "unauthenticated"
"""Reserved tenant id of attempts that never named a known tenant; a catalog may not declare it."""
UNKNOWN_TENANT: Final = "unknown"
"""Reserved tenant id of requests that came to the engine past the gateway."""


class Status(StrEnum):
    """How an attempt ended. Who pays for each is a table in the price book."""

    OK = "ok"
    CLIENT_ABORT = "client_abort"
    BAD_REQUEST = "bad_request"
    REJECTED = "rejected"
    SERVER_ERROR = "server_error"
    TIMEOUT = "timeout"
    LOST = "lost"


class ErrorType(StrEnum):
    """Bounded causes, as `lora_request_error_total` counts them."""

    ROUTE_FAILED = "route_failed"
    LOAD_FAILED = "load_failed"
    OOM = "oom"
    SLO_VIOLATION = "slo_violation"
    REJECTED = "rejected"
    CLIENT_ABORT = "client_abort"
    CLIENT_SLOW = "client_slow"
    ENGINE_ERROR = "engine_error"


class UsageInvalid(ValueError):
    """A usage record contradicts itself; `problems` lists every fault found."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        super().__init__("usage record is invalid: " + "; ".join(problems))


@dataclass(frozen=True, slots=True)
class Slice:
    """Engine time of one attempt inside one UTC quarter hour that begins at `start_ns`.

    `base_ns`, `adapter_ns` and `recompute_ns` are measured; the two `kv_saved_*` are estimates (counterfactual:
    prefix caching off). All are nanoseconds of engine wall time, not multiplied by the number of GPUs.
    """

    start_ns: int
    base_ns: int
    adapter_ns: int
    recompute_ns: int
    kv_saved_base_ns: int = 0
    kv_saved_adapter_ns: int = 0

    @property
    def measured_ns(self) -> int:
        """What was measured in this quarter hour."""
        return self.base_ns + self.adapter_ns + self.recompute_ns


@dataclass(frozen=True, slots=True)
class UsageRecord:
    """One attempt that entered the gateway, from arrival to its end; identity is (`emitter`, `seq`).

    Instants are UTC nanoseconds since the epoch. `input_tokens` includes `cached_tokens`. None means "not known" and
    is never replaced by 0. `slices` is None when the meter's figures were not available, () when no engine time was
    spent (a rejected attempt). `attempt` is which try of its request it was; attempts of nobody known are booked together, and
    theirs tells how many there were.
    """

    emitter: str
    seq: int
    request_id: str
    tenant: str
    arrival_ns: int
    finished_ns: int | None
    status: Status
    attempt: int = 1
    trace_id: str | None = None
    adapter: str | None = None
    adapter_hash: str | None = None
    base_model: str | None = None
    engine: str | None = None
    gpu_type: str | None = None
    gpu_count: int | None = None
    route_policy: str | None = None
    route_rule: str | None = None
    route_reason: str | None = None
    admitted_ns: int | None = None
    first_token_ns: int | None = None
    error_type: ErrorType | None = None
    http_status: int | None = None
    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens_computed: int | None = None
    output_tokens_delivered: int | None = None
    preemptions: int | None = None
    queue_ns: int | None = None
    route_ns: int | None = None
    slices: tuple[Slice, ...] | None = None
    method: str | None = None
    profile: str | None = None
    source: str = "gateway"

    @property
    def identity(self) -> tuple[str, int]:
        """What makes two copies of a record the same record."""
        return self.emitter, self.seq

    @property
    def attempt_key(self) -> str:
        """The identity as the meter carries it through the engine: `emitter:seq`."""
        return f"{self.emitter}:{self.seq}"

    def problems(self) -> list[str]:
        """Every contradiction in this record, in words; empty when it is sound."""
        found: list[str] = []
        if self.seq < 0:
            found.append(f"seq {self.seq} is negative")
        if not self.emitter or not self.tenant or not self.request_id:
            found.append("emitter, tenant and request_id must not be empty")
        if self.finished_ns is not None and self.finished_ns < self.arrival_ns:
            found.append("finished before it arrived")
        if self.finished_ns is None and self.status is not Status.LOST:
            found.append("finished_ns is missing on an attempt that is not lost")
        for name in (
            "input_tokens",
            "cached_tokens",
            "output_tokens_computed",
            "output_tokens_delivered",
            "preemptions",
            "arrival_ns",
            "queue_ns",
            "route_ns",
        ):
            value = getattr(self, name)
            if value is not None and value < 0:
                found.append(f"{name} is negative ({value})")
        if self.input_tokens is not None and self.cached_tokens is not None and self.cached_tokens > self.input_tokens:
            found.append(f"cached_tokens {self.cached_tokens} > input_tokens {self.input_tokens}")
        for part in self.slices or ():
            if (
                min(part.base_ns, part.adapter_ns, part.recompute_ns, part.kv_saved_base_ns, part.kv_saved_adapter_ns)
                < 0
            ):
                found.append(f"slice at {part.start_ns} has negative time")
            if part.start_ns % QUARTER_NS:
                found.append(f"slice start {part.start_ns} is not a UTC quarter hour")
        return found

    def to_json(self) -> str:
        """The public JSON form, one line, keys in a fixed order, missing values as null."""
        # Not `asdict`: it copies every value, and this runs once per attempt.
        values = {name: getattr(self, name) for name in _FIELDS}
        if self.slices is not None:
            values["slices"] = [{name: getattr(part, name) for name in _SLICE_FIELDS} for part in self.slices]
        return json.dumps({"schema": SCHEMA, **values}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> UsageRecord:
        """Read the public JSON form.

        Raises UsageInvalid on another schema, an unknown or missing field, or a value of the wrong type. Contradictions
        between values are not raised here: ask `problems()`, so that ingest can quarantine the record with its reason.
        """
        try:
            raw: Any = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise UsageInvalid([f"not JSON: {error}"]) from error
        if not isinstance(raw, dict) or raw.pop("schema", None) != SCHEMA:
            raise UsageInvalid([f"schema is not {SCHEMA}"])
        known = {field.name for field in fields(cls)}
        if unknown := sorted(set(raw) - known):
            raise UsageInvalid([f"unknown fields: {', '.join(unknown)}"])
        try:
            raw["status"] = Status(raw["status"])
            if raw.get("error_type") is not None:
                raw["error_type"] = ErrorType(raw["error_type"])
            if raw.get("slices") is not None:
                raw["slices"] = tuple(Slice(**part) for part in raw["slices"])
            record = cls(**raw)
        except (KeyError, TypeError, ValueError) as error:
            raise UsageInvalid([str(error)]) from error
        if wrong := _wrong_types(record):
            raise UsageInvalid(wrong)
        return record


_FIELDS: Final = tuple(field.name for field in fields(UsageRecord))
_SLICE_FIELDS: Final = tuple(field.name for field in fields(Slice))


def _wrong_types(record: UsageRecord) -> list[str]:
    found = wrong_fields(record)
    for part in record.slices or ():
        found += [f"slice {problem}" for problem in wrong_fields(part)]
    return found

"""The usage record: what one attempt at a request used, in the words that billing prices. No I/O.

The JSON form (`to_json` / `from_json`) is public and versioned: it is what the spool carries on the root span, what
`loraledger ingest` takes as plain lines, and what any other system may write.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Self

from msgspec.structs import astuple

from catalog.durations import QUARTER_NS
from telemetry.values import MOST, Int64, Value

SCHEMA: Final = "loraledger.usage/1"
UNAUTHENTICATED: Final = "unauthenticated"
"""Reserved tenant id of attempts that never named a known tenant; a catalog may not declare it."""
UNKNOWN_TENANT: Final = "unknown"
"""Reserved tenant id of requests that came to the engine past the gateway."""


_COUNTED: Final = (
    "seq", "arrival_ns", "admitted_ns", "first_token_ns", "finished_ns", "input_tokens", "cached_tokens",
    "output_tokens_computed", "output_tokens_delivered", "preemptions", "queue_ns", "route_ns",
)  # fmt: skip
"""Fields of a record that are never below 0."""


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


class Slice(Value, frozen=True):
    """Engine time of one attempt inside one UTC quarter hour that begins at `start_ns`.

    `base_ns`, `adapter_ns` and `recompute_ns` are measured; the two `kv_saved_*` are estimates (counterfactual:
    prefix caching off). All are nanoseconds of engine wall time, not multiplied by the number of GPUs.
    """

    start_ns: Int64
    base_ns: Int64
    adapter_ns: Int64
    recompute_ns: Int64
    kv_saved_base_ns: Int64 = 0
    kv_saved_adapter_ns: Int64 = 0

    @property
    def measured_ns(self) -> int:
        """What was measured in this quarter hour."""
        return self.base_ns + self.adapter_ns + self.recompute_ns


class UsageRecord(Value, frozen=True, tag_field="schema", tag=SCHEMA):
    """One attempt that entered the gateway, from arrival to its end; identity is (`emitter`, `seq`).

    Instants are UTC nanoseconds since the epoch. `input_tokens` includes `cached_tokens`. None means "not known" and
    is never replaced by 0. `slices` is None when the meter's figures were not available, () when no engine time was
    spent (a rejected attempt). `attempt` is which try of its request it was; attempts of nobody known are booked together, and
    theirs tells how many there were.
    """

    emitter: str
    seq: Int64
    request_id: str
    tenant: str
    arrival_ns: Int64
    finished_ns: Int64 | None
    status: Status
    attempt: Int64 = 1
    trace_id: str | None = None
    adapter: str | None = None
    adapter_hash: str | None = None
    base_model: str | None = None
    engine: str | None = None
    gpu_type: str | None = None
    gpu_count: Int64 | None = None
    route_policy: str | None = None
    route_rule: str | None = None
    route_reason: str | None = None
    admitted_ns: Int64 | None = None
    first_token_ns: Int64 | None = None
    error_type: ErrorType | None = None
    http_status: Int64 | None = None
    input_tokens: Int64 | None = None
    cached_tokens: Int64 | None = None
    output_tokens_computed: Int64 | None = None
    output_tokens_delivered: Int64 | None = None
    preemptions: Int64 | None = None
    queue_ns: Int64 | None = None
    route_ns: Int64 | None = None
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
        if not self.emitter or not self.tenant or not self.request_id:
            found.append("emitter, tenant and request_id must not be empty")
        if self.finished_ns is not None and self.finished_ns < self.arrival_ns:
            found.append("finished before it arrived")
        if self.finished_ns is None and self.status is not Status.LOST:
            found.append("finished_ns is missing on an attempt that is not lost")
        for name in _COUNTED:
            value = getattr(self, name)
            if value is not None and value < 0:
                found.append(f"{name} is negative ({value})")
        for name in ("attempt", "gpu_count"):
            value = getattr(self, name)
            if value is not None and not 0 < value <= MOST:
                found.append(f"{name} is {value}, not between 1 and {MOST}")
        if self.http_status is not None and not 100 <= self.http_status < 600:
            found.append(f"http_status is {self.http_status}")
        computed, delivered = self.output_tokens_computed, self.output_tokens_delivered
        if computed is not None and delivered is not None and delivered > computed:
            found.append(f"output_tokens_delivered {delivered} > output_tokens_computed {computed}")
        if self.input_tokens is not None and self.cached_tokens is not None and self.cached_tokens > self.input_tokens:
            found.append(f"cached_tokens {self.cached_tokens} > input_tokens {self.input_tokens}")
        for part in self.slices or ():
            if min(astuple(part)[1:]) < 0:
                found.append(f"slice at {part.start_ns} has negative time")
            if part.start_ns % QUARTER_NS:
                found.append(f"slice start {part.start_ns} is not a UTC quarter hour")
        return found

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read the public JSON form.

        Raises UsageInvalid on another schema, an unknown or missing field, or a value of the wrong type. Contradictions
        between values are not raised here: ask `problems()`, so that ingest can quarantine the record with its reason.
        """
        try:
            # Asked apart, since msgspec judges a tag only where there is one.
            if _Tagged.from_json(text).schema != SCHEMA:
                raise UsageInvalid([f"schema is not {SCHEMA}"])
            return super().from_json(text)
        except UsageInvalid:
            raise
        except ValueError as error:
            raise UsageInvalid([str(error)]) from error


class _Tagged(Value, frozen=True, forbid_unknown_fields=False):
    """What says which form a record has."""

    schema: str | None = None

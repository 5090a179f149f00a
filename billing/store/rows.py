"""How values of the shared vocabulary stand in ClickHouse columns, and back."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from billing.cost.facts import EngineMinute
from telemetry.usage import ErrorType, Slice, Status, UsageRecord

_SAME: Final = (
    "tenant", "emitter", "seq", "request_id", "attempt", "trace_id", "adapter", "adapter_hash", "base_model", "engine", "gpu_type",
    "gpu_count", "route_policy", "route_rule", "route_reason", "http_status", "input_tokens", "cached_tokens", "output_tokens_computed",
    "output_tokens_delivered", "preemptions", "queue_ns", "route_ns", "method", "profile", "source",
)  # fmt: skip
"""Fields of UsageRecord whose column has the same name and value."""
_INSTANTS: Final = {
    "arrival": "arrival_ns",
    "admitted": "admitted_ns",
    "first_token": "first_token_ns",
    "finished": "finished_ns",
}
_SLICE: Final = ("start_ns", "base_ns", "adapter_ns", "recompute_ns", "kv_saved_base_ns", "kv_saved_adapter_ns")

USAGE_COLUMNS: Final = (
    *_SAME, *_INSTANTS, "status", "error_type", "measured", *(f"slices.{name}" for name in _SLICE), "record_hash", "version",
)  # fmt: skip

ENGINE_MINUTE: Final = (
    "wall_ns", "idle_ns", "tenants_ns", "cold_ns", "recompute_ns", "system_ns", "unattributed_ns", "down_ns", "gpu_type", "gpu_count",
)  # fmt: skip
"""Fields of EngineMinute whose column has the same name."""


def text_hash(text: str) -> str:
    """SHA-256 (hex) of a text as it came."""
    return hashlib.sha256(text.encode()).hexdigest()


def usage_row(record: UsageRecord, record_hash: str, version: int) -> list[Any]:
    """The record in the order of USAGE_COLUMNS."""
    slices = record.slices or ()
    return [
        *(getattr(record, name) for name in _SAME),
        *(getattr(record, name) for name in _INSTANTS.values()),
        record.status.value,
        None if record.error_type is None else record.error_type.value,
        record.slices is not None,
        *([getattr(part, name) for part in slices] for name in _SLICE),
        record_hash,
        version,
    ]


def usage_record(row: Mapping[str, Any]) -> UsageRecord:
    """The record from a row of `usage` whose instants were read as nanoseconds (columns `<name>_at_ns`)."""
    slices = [Slice(*parts) for parts in zip(*(row[f"slices.{name}"] for name in _SLICE), strict=True)]
    return UsageRecord(
        **{name: row[name] for name in _SAME},
        **{field: row[f"{column}_at_ns"] for column, field in _INSTANTS.items()},
        status=Status(row["status"]),
        error_type=None if row["error_type"] is None else ErrorType(row["error_type"]),
        slices=tuple(slices) if row["measured"] else None,
    )


def engine_minute(row: Mapping[str, Any]) -> EngineMinute:
    """The minute from a row that has its start as `minute_ns`."""
    return EngineMinute(engine=row["engine"], start_ns=row["minute_ns"], **{name: row[name] for name in ENGINE_MINUTE})

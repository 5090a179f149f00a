"""How values of the shared vocabulary stand in ClickHouse columns, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from telemetry.otlp_decode import EventRow
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
REPLACED: Final = "replaced"
"""Status of the row that a lost attempt had under another tenant: rows are sorted by tenant, `usage` leaves this one out."""
_SLICE: Final = ("start_ns", "base_ns", "adapter_ns", "recompute_ns", "kv_saved_base_ns", "kv_saved_adapter_ns")


def looked_for(found: Sequence[UsageRecord | EventRow]) -> dict[str, Any]:
    """The emitters and the range of numbers in which the ledger is asked for records or events."""
    seqs = [one.seq for one in found]
    return {"emitters": sorted({one.emitter for one in found}), "low": min(seqs), "high": max(seqs)}


def usage_row(record: UsageRecord, record_hash: str, version: int) -> dict[str, Any]:
    """The record as a row of `usage_versions`."""
    return {
        **{name: getattr(record, name) for name in _SAME},
        **{column: getattr(record, field) for column, field in _INSTANTS.items()},
        "status": record.status.value,
        "error_type": None if record.error_type is None else record.error_type.value,
        "measured": record.slices is not None,
        **{f"slices.{name}": [getattr(part, name) for part in record.slices or ()] for name in _SLICE},
        "record_hash": record_hash,
        "version": version,
    }


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

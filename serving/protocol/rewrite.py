"""What the engine is told instead of what the client said. What a client must not set is overwritten or stripped here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from serving.protocol.request import Call
from serving.wire.request_context import RequestContext, identity

STRIPPED: Final = frozenset(
    {
        "cache_salt",
        "priority",
        "vllm_xargs",
        "kv_transfer_params",
        "ec_transfer_params",
        "request_id",
        "session_id",
        "data_parallel_rank",
        "routed_experts_prompt_start",
    }
)
"""Body fields that steer the engine past the gateway. Any field whose name begins with `lora` goes the same way."""
PASSED_HEADERS: Final = frozenset({b"accept"})
"""Request headers that the engine sees. No key, no request id, no rank, no session of the client's."""


@dataclass(frozen=True, slots=True)
class Orders:
    """What the gateway decided about one attempt and the engine must obey."""

    served_name: str
    context: RequestContext
    request_id: str
    traceparent: str = ""
    """W3C context: what the engine does is below this attempt's client span."""
    output_tokens: int | None = None
    """The bound on each answer that the tenant's quotas leave to a client which set none."""


def engine_body(call: Call, orders: Orders) -> bytes:
    """The request body for the engine. A stream always reports its usage, with every chunk, so that delivery is counted."""
    body = permitted(call.body)
    body["model"] = orders.served_name
    body["cache_salt"] = orders.context.cache_salt
    body["vllm_xargs"] = identity(orders.context)
    if orders.output_tokens is not None:
        body[call.operation.bounds[-1]] = orders.output_tokens
    body |= call.operation.fixed or {}
    if call.stream:
        body["stream"] = True
    if call.stream and call.operation.chunked_usage:
        given = body.get("stream_options")
        body["stream_options"] = {
            **(given if isinstance(given, dict) else {}),
            "include_usage": True,
            "continuous_usage_stats": True,
        }
    return msgspec.json.encode(body)


def permitted(body: Mapping[str, Any]) -> dict[str, Any]:
    """What of a client's body the engine may see."""
    return {
        name: value
        for name, value in body.items()
        if name not in STRIPPED and not name.lower().startswith(("lora", "ll_"))
    }


def engine_headers(client: Iterable[tuple[bytes, bytes]], orders: Orders, length: int) -> list[tuple[bytes, bytes]]:
    """The request headers for the engine."""
    return [
        *((name, value) for name, value in client if name.lower() in PASSED_HEADERS),
        (b"content-type", b"application/json"),
        (b"content-length", str(length).encode()),
        (b"x-request-id", orders.request_id.encode()),
        *([(b"traceparent", orders.traceparent.encode())] if orders.traceparent else ()),
    ]

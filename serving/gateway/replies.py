"""Whole replies over bare ASGI."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.types import Send


async def reply(send: Send, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
    """Send one whole reply, JSON unless `headers` say otherwise."""
    every = {"content-type": "application/json", "content-length": str(len(body)), **(headers or {})}
    raw = [(name.encode(), value.encode()) for name, value in every.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body, "more_body": False})

"""Tells when vLLM's engine process, between two steps, did what a client called it for (add an adapter, say how it is)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from serving.inside.adapter_timers import wrap

_listener: Callable[[int], None] | None = None


def after_each(listener: Callable[[int], None]) -> None:
    """Call `listener(entry_ns)`, in the engine's thread, after each such call; one listener, the newest. It must not raise."""
    global _listener
    if _listener is None:
        _install()
    _listener = listener


def _install() -> None:
    from vllm.v1.engine import EngineCoreRequestType
    from vllm.v1.engine.core import EngineCoreProc

    def handle(original: Callable[..., Any], engine: Any, kind: Any, request: Any) -> Any:
        entry_ns = time.monotonic_ns()
        try:
            return original(kind, request)
        finally:
            if kind is EngineCoreRequestType.UTILITY and _listener is not None:
                _listener(entry_ns)

    wrap(EngineCoreProc, "_handle_client_request", handle)

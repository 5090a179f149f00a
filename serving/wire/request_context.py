"""What one attempt carries through the engine's front end, and what the front end found out about it.

A context variable, so that it reaches the place where requests enter the engine whatever kind of request the front end makes of
the body, and whatever fields that kind has. Knows nothing of vLLM.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from serving.wire.keys import ATTEMPT_ARG, TENANT_ARG, WEIGHT_ARG

BROKEN: Final = frozenset({"abort", "error"})
"""Finish reasons that mean the engine gave up."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Why the engine's front end did not take a request, in its own words; `http_status` below 500 is the client's fault."""

    http_status: int
    message: str
    param: str | None = None

    @property
    def clients_fault(self) -> bool:
        """Whether the request, not the engine, was wrong."""
        return 400 <= self.http_status < 500


@dataclass(slots=True)
class RequestContext:
    """One attempt on its way. The first three, and the `weight` of its tenant's turns, are set on every request that enters the engine for it.

    `watched` tells that somebody stands at the engine's entry and keeps the rest: how many `prompts` came there and how many
    of them `entered`, or may have, how many output tokens the engine `handed` over, whether one was `refused`, and whether the engine left one `unfinished`.
    """

    attempt: str
    tenant: str
    cache_salt: str
    weight: int = 1
    watched: bool = False
    prompts: int = 0
    entered: int = 0
    handed: int = 0
    refused: Refused | None = None
    unfinished: bool = False


def identity(context: RequestContext) -> dict[str, Any]:
    """The extra arguments that every engine request of the attempt carries, whatever its client set."""
    weight = {} if context.weight == 1 else {WEIGHT_ARG: context.weight}
    return {ATTEMPT_ARG: context.attempt, TENANT_ARG: context.tenant, **weight}


REQUEST_CONTEXT: Final[ContextVar[RequestContext | None]] = ContextVar("context", default=None)
"""The context of the attempt that the running task serves; None where no attempt is served."""

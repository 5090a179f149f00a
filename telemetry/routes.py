"""The decision log: what was asked of the routing rules, and what they answered. No I/O."""

from __future__ import annotations

from telemetry.values import Value


class RouteInput(Value, frozen=True):
    """All that a decision depends on beside the policy. Holds no prompt: of the text only the rules it matched.

    `sticky` is a digest of what keeps one user in one variant; `matched` are ids of content rules.
    """

    tenant: str
    model: str | None
    sticky: str
    matched: tuple[str, ...] = ()


class RouteRecord(Value, frozen=True):
    """A line of the decision log: what was asked, what was decided, on which engine, with which residency outcome."""

    asked: RouteInput
    adapter: str | None
    rule: str | None
    policy: str
    engine: str
    reason: str

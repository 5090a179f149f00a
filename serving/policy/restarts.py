"""When an engine that died is started again: waits that grow with each failure, spread by chance, and end with a long life. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """The first wait is about `first_s`, each further one twice that, `most_s` at most. A life of `steady_s` begins the count anew.

    Of each wait up to `spread` is taken off by chance, so that gateways that lost their engines together do not return together.
    """

    first_s: float = 0.5
    most_s: float = 60.0
    steady_s: float = 300.0
    spread: float = 0.5


@dataclass(frozen=True, slots=True)
class Restarts:
    """Failures in a row, be they deaths or starts that failed; and the moment since which the engine is up, None while it is not."""

    failures: int = 0
    up_s: float | None = None

    def came_up(self, now_s: float) -> Restarts:
        """The engine answers."""
        return replace(self, up_s=now_s)

    def failed(self, policy: RestartPolicy, now_s: float) -> Restarts:
        """The engine died, or did not come up."""
        steady = self.up_s is not None and now_s - self.up_s >= policy.steady_s
        return Restarts(1 if steady else self.failures + 1)

    def wait_s(self, policy: RestartPolicy, draw: float) -> float:
        """How long to wait before the next start; `draw` is in [0, 1)."""
        # The exponent is bounded, since a float is.
        whole = min(policy.most_s, policy.first_s * 2.0 ** min(self.failures - 1, 64))
        return whole * (1 - policy.spread * draw)

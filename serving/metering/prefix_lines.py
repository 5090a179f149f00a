"""The re-share lines of one engine: what its steps say of prefixes that were computed once and used by several."""

from __future__ import annotations

from collections.abc import Sequence

from serving.metering.attempts import Request
from serving.metering.reshare import PrefixBook
from serving.step_model.profile import Profile, RowWork
from serving.step_model.split import own_curves
from serving.wire.events import PrefixHit
from telemetry.engine_time import PrefixMove, PrefixReshare
from telemetry.usage import UNKNOWN_TENANT


class PrefixLines:
    """Lines of one emitter after the other; each begins with nothing remembered, as its engine begins with an empty cache.

    `cross_tenant_hits` are pairs of tenants, (who computed, who used), between which a prefix was found: that is never re-shared.
    """

    def __init__(self, engine: str) -> None:
        self.cross_tenant_hits: set[tuple[str, str]] = set()
        self._engine = engine
        self._ready: list[PrefixReshare] = []
        self._emitter = ""
        self._seq = 0
        self._book = PrefixBook()

    def begin(self, emitter: str) -> None:
        """Another engine process: a stream of its own, from 0. Lines not taken yet stay."""
        self._emitter = emitter
        self._seq = 0
        self._book = PrefixBook()

    def take(self) -> list[PrefixReshare]:
        """Lines since the last call."""
        out, self._ready = self._ready, []
        return out

    def step(
        self,
        requests: Sequence[Request],
        works: Sequence[RowWork],
        took_ns: Sequence[int],
        hits: Sequence[PrefixHit],
        model: Profile,
        at_ns: int,
    ) -> None:
        """A step ended at `at_ns`: `took_ns` of it each row's, loads and stalls apart. `hits` are of its new requests."""
        if any(work.prefill for work in works):
            curves = own_curves(works, model)
            for request, work, ns, curve in zip(requests, works, took_ns, curves, strict=True):
                if work.prefill and request.attempt.tenant != UNKNOWN_TENANT:
                    self._book.paid(request.attempt.key, request.attempt.tenant, work, curve, ns, at_ns)
        if hits:
            for request in requests:
                self._found(request, [hit for hit in hits if hit.request == request.id], at_ns)

    def _found(self, request: Request, hits: Sequence[PrefixHit], at_ns: int) -> None:
        user = request.attempt
        moves: dict[str, int] = {}
        for hit in hits:
            payer_tenant = self._book.payer_tenant(hit.payer, at_ns)
            if payer_tenant is not None and payer_tenant != user.tenant:
                self.cross_tenant_hits.add((payer_tenant, user.tenant))
            for attempt, ns in self._book.used(user.key, user.tenant, hit.payer, hit.low, hit.high, at_ns).items():
                moves[attempt] = moves.get(attempt, 0) + ns
        moved = tuple(PrefixMove(attempt, ns) for attempt, ns in sorted(moves.items()) if ns)
        if moved:
            self._ready.append(
                PrefixReshare(self._emitter, self._seq, self._engine, at_ns, user.tenant, user.adapter, moved)
            )
            self._seq += 1

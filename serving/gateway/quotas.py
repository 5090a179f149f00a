"""Keeps every tenant's load for the pure `serving.admission`."""

from __future__ import annotations

from catalog.model import Tenant
from serving import admission
from serving.admission import Ask, Load
from serving.gateway.clock import Clock
from serving.gateway.errors import over_quota


class QuotaDesk:
    """What each tenant holds now, in this gateway process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._loads: dict[str, Load] = {}

    def admit(self, tenant: Tenant, ask: Ask) -> None:
        """Take what `ask` needs; raises Refusal (429) and takes nothing when a quota does not allow it."""
        answer = admission.admit(tenant.quotas, self._load(tenant), ask, self._clock.mono_ns())
        if isinstance(answer, admission.Refusal):
            raise over_quota(answer.reason, answer.fact, answer.retry_after_s)
        self._loads[tenant.id] = answer

    def settle(self, tenant: Tenant, ask: Ask, used_tokens: int | None) -> None:
        """Give back what an admitted request held and replace its estimate by what it used."""
        now = self._clock.mono_ns()
        self._loads[tenant.id] = admission.settle(tenant.quotas, self._load(tenant), ask, used_tokens, now)

    def _load(self, tenant: Tenant) -> Load:
        return self._loads.get(tenant.id, Load())

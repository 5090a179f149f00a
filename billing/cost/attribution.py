"""Whose engine time it was, in GPU-hours and money: conserved to the nanosecond and to the 18th decimal."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from billing.cost.facts import COLD, PROVIDER, ColdLoad, EngineMinute, NotConserved, TenantQuarter
from billing.errors import EngineHourInvalid
from billing.exact.canonical import SPARSE
from billing.exact.money import allocate, deal, product, total
from billing.exact.periods import hour_start, quarter_start
from billing.exact.quantities import GPU_HOUR_QUANTUM, deal_gpu_hours, gpu_hours
from catalog.durations import HOUR_NS
from catalog.owners import NO_TENANTS, TimeOwner
from catalog.prices import IdlePolicy


@dataclass(frozen=True, slots=True)
class TenantCost:
    """One `TenantQuarter` priced: its share of the engine-hour's GPU-hours, and what that costs, unrounded.

    `price` is per GPU-hour. Costs are exact (at most 18 decimals) when the price has at most 6 decimals. The two
    `kv_saved` quantities are estimates and cancel in `t_b + t_a - t_kv + t_cold`, so `cost` is what was measured.
    """

    quarter: TenantQuarter
    gpu_type: str
    gpu_count: int
    price: Decimal
    base_gpu_hours: Decimal
    adapter_gpu_hours: Decimal
    cold_gpu_hours: Decimal

    @property
    def kv_saved_base_gpu_hours(self) -> Decimal:
        """Estimated base-model GPU-hours that cached prefix tokens saved."""
        return gpu_hours(self.quarter.kv_saved_base_ns, self.gpu_count)

    @property
    def kv_saved_adapter_gpu_hours(self) -> Decimal:
        """Estimated LoRA GPU-hours that cached prefix tokens saved."""
        return gpu_hours(self.quarter.kv_saved_adapter_ns, self.gpu_count)

    @property
    def t_b_gpu_hours(self) -> Decimal:
        """T_B: base-model time as if no prefix had been cached."""
        return total((self.base_gpu_hours, self.kv_saved_base_gpu_hours))

    @property
    def t_a_gpu_hours(self) -> Decimal:
        """T_A: LoRA time as if no prefix had been cached."""
        return total((self.adapter_gpu_hours, self.kv_saved_adapter_gpu_hours))

    @property
    def t_kv_gpu_hours(self) -> Decimal:
        """T_kv: what cached prefix tokens saved, positive; an estimate."""
        return total((self.kv_saved_base_gpu_hours, self.kv_saved_adapter_gpu_hours))

    @property
    def t_cold_gpu_hours(self) -> Decimal:
        """T_cold: this row's share of adapter loads."""
        return self.cold_gpu_hours

    @property
    def gpu_hours(self) -> Decimal:
        """What was measured: T_B + T_A - T_kv + T_cold."""
        return total((self.base_gpu_hours, self.adapter_gpu_hours, self.cold_gpu_hours))

    @property
    def cost(self) -> Decimal:
        """`gpu_hours` x `price`, exact."""
        return product(self.gpu_hours, self.price)


@dataclass(frozen=True, slots=True)
class OwnerCost:
    """Engine time of one engine-hour that no tenant owns; `owner` is one of `NO_TENANTS`."""

    owner: TimeOwner
    ns: int
    gpu_hours: Decimal
    cost: Decimal


@dataclass(frozen=True, slots=True)
class EngineHourCost:
    """One engine in one UTC hour: every rented nanosecond x GPUs priced once, to tenants or to a named owner.

    `tenants` keeps the order of the quarters given; `owners` has all of `NO_TENANTS`, zeros included.
    """

    engine: str
    start_ns: int
    gpu_type: str
    gpu_count: int
    price: Decimal
    rented_ns: int
    tenants: tuple[TenantCost, ...]
    owners: tuple[OwnerCost, ...]

    @property
    def gpu_hours(self) -> Decimal:
        """Rented time x GPUs."""
        return gpu_hours(self.rented_ns, self.gpu_count)

    @property
    def cost(self) -> Decimal:
        """What this engine cost in this hour: equals the sum over `tenants` and `owners` exactly."""
        return product(self.gpu_hours, self.price)

    def owner(self, name: TimeOwner) -> OwnerCost:
        """The entry of that owner."""
        return next(owner for owner in self.owners if owner.owner == name)


def share_cold(loads: Sequence[ColdLoad], requests: Mapping[tuple[str, str], int]) -> list[TenantQuarter]:
    """Share cold time among the tenants that used the adapter, by their number of requests in the billing month.

    `requests` counts attempts that entered an engine, by (adapter, tenant). Largest remainder per (engine, adapter,
    quarter hour), ties to the earlier tenant id, so the rows (status COLD) sum to the loads to the nanosecond. What no
    request followed goes to PROVIDER. AmountInvalid when a count is negative.
    """
    pots: Counter[tuple[str, str, int]] = Counter()
    for load in loads:
        pots[load.engine, load.adapter, load.start_ns] += load.cold_ns
    users: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
    for (adapter, tenant), count in sorted(requests.items()):
        if count:
            users[adapter].append((tenant, count))
    rows = []
    for (engine, adapter, start_ns), cold_ns in sorted(pots.items()):
        who = users.get(adapter) or [(PROVIDER, 1)]
        for (tenant, _), ns in zip(who, deal(cold_ns, [count for _, count in who]), strict=True):
            if ns:
                rows.append(TenantQuarter(tenant, adapter, engine, COLD, start_ns, cold_ns=ns))
    return rows


def price_engine_hour(
    minutes: Sequence[EngineMinute], quarters: Sequence[TenantQuarter], price: Decimal, since: int = 0
) -> EngineHourCost:
    """Price one engine's UTC hour: `minutes` are its engine minutes, `quarters` its tenants' time in that hour, cold shared.

    An engine that went on with other hardware has an hour for each: `since` is where this one began.

    GPU-hours are dealt over all components (each row's base, adapter and cold time, then `NO_TENANTS`) so that they sum to
    the hour's own, and cost = price x quantity. Raises NotConserved when a minute's parts, or the tenants' or cold time
    of a quarter hour, do not sum to what the engine measured; EngineHourInvalid when the facts are not of one engine
    and hour. An hour has one price: that at its start.
    """
    first = _one_engine_hour(minutes, quarters, since)
    for minute in minutes:
        minute.check()
    for what, missing_ns in _missing(minutes, quarters, since):
        if missing_ns:
            raise NotConserved(what, missing_ns)
    owner_ns = {owner: sum(getattr(minute, f"{owner}_ns") for minute in minutes) for owner in NO_TENANTS}
    parts: dict[tuple[int, str], int] = {}
    for index, row in enumerate(quarters):
        parts[index, "base"], parts[index, "adapter"], parts[index, "cold"] = row.base_ns, row.adapter_ns, row.cold_ns
    dealt = deal_gpu_hours(parts | {(-1, owner): ns for owner, ns in owner_ns.items()}, first.gpu_count)
    return EngineHourCost(
        engine=first.engine,
        start_ns=max(hour_start(first.start_ns), since),
        gpu_type=first.gpu_type,
        gpu_count=first.gpu_count,
        price=price,
        rented_ns=sum(minute.rented_ns for minute in minutes),
        tenants=tuple(
            TenantCost(
                row, first.gpu_type, first.gpu_count, price, dealt[i, "base"], dealt[i, "adapter"], dealt[i, "cold"]
            )
            for i, row in enumerate(quarters)
        ),
        owners=tuple(
            OwnerCost(owner, owner_ns[owner], dealt[-1, owner], product(dealt[-1, owner], price))
            for owner in NO_TENANTS
        ),
    )


@dataclass(frozen=True, slots=True)
class IdleTime:
    """Idle GPU-hours of one GPU type at one price per GPU-hour: a whole month's, or one tenant's share of them.

    `policy` says how they were shared, in a month with several policies.
    """

    gpu_type: str
    price: Decimal
    gpu_hours: Decimal
    policy: IdlePolicy | None = field(default=None, metadata={SPARSE: True})

    @property
    def cost(self) -> Decimal:
        """`gpu_hours` x `price`, exact."""
        return product(self.gpu_hours, self.price)


def idle_policy(idle: Iterable[IdleTime], gpu_type: str | None, gpu_hours: Decimal, only: IdlePolicy) -> IdlePolicy:
    """How so many idle hours were shared: `only` in a month with one policy."""
    parts = (part.policy for part in idle if (part.gpu_type, part.gpu_hours) == (gpu_type, gpu_hours))
    return next((policy for policy in parts if policy is not None), only)


def share_idle(
    idle: Sequence[IdleTime], weights: Mapping[str, int], policy: IdlePolicy
) -> dict[str, tuple[IdleTime, ...]]:
    """Who carries idle time: tenant id -> its share; shares sum to `idle` exactly.

    `weights` are each tenant's measured nanoseconds (policy `usage`) or adapter byte-hours (`residency`) over the same
    span as `idle`: the UTC month, one pool for tenants of all time zones. Under `provider`, or with no weight at all,
    everything is PROVIDER's. Largest remainder in quantity steps, ties to the earlier tenant id.
    """
    carriers = [(tenant, weight) for tenant, weight in sorted(weights.items()) if weight]
    if policy == "provider" or not carriers:
        return {PROVIDER: tuple(idle)}
    shares: defaultdict[str, list[IdleTime]] = defaultdict(list)
    for pool in idle:
        parts = allocate(pool.gpu_hours, [weight for _, weight in carriers], GPU_HOUR_QUANTUM)
        for (tenant, _), part in zip(carriers, parts, strict=True):
            shares[tenant].append(IdleTime(pool.gpu_type, pool.price, part))
    return {tenant: tuple(parts) for tenant, parts in shares.items()}


def _one_engine_hour(minutes: Sequence[EngineMinute], quarters: Sequence[TenantQuarter], since: int) -> EngineMinute:
    if not minutes:
        raise EngineHourInvalid(
            f"could not price an engine-hour: it has no engine minutes, but {len(quarters)} tenant rows"
        )
    first = minutes[0]
    hour = hour_start(first.start_ns)
    where = f"could not price engine {first.engine}, hour {hour}"
    own = first.engine, hour, first.gpu_type, first.gpu_count
    for minute in minutes:
        if (minute.engine, hour_start(minute.start_ns), minute.gpu_type, minute.gpu_count) != own:
            raise EngineHourInvalid(
                f"{where}: minute {minute.start_ns} of {minute.engine} ({minute.gpu_count} x {minute.gpu_type}) is not of that hour and hardware"
            )
    if repeated := [start for start, count in Counter(minute.start_ns for minute in minutes).items() if count > 1]:
        raise EngineHourInvalid(f"{where}: minute {repeated[0]} is there twice")
    for row in quarters:
        in_hour = hour <= row.start_ns < hour + HOUR_NS and row.start_ns in (quarter_start(row.start_ns), since)
        if row.engine != first.engine or not in_hour:
            raise EngineHourInvalid(
                f"{where}: a row of tenant {row.tenant} on {row.engine} starts at {row.start_ns}, not at a quarter of that hour"
            )
    return first


def _missing(
    minutes: Sequence[EngineMinute], quarters: Sequence[TenantQuarter], since: int
) -> Iterator[tuple[str, int]]:
    tenants: Counter[int] = Counter()
    cold: Counter[int] = Counter()
    for minute in minutes:
        begins = max(quarter_start(minute.start_ns), since)
        tenants[begins] += minute.tenants_ns
        cold[begins] += minute.cold_ns
    for row in quarters:
        tenants[row.start_ns] -= row.base_ns + row.adapter_ns
        cold[row.start_ns] -= row.cold_ns
    for name, missing in (("tenants' time", tenants), ("cold time", cold)):
        for start_ns, ns in sorted(missing.items()):
            yield f"{name} of engine {minutes[0].engine}, quarter {start_ns}", ns

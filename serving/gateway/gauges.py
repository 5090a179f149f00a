"""What the metrics say about the moment of a scrape: the engine, the spool, the promises, the ledger's last figures."""

from __future__ import annotations

import asyncio
import math
from typing import Final

from catalog.durations import SECOND_NS
from catalog.model import Catalog
from serving.attempt.services import Services
from serving.engine.door import EngineState
from serving.engine.gpu_memory import DeviceMemory, Devices
from telemetry import names
from telemetry.ledger_snapshot import LedgerSnapshot
from telemetry.metrics import Metrics
from telemetry.usage import Status

AT_ONCE: Final = 32
"""Tenants that are looked at before others get their turn."""


def _held_bytes(state: EngineState, slots: int, kv_blocks: int) -> int:
    """What the engine holds with so many device slots and KV blocks."""
    return state.weights_bytes + slots * state.slot_bytes + kv_blocks * state.kv_block_bytes


def declare(metrics: Metrics, catalog: Catalog) -> None:
    """Let the metrics know a catalog's tenants and adapters, and begin their series at 0."""
    tenants, adapters = [t.id for t in catalog.tenants], [a.name for a in catalog.adapters]
    metrics.known("tenant", tenants)
    metrics.known("adapter", adapters)
    for tenant in catalog.tenants:
        metrics.set(names.SLO_SECONDS, float(tenant.slo.p99_seconds), tenant=tenant.id)
        metrics.prime(names.SLO_RATIO_HIST, tenant=[tenant.id])
        metrics.prime(names.IN_FLIGHT, tenant=[tenant.id])
        statuses = [Status.OK.value, Status.SERVER_ERROR.value]
        metrics.prime(names.REQUESTS, tenant=[tenant.id], adapter=[*tenant.adapters, "base"], status=statuses)
    for counted in (names.WARM_LOOKUPS, names.WARM_HITS, names.CONNECTIONS_OPEN):
        metrics.prime(counted)
    metrics.prime(names.CONNECTIONS_CLOSED, what=names.CLOSED_WHY)


def refresh(services: Services, catalog: Catalog, state: EngineState, devices: Devices, now_ns: int) -> None:
    """Bring every gauge to now, and the counters that others count to their totals; `now_ns` is UTC.

    It takes long with many adapters, so it may run in any thread; calls must not overlap, or a total would seem to fall.
    """
    metrics, spool, forwarder = services.metrics, services.spool, services.forwarder
    _engine(services, catalog, state)
    _device_memory(services, state, devices)
    metrics.advance(names.METER_GAPS, state.gaps + state.faults)
    metrics.advance(names.SPOOL_LINES, spool.lines)
    metrics.advance(names.SPOOL_ERRORS, spool.errors)
    # What telemetry itself has lost is never silent: every kind is there from the first scrape on.
    metrics.advance(names.DROPPED, spool.dropped, what="spool")
    metrics.advance(names.DROPPED, services.tracing.encode_failures, what="spans")
    metrics.advance(names.DROPPED, forwarder.dropped if forwarder is not None else 0, what="collector")
    figures = services.snapshot.read()
    # Without a snapshot its age is no number: 0 would read as fresh.
    metrics.set(names.SNAPSHOT_AGE, math.nan)
    if figures is not None:
        metrics.set(names.SNAPSHOT_AGE, max(0.0, now_ns / SECOND_NS - figures.published_at.timestamp()))
        _ledger(metrics, figures)


def _ledger(metrics: Metrics, figures: LedgerSnapshot) -> None:
    """What the ledger said; what it did not say is not there, since 0 would read as well."""
    for tenant, row in figures.tenants.items():
        amounts = (
            (names.COST_PER_MTOK, row.cost_per_million_tokens),
            (names.MEMORY_COST, row.memory_cost_per_hour),
            (names.TENANT_COST, row.cost),
            (names.TENANT_REVENUE, row.revenue),
        )
        for metric, amount in amounts:
            if amount is not None:
                metrics.set(metric, float(amount), tenant=tenant)
    alone = (
        (names.QUARANTINE, figures.ledger.quarantine_records, 1),
        (names.RECORD_GAPS, figures.ledger.record_gaps, 1),
        (names.CLOSE_OVERDUE, figures.ledger.close_overdue_ns, SECOND_NS),
        (names.PRICE_MISSING, figures.ledger.price_missing_ns, SECOND_NS),
    )
    for metric, count, unit in alone:
        if count is not None:
            metrics.set(metric, count / unit)


async def budgets(services: Services, catalog: Catalog) -> None:
    """How much of its budget each tenant that has one has used, as this gateway counts it; others are served in between."""
    for count, (tenant, used) in enumerate(services.quotas.used_ratios(catalog)):
        services.metrics.set(names.BUDGET_USED, used, tenant=tenant)
        if count % AT_ONCE == 0:
            await asyncio.sleep(0)
    services.metrics.advance(names.BUDGET_WRITTEN_OFF, services.quotas.written_off)


def _engine(services: Services, catalog: Catalog, state: EngineState) -> None:
    metrics, engine_id = services.metrics, services.door.engine_id
    for owner, ns in state.owner_ns.items():
        metrics.advance(names.ENGINE_TIME, ns / SECOND_NS, engine=engine_id, owner=owner)
    for cause, ns in state.system_ns.items():
        metrics.advance(names.SYSTEM_TIME, ns / SECOND_NS, engine=engine_id, cause=cause)
    metrics.advance(names.ENGINE_RESTARTS, state.restarts, engine=engine_id)
    for name, time in state.steps.items():
        metrics.advance(names.STEP_MEASURED, time.measured_ns / SECOND_NS, engine=engine_id, step_class=name)
        metrics.advance(names.STEP_PREDICTED, time.predicted_ns / SECOND_NS, engine=engine_id, step_class=name)
    parallel = str(services.engine.gpu_count if services.engine is not None else 1)
    metrics.set(names.KV_USED, state.kv_blocks_used, tensor_parallel_size=parallel)
    metrics.set(names.KV_TOTAL, state.kv_blocks_total, tensor_parallel_size=parallel)
    used = _held_bytes(state, len(state.slots), state.kv_blocks_used)
    metrics.set(names.MEMORY_RATIO, used / state.memory_bytes, gpu=engine_id)
    in_slots = {served.partition("@")[0] for served in state.slots}
    for adapter in catalog.adapters:
        slot_bytes = state.slot_bytes if adapter.name in in_slots else 0
        metrics.set(names.MEMORY_USED, slot_bytes, adapter=adapter.name, gpu=engine_id)
        metrics.set(names.MEMORY_QUOTA, adapter.memory_budget_bytes, adapter=adapter.name, gpu=engine_id)


def _device_memory(services: Services, state: EngineState, devices: Devices) -> None:
    """What the engine's GPUs hold; on an engine without one, what the engine itself reserved."""
    slots = services.engine.max_loras if services.engine is not None else len(state.slots)
    memory = devices.memory() or DeviceMemory(_held_bytes(state, slots, state.kv_blocks_total), state.memory_bytes)
    services.metrics.set(names.GPU_MEMORY_USED, memory.used, gpu=services.door.engine_id)
    services.metrics.set(names.GPU_MEMORY_TOTAL, memory.total, gpu=services.door.engine_id)

"""What the metrics say about the moment of a scrape: the engine, the spool, the promises, the ledger's last figures."""

from __future__ import annotations

import asyncio
import math
from typing import Final

from catalog.durations import SECOND_NS
from catalog.model import Catalog, Engine
from serving.attempt.quotas import TenantQuotas
from serving.attempt.snapshot import SnapshotFile
from serving.engine.door import EngineState
from serving.engine.gpu_memory import DeviceMemory, Devices
from telemetry.ledger_snapshot import LedgerSnapshot
from telemetry.metrics import Metrics
from telemetry.names import (
    BUDGET_USED,
    BUDGET_WRITTEN_OFF,
    CATALOG_VALID,
    CLOSE_OVERDUE,
    CLOSED_WHY,
    CONNECTIONS_CLOSED,
    CONNECTIONS_OPEN,
    COST_PER_MTOK,
    ENGINE_RESTARTS,
    ENGINE_TIME,
    ENGINE_UP,
    GPU_MEMORY_TOTAL,
    GPU_MEMORY_USED,
    IN_FLIGHT,
    KV_TOTAL,
    KV_USED,
    MEMORY_COST,
    MEMORY_QUOTA,
    MEMORY_RATIO,
    MEMORY_USED,
    METER_GAPS,
    PRICE_MISSING,
    QUARANTINE,
    RECORD_GAPS,
    REQUESTS,
    SLO_RATIO_HIST,
    SLO_SECONDS,
    SNAPSHOT_AGE,
    SPOOL_ERRORS,
    SPOOL_LINES,
    STEP_PREDICTED,
    SYSTEM_TIME,
    TENANT_COST,
    TENANT_REVENUE,
    WARM_HITS,
    WARM_LOOKUPS,
)
from telemetry.spool import Spool
from telemetry.usage import Status

AT_ONCE: Final = 32
"""Tenants that are looked at before others get their turn."""


def utilisation(state: EngineState) -> float:
    """(weights + slots in use + KV blocks in use) / the engine's budget."""
    used = state.weights_bytes + len(state.slots) * state.slot_bytes + state.kv_blocks_used * state.kv_block_bytes
    return used / state.memory_bytes


def declare(metrics: Metrics, catalog: Catalog) -> None:
    """Let the metrics know a catalog's tenants and adapters, and begin their series at 0."""
    tenants, adapters = [t.id for t in catalog.tenants], [a.name for a in catalog.adapters]
    metrics.known("tenant", tenants)
    metrics.known("adapter", adapters)
    for tenant in catalog.tenants:
        metrics.set(SLO_SECONDS, float(tenant.slo.p99_seconds), tenant=tenant.id)
        metrics.prime(SLO_RATIO_HIST, tenant=[tenant.id])
        metrics.prime(IN_FLIGHT, tenant=[tenant.id])
        statuses = [Status.OK.value, Status.SERVER_ERROR.value]
        metrics.prime(REQUESTS, tenant=[tenant.id], adapter=[*tenant.adapters, "base"], status=statuses)
    for counted in (WARM_LOOKUPS, WARM_HITS, CONNECTIONS_OPEN):
        metrics.prime(counted)
    metrics.prime(CONNECTIONS_CLOSED, what=CLOSED_WHY)


def refresh(
    metrics: Metrics,
    catalog: Catalog,
    engine_id: str,
    state: EngineState,
    devices: Devices,
    spool: Spool,
    snapshot: SnapshotFile,
    now_ns: int,
) -> None:
    """Bring every gauge to now, and the counters that others count to their totals; `now_ns` is UTC.

    It takes long with many adapters, so it may run in any thread; calls must not overlap, or a total would seem to fall.
    """
    _engine(metrics, catalog, engine_id, state)
    _device_memory(metrics, catalog.engine(engine_id), engine_id, state, devices)
    metrics.advance(METER_GAPS, state.gaps + state.faults)
    metrics.advance(SPOOL_LINES, spool.lines)
    metrics.advance(SPOOL_ERRORS, spool.errors)
    figures = snapshot.read()
    # Without a snapshot its age is no number: 0 would read as fresh.
    metrics.set(SNAPSHOT_AGE, math.nan)
    if figures is not None:
        metrics.set(SNAPSHOT_AGE, max(0.0, now_ns / SECOND_NS - figures.published_at.timestamp()))
        _ledger(metrics, figures)


def _ledger(metrics: Metrics, figures: LedgerSnapshot) -> None:
    """What the ledger said; what it did not say is not there, since 0 would read as well."""
    for tenant, row in figures.tenants.items():
        amounts = (
            (COST_PER_MTOK, row.cost_per_million_tokens),
            (MEMORY_COST, row.memory_cost_per_hour),
            (TENANT_COST, row.cost),
            (TENANT_REVENUE, row.revenue),
        )
        for metric, amount in amounts:
            if amount is not None:
                metrics.set(metric, float(amount), tenant=tenant)
    alone = (
        (QUARANTINE, figures.ledger.quarantine_records, 1),
        (RECORD_GAPS, figures.ledger.record_gaps, 1),
        (CLOSE_OVERDUE, figures.ledger.close_overdue_ns, SECOND_NS),
        (PRICE_MISSING, figures.ledger.price_missing_ns, SECOND_NS),
    )
    for metric, count, unit in alone:
        if count is not None:
            metrics.set(metric, count / unit)


async def budgets(metrics: Metrics, catalog: Catalog, quotas: TenantQuotas) -> None:
    """How much of its budget each tenant that has one has used, as this gateway counts it; others are served in between."""
    for count, (tenant, used) in enumerate(quotas.used_ratios(catalog)):
        metrics.set(BUDGET_USED, used, tenant=tenant)
        if count % AT_ONCE == 0:
            await asyncio.sleep(0)
    metrics.advance(BUDGET_WRITTEN_OFF, quotas.written_off)


def catalog_valid(metrics: Metrics, valid: bool) -> None:
    """Whether the catalog's file is in force."""
    metrics.set(CATALOG_VALID, int(valid))


def engine_up(metrics: Metrics, engine_id: str, up: bool) -> None:
    """Whether the engine answers."""
    metrics.set(ENGINE_UP, int(up), engine=engine_id)


def _engine(metrics: Metrics, catalog: Catalog, engine_id: str, state: EngineState) -> None:
    for owner, ns in state.owner_ns.items():
        metrics.advance(ENGINE_TIME, ns / SECOND_NS, engine=engine_id, owner=owner)
    for cause, ns in state.system_ns.items():
        metrics.advance(SYSTEM_TIME, ns / SECOND_NS, engine=engine_id, cause=cause)
    metrics.advance(ENGINE_RESTARTS, state.restarts, engine=engine_id)
    metrics.advance(STEP_PREDICTED, state.predicted_ns / SECOND_NS, engine=engine_id)
    engine = catalog.engine(engine_id)
    parallel = str(engine.gpu_count if engine is not None else 1)
    metrics.set(KV_USED, state.kv_blocks_used, tensor_parallel_size=parallel)
    metrics.set(KV_TOTAL, state.kv_blocks_total, tensor_parallel_size=parallel)
    metrics.set(MEMORY_RATIO, utilisation(state), gpu=engine_id)
    in_slots = {served.partition("@")[0] for served in state.slots}
    for adapter in catalog.adapters:
        used = state.slot_bytes if adapter.name in in_slots else 0
        metrics.set(MEMORY_USED, used, adapter=adapter.name, gpu=engine_id)
        metrics.set(MEMORY_QUOTA, adapter.memory_budget_bytes, adapter=adapter.name, gpu=engine_id)


def _device_memory(
    metrics: Metrics, engine: Engine | None, engine_id: str, state: EngineState, devices: Devices
) -> None:
    """What the engine's GPUs hold; on an engine without one, what the engine itself reserved."""
    slots = engine.max_loras if engine is not None else len(state.slots)
    reserved = state.weights_bytes + slots * state.slot_bytes + state.kv_blocks_total * state.kv_block_bytes
    memory = devices.memory() or DeviceMemory(reserved, state.memory_bytes)
    metrics.set(GPU_MEMORY_USED, memory.used, gpu=engine_id)
    metrics.set(GPU_MEMORY_TOTAL, memory.total, gpu=engine_id)

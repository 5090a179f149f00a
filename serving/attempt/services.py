"""What every attempt of one gateway process works with."""

from __future__ import annotations

from dataclasses import dataclass

from catalog.model import Engine
from serving.attempt.limits import Clock, Limits
from serving.attempt.quotas import SnapshotFile, TenantQuotas
from serving.attempt.residency_door import ResidencyDoor
from serving.engine.door import EngineDoor
from telemetry.forward import Forwarder
from telemetry.metrics import Metrics
from telemetry.spool import Spool
from telemetry.tracing import Tracing


@dataclass(frozen=True, slots=True)
class Services:
    """The engine, what keeps it in order, and where what happens is told."""

    door: EngineDoor
    engine: Engine | None
    spool: Spool
    tracing: Tracing
    metrics: Metrics
    residency: ResidencyDoor
    quotas: TenantQuotas
    clock: Clock
    emitter: str
    limits: Limits
    snapshot: SnapshotFile
    forwarder: Forwarder | None = None

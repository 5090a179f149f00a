"""What telemetry itself has lost, brought into the metrics: a drop is never silent."""

from __future__ import annotations

from telemetry.forward import Forwarder
from telemetry.metrics import Metrics
from telemetry.names import DROPPED
from telemetry.spool import Spool
from telemetry.tracing import Tracing


def count_drops(metrics: Metrics, spool: Spool, tracing: Tracing, forwarder: Forwarder | None) -> None:
    """Bring the counter to the totals that each part keeps; every kind is there from the first scrape on."""
    metrics.advance(DROPPED, spool.dropped, what="spool")
    metrics.advance(DROPPED, tracing.encode_failures, what="spans")
    metrics.advance(DROPPED, forwarder.dropped if forwarder is not None else 0, what="collector")

"""PromQL as boards ask it: over the panel's own interval and for the chosen tenants. Pure."""

from __future__ import annotations

from typing import Final

from alerts.expressions import total
from telemetry.names import Metric

RATE: Final = "$__rate_interval"
TENANT: Final = 'tenant=~"$tenant"'


def increase(metric: Metric, by: str) -> str:
    """Events over the panel's own interval, summed by label."""
    return total(metric, by, RATE)


def rate(metric: Metric, by: str, selector: str = "") -> str:
    """Events per second over the panel's own interval, summed by label."""
    return total(metric, by, RATE, selector, how="rate")


def quantile(q: str, metric: Metric, by: str, selector: str = "") -> str:
    """A quantile, interpolated between bucket bounds: good enough to look at; alerts judge exact shares."""
    braces = f"{{{selector}}}" if selector else ""
    grouped = f"{by}, le" if by else "le"
    return f"histogram_quantile({q}, sum by ({grouped}) (rate({metric.name}_bucket{braces}[{RATE}])))"

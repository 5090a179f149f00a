"""PromQL, built from metrics and numbers. Boards use the same builders as rules. No I/O."""

from __future__ import annotations

from decimal import Decimal
from typing import Final, Literal

from telemetry.names import Metric

How = Literal["increase", "rate"]
PARTS: Final = "1e9"
"""Shares are rounded to this many parts of 1."""


def duration(seconds: int) -> str:
    """Seconds as the shortest PromQL duration of one unit; raises ValueError when not positive."""
    if seconds <= 0:
        raise ValueError(f"a duration must be positive, is {seconds}")
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def le(bound: Decimal) -> str:
    """Matcher for one bucket, whichever way the exporter writes a whole number (`1` or `1.0`)."""
    text = f"{bound.normalize():f}"
    return f'le="{text}"' if "." in text else f'le=~"{text}([.]0)?"'


def increase(name: str, window: str, selector: str = "") -> str:
    """Increase of a counter over a window; `window` is a duration or a Grafana interval variable."""
    return f"increase({name}{_braces(selector)}[{window}])"


def total(metric: Metric, by: str, window: str, selector: str = "", how: How = "increase") -> str:
    """Observations of a histogram (or events of a counter) over a window, summed by label."""
    name = f"{metric.name}_count" if metric.kind == "histogram" else metric.name
    return _sum(by, f"{how}({name}{_braces(selector)}[{window}])")


def above(metric: Metric, bound: Decimal, by: str, window: str, selector: str = "", how: How = "increase") -> str:
    """Observations of a histogram above a bucket bound over a window: exact, since nothing is interpolated."""
    within = f"{le(bound)}, {selector}" if selector else le(bound)
    inside = _sum(by, f"{how}({metric.name}_bucket{{{within}}}[{window}])")
    return f"({total(metric, by, window, selector, how)} - {inside})"


def percent(fraction: Decimal) -> str:
    """A fraction as people write it: 0.01 is `1 %`."""
    return f"{(fraction * 100).normalize():f} %"


def share(part: str, whole: str) -> str:
    """part / whole, rounded so that exactly 1 % compares equal to 0.01 (`round(x, 1e-9)` would not)."""
    return f"round({PARTS} * {part} / ({whole})) / {PARTS}"


def _sum(by: str, inner: str) -> str:
    return f"sum by ({by}) ({inner})" if by else f"sum({inner})"


def _braces(selector: str) -> str:
    return f"{{{selector}}}" if selector else ""

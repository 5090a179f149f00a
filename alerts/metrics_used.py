"""Which metrics an expression reads, checked against the declared ones. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from telemetry import names

UP: Final = "up"
"""Written by Prometheus itself for every target."""
_WORDS: Final = frozenset(
    (
        "by",
        "without",
        "on",
        "ignoring",
        "group_left",
        "group_right",
        "and",
        "or",
        "unless",
        "bool",
        "offset",
        "inf",
        "nan",
    )
)
_NOISE: Final = re.compile(
    r"\{[^}]*\}|\[[^\]]*\]|\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)|\"[^\"]*\""
)
_NAME: Final = re.compile(r"(?<![\w:.$])([a-zA-Z_:][\w:]*)(?!\s*\()(?![\w:])")


class MetricUnknown(ValueError):
    """An expression reads a series that no code exports and no rule records."""

    def __init__(self, series: str, expression: str) -> None:
        self.series, self.expression = series, expression
        super().__init__(
            f"could not resolve series {series}: not in telemetry/names.py nor recorded by a rule; read by {expression}"
        )


def _series_to_family() -> dict[str, str]:
    suffixes = {"counter": ("",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}
    return {metric.name + suffix: metric.name for metric in names.METRICS for suffix in suffixes[metric.kind]}


def families(expressions: Iterable[str], recorded: frozenset[str] = frozenset()) -> frozenset[str]:
    """Names of the metric families that the expressions read, without recorded series and `up`.

    Raises MetricUnknown for a series that is neither declared nor in `recorded`, and for a histogram read without suffix.
    """
    known = _series_to_family()
    found: set[str] = set()
    for expression in expressions:
        for series in _NAME.findall(_NOISE.sub(" ", expression)):
            if series in _WORDS or series in recorded or series == UP:
                continue
            if series not in known:
                raise MetricUnknown(series, expression)
            found.add(known[series])
    return frozenset(found)

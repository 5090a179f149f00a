"""Prometheus metrics: exactly the families of `telemetry.names`, with bounded labels. The door to prometheus-client.

A call that does not fit a metric's declaration raises at once, in whatever test runs first; what traffic can choose
(label values) never raises and never grows a scrape without end.
"""

from __future__ import annotations

import itertools
import logging
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, TypeVar, cast

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, PlatformCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from catalog.durations import MINUTE_NS
from telemetry.errors import MetricMisused
from telemetry.names import BASE, LABEL_OVERFLOW, METRICS, OTHER, PROCESS_START, Metric
from telemetry.usage import UNAUTHENTICATED, UNKNOWN_TENANT
from telemetry.windows import WindowQuantile, WindowRatio

log = logging.getLogger(__name__)

RESERVED: Final = {"tenant": frozenset({UNAUTHENTICATED, UNKNOWN_TENANT}), "adapter": frozenset({BASE})}
"""Values that are always known: not in any catalog, but ours. Tenant `unknown` came to the engine past the gateway."""
_P99: Final = 0.99
_EXEMPLAR_LENGTH: Final = 64
_MINUTES: Final = re.compile(r"(\d+)m")

_Kind = TypeVar("_Kind", Counter, Gauge, Histogram)
_Window = TypeVar("_Window", WindowRatio, WindowQuantile)
_KINDS: Final[Mapping[str, Any]] = {"counter": Counter, "gauge": Gauge, "histogram": Histogram}


class Metrics:
    """All families of one process in a registry of their own; safe to use from any thread.

    A label whose values were given by `known` takes those, any other label the first `cap` values it meets; what is
    beyond becomes `other` and counts in `loraledger_label_overflow_total`. `process` adds the process's own CPU and
    memory; `started_s` is when it started (Unix seconds; now, when left out). `clock` gives the nanoseconds by which windows are cut.
    """

    def __init__(
        self,
        cap: int = 1000,
        *,
        process: bool = False,
        started_s: float | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._cap = cap
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[str, set[str]] = {}
        self._seen: dict[str, set[str]] = {}
        self._children: dict[tuple[Any, ...], Any] = {}
        """Series by what was asked for, where nothing was folded."""
        self._totals: dict[tuple[str, tuple[str, ...]], float] = {}
        self._windows: dict[Gauge, WindowRatio | WindowQuantile] = {}
        # The families live in an inner registry; the outer one drops their `_created` series, which prometheus-client
        # can switch off for the whole process only.
        inner = CollectorRegistry(auto_describe=False)
        self._families = {metric.name: _family(metric, inner) for metric in METRICS}
        self.registry = CollectorRegistry(auto_describe=False)
        """What is scraped; others may add collectors of their own."""
        # prometheus-client would show these as 0 before anybody knows their value.
        self._unset = {metric.name for metric in METRICS if metric.kind == "gauge" and not metric.labels}
        of_process = CollectorRegistry(auto_describe=False)
        self.registry.register(_Families((inner, of_process), self._unset))
        if process:
            ProcessCollector(registry=of_process)
            PlatformCollector(registry=of_process)
        self.set(PROCESS_START, time.time() if started_s is None else started_s)

    def known(self, label: str, values: Iterable[str]) -> None:
        """Let `label` take these values from now on, beside those it was given before; the rest becomes `other`."""
        # A counter first seen at 1 hides its first event from rate().
        self._of(Counter, LABEL_OVERFLOW).labels(label)
        with self._lock:
            self._children.clear()
            known = self._known.setdefault(label, set(RESERVED.get(label, ())))
            for value in values:
                if len(known) >= self._cap and value not in known:
                    log.error(
                        "metric label %s: more than %d known values; the others are folded into `other`",
                        label,
                        self._cap,
                    )
                    return
                known.add(value)

    def prime(self, metric: Metric, **choices: Iterable[str]) -> None:
        """Let the series of every combination begin at 0, so that a rate sees the first event of each."""
        for values in itertools.product(*choices.values()):
            self._child(_KINDS[metric.kind], metric, dict(zip(choices, values, strict=True)))

    def add(self, metric: Metric, amount: float = 1, **labels: str) -> None:
        """Add to a counter (0 or more) or to a gauge."""
        if metric.kind == "gauge":
            self._child(Gauge, metric, labels).inc(amount)
            return
        if amount < 0:
            raise MetricMisused(metric.name, f"a counter cannot take {amount}")
        self._child(Counter, metric, labels).inc(amount)

    def advance(self, metric: Metric, total: float, **labels: str) -> None:
        """Bring a counter to a total that is counted elsewhere; a total below the last one means that the count began again at 0."""
        child = self._child(Counter, metric, labels)
        series = metric.name, tuple(labels[label] for label in metric.labels)
        with self._lock:
            last = self._totals.get(series, 0)
            self._totals[series] = total
        child.inc(total - last if total >= last else total)

    def set(self, metric: Metric, value: float, **labels: str) -> None:
        """Set a gauge."""
        self._child(Gauge, metric, labels).set(value)

    def observe(self, metric: Metric, value: float, exemplar: str | None = None, **labels: str) -> None:
        """Observe a value in a histogram; `exemplar` is the id of a trace that shows it."""
        child = self._child(Histogram, metric, labels)
        child.observe(value, {"trace_id": exemplar} if exemplar and len(exemplar) <= _EXEMPLAR_LENGTH else None)

    def window_rate(self, metric: Metric, hits: int, lookups: int, **labels: str) -> None:
        """Count towards a ratio gauge over the metric's window; it is NaN while nothing is looked up in the window."""
        with self._window(metric, labels, WindowRatio) as window:
            window.add(self._clock(), hits, lookups)

    def window_p99(self, metric: Metric, value: float, **labels: str) -> None:
        """Observe towards a 99th-percentile gauge over the metric's window; it is NaN while the window is empty."""
        with self._window(metric, labels, partial(WindowQuantile, q=_P99)) as window:
            window.add(self._clock(), value)

    def render(self, accept: str | None) -> tuple[bytes, str]:
        """The scrape and its content type: OpenMetrics, with exemplars, when `accept` names it, else the plain text format."""
        try:
            encode, content_type = choose_encoder(accept or "")
        except (TypeError, ValueError):  # a version that is no number
            encode, content_type = choose_encoder("")
        return encode(self.registry), content_type

    @contextmanager
    def _window(self, metric: Metric, labels: Mapping[str, str], make: Callable[[int], _Window]) -> Iterator[_Window]:
        """The window behind a gauge's series, for this thread alone; once there is one, the gauge asks it at every scrape."""
        gauge = self._child(Gauge, metric, labels)
        with self._lock:
            window = self._windows.get(gauge)
            if window is None:
                window = self._windows[gauge] = make(_window_ns(metric))
                gauge.set_function(partial(self._now, window))
            yield cast("_Window", window)

    def _now(self, window: WindowRatio | WindowQuantile) -> float:
        with self._lock:
            return window.value(self._clock())

    def _child(self, kind: type[_Kind], metric: Metric, labels: Mapping[str, str]) -> _Kind:
        family = self._of(kind, metric)
        asked = metric.name, *labels.items()
        child: _Kind | None = self._children.get(asked)
        if child is None:
            values = self._bounded(metric, labels)
            child = family.labels(*values) if values else family
            if values == tuple(labels[label] for label in metric.labels):  # what is folded must be counted each time
                self._children[asked] = child
        return child

    def _of(self, kind: type[_Kind], metric: Metric) -> _Kind:
        family = self._families.get(metric.name)
        if not isinstance(family, kind):
            raise MetricMisused(metric.name, f"it is a {metric.kind} or not declared in telemetry.names")
        self._unset.discard(metric.name)
        return family

    def _bounded(self, metric: Metric, labels: Mapping[str, str]) -> tuple[str, ...]:
        if labels.keys() != set(metric.labels):
            raise MetricMisused(metric.name, f"its labels are {metric.labels}, not {tuple(labels)}")
        return tuple(self._value(label, labels[label]) for label in metric.labels)

    def _value(self, label: str, value: str) -> str:
        known = self._known.get(label)
        seen = self._seen.get(label, ())
        if value == OTHER or value in (seen if known is None else known):
            return value
        with self._lock:
            if known is None:
                values = self._seen.setdefault(label, set())
                if len(values) < self._cap:
                    values.add(value)
                    return value
        self._of(Counter, LABEL_OVERFLOW).labels(label).inc()
        return OTHER


class _Families(Collector):
    """All families of some registries, each name once, without `unset` ones and the instants when series were made."""

    def __init__(self, inner: tuple[CollectorRegistry, ...], unset: set[str]) -> None:
        self._inner = inner
        self._unset = unset

    def collect(self) -> Iterator[Family]:
        shown: set[str] = set()
        for family in itertools.chain.from_iterable(registry.collect() for registry in self._inner):
            if family.name not in shown and family.name not in self._unset:
                shown.add(family.name)
                family.samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
                yield family


def _family(metric: Metric, registry: CollectorRegistry) -> Counter | Gauge | Histogram:
    more: dict[str, Any] = {"buckets": metric.buckets} if metric.buckets else {}
    made: Counter | Gauge | Histogram = _KINDS[metric.kind](
        metric.name, metric.help, metric.labels, registry=registry, **more
    )
    return made


def _window_ns(metric: Metric) -> int:
    minutes = _MINUTES.fullmatch(metric.window or "")
    if minutes is None:
        raise MetricMisused(metric.name, f"its window is {metric.window}, not a number of minutes")
    return int(minutes[1]) * MINUTE_NS

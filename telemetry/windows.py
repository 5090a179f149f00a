"""Ratios and percentiles over the recent past. Pure: time is passed in, nanoseconds of any clock that does not step back."""

from __future__ import annotations

import math
from collections import deque

_BUCKETS = 30


class WindowRatio:
    """Hits ÷ lookups over the last `window_ns`, in buckets of a thirtieth of it."""

    def __init__(self, window_ns: int) -> None:
        self._window_ns = window_ns
        self._bucket_ns = max(1, window_ns // _BUCKETS)
        self._buckets: deque[tuple[int, int, int]] = deque()

    def add(self, now_ns: int, hits: int, lookups: int) -> None:
        """Count `lookups`, of which `hits` were hits."""
        start = now_ns - now_ns % self._bucket_ns
        if self._buckets and self._buckets[-1][0] >= start:
            last, had_hits, had_lookups = self._buckets.pop()
            self._buckets.append((last, had_hits + hits, had_lookups + lookups))
        else:
            self._buckets.append((start, hits, lookups))
        self._forget(now_ns)

    def value(self, now_ns: int) -> float:
        """The ratio of the sums; NaN when nothing was looked up, which is not a ratio of 0."""
        self._forget(now_ns)
        lookups = sum(bucket[2] for bucket in self._buckets)
        return sum(bucket[1] for bucket in self._buckets) / lookups if lookups else math.nan

    def _forget(self, now_ns: int) -> None:
        while self._buckets and self._buckets[0][0] + self._bucket_ns <= now_ns - self._window_ns:
            self._buckets.popleft()


class WindowQuantile:
    """A quantile of what was observed in the last `window_ns`, of at most the `cap` newest values."""

    def __init__(self, window_ns: int, q: float, cap: int = 4096) -> None:
        self._window_ns = window_ns
        self._q = q
        self._values: deque[tuple[int, float]] = deque(maxlen=cap)

    def add(self, now_ns: int, value: float) -> None:
        """Observe one value."""
        self._values.append((now_ns, value))

    def value(self, now_ns: int) -> float:
        """The smallest value that at least the share `q` does not exceed (nearest rank); NaN when there is none."""
        while self._values and self._values[0][0] <= now_ns - self._window_ns:
            self._values.popleft()
        if not self._values:
            return math.nan
        ordered = sorted(value for _, value in self._values)
        return ordered[max(0, math.ceil(self._q * len(ordered)) - 1)]

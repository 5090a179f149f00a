"""Where the gateway's time comes from."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clock:
    """`utc_ns` names instants, `mono_ns` measures: durations never depend on a step of the wall clock."""

    utc_ns: Callable[[], int] = time.time_ns
    mono_ns: Callable[[], int] = time.monotonic_ns

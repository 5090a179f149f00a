"""Time limits on a machine that other programs use as well."""

from __future__ import annotations

import os


def stretched(seconds: float) -> float:
    """A limit that holds on a quiet machine, longer by as much as processes wait for a processor there."""
    return seconds * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))

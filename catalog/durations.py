"""How many nanoseconds the units of time have."""

from __future__ import annotations

from typing import Final

SECOND_NS: Final = 1_000_000_000
MINUTE_NS: Final = 60 * SECOND_NS
QUARTER_NS: Final = 15 * MINUTE_NS
"""A quarter hour: usage is cut at these (UTC), since every time zone's months begin at one."""
HOUR_NS: Final = 60 * MINUTE_NS
DAY_NS: Final = 24 * HOUR_NS

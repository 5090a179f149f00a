"""What Grafana's ClickHouse plugin makes of the macros of a query."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

SHORTEST_INTERVAL_S: Final = 60
"""Width of a bar."""


def expand_macros(sql: str, start: datetime, end: datetime) -> str:
    """The query as Grafana's ClickHouse plugin sends it for [start, end] while all values of every variable are chosen."""
    first, last = (f"toDateTime({int(moment.timestamp())})" for moment in (start, end))
    step = f"INTERVAL {SHORTEST_INTERVAL_S} second"
    expanded = re.sub(r"\$__conditionalAll\((?:[^()]|\([^()]*\))*,\s*\$\w+\)", "1=1", sql)
    expanded = re.sub(r"\$__timeFilter\((\w+)\)", rf"\1 >= {first} AND \1 <= {last}", expanded)
    expanded = re.sub(r"\$__timeInterval\((\w+)\)", rf"toStartOfInterval(toDateTime(\1), {step})", expanded)
    return expanded.replace("$__fromTime", first).replace("$__toTime", last)

"""Rules about adapters: hits of the warm pool, and how long cold starts take. No I/O."""

from __future__ import annotations

from typing import Final

from alerts.expressions import above, duration, increase, percent, share, total
from alerts.links import ROUTING
from alerts.promises import Promises
from alerts.rows import AlertRow, GroupRows
from telemetry import names


def warm_hit_share(promises: Promises) -> str:
    """Warm-pool hits / lookups over the window, of the gateways that have run for longer than the window; no series while there were too few lookups."""
    adapters = promises.adapters
    window = duration(adapters.warm_window)
    fresh = f"unless on (job, instance) (time() - {names.PROCESS_START.name} < {adapters.warm_window})"
    hits = f"sum({increase(names.WARM_HITS.name, window)} {fresh})"
    lookups = f"sum({increase(names.WARM_LOOKUPS.name, window)} {fresh})"
    return share(hits, f"{lookups} >= {adapters.warm_min_lookups}")


def _cold_start_slow(promises: Promises) -> str:
    adapters, loads = promises.adapters, names.COLD_START_MS_HIST
    window = duration(adapters.cold_window)
    slow = above(loads, adapters.cold_ms, "", window)
    seen = f"{total(loads, '', window)} >= {adapters.cold_min_loads}"
    return f"{share(slow, seen)} > {adapters.cold_share:f}\nand round({slow}) >= {adapters.cold_min_slow}"


ADAPTER_RULES: Final = GroupRows(
    "loraledger-adapters",
    (
        AlertRow(
            name="LoraWarmPoolHitRateLow",
            promise="warm-pool",
            severity="warning",
            expr=lambda p: f"{warm_hit_share(p)} < {p.adapters.warm_hit_low:f}",
            for_=lambda p: p.adapters.warm_for,
            summary="Warm pool hits only {{ $value | humanizePercentage }}",
            description=lambda p: (
                f"Requests for warm adapters found them resident less often than {percent(p.adapters.warm_hit_low)} "
                f"of the time over {duration(p.adapters.warm_window)}."
            ),
            board=ROUTING,
        ),
        AlertRow(
            name="LoraColdStartSlow",
            promise="cold-start",
            severity="warning",
            expr=_cold_start_slow,
            for_=lambda p: p.adapters.cold_for,
            summary=lambda p: f"P99 of adapter loads is above {p.adapters.cold_ms} ms",
            description=lambda p: (
                f"{{{{ $value | humanizePercentage }}}} of the adapter loads of the last {duration(p.adapters.cold_window)} "
                f"took longer than {p.adapters.cold_ms} ms; {percent(p.adapters.cold_share)} may."
            ),
            board=ROUTING,
        ),
    ),
)

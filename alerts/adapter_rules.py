"""Rules about adapters: hits of the warm pool, and how long cold starts take. No I/O."""

from __future__ import annotations

from collections.abc import Iterator

from alerts.expressions import above, duration, increase, percent, share, total
from alerts.links import ROUTING
from alerts.model import Alert
from alerts.promises import Promises
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


def adapter_rules(promises: Promises) -> Iterator[Alert]:
    """The warm pool is hit, and cold starts are short."""
    adapters = promises.adapters
    yield Alert(
        name="LoraWarmPoolHitRateLow",
        promise="warm-pool",
        expr=f"{warm_hit_share(promises)} < {adapters.warm_hit_low:f}",
        for_=adapters.warm_for,
        summary="Warm pool hits only {{ $value | humanizePercentage }}",
        description=(
            f"Requests for warm adapters found them resident less often than {percent(adapters.warm_hit_low)} "
            f"of the time over {duration(adapters.warm_window)}."
        ),
        board=ROUTING,
    )
    yield Alert(
        name="LoraColdStartSlow",
        promise="cold-start",
        expr=_cold_start_slow(promises),
        for_=adapters.cold_for,
        summary=f"P99 of adapter loads is above {adapters.cold_ms} ms",
        description=(
            f"{{{{ $value | humanizePercentage }}}} of the adapter loads of the last {duration(adapters.cold_window)} "
            f"took longer than {adapters.cold_ms} ms; {percent(adapters.cold_share)} may."
        ),
        board=ROUTING,
    )

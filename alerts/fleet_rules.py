"""Rules about engines: alive, memory, KV blocks, warm pool, cold starts. No I/O."""

from __future__ import annotations

from alerts.expressions import above, duration, increase, percent, share, total
from alerts.links import FLEET, ROUTING
from alerts.model import Alert, Group
from alerts.promises import JOB, Promises
from telemetry import names


def warm_hit_share(promises: Promises) -> str:
    """Warm-pool hits / lookups over the window, from gateways that have run longer than it; no series below the guard."""
    adapters = promises.adapters
    window = duration(adapters.warm_window)
    fresh = f"unless on (job, instance) (time() - {names.PROCESS_START.name} < {adapters.warm_window})"
    hits = f"sum({increase(names.WARM_HITS.name, window)} {fresh})"
    lookups = f"sum({increase(names.WARM_LOOKUPS.name, window)} {fresh})"
    return share(hits, f"{lookups} >= {adapters.warm_min_lookups}")


def fleet_group(promises: Promises) -> Group:
    """Alerts about engines and their memory."""
    fleet = promises.fleet
    up = f'up{{job="{JOB}"}}'
    stuck = duration(fleet.stuck_window)
    return Group(
        "loraledger-fleet",
        (
            Alert(
                name="LoraGpuMemoryCritical",
                promise="memory",
                severity="critical",
                expr=f"{names.MEMORY_RATIO.name} > {fleet.memory_critical:f}",
                for_=fleet.memory_for,
                summary="GPU {{ $labels.gpu }} uses {{ $value | humanizePercentage }} of its memory budget",
                description=(
                    f"Weights, adapter slots and KV blocks of GPU {{{{ $labels.gpu }}}} ({{{{ $labels.instance }}}}) fill {{{{ $value | humanizePercentage }}}} "
                    f"of the engine's budget; {percent(fleet.band_low)} to {percent(fleet.band_high)} is healthy."
                ),
                board=FLEET,
            ),
            Alert(
                name="LoraKvPoolSaturated",
                promise="kv",
                severity="warning",
                expr=f"{names.KV_USED.name} / {names.KV_TOTAL.name} > {fleet.kv_saturated:f}",
                for_=fleet.kv_for,
                summary="KV pool of {{ $labels.instance }} is {{ $value | humanizePercentage }} full",
                description="Requests will be preempted and computed again; recompute time belongs to nobody and is paid by the provider.",
                board=FLEET,
            ),
            Alert(
                name="LoraEngineDown",
                promise="alive",
                severity="critical",
                expr=f"{names.ENGINE_UP.name} == 0",
                for_=fleet.engine_down_for,
                summary="Engine {{ $labels.engine }} does not answer",
                description="The gateway {{ $labels.instance }} cannot reach engine {{ $labels.engine }}; its rented time is booked as down.",
                board=FLEET,
            ),
            Alert(
                name="LoraTargetGone",
                promise="alive",
                severity="critical",
                expr=f"{up} == 0 or absent({up})",
                for_=fleet.target_gone_for,
                summary="No metrics from {{ if $labels.instance }}gateway {{ $labels.instance }}{{ else }}any gateway{{ end }}",
                description="Prometheus cannot scrape job {{ $labels.job }}: every other alert is blind there.",
                board=FLEET,
            ),
            Alert(
                name="LoraAttemptsStuck",
                promise="alive",
                severity="critical",
                expr=f"sum by (tenant) ({names.IN_FLIGHT.name}) > 0\nunless {total(names.REQUESTS, 'tenant', stuck)} > 0",
                for_=fleet.stuck_for,
                summary="Requests of tenant {{ $labels.tenant }} do not end",
                description=f"{{{{ $value | humanize }}}} attempts are open and none has ended in {stuck}.",
                board=FLEET,
            ),
        ),
    )


def adapter_group(promises: Promises) -> Group:
    """Alerts about adapters being where they are needed."""
    adapters = promises.adapters
    hist, window = names.COLD_START_MS_HIST, duration(adapters.cold_window)
    slow = above(hist, adapters.cold_ms, "", window)
    loads = f"{total(hist, '', window)} >= {adapters.cold_min_loads}"
    return Group(
        "loraledger-adapters",
        (
            Alert(
                name="LoraWarmPoolHitRateLow",
                promise="warm-pool",
                severity="warning",
                expr=f"{warm_hit_share(promises)} < {adapters.warm_hit_low:f}",
                for_=adapters.warm_for,
                summary="Warm pool hits only {{ $value | humanizePercentage }}",
                description=f"Requests for warm adapters found them resident less often than {percent(adapters.warm_hit_low)} of the time over {duration(adapters.warm_window)}.",
                board=ROUTING,
            ),
            Alert(
                name="LoraColdStartSlow",
                promise="cold-start",
                severity="warning",
                expr=(f"{share(slow, loads)} > {adapters.cold_share:f}\nand round({slow}) >= {adapters.cold_min_slow}"),
                for_=adapters.cold_for,
                summary=f"P99 of adapter loads is above {adapters.cold_ms} ms",
                description=f"{{{{ $value | humanizePercentage }}}} of the adapter loads of the last {window} took longer than {adapters.cold_ms} ms; {percent(adapters.cold_share)} may.",
                board=ROUTING,
            ),
        ),
    )

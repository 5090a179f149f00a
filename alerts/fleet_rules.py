"""Rules about engines: alive, memory, KV blocks. No I/O."""

from __future__ import annotations

from typing import Final

from alerts.expressions import duration, increase, percent, total
from alerts.links import FLEET
from alerts.promises import JOB
from alerts.rows import AlertRow, GroupRows
from telemetry import names

_UP: Final = f'up{{job="{JOB}"}}'

FLEET_RULES: Final = GroupRows(
    "loraledger-fleet",
    (
        AlertRow(
            name="LoraGpuMemoryCritical",
            promise="memory",
            severity="critical",
            expr=lambda p: f"{names.MEMORY_RATIO.name} > {p.fleet.memory_critical:f}",
            for_=lambda p: p.fleet.memory_for,
            summary="GPU {{ $labels.gpu }} uses {{ $value | humanizePercentage }} of its memory budget",
            description=lambda p: (
                "Weights, adapter slots and KV blocks of GPU {{ $labels.gpu }} ({{ $labels.instance }}) fill {{ $value | humanizePercentage }} "
                f"of the engine's budget; {percent(p.fleet.band_low)} to {percent(p.fleet.band_high)} is healthy."
            ),
            board=FLEET,
        ),
        AlertRow(
            name="LoraKvPoolSaturated",
            promise="kv",
            severity="warning",
            expr=lambda p: f"{names.KV_USED.name} / {names.KV_TOTAL.name} > {p.fleet.kv_saturated:f}",
            for_=lambda p: p.fleet.kv_for,
            summary="KV pool of {{ $labels.instance }} is {{ $value | humanizePercentage }} full",
            description="Requests will be preempted and computed again; recompute time belongs to nobody and is paid by the provider.",
            board=FLEET,
        ),
        AlertRow(
            name="LoraEngineDown",
            promise="alive",
            severity="critical",
            expr=f"{names.ENGINE_UP.name} == 0",
            for_=lambda p: p.fleet.engine_down_for,
            summary="Engine {{ $labels.engine }} does not answer",
            description="The gateway {{ $labels.instance }} cannot reach engine {{ $labels.engine }}; its rented time is booked as down.",
            board=FLEET,
        ),
        AlertRow(
            name="LoraCatalogRefused",
            promise="catalog",
            severity="warning",
            expr=f"{names.CATALOG_VALID.name} == 0",
            for_=lambda p: p.fleet.catalog_for,
            summary="Gateway {{ $labels.instance }} does not take the catalog's file",
            description="The file cannot be used, so the last good catalog holds: what was changed since is not in force.",
            board=FLEET,
        ),
        AlertRow(
            name="LoraEngineRestarted",
            promise="alive",
            severity="critical",
            expr=lambda p: f"{increase(names.ENGINE_RESTARTS.name, duration(p.fleet.restarts_window))} > 0",
            for_=0,
            summary="Engine {{ $labels.engine }} was lost and started again",
            description=lambda p: (
                "The gateway {{ $labels.instance }} started engine {{ $labels.engine }} again {{ $value | humanize }} times in "
                f"{duration(p.fleet.restarts_window)}. What was in it failed, and its adapters are loaded anew."
            ),
            board=FLEET,
        ),
        AlertRow(
            name="LoraTargetGone",
            promise="alive",
            severity="critical",
            expr=f"{_UP} == 0 or absent({_UP})",
            for_=lambda p: p.fleet.target_gone_for,
            summary="No metrics from {{ if $labels.instance }}gateway {{ $labels.instance }}{{ else }}any gateway{{ end }}",
            description="Prometheus cannot scrape job {{ $labels.job }}: every other alert is blind there.",
            board=FLEET,
        ),
        AlertRow(
            name="LoraAttemptsStuck",
            promise="alive",
            severity="critical",
            expr=lambda p: (
                f"sum by (tenant) ({names.IN_FLIGHT.name}) > 0\n"
                f"unless {total(names.REQUESTS, 'tenant', duration(p.fleet.stuck_window))} > 0"
            ),
            for_=lambda p: p.fleet.stuck_for,
            summary="Requests of tenant {{ $labels.tenant }} do not end",
            description=lambda p: (
                f"{{{{ $value | humanize }}}} attempts are open and none has ended in {duration(p.fleet.stuck_window)}."
            ),
            board=FLEET,
        ),
    ),
)

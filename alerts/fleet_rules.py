"""Rules about engines: alive, memory, KV blocks. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from alerts.expressions import duration, increase, percent, total
from alerts.links import FLEET
from alerts.model import Alert
from alerts.promises import JOB, Promises
from telemetry import names

_UP: Final = f'up{{job="{JOB}"}}'

_alert = partial(Alert, board=FLEET)


def memory_rules(promises: Promises) -> Iterator[Alert]:
    """How full an engine is."""
    fleet = promises.fleet
    yield _alert(
        name="LoraGpuMemoryCritical",
        promise="memory",
        severity="critical",
        expr=f"{names.MEMORY_RATIO.name} > {fleet.memory_critical:f}",
        for_=fleet.memory_for,
        summary="GPU {{ $labels.gpu }} uses {{ $value | humanizePercentage }} of its memory budget",
        description=(
            "Weights, adapter slots and KV blocks of GPU {{ $labels.gpu }} ({{ $labels.instance }}) fill {{ $value | humanizePercentage }} "
            f"of the engine's budget; {percent(fleet.band_low)} to {percent(fleet.band_high)} is healthy."
        ),
    )
    yield _alert(
        name="LoraKvPoolSaturated",
        promise="kv",
        expr=f"{names.KV_USED.name} / {names.KV_TOTAL.name} > {fleet.kv_saturated:f}",
        for_=fleet.kv_for,
        summary="KV pool of {{ $labels.instance }} is {{ $value | humanizePercentage }} full",
        description="Requests will be preempted and computed again; recompute time belongs to nobody and is paid by the provider.",
    )


def engine_rules(promises: Promises) -> Iterator[Alert]:
    """Whether engines and gateways are up and their requests end."""
    fleet = promises.fleet
    yield _alert(
        name="LoraEngineDown",
        promise="alive",
        severity="critical",
        expr=f"{names.ENGINE_UP.name} == 0",
        for_=fleet.engine_down_for,
        summary="Engine {{ $labels.engine }} does not answer",
        description="The gateway {{ $labels.instance }} cannot reach engine {{ $labels.engine }}; its rented time is booked as down.",
    )
    yield _alert(
        name="LoraCatalogRefused",
        promise="catalog",
        expr=f"{names.CATALOG_VALID.name} == 0",
        for_=fleet.catalog_for,
        summary="Gateway {{ $labels.instance }} does not take the catalog's file",
        description="The file cannot be used, so the last good catalog holds: what was changed since is not in force.",
    )
    yield _alert(
        name="LoraEngineRestarted",
        promise="alive",
        severity="critical",
        expr=f"{increase(names.ENGINE_RESTARTS.name, duration(fleet.restarts_window))} > 0",
        summary="Engine {{ $labels.engine }} was lost and started again",
        description=(
            "The gateway {{ $labels.instance }} started engine {{ $labels.engine }} again {{ $value | humanize }} times in "
            f"{duration(fleet.restarts_window)}. What was in it failed, and its adapters are loaded anew."
        ),
    )
    yield _alert(
        name="LoraTargetGone",
        promise="alive",
        severity="critical",
        expr=f"{_UP} == 0 or absent({_UP})",
        for_=fleet.target_gone_for,
        summary="No metrics from {{ if $labels.instance }}gateway {{ $labels.instance }}{{ else }}any gateway{{ end }}",
        description="Prometheus cannot scrape job {{ $labels.job }}: every other alert is blind there.",
    )
    yield _alert(
        name="LoraAttemptsStuck",
        promise="alive",
        severity="critical",
        expr=(
            f"sum by (tenant) ({names.IN_FLIGHT.name}) > 0\n"
            f"unless {total(names.REQUESTS, 'tenant', duration(fleet.stuck_window))} > 0"
        ),
        for_=fleet.stuck_for,
        summary="Requests of tenant {{ $labels.tenant }} do not end",
        description=f"{{{{ $value | humanize }}}} attempts are open and none has ended in {duration(fleet.stuck_window)}.",
    )

"""A gateway, its spool, the ledger and the figures that come back: one month's money, counted on both sides."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from billing.store.clickhouse import Ledger
from billing.store.cost.engine_time import write_engine_time
from billing.store.cost.tenant_cost import write_tenant_cost
from billing.store.finance import month_window, publish_snapshot
from billing.store.intake.ingest import ingest
from billing.store.intake.usage import book_spans
from catalog.model import Catalog, Tenant
from catalog.months import to_datetime
from telemetry.engine_time import EngineSession, SessionEvent
from telemetry.names import EventName
from telemetry.otlp_encode import event_line

Run = Callable[..., None]
Ask = Callable[..., dict[str, Any]]
BY_TOKEN = '{kind: per_token, input: "3", cached_input: "1", output: "250000"}'
BY_TIME = '{kind: cost_plus, margin: "0.25"}'


class Sides:
    """The gateway's side and the ledger's. The meter's windows go into the gateway's spool, as the collector's do."""

    def __init__(self, bench: Any, ledger: Ledger) -> None:
        self.bench, self.ledger = bench, ledger
        self.catalog: Catalog = bench.source.view.catalog
        start_ns = bench.clock.utc_ns()
        session = EngineSession("eng-fake", 0, "fake-0", "run-1", SessionEvent.STARTED, start_ns, "demo", 1)
        bench.spool.append(event_line(EventName.SESSION, session.to_json(), start_ns, {}, "eng-fake", 0))

    def meter(self) -> None:
        """The collector passes by."""
        for window in self.bench.engine.windows():
            line = event_line(EventName.WINDOW, window.to_json(), window.end_ns, {}, window.emitter, window.seq)
            self.bench.spool.append(line)

    def publish(self) -> None:
        now = to_datetime(self.bench.clock.utc_ns())
        window = month_window("2026-09", self.catalog)
        ingest(self.ledger, [self.bench.directory / "spool"], self.catalog, now)
        book_spans(self.ledger, *window, self.catalog, now)
        write_engine_time(self.ledger, *window, self.catalog, now)
        write_tenant_cost(self.ledger, *window, self.catalog, now)
        publish_snapshot(self.ledger, self.catalog, self.bench.directory / "snapshot.json", now)

    def gateway(self, tenant: Tenant) -> Fraction:
        found: Fraction = self.bench.gateway.app.pages._services.quotas.spent(self.catalog, tenant)
        return found

    def charged(self, tenant: Tenant, what: str = "sum(revenue)") -> Fraction:
        asked = f"SELECT {what} FROM tenant_cost WHERE tenant = '{tenant.id}'"
        return Fraction(self.ledger.ask(asked).rows[0][0] or Decimal(0))


def test_what_the_gateway_counted_is_what_the_ledger_charges(
    run_bench: Run, ask: Ask, catalog_text: Callable[..., str], empty_ledger: Path, tmp_path: Path
) -> None:
    shutil.copytree(empty_ledger, tmp_path / "ledger", symlinks=True)
    # A price at which the last of twelve decimals of GPU-hours is far below what is compared.
    text = catalog_text(clinic='quotas: {monthly_budget: "100000"}').replace('per_hour: "1"', 'per_hour: "360000"')
    text = text.replace("{kind: cost_plus}", BY_TIME, 1).replace("{kind: cost_plus}", BY_TOKEN)
    text = text.replace("default_adapter: lingo", 'default_adapter: lingo\n    quotas: {monthly_budget: "100000"}')

    async def test(bench: Any) -> None:
        with Ledger.open(f"chdb://{tmp_path / 'ledger'}") as ledger:
            sides = Sides(bench, ledger)
            clinic, bank = sides.catalog.tenants
            for round_ in range(3):
                bench.engine.switches.faults += ["error"] if round_ == 1 else []
                calls = [
                    bench.post(
                        ask(
                            f"{'word ' * (8 * n)} {round_}",
                            max_tokens=3 + n,
                            stream=n % 2 == 0,
                            model=("lingo", "coder", "tiny-llama")[n % 3],
                        ),
                        "clinic" if n % 3 else "bank",
                    )
                    for n in range(12)
                ]
                await asyncio.gather(*calls)
                bench.clock.advance(7 * 60 * 10**9)
                sides.meter()
                while bench.spool.held_bytes:
                    await asyncio.sleep(0.001)
                mine = {tenant.id: sides.gateway(tenant) for tenant in (clinic, bank)}
                cold = {
                    tenant.id: sides.charged(tenant, "sumIf(revenue, status = 'cold')") for tenant in (clinic, bank)
                }
                sides.publish()
                for tenant in (clinic, bank):
                    ledger_has = sides.charged(tenant)
                    assert sides.gateway(tenant) == ledger_has > 0
                    only_ledger = sides.charged(tenant, "sumIf(revenue, status = 'cold')") - cold[tenant.id]
                    assert abs(ledger_has - mine[tenant.id] - only_ledger) < Fraction(1, 10**5)
            assert sides.charged(clinic, "sumIf(revenue, status = 'cold')") > 1, "what only the ledger knows"
            assert sides.gateway(bank) == mine["bank"], "tokens are the same on both sides, to the last digit"
            assert len({record.status for record in bench.records()}) == 2
            assert bench.gateway.app.pages._services.quotas.written_off == 0

    run_bench(test, catalog=text)

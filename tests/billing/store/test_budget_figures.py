"""What the ledger publishes for budgets, as a gateway reads it: its own counter and the ledger's are the same money."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from billing.store.clickhouse import Ledger
from billing.store.cost.engine_time import write_engine_time
from billing.store.cost.tenant_cost import write_tenant_cost
from billing.store.finance import month_window, publish_snapshot
from billing.store.intake.ingest import ingest
from billing.store.intake.usage import book_lost, book_spans
from catalog.durations import QUARTER_NS
from catalog.model import Catalog
from serving.policy.budgets import Account, Published
from serving.policy.charges import Terms, charge
from telemetry.engine_time import SessionEvent
from telemetry.ledger_snapshot import LedgerSnapshot
from telemetry.usage import Slice, Status, UsageRecord

S = 1_000_000_000
DUST = Fraction(3600, 10**12)
"""What dealing an engine-hour's GPU-hours in steps of 10^-12 moves between rows, at the example's price."""


@pytest.fixture
def budgeted(example: Catalog) -> Catalog:
    """The example with a budget for one tenant that pays by time, the clinic; campus, by token, has one."""
    declared = example.model_dump(mode="json")
    for tenant in declared["tenants"]:
        if tenant["id"] == "clinic":
            tenant["quotas"] |= {"monthly_budget": "1000"}
    return Catalog.model_validate(declared)


class Books:
    """A ledger that takes a spool and publishes."""

    def __init__(self, ledger: Ledger, catalog: Catalog, traffic: Any, directory: Path) -> None:
        self.ledger, self.catalog, self.traffic, self.directory = ledger, catalog, traffic, directory
        self.now = datetime(2026, 10, 5, 11, tzinfo=UTC)
        self.window = month_window("2026-10", catalog)

    def take(self) -> None:
        """A minute later: everything new is ingested, and its records booked."""
        self.now += timedelta(minutes=1)
        ingest(self.ledger, [self.traffic.write(self.directory / "spool")], self.catalog, self.now)
        book_spans(self.ledger, *self.window, self.catalog, self.now)

    def derive(self) -> None:
        write_engine_time(self.ledger, *self.window, self.catalog, self.now)
        write_tenant_cost(self.ledger, *self.window, self.catalog, self.now)

    def publish(self) -> LedgerSnapshot:
        path = self.directory / "snapshot.json"
        publish_snapshot(self.ledger, self.catalog, path, self.now)
        return LedgerSnapshot.from_json(path.read_text())


@pytest.fixture
def books(ledger: Ledger, budgeted: Catalog, traffic: Any, tmp_path: Path) -> Books:
    return Books(ledger, budgeted, traffic, tmp_path)


def terms(catalog: Catalog, tenant_id: str) -> Terms:
    tenant, engine = catalog.tenant(tenant_id), catalog.engine("cpu-0")
    assert tenant is not None
    return Terms.on(engine, Decimal(1000), tenant, catalog.price_books)


def published(snapshot: LedgerSnapshot, tenant: str, emitter: str) -> Published:
    assert snapshot.charged_until is not None
    at_ns = int(snapshot.charged_until.timestamp()) * S
    month = snapshot.tenants[tenant].month
    assert month is not None
    return Published(at_ns, month, Fraction(charged(snapshot, tenant)), snapshot.counted.get(emitter, ()))


def charged(snapshot: LedgerSnapshot, tenant: str) -> Decimal:
    amount = snapshot.tenants[tenant].charged
    assert amount is not None
    return amount


def test_the_gateways_counter_is_the_ledgers(books: Books, ns: Callable[..., int]) -> None:
    t0, traffic = ns(2026, 10, 5, 10, 44, 30), books.traffic
    traffic.session(SessionEvent.STARTED, t0)
    ways = [Status.OK, Status.OK, Status.CLIENT_ABORT, Status.SERVER_ERROR, Status.BAD_REQUEST]
    served: list[UsageRecord] = []
    for n in range(60):  # over a quarter hour's edge
        tenant, adapter = [("clinic", "icd10-coder"), ("campus", None), ("bank", "ledger-lingo")][n % 3]
        served.append(
            traffic.serve(
                tenant, t0 + n * S, 10**8 + 7 * n, 10**6 + n if adapter else 0, adapter=adapter, status=ways[n % 5],
                tokens=(100 + n, n, 7 * n), saved=(5, 0), recompute_ns=n,
            )
        )  # fmt: skip
    traffic.session(SessionEvent.STOPPED, t0 + 61 * S)
    books.take()
    books.derive()
    snapshot = books.publish()

    assert snapshot.counted == {traffic.gateway: ((0, 59),)}
    assert snapshot.tenants["clinic"].month == "2026-10"
    assert snapshot.charged_until == datetime(2026, 10, 5, 11, tzinfo=UTC)
    for tenant in ("clinic", "campus"):
        account, agreed = Account(), terms(books.catalog, tenant)
        mine = [record for record in served if record.tenant == tenant]
        for record in mine:
            account.settle(agreed, record.seq, record, record.finished_ns or 0)
        now_ns = t0 + 600 * S
        own = account.spent(agreed, now_ns, 0)
        assert own == sum(amount for record in mine for amount in (charge(agreed, record) or {}).values()) > 0
        assert abs(own - Fraction(charged(snapshot, tenant))) <= (DUST * 10 if tenant == "clinic" else 0)
        account.learn(published(snapshot, tenant, traffic.gateway))
        assert account.spent(agreed, now_ns, 0) == Fraction(charged(snapshot, tenant))
        assert account.written_off == 0


def test_an_attempt_counts_once_its_charge_is_in_the_figures(books: Books, ns: Callable[..., int]) -> None:
    t0, traffic = ns(2026, 10, 5, 10, 59), books.traffic
    traffic.session(SessionEvent.STARTED, t0)
    traffic.serve("clinic", t0, 10**8)
    running = traffic.open("campus", t0 + S)
    early = [traffic.open(tenant, t0 + S) for tenant in ("clinic", "campus")]
    for record in early:  # their records are there, the meter's window is not yet
        slices = (Slice(t0 - t0 % QUARTER_NS, 10**8, 0, 0),)
        traffic.close(
            replace(
                record, finished_ns=t0 + 2 * S, status=Status.OK, slices=slices, gpu_type="demo-cpu", gpu_count=1,
                output_tokens_delivered=1000, output_tokens_computed=1000, input_tokens=10, cached_tokens=0,
            )
        )  # fmt: skip
    refused = traffic.open("clinic", t0 + 3 * S, engine=None)
    traffic.close(replace(refused, status=Status.REJECTED, finished_ns=t0 + 3 * S, slices=()))
    lost = traffic.open("campus", t0 - 86_000 * S)
    books.take()
    assert book_lost(books.ledger, [], books.catalog, books.now) in (0, 1)
    books.derive()
    assert (running.seq, early[0].seq, early[1].seq, refused.seq, lost.seq) == (1, 2, 3, 4, 5)
    first = books.publish()
    assert first.counted == {traffic.gateway: ((0, 0), (3, 4))}
    assert charged(first, "campus") > 4

    traffic.window(t0 + S, t0 + 2 * S, tuple(traffic.share(record, 10**8) for record in early))
    late = traffic.serve("campus", t0 + 4 * S, 10**8)
    traffic.close(replace(running, finished_ns=t0 + 5 * S, status=Status.OK, slices=(), output_tokens_delivered=1000))
    books.take()
    assert books.publish().counted == first.counted, "booked, and not yet in the costs"
    books.derive()
    second = books.publish()
    assert second.counted == {traffic.gateway: ((0, 4), (late.seq, late.seq))}
    assert charged(second, "clinic") == charged(first, "clinic") * 2
    assert charged(second, "campus") > charged(first, "campus") + 4


def test_without_budgets_no_attempts_are_listed(ledger: Ledger, example: Catalog, tmp_path: Path) -> None:
    declared = example.model_dump(mode="json")
    for tenant in declared["tenants"]:
        tenant["quotas"] = {}
    at = datetime(2026, 10, 31, 19, tzinfo=UTC)
    publish_snapshot(ledger, Catalog.model_validate(declared), tmp_path / "snapshot.json", at)
    snapshot = LedgerSnapshot.from_json((tmp_path / "snapshot.json").read_text())
    assert snapshot.counted == {}
    assert (snapshot.tenants["clinic"].month, snapshot.tenants["forge"].month) == ("2026-10", "2026-11"), (
        "it is November in Kolkata"
    )
    assert {row.charged for row in snapshot.tenants.values()} == {Decimal(0)}
    assert snapshot.charged_until == datetime(1970, 1, 1, tzinfo=UTC), "nothing is derived, so nothing is late"

"""Engine time that the meter and the record, or the catalog, do not agree on is charged to nobody, and names whom it may be of."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from billing.close.blocks import Kind
from billing.store.clickhouse import Ledger
from billing.store.close.blocks import open_blocks
from billing.store.cost.engine_time import write_engine_time
from billing.store.cost.tenant_cost import write_tenant_cost
from billing.store.finance import month_window
from billing.store.intake.ingest import ingest
from billing.store.intake.quarantine import listed, release
from billing.store.intake.usage import book_spans
from catalog.model import Catalog
from telemetry.engine_time import SessionEvent, Share
from telemetry.usage import Status

S = 1_000_000_000
ROWS = (
    "SELECT tenant, sum(requests), sum(measured_ns), sum(revenue) != 0 FROM tenant_cost GROUP BY tenant ORDER BY tenant"
)


class Books:
    """One engine, one attempt of the bank (`per_token`) of which the meter may say something else."""

    def __init__(self, ledger: Ledger, traffic: Any, catalog: Catalog, directory: Path, now: datetime, t0: int) -> None:
        self.ledger, self.traffic, self.catalog, self.directory, self.now, self.t0 = (
            ledger,
            traffic,
            catalog,
            directory,
            now,
            t0,
        )
        self.window = month_window("2026-10", catalog)
        traffic.session(SessionEvent.STARTED, t0)

    def serve(self, *shares: Callable[[Share], Share]) -> None:
        opened = self.traffic.open("bank", self.t0)
        own = self.traffic.share(opened, 400_000_000 // len(shares))
        self.traffic.window(self.t0, self.t0 + S, tuple(change(own) for change in shares))
        self.traffic.close(replace(opened, finished_ns=self.t0 + S, status=Status.OK, input_tokens=100, cached_tokens=0, output_tokens_computed=9, output_tokens_delivered=9, slices=None))  # fmt: skip

    def derive(self) -> None:
        self.now += timedelta(seconds=1)
        ingest(self.ledger, [self.traffic.write(self.directory)], self.catalog, self.now)
        book_spans(self.ledger, *self.window, self.catalog, self.now)
        write_engine_time(self.ledger, *self.window, self.catalog, self.now)
        derived = write_tenant_cost(self.ledger, *self.window, self.catalog, self.now)
        assert derived.faults == ()

    def rows(self) -> list[Any]:
        return self.ledger.ask(ROWS).rows

    def blocked(self) -> list[tuple[str, ...]]:
        found = open_blocks(self.ledger, *self.window, self.catalog, self.now)
        return [block.tenants for block in found if block.kind is Kind.QUARANTINE]


@pytest.fixture
def books(
    ledger: Ledger, traffic: Any, example: Catalog, tmp_path: Path, now: datetime, ns: Callable[..., int]
) -> Books:
    return Books(ledger, traffic, example, tmp_path, now, ns(2026, 10, 5, 10))


def as_of(tenant: str, adapter: str | None = None) -> Callable[[Share], Share]:
    return lambda share: replace(share, tenant=tenant, adapter=adapter)


@pytest.mark.parametrize(
    ("shares", "reason", "touched"),
    [
        pytest.param([as_of("clinic")], "the meter gives time to 'clinic': the record says 'bank'", ("bank", "clinic"), id="another tenant than the record"),
        pytest.param([as_of("bank"), as_of("clinic")], "the meter gives time to 'bank' and 'clinic': the record says 'bank'", ("bank", "clinic"), id="two tenants in one attempt"),
        pytest.param([as_of("ghost")], "the meter gives time to 'ghost': tenant 'ghost' is not in the catalog; the record says 'bank'", ("bank",), id="a tenant whom nobody knows"),
        pytest.param([as_of("unknown")], "the meter gives time to 'unknown': the record says 'bank'", ("bank",), id="nobody's, but there is a record"),
        pytest.param([as_of("bank", "ghost@ab12")], "the meter gives time to 'bank': adapter 'ghost' is not in the catalog", ("bank",), id="an adapter that nobody knows"),
    ],
)  # fmt: skip
def test_disputed_time_waits_under_both_names_and_is_charged_to_nobody(
    books: Books, shares: list[Callable[[Share], Share]], reason: str, touched: tuple[str, ...]
) -> None:
    books.serve(*shares)
    books.derive()
    (entry,) = listed(books.ledger)
    assert (entry.kind, entry.reason, entry.emitter, entry.seq) == ("share", reason, books.traffic.gateway, 0)
    assert books.rows() == [("unknown", 1, 400_000_000, False)]
    assert books.blocked() == [touched]
    books.derive()
    assert [one.id for one in listed(books.ledger, resolved=True)] == [entry.id]

    release(books.ledger, [entry.id], "nobody can tell", books.now)
    books.derive()
    assert (books.rows(), books.blocked()) == ([("unknown", 1, 400_000_000, False)], [])


def test_what_came_past_the_gateway_is_nobodys_and_no_dispute(books: Books) -> None:
    share = Share("chatcmpl-1", "unknown", "whatever", 400_000_000, 0, 0, 1, 1)
    books.traffic.window(books.t0, books.t0 + S, (share,))
    books.derive()
    assert listed(books.ledger) == []
    assert books.rows() == [("unknown", 0, 400_000_000, False)]


def test_a_dispute_ends_when_the_catalog_knows_the_adapter_also_if_it_forgets_it_later(
    books: Books, example: Catalog
) -> None:
    books.serve(as_of("bank", "newcomer"))
    books.derive()
    declared = example.model_dump(mode="json")
    declared["adapters"].append(declared["adapters"][0] | {"name": "newcomer", "owner": "bank"})
    for catalog in (Catalog.model_validate(declared), example):
        books.catalog = catalog
        books.derive()
        assert listed(books.ledger) == []
        assert books.rows() == [("bank", 1, 400_000_000, True)]

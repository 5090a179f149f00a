from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from billing.store.clickhouse import Ledger
from billing.store.cost.engine_time import read_engine_minutes, write_cold_starts, write_engine_time
from billing.store.cost.tenant_cost import write_tenant_cost
from billing.store.finance import reconciliation
from billing.store.intake.ingest import ingest
from billing.store.intake.usage import book_lost, book_spans
from catalog.load import parse
from catalog.model import Catalog
from telemetry.engine_time import SessionEvent
from telemetry.usage import Status

S = 1_000_000_000
MINUTE = 60 * S
HOUR = 3600 * S


class Derive:
    """Ingests what a gateway wrote and derives everything of a stretch of time."""

    def __init__(self, ledger: Ledger, traffic: Any, catalog: Catalog, directory: Path) -> None:
        self.ledger, self.traffic, self.catalog, self.directory, self.files = ledger, traffic, catalog, directory, 0

    def __call__(self, start_ns: int, end_ns: int, now: datetime) -> int:
        """How many rows of engine time and cost changed."""
        self.files += 1
        ingest(self.ledger, [self.traffic.write(self.directory, f"{self.files}.jsonl")], self.catalog, now)
        book_spans(self.ledger, start_ns, end_ns, self.catalog, now)
        book_lost(self.ledger, [], self.catalog, now)
        changed = write_engine_time(self.ledger, start_ns, end_ns, self.catalog, now).changed
        write_cold_starts(self.ledger, start_ns, end_ns, now)
        return changed + write_tenant_cost(self.ledger, start_ns, end_ns, self.catalog, now).changed


@pytest.fixture
def derive(ledger: Ledger, traffic: Any, example: Catalog, tmp_path: Path) -> Derive:
    return Derive(ledger, traffic, example, tmp_path)


def busy_hour(traffic: Any, t0: int) -> None:
    """Three tenants, a cold load, recompute, an abort, a rejection, an attempt that never closes, and an hour cut at both ends."""
    traffic.session(SessionEvent.STARTED, t0 + 3 * S)
    traffic.serve(
        "clinic",
        t0 + 10 * S,
        300_000_001,
        50_000_000,
        adapter="icd10-coder",
        cold_ns=7_000_003,
        system_ns=11,
        saved=(5, 3),
    )
    traffic.serve("campus", t0 + 11 * S, 400_000_001, recompute_ns=5, status=Status.CLIENT_ABORT)
    traffic.idle(t0 + 12 * S, t0 + 14 * MINUTE)
    lost = traffic.open("bank", t0 + 14 * MINUTE, "ledger-lingo")
    traffic.window(t0 + 14 * MINUTE, t0 + 15 * MINUTE, (traffic.share(lost, 17 * S, 1),))
    traffic.window(t0 + 15 * MINUTE, t0 + 15 * MINUTE + S, (traffic.share(lost, 600_000_000, 1),))
    refused = traffic.open("bank", t0 + 16 * MINUTE, engine=None)
    traffic.close(replace(refused, status=Status.REJECTED, finished_ns=t0 + 16 * MINUTE + 5, slices=()))
    traffic.session(SessionEvent.STOPPED, t0 + 20 * MINUTE)


def test_every_nanosecond_and_every_cent_of_an_hour_has_an_owner(
    derive: Derive, traffic: Any, ns: Callable[..., int], now: datetime
) -> None:
    t0 = ns(2026, 10, 5, 10)
    busy_hour(traffic, t0)
    derive(t0, t0 + HOUR, now)
    start = datetime(2026, 10, 5, 10, tzinfo=now.tzinfo)
    found = reconciliation(derive.ledger, start, start + timedelta(hours=1))
    found.check()
    assert found.rented_ns == 20 * MINUTE - 3 * S
    assert found.owners == {
        "tenants": 300_000_001 + 50_000_000 + 400_000_001 + 17 * S + 600_000_002,
        "cold": 7_000_003,
        "recompute": 5,
        "system": 11,
        "unattributed": 0,
        "down": 7 * S + 5 * MINUTE - S,
        "idle": found.rented_ns - sum(found.owners[owner] for owner in found.owners if owner != "idle"),
    }
    assert (found.uneven_attempts, found.record_difference_ns, found.unmeasured_attempts) == (0, 0, 0)
    assert derive.ledger.ask("SELECT missing_ns, missing_cost FROM finance_reconciliation").rows == [(0, 0)]
    assert (
        derive.ledger.ask("SELECT sum(cost) FROM engine_cost").rows
        == derive.ledger.ask("SELECT sum(rented_cost) FROM finance_reconciliation").rows
    )
    for minute in read_engine_minutes(derive.ledger, t0, t0 + HOUR):
        minute.check()


def test_attempts_of_nobody_known_count_as_many_as_their_record_stands_for(
    derive: Derive, traffic: Any, ns: Callable[..., int], now: datetime
) -> None:
    t0 = ns(2026, 10, 5, 10)
    for tries, tenant in ((1, "unauthenticated"), (57, "unauthenticated"), (2, "campus")):
        opened = traffic.open(tenant, t0, engine=None)
        traffic.close(replace(opened, attempt=tries, status=Status.REJECTED, finished_ns=t0 + MINUTE, slices=()))
    derive(t0, t0 + HOUR, now)
    counted = derive.ledger.ask("SELECT tenant, sum(requests) FROM tenant_cost GROUP BY tenant ORDER BY tenant").rows
    assert counted == [("campus", 1), ("unauthenticated", 58)]


def test_rows_say_whose_time_it_was_by_quarter_adapter_and_status(
    derive: Derive, traffic: Any, ns: Callable[..., int], now: datetime
) -> None:
    t0 = ns(2026, 10, 5, 10)
    busy_hour(traffic, t0)
    derive(t0, t0 + HOUR, now)
    rows = derive.ledger.ask(
        "SELECT tenant, toMinute(quarter), adapter, engine, status, t_b_ns, t_a_ns, t_kv_ns, t_cold_ns, measured_ns, requests, output_tokens, unmeasured, charged_to "
        "FROM tenant_cost ORDER BY tenant, quarter, adapter, status"
    ).rows
    assert rows == [
        ("bank", 0, "ledger-lingo", "cpu-0", "lost", 17 * S, 1, 0, 0, 17 * S + 1, 1, 0, 1, "provider"),
        ("bank", 15, "base", "", "rejected", 0, 0, 0, 0, 0, 1, 0, 0, "provider"),
        ("bank", 15, "ledger-lingo", "cpu-0", "lost", 600_000_000, 1, 0, 0, 600_000_001, 0, 0, 0, "provider"),
        ("campus", 0, "base", "cpu-0", "client_abort", 400_000_001, 0, 0, 0, 400_000_001, 1, 10, 0, "tenant"),
        ("clinic", 0, "icd10-coder", "cpu-0", "cold", 0, 0, 0, 7_000_003, 7_000_003, 0, 0, 0, "tenant"),
        ("clinic", 0, "icd10-coder", "cpu-0", "ok", 300_000_006, 50_000_003, 8, 0, 350_000_001, 1, 10, 0, "tenant"),
    ]
    assert derive.ledger.ask("SELECT adapter, cause, engine_ns, fetch_ns FROM cold_starts").rows == [
        ("icd10-coder", "request", 7_000_003, None)
    ]


def test_deriving_again_changes_nothing_and_late_facts_replace_what_was_there(
    derive: Derive, traffic: Any, ns: Callable[..., int], now: datetime
) -> None:
    t0 = ns(2026, 10, 5, 10)
    traffic.session(SessionEvent.STARTED, t0)
    late = traffic.open("bank", t0, "ledger-lingo")
    traffic.window(t0, t0 + S, (traffic.share(late, 500, 5),))
    traffic.session(SessionEvent.STOPPED, t0 + 2 * S)
    assert derive(t0, t0 + HOUR, now) == 2
    assert derive(t0, t0 + HOUR, now) == 0
    traffic.close(
        replace(late, status=Status.OK, finished_ns=t0 + S, output_tokens_delivered=3, input_tokens=2, cached_tokens=0)
    )
    assert derive(t0, t0 + HOUR, now + timedelta(seconds=1)) == 2
    assert derive.ledger.ask("SELECT status, measured_ns, output_tokens FROM tenant_cost").rows == [("ok", 505, 3)]
    assert derive.ledger.ask("SELECT sum(deleted) FROM tenant_cost_versions").rows == [(1,)]


def test_hours_one_by_one_and_a_month_at_once_say_the_same(
    derive: Derive, traffic: Any, ns: Callable[..., int], now: datetime
) -> None:
    t0, month = ns(2026, 10, 5, 10), (ns(2026, 10, 1), ns(2026, 11, 1))
    traffic.session(SessionEvent.STARTED, t0)
    for hour in range(5):
        at = t0 + hour * HOUR
        traffic.serve("clinic", at, 100_000_007 + hour, adapter="icd10-coder", cold_ns=1001 + hour)
        traffic.serve("campus", at + S, 3)
        traffic.idle(at + 2 * S, at + HOUR)
    traffic.session(SessionEvent.STOPPED, t0 + 5 * HOUR)
    derive(*month, now)
    at_once = derive.ledger.ask("SELECT * FROM tenant_cost ORDER BY ALL").rows
    for hour in range(-1, 7):
        assert derive(t0 + hour * HOUR, t0 + (hour + 1) * HOUR, now + timedelta(seconds=1)) == 0
    assert derive.ledger.ask("SELECT * FROM tenant_cost ORDER BY ALL").rows == at_once
    assert len(at_once) == 15


DEARER = '{"gpu_type":"demo-cpu","start":"2026-10-15T12:00:00Z","per_hour":"7200.00"}'


@pytest.mark.parametrize("how", ["a second price in the book", "a new version of the book"])
def test_a_price_change_inside_the_month_counts_from_its_hour_on(
    ledger: Ledger,
    traffic: Any,
    example: Catalog,
    ns: Callable[..., int],
    now: datetime,
    tmp_path: Path,
    how: str,
) -> None:
    text = example.model_dump_json()
    if how == "a second price in the book":
        text = text.replace('"per_hour":"3600.00"}]', '"per_hour":"3600.00"},' + DEARER + "]")
    else:
        book = example.prices.model_dump_json()
        newer = example.prices.model_copy(
            update={"version": "v2", "effective_from": datetime(2026, 10, 15, 12, tzinfo=now.tzinfo)}
        )
        gpu_hours = newer.model_dump_json().replace('"per_hour":"3600.00"', '"per_hour":"7200.00"')
        text = text.replace(f'"prices":{book}', f'"prices":{gpu_hours}').replace(
            '"earlier_prices":[]', f'"earlier_prices":[{book}]'
        )
    derive = Derive(ledger, traffic, parse(text, "test"), tmp_path)
    noon = ns(2026, 10, 15, 12)
    traffic.session(SessionEvent.STARTED, noon - MINUTE)
    traffic.serve("campus", noon - S, 500_000_000)
    traffic.serve("campus", noon, 500_000_000)
    traffic.session(SessionEvent.STOPPED, noon + MINUTE)
    derive(noon - HOUR, noon + HOUR, now)
    assert ledger.ask("SELECT price, cost FROM tenant_cost ORDER BY quarter").rows == [
        (3600, Decimal("0.5000000004")),
        (7200, Decimal("1.0000000008")),
    ]


def test_a_gpu_type_without_a_price_leaves_its_hour_out_and_names_itself(
    derive: Derive, traffic: Any, ns: Callable[..., int], now: datetime
) -> None:
    t0 = ns(2026, 10, 5, 10)
    traffic.gpu_type = "h9"
    traffic.session(SessionEvent.STARTED, t0)
    traffic.window(t0, t0 + S)
    derive(t0, t0 + HOUR, now)
    (fault,) = write_tenant_cost(derive.ledger, t0, t0 + HOUR, derive.catalog, now).faults
    assert "no price for GPU type h9" in fault
    assert derive.ledger.ask("SELECT count() FROM engine_cost").rows == [(0,)]


def test_a_load_that_nobody_asked_for_belongs_to_the_provider(
    derive: Derive, traffic: Any, ns: Callable[..., int], now: datetime
) -> None:
    t0 = ns(2026, 10, 5, 10)
    traffic.session(SessionEvent.STARTED, t0)
    traffic.window(t0, t0 + S, cold={"brand-voice@0123abcd": 999})
    derive(t0, t0 + HOUR, now)
    assert derive.ledger.ask("SELECT tenant, adapter, status, cold_ns FROM tenant_cost").rows == [
        ("provider", "brand-voice", "cold", 999)
    ]


def test_time_measured_outside_the_rent_is_a_fault_and_nothing_of_that_engine_is_written(
    ledger: Ledger, traffic: Any, example: Catalog, ns: Callable[..., int], now: datetime, tmp_path: Path
) -> None:
    rent = '"rented":[{"start":"2026-10-05T11:00:00Z","until":"2026-10-06T00:00:00Z"}]'
    catalog = parse(example.model_dump_json().replace('"rented":"on_demand"', rent), "test")
    derive = Derive(ledger, traffic, catalog, tmp_path)
    t0 = ns(2026, 10, 5, 10)
    traffic.window(t0, t0 + S)
    derive(t0, t0 + HOUR, now)
    (fault,) = write_engine_time(ledger, t0, t0 + HOUR, catalog, now).faults
    assert "measured, 0 ns rented" in fault
    assert ledger.ask("SELECT count() FROM engine_time").rows == [(0,)]


def test_tenant_time_that_the_engine_minutes_do_not_have_leaves_the_hour_out(
    derive: Derive, traffic: Any, ns: Callable[..., int], now: datetime
) -> None:
    t0 = ns(2026, 10, 5, 10)
    busy_hour(traffic, t0)
    derive(t0, t0 + HOUR, now)
    derive.ledger.execute(
        "INSERT INTO engine_time_versions SELECT * REPLACE (version + 1 AS version, tenants_ns - 1 AS tenants_ns, idle_ns + 1 AS idle_ns) FROM engine_time_versions FINAL LIMIT 1",
        "tampering",
    )
    (fault,) = write_tenant_cost(derive.ledger, t0, t0 + HOUR, derive.catalog, now).faults
    assert "cpu-0" in fault
    assert derive.ledger.ask("SELECT count() FROM engine_cost").rows == [(0,)]


def test_billing_months_are_cut_in_the_tenants_time_zone(
    derive: Derive, traffic: Any, ns: Callable[..., int], now: datetime
) -> None:
    kolkata_midnight = ns(2026, 9, 30, 18, 30)
    traffic.session(SessionEvent.STARTED, kolkata_midnight - MINUTE)
    traffic.serve("forge", kolkata_midnight - S, 5)
    traffic.serve("forge", kolkata_midnight, 7)
    traffic.serve("campus", kolkata_midnight + S, 9)
    traffic.session(SessionEvent.STOPPED, kolkata_midnight + MINUTE)
    derive(kolkata_midnight - 30 * MINUTE, kolkata_midnight + 30 * MINUTE, now)
    rows = derive.ledger.ask("SELECT tenant, billing_month, base_ns FROM tenant_cost ORDER BY ALL").rows
    assert rows == [("campus", "2026-09", 9), ("forge", "2026-09", 5), ("forge", "2026-10", 7)]


@pytest.mark.parametrize("gap_s", [0, 5, 100, 1500])
def test_an_engine_that_goes_on_with_more_gpus_costs_what_each_of_them_did(
    derive: Derive, traffic: Any, ns: Callable[..., int], now: datetime, gap_s: int
) -> None:
    """10 s on one GPU and 10 s on two are 30 GPU-seconds, in one minute, one quarter hour or one hour."""
    t0 = ns(2026, 10, 5, 10, 20)
    traffic.session(SessionEvent.STARTED, t0)
    traffic.serve("clinic", t0, 10 * S, length_ns=10 * S)
    traffic.session(SessionEvent.STOPPED, t0 + 10 * S)
    t1 = t0 + (10 + gap_s) * S
    traffic.meter, traffic.gpu_count, traffic.sessions, traffic.windows = "meter-2", 2, 0, 0
    traffic.session(SessionEvent.STARTED, t1, "run-2")
    for start_ns in (t1, t1 + 6 * S):
        traffic.serve("clinic", start_ns, 4 * S, adapter="icd10-coder", length_ns=4 * S, cold_ns=0)
    traffic.window(t1 + 4 * S, t1 + 6 * S)
    traffic.session(SessionEvent.STOPPED, t1 + 10 * S, "run-2")
    hour = ns(2026, 10, 5, 10), ns(2026, 10, 5, 11)
    derive(*hour, now)

    start = datetime(2026, 10, 5, 10, tzinfo=now.tzinfo)
    found = reconciliation(derive.ledger, start, start + timedelta(hours=1))
    assert found.rented_ns == 30 * S
    found.check()
    price = derive.catalog.price_books[0].gpu_hours[0].per_hour
    ask = derive.ledger.ask
    assert round(sum_of(ask("SELECT cost FROM engine_cost")), 6) == price * 30 / 3600
    by_count = "SELECT gpu_count, sum(measured_ns) FROM tenant_cost GROUP BY 1 ORDER BY 1"
    assert ask(by_count).rows == [(1, 10 * S), (2, 8 * S)]
    assert ask("SELECT sum(requests) FROM tenant_cost").rows == [(3,)]
    assert round(sum_of(ask("SELECT cost FROM tenant_cost")), 6) == round(price * 26 / 3600, 6)
    assert ask("SELECT rented_gpu_ns, missing_ns, missing_cost FROM finance_reconciliation").rows == [(30 * S, 0, 0)]
    assert ask("SELECT sum(rented_ns * gpu_count) FROM engine_time").rows == [(30 * S,)]
    derive(*hour, now)
    assert ask("SELECT count() FROM engine_time").rows == [(2,)]


def sum_of(answer: Any) -> Decimal:
    return sum((row[0] for row in answer.rows), Decimal(0))

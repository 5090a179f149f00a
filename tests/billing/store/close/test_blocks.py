"""What is missing or cannot be trusted keeps those from an invoice whom it touches, and nobody else; and the provider can take it on."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from billing.close.blocks import Block, Kind
from billing.close.month import Closed
from billing.errors import AcceptanceInvalid
from billing.store.catalog_history import remember_catalog
from billing.store.clickhouse import Ledger
from billing.store.cost.engine_time import engine_lives, write_engine_time
from billing.store.cost.tenant_cost import write_tenant_cost
from billing.store.errors import CloseRefused, GapMissing
from billing.store.finance import month_window
from billing.store.intake.ingest import ingest
from billing.store.intake.quarantine import listed, release
from billing.store.intake.usage import book_lost, book_spans
from billing.store.invoice.invoices import close_month, take_on
from billing.store.invoice.verify import verify
from catalog.load import parse
from catalog.model import Catalog
from telemetry.engine_time import EngineCounters, SessionEvent
from telemetry.names import EventName
from telemetry.usage import Slice, Status, UsageRecord

S = 1_000_000_000
MINUTE = 60 * S
MONTH = "2026-10"
METER = dict.fromkeys(
    [f"{kind}{name}" for kind in ("", "aborted_", "in_flight_", "claimed_", "again_") for name in ("prompt_tokens", "output_tokens")]
    + ["preemptions", "aborted_requests", "in_flight_requests"],
    0,
)  # fmt: skip


@pytest.fixture
def two(example: Catalog) -> Catalog:
    """The example with a second engine, of a kind of GPU that has no price."""
    declared = example.model_dump(mode="json")
    declared["engines"].append(declared["engines"][0] | {"id": "cpu-1", "gpu_type": "h9"})
    return Catalog.model_validate(declared)


class Month:
    """October on two engines: the clinic and the campus on cpu-0, the shop `freeride` and the bank on cpu-1."""

    def __init__(self, ledger: Ledger, traffic: Any, catalog: Catalog, directory: Path, now: datetime, t0: int) -> None:
        self.ledger, self.traffic, self.catalog, self.directory, self.now = ledger, traffic, catalog, directory, now
        self.t0, self.files = t0, 0

    def on(self, engine: str, meter: str, gpu_type: str = "demo-cpu") -> Any:
        """Traffic from here on is of that engine."""
        self.traffic.engine, self.traffic.meter, self.traffic.gpu_type = engine, meter, gpu_type
        self.traffic.windows = self.traffic.sessions = self.traffic.loads = 0
        self.traffic.session(SessionEvent.STARTED, self.t0, meter)
        return self.traffic

    def serve(self, tenant: str, rank: int, engine: str = "cpu-0") -> Any:
        """An attempt of a tenant, whole; its lines, last the window and the span."""
        opened = self.traffic.open(tenant, self.t0 + rank * S, engine=engine)
        self.traffic.window(self.t0 + rank * S, self.t0 + (rank + 1) * S, (self.traffic.share(opened, 400_000_000),))
        start_ns = self.t0 + rank * S
        part = Slice(start_ns - start_ns % (15 * MINUTE), 400_000_000, 0, 0, 0, 0)
        return self.traffic.close(
            replace(
                opened, finished_ns=start_ns + S, status=Status.OK, input_tokens=100, cached_tokens=0, output_tokens_computed=10,
                output_tokens_delivered=10, gpu_type=self.traffic.gpu_type, gpu_count=1, slices=(part,), method="engine-step/1", profile="01",
            )
        )  # fmt: skip

    def counters(self, prompt_tokens: int, output_tokens: int) -> None:
        """The engine's last word; its meter agrees with it, and all of it was claimed."""
        meter = METER | {"prompt_tokens": prompt_tokens, "output_tokens": output_tokens}
        meter |= {"claimed_prompt_tokens": prompt_tokens, "claimed_output_tokens": output_tokens}
        value = EngineCounters(
            self.traffic.meter, 0, self.traffic.engine, self.t0, self.t0 + MINUTE, True, prompt_tokens, output_tokens, 0, {}, meter
        )  # fmt: skip
        self.traffic.event(EventName.COUNTERS, value, self.t0 + MINUTE)

    def derive(self) -> None:
        """Take what was written and derive the month."""
        self.files += 1
        ingest(self.ledger, [self.traffic.write(self.directory, f"{self.files}.jsonl")], self.catalog, self.now)
        window = month_window(MONTH, self.catalog)
        book_spans(self.ledger, *window, self.catalog, self.now)
        book_lost(self.ledger, engine_lives(self.ledger, *window, self.catalog), self.catalog, self.now)
        write_engine_time(self.ledger, *window, self.catalog, self.now)
        write_tenant_cost(self.ledger, *window, self.catalog, self.now)

    def close(self) -> Closed:
        """Close it, a second later each time."""
        self.now += timedelta(seconds=1)
        return close_month(self.ledger, MONTH, self.catalog, self.now)

    def take_on(self, *gaps: str, reason: str = "engine log of 5 October") -> Any:
        """Accept gaps."""
        self.now += timedelta(seconds=1)
        return take_on(self.ledger, MONTH, gaps, self.catalog, reason, "ada", self.now)

    def ask(self, sql: str) -> list[Any]:
        return self.ledger.ask(sql).rows


@pytest.fixture
def october(ledger: Ledger, traffic: Any, two: Catalog, ns: Callable[..., int], now: datetime, tmp_path: Path) -> Month:
    return Month(ledger, traffic, two, tmp_path, now, ns(2026, 10, 5, 10))


def numbers(closed: Closed) -> list[tuple[str, str | None]]:
    return [(invoice.tenant, invoice.number) for invoice in closed.invoices]


def found(closed: Closed) -> dict[str, set[Kind]]:
    return {tenant: {block.kind for block in blocks} for tenant, blocks in closed.blocked.items()}


def only(closed: Closed, kind: Kind) -> Block:
    (block,) = (block for block in closed.blocks if block.kind is kind)
    return block


def test_a_counter_gap_blocks_its_engine_alone_until_the_provider_takes_it_on(october: Month) -> None:
    october.catalog = priced(october.catalog)
    october.on("cpu-0", "run-0")
    october.serve("clinic", 1)
    october.serve("campus", 2)
    october.counters(prompt_tokens=207, output_tokens=20)
    october.on("cpu-1", "run-1", "h9")
    october.serve("freeride", 5, "cpu-1")
    october.counters(prompt_tokens=100, output_tokens=10)
    october.derive()

    closed = october.close()
    assert numbers(closed) == [("freeride", "LL-2026-0001")]
    assert found(closed) == {"campus": {Kind.COUNTERS}, "clinic": {Kind.COUNTERS}}
    gap = only(closed, Kind.COUNTERS)
    assert (gap.tokens, gap.engine, gap.emitter) == (7, "cpu-0", "run-0")
    assert gap.cost
    assert f"--accept-gap {gap.id}" in gap.advice
    assert october.ask("SELECT status, documents FROM billing_periods") == [("partly closed", 1)]
    assert october.ask("SELECT id, waiting FROM billing_blocks FINAL") == [(gap.id, ["campus", "clinic"])]
    assert october.ask("SELECT tenant, status FROM invoices ORDER BY 1") == [
        ("campus", "draft"), ("clinic", "draft"), ("freeride", "issued"),
    ]  # fmt: skip
    assert only(october.close(), Kind.COUNTERS).id == gap.id, "the same gap has the same name"
    assert numbers(october.close()) == [("freeride", "LL-2026-0001")]

    with pytest.raises(GapMissing, match="no open gap has that id"):
        october.take_on("nothing")
    with pytest.raises(AcceptanceInvalid, match="the reason is empty"):
        october.take_on(gap.id, reason=" ")
    (accepted,) = october.take_on(gap.id[:6])
    assert october.take_on(gap.id) == [], "once"
    assert (accepted.gap, accepted.cost, accepted.tenants) == (gap.id, gap.cost, ("campus", "clinic"))
    closed = october.close()
    assert numbers(closed) == [("freeride", "LL-2026-0001"), ("campus", "LL-2026-0002"), ("clinic", "LL-2026-0003")]
    assert (closed.blocked, closed.blocks) == ({}, [])
    assert october.ask("SELECT status, documents FROM billing_periods") == [("closed", 3)]
    assert october.ask("SELECT count() FROM billing_blocks FINAL") == [(0,)]
    assert verify(october.ledger, files=True).faults == []
    posted = "SELECT account, tenant, item, debit, credit FROM postings WHERE kind = 'acceptance' ORDER BY entry"
    rounded = Decimal(gap.cost).quantize(Decimal("0.01"))
    assert october.ask(posted) == [
        ("carried", "provider", "counters", rounded, 0),
        ("unbilled", "provider", "counters", 0, rounded),
    ]
    carried = october.ask("SELECT gap, kind, tokens, cost, reason, accepted_by, tenants FROM finance_accepted_gaps")
    assert carried == [(gap.id, "counters", 7, gap.cost, "engine log of 5 October", "ada", ["campus", "clinic"])]
    assert october.ask("SELECT count() FROM focus_invoice_detail WHERE InvoiceId LIKE 'GAP%'") == [(0,)]


def priced(catalog: Catalog) -> Catalog:
    """With a price for both kinds of GPU."""
    declared = catalog.model_dump(mode="json")
    declared["prices"]["gpu_hours"].append(declared["prices"]["gpu_hours"][0] | {"gpu_type": "h9"})
    return Catalog.model_validate(declared)


def test_a_kind_of_gpu_without_a_price_blocks_who_used_it_and_a_price_frees_them(october: Month) -> None:
    october.on("cpu-0", "run-0")
    october.serve("clinic", 1)
    october.on("cpu-1", "run-1", "h9")
    october.serve("bank", 5, "cpu-1")
    october.traffic.session(SessionEvent.STOPPED, october.t0 + 90 * S, "run-1")
    october.derive()
    closed = october.close()
    assert numbers(closed) == [("clinic", "LL-2026-0001")]
    assert found(closed)["bank"] <= {Kind.PRICE, Kind.QUARANTINE}
    october.catalog = priced(october.catalog)
    october.derive()
    assert numbers(october.close()) == [("clinic", "LL-2026-0001"), ("bank", "LL-2026-0002")]


def test_a_lost_record_is_pinned_to_whom_the_meter_saw_and_comes_free_when_it_comes(october: Month) -> None:
    october.on("cpu-0", "run-0")
    october.serve("clinic", 1)
    october.serve("campus", 2)
    kept = october.traffic.lines
    lost = [line for line in kept if '"attempts' not in line and opened_or_closed(line, seq=1)]
    october.traffic.lines = [line for line in kept if line not in lost]
    october.serve("freeride", 3)
    october.derive()
    closed = october.close()
    assert numbers(closed) == [("clinic", "LL-2026-0001"), ("freeride", "LL-2026-0002")]
    block = only(closed, Kind.RECORDS)
    assert (block.tenants, block.records, block.engine_ns, block.engine) == (("campus",), 1, 400_000_000, "cpu-0")
    october.traffic.lines = lost
    october.derive()
    assert numbers(october.close())[2:] == [("campus", "LL-2026-0003")]


def opened_or_closed(line: str, seq: int) -> bool:
    return (
        f'\\"seq\\":{seq},' in line
        and ("opened" in line or "resourceSpans" in line)
        and '"campus' in line.replace("\\", "")
    )


def test_an_attempt_that_no_meter_saw_used_nothing_and_holds_up_nobody(october: Month) -> None:
    october.on("cpu-0", "run-0")
    october.serve("clinic", 1)
    october.traffic.seq += 1
    october.serve("campus", 2)
    october.derive()
    closed = october.close()
    assert [tenant for tenant, _ in numbers(closed)] == ["campus", "clinic"]
    assert only(closed, Kind.RECORDS).tenants == ()


def test_a_lost_window_blocks_who_was_on_the_engine_then(october: Month) -> None:
    october.on("cpu-0", "run-0")
    october.serve("clinic", 1)
    october.traffic.windows += 1
    october.serve("campus", 9)
    october.serve("freeride", 10)
    october.traffic.session(SessionEvent.STOPPED, october.t0 + 40 * S, "run-0")
    october.derive()
    closed = october.close()
    block = only(closed, Kind.RECORDS)
    assert (block.engine_ns, block.engine) == (7 * S, "cpu-0")
    assert block.cost is not None
    assert round(block.cost, 6) == 7, "seven seconds at 3600 an hour"
    assert set(block.tenants) == {"clinic"} | ({"campus"} & set(block.tenants))
    assert "freeride" in [tenant for tenant, _ in numbers(closed)]


def test_what_waits_in_quarantine_blocks_whom_it_names_and_is_released_when_taken_on(october: Month) -> None:
    october.on("cpu-0", "run-0")
    october.serve("clinic", 1)
    october.serve("campus", 2)
    wrong = october.serve("bank", 3)
    october.traffic.lines[-1] = october.traffic.lines[-1].replace('\\"input_tokens\\":100', '\\"input_tokens\\":-1')
    october.traffic.lines += ["torn {", 'torn {"tenant":"freeride"', "\\x00" * 3]
    october.derive()
    closed = october.close()
    assert [tenant for tenant, _ in numbers(closed)] == ["campus", "clinic"]
    assert found(closed)["bank"] == {Kind.QUARANTINE}
    assert found(closed)["freeride"] == {Kind.QUARANTINE}
    assert wrong.tenant == "bank"
    held = [block for block in closed.blocks if block.kind is Kind.QUARANTINE]
    october.take_on(*(block.id for block in held))
    assert listed(october.ledger) == []
    closed = october.close()
    assert closed.blocked == {}
    assert october.ask("SELECT status FROM billing_periods") == [("closed",)]


def test_numbers_that_were_given_up_or_taken_later_are_not_missing_and_say_not_how_long_a_stream_is(
    october: Month,
) -> None:
    october.on("cpu-0", "run-0")
    for rank, tenant in enumerate(("clinic", "campus", "freeride"), start=1):
        october.serve(tenant, rank)
    lines = october.traffic.lines
    spoiled = next(n for n, line in enumerate(lines) if '"loraledger.meter.window"' in line and '\\"seq\\":1,' in line)
    lines[spoiled] = lines[spoiled].replace('\\"idle_ns\\":', '\\"colour\\":1,\\"idle_ns\\":')
    plain = UsageRecord("crm", 5, "r", "ghost", october.t0, october.t0 + S, Status.OK, source="plain")
    wild = replace(plain, emitter=october.traffic.gateway, seq=10**9, source="gateway")
    lines += [replace(plain, seq=9, tenant="clinic", input_tokens=1, output_tokens_delivered=1, slices=()).to_json()]
    lines += [plain.to_json(), wild.to_json(), wild.to_json()[:-1].replace("0000,", "0001,") + ',"colour":"red"}']
    october.derive()
    assert {entry.kind for entry in listed(october.ledger)} == {"line", "usage"}
    assert [block.kind for block in october.close().blocks if block.kind is Kind.RECORDS] == []
    assert release(october.ledger, [entry.id for entry in listed(october.ledger)], "not ours", october.now)
    october.derive()
    assert found(october.close()) == {"campus": {Kind.AGREEMENT}}, "whose time was in the window that was given up"


def test_attempts_without_figures_block_their_tenant_with_what_they_may_be_worth(october: Month) -> None:
    t0 = october.t0
    known = UsageRecord(
        "crm", 0, "r", "campus", t0, t0 + S, Status.OK, input_tokens=10**6, cached_tokens=0, output_tokens_delivered=0, slices=()
    )  # fmt: skip
    unknown = replace(known, seq=1, input_tokens=None)
    failed = replace(unknown, seq=2, status=Status.REJECTED, output_tokens_delivered=None)
    timed = replace(known, seq=3, tenant="clinic", slices=None)
    part = Slice(t0 - t0 % (15 * MINUTE), 2 * S, S, 0)
    reported = replace(known, seq=4, tenant="clinic", slices=(part,), engine="cpu-0", gpu_type="demo-cpu", gpu_count=1)
    lines = [replace(one, source="plain").to_json() for one in (known, unknown, failed, timed, reported)]
    october.traffic.lines = lines
    october.derive()
    closed = october.close()
    assert found(closed) == {"campus": {Kind.UNMEASURED}, "clinic": {Kind.UNMEASURED}}
    campus, clinic = closed.blocked["campus"][0], closed.blocked["clinic"][0]
    assert campus.what == "1 attempts of campus have no tokens, by which its plan charges: they would be billed as 0"
    assert (campus.records, campus.cost, campus.engine_ns) == (1, Decimal(600), None)
    assert clinic.what == (
        "2 attempts of clinic have no time that a meter measured, by which its plan charges: they would be billed as 0; "
        "their source reports 3000000000 ns"
    )
    assert (clinic.records, clinic.engine_ns) == (2, 3 * S)
    assert clinic.cost is not None
    assert round(clinic.cost, 6) == 3, "three seconds at 3600 an hour"
    assert f"--accept {campus.id}" in campus.advice
    october.take_on(campus.id, clinic.id)
    closed = october.close()
    assert closed.blocked == {}
    assert [(invoice.tenant, invoice.net) for invoice in closed.invoices] == [("campus", Decimal("600.00"))]


def test_a_record_that_differs_from_the_meter_blocks_its_tenant(october: Month) -> None:
    october.on("cpu-0", "run-0")
    october.serve("clinic", 1)
    october.serve("campus", 2)
    october.traffic.lines[-1] = october.traffic.lines[-1].replace('base_ns\\":400000000', 'base_ns\\":400000007')
    october.derive()
    closed = october.close()
    assert [tenant for tenant, _ in numbers(closed)] == ["clinic"]
    block = only(closed, Kind.AGREEMENT)
    assert (block.tenants, block.engine_ns) == (("campus",), 7)


def test_time_that_was_measured_outside_the_rent_blocks_that_engine_alone(october: Month) -> None:
    rent = '"rented":[{"start":"2026-10-06T00:00:00Z","until":"2026-10-07T00:00:00Z"}]'
    text = priced(october.catalog).model_dump_json()
    first, second = text.split('"cpu-1"')
    october.catalog = parse(first + '"cpu-1"' + second.replace('"rented":"on_demand"', rent, 1), "test")
    october.on("cpu-0", "run-0")
    october.serve("clinic", 1)
    october.on("cpu-1", "run-1", "h9")
    october.serve("bank", 5, "cpu-1")
    october.derive()
    closed = october.close()
    assert numbers(closed) == [("clinic", "LL-2026-0001")]
    assert Kind.TIME in found(closed)["bank"]


def test_a_name_that_no_font_has_blocks_its_tenant_and_leaves_no_gap_in_the_numbers(october: Month) -> None:
    october.on("cpu-0", "run-0")
    for rank, tenant in enumerate(("bank", "campus", "clinic"), start=1):
        october.serve(tenant, rank)
    sound = october.catalog
    rank = next(rank for rank, tenant in enumerate(sound.tenants) if tenant.id == "campus")
    tenants = [t.model_copy(update={"name": "Campus \U00010a00"}) if t.id == "campus" else t for t in sound.tenants]
    october.catalog = sound.model_copy(update={"tenants": tuple(tenants)})
    october.derive()
    closed = october.close()
    assert numbers(closed) == [("bank", "LL-2026-0001"), ("clinic", "LL-2026-0002")]
    (block,) = closed.blocked["campus"]
    assert block.kind is Kind.DOCUMENT
    assert block.what.startswith(f"tenants[{rank}].name: U+10A00 is in no font")
    with pytest.raises(GapMissing):
        october.take_on(block.id)
    since = {"terms": [{"effective_from": "2026-01-01T00:00:00Z", "name": "Campus Online eG"}]}
    declared = sound.model_dump(mode="json")
    declared["tenants"] = [one | since if one["id"] == "campus" else one for one in declared["tenants"]]
    october.catalog = Catalog.model_validate(declared)
    remember_catalog(october.ledger, october.catalog, october.now, restate=True)
    assert numbers(october.close())[2:] == [("campus", "LL-2026-0003")]
    assert verify(october.ledger, files=True).faults == []


def test_a_month_that_is_not_over_is_closed_for_nobody(october: Month) -> None:
    october.now = datetime.fromisoformat("2026-10-20T00:00:00+00:00")
    with pytest.raises(CloseRefused, match="could not close 2026-10:\n  the month is not over"):
        october.close()

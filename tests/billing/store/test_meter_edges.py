"""The meter's own words through the ledger: a request across the midnight of a month, an engine that dies inside a step."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from billing.store.clickhouse import Ledger
from billing.store.close.gaps import engine_gaps, unexplained
from billing.store.cost.engine_time import engine_lives, write_engine_time
from billing.store.cost.tenant_cost import write_tenant_cost
from billing.store.finance import month_window, reconciliation
from billing.store.intake.ingest import ingest
from billing.store.intake.usage import book_lost, book_spans
from catalog.model import Catalog
from catalog.owners import TimeOwner
from serving.metering.accounting import Accountant
from serving.step_model.profile import DEFAULT_PROFILE
from serving.wire.events import Bye, EngineStep, Entered, Event, Hello, StepRow, Woke
from telemetry.engine_time import EngineCounters, SessionEvent
from telemetry.names import EventName
from telemetry.usage import Status, UsageRecord

MS = 1_000_000
S = 1000 * MS
STEP = 8 * MS
"""Less than three times what the profile predicts for one request."""
HOUR = 3600 * S
MONO = 4_000 * S


class Engine:
    """One engine process whose steps the meter accounts for, on a monotonic clock that began at `born_ns` of UTC."""

    def __init__(self, traffic: Any, born_ns: int, emitter: str) -> None:
        self.traffic, self.born_ns, self.emitter = traffic, born_ns, emitter
        self.meter = Accountant(DEFAULT_PROFILE, "cpu-0")
        self.seq = 0
        self.meter.take(Hello(emitter, "cpu-0", MONO, born_ns))

    def take(self, event: Event) -> None:
        self.meter.take(event)

    def steps(self, record: UsageRecord, from_ns: int, count: int, length_ns: int, last: bool) -> None:
        """The request enters at `from_ns` (UTC) and is in `count` steps, one right after the other."""
        at = from_ns - self.born_ns + MONO
        self.take(Woke(at))
        self.take(Entered("r", record.attempt_key, record.tenant, record.adapter, 4, at))
        for n in range(count):
            row = StepRow("r", 4 if n == 0 else 1, 0 if n == 0 else 3 + n)
            ends = last and n == count - 1
            self.take(EngineStep(self.seq, at, at + length_ns, (row,), (), ("r",) if ends else (), (), (), not ends))
            self.seq += 1
            at += length_ns

    def write(self) -> None:
        """What the collector would hand on."""
        for window in self.meter.windows(2**62):
            self.traffic.event(EventName.WINDOW, window, window.end_ns)


def closed(record: UsageRecord, meter: Accountant, finished_ns: int) -> UsageRecord:
    found = meter.measured(record.attempt_key)
    assert found is not None
    return replace(
        record,
        finished_ns=finished_ns,
        status=Status.OK,
        input_tokens=found.input_tokens,
        cached_tokens=found.cached_tokens,
        output_tokens_computed=found.output_tokens,
        output_tokens_delivered=found.output_tokens,
        gpu_type="demo-cpu",
        gpu_count=1,
        slices=found.slices,
        method=found.method,
        profile=found.profile,
    )


def derive(ledger: Ledger, catalog: Catalog, now: datetime, *months: str) -> None:
    for month in months:
        start_ns, end_ns = month_window(month, catalog)
        book_spans(ledger, start_ns, end_ns, catalog, now)
        book_lost(ledger, engine_lives(ledger, start_ns, end_ns, catalog), catalog, now)
        write_engine_time(ledger, start_ns, end_ns, catalog, now)
        write_tenant_cost(ledger, start_ns, end_ns, catalog, now)


def test_a_request_across_the_midnight_of_a_month_is_billed_in_both_by_its_steps(
    ledger: Ledger, traffic: Any, example: Catalog, ns: Callable[..., int], now: datetime, tmp_path: Path
) -> None:
    midnight = ns(2026, 11, 1)
    traffic.meter = "eng-1"
    traffic.session(SessionEvent.STARTED, midnight - 10 * S)
    engine = Engine(traffic, midnight - 5 * S, "eng-1")
    record = traffic.open("bank", midnight - S)
    engine.steps(record, midnight - S, count=251, length_ns=STEP - 1, last=True)
    engine.take(Bye(MONO + 30 * S))
    engine.write()
    end_ns = midnight - S + 251 * (STEP - 1)
    traffic.close(closed(record, engine.meter, end_ns))
    traffic.session(SessionEvent.STOPPED, midnight + 26 * S)
    ingest(ledger, [traffic.write(tmp_path)], example, now)
    derive(ledger, example, now, "2026-10", "2026-11")

    rows = ledger.ask(
        "SELECT billing_month, sum(measured_ns), sum(requests), sum(output_tokens) FROM tenant_cost WHERE tenant = 'bank' GROUP BY billing_month ORDER BY billing_month"
    ).rows
    slices = closed(record, engine.meter, end_ns).slices
    assert slices is not None
    assert [row[:2] for row in rows] == [
        ("2026-10", slices[0].measured_ns),
        ("2026-11", slices[1].measured_ns),
    ]
    assert sum(part.measured_ns for part in slices) == end_ns - (midnight - S)
    assert slices[0].measured_ns == S
    assert (sum(row[2] for row in rows), sum(row[3] for row in rows)) == (1, 251)
    before = ledger.ask("SELECT * FROM tenant_cost ORDER BY ALL").rows
    derive(ledger, example, now, "2026-10", "2026-11")
    assert ledger.ask("SELECT * FROM tenant_cost ORDER BY ALL").rows == before


def test_an_engine_that_dies_inside_a_step_loses_no_time_and_takes_nobody_with_it(
    ledger: Ledger, traffic: Any, example: Catalog, ns: Callable[..., int], now: datetime, tmp_path: Path
) -> None:
    t0 = ns(2026, 10, 5, 10)
    traffic.meter = "eng-1"
    traffic.session(SessionEvent.STARTED, t0, "eng-1")
    first = Engine(traffic, t0 + 5 * S, "eng-1")
    done = traffic.open("clinic", t0 + 6 * S)
    first.steps(done, t0 + 6 * S, count=3, length_ns=STEP, last=True)
    lost = traffic.open("bank", t0 + 7 * S)
    first.steps(lost, t0 + 7 * S, count=5, length_ns=STEP, last=False)
    # The sixth step never ends: the process is gone, and the collector knows nothing after the fifth.
    first.meter.finish(MONO + 2 * S + 40 * MS)
    first.write()
    traffic.close(closed(done, first.meter, t0 + 6 * S + 24 * MS))
    traffic.session(SessionEvent.HEARTBEAT, t0 + 9 * S, "eng-1")

    traffic.meter, traffic.sessions = "eng-2", 0
    traffic.session(SessionEvent.STARTED, t0 + 20 * S, "eng-2")
    second = Engine(traffic, t0 + 25 * S, "eng-2")
    again = traffic.open("bank", t0 + 26 * S)
    second.steps(again, t0 + 26 * S, count=2, length_ns=STEP, last=True)
    second.take(Bye(MONO + 5 * S))
    second.write()
    traffic.close(closed(again, second.meter, t0 + 26 * S + 16 * MS))
    traffic.session(SessionEvent.STOPPED, t0 + 30 * S, "eng-2")
    ingest(ledger, [traffic.write(tmp_path)], example, now)
    derive(ledger, example, now, "2026-10")

    found = reconciliation(
        ledger, datetime.fromtimestamp(t0 // S, now.tzinfo), datetime.fromtimestamp((t0 + HOUR) // S, now.tzinfo)
    )
    found.check()
    assert found.owners[TimeOwner.UNATTRIBUTED] == 0
    assert found.owners[TimeOwner.TENANTS] == (3 + 5 + 2) * STEP
    # Before the first meter, after its last word until the second one, and after that one's.
    assert found.owners[TimeOwner.DOWN] == found.rented_ns - (2 * S + 40 * MS) - 5 * S
    rows = ledger.ask(
        "SELECT tenant, status, sum(measured_ns) FROM tenant_cost WHERE measured_ns > 0 GROUP BY tenant, status ORDER BY tenant, status"
    ).rows
    assert rows == [("bank", "lost", 40 * MS), ("bank", "ok", 16 * MS), ("clinic", "ok", 24 * MS)]


def test_counters_are_read_per_process_as_of_their_last_word_and_compared_with_its_own_records(
    ledger: Ledger, traffic: Any, example: Catalog, ns: Callable[..., int], now: datetime, tmp_path: Path
) -> None:
    t0 = ns(2026, 10, 5, 10)
    traffic.session(SessionEvent.STARTED, t0)
    traffic.serve("clinic", t0 + S, 5, tokens=(100, 20, 10))
    traffic.serve("bank", t0 + 3 * S, 5, tokens=(50, 0, 7), status=Status.CLIENT_ABORT)
    traffic.session(SessionEvent.STOPPED, t0 + 60 * S)
    names = ("prompt_tokens", "output_tokens")
    meter = dict.fromkeys(
        [f"{kind}_{name}" for kind in ("aborted", "in_flight", "claimed", "again") for name in names], 0
    )
    meter |= dict.fromkeys(("preemptions", "aborted_requests", "in_flight_requests"), 0)
    meter |= {"prompt_tokens": 150, "output_tokens": 17, "claimed_prompt_tokens": 150, "claimed_output_tokens": 17}
    meter |= {"aborted_requests": 1, "aborted_prompt_tokens": 50, "aborted_output_tokens": 7}
    first = EngineCounters("meter-1", 0, "cpu-0", t0, t0 + 2 * S, False, 100, 10, 0, {}, meter)
    last = EngineCounters("meter-1", 1, "cpu-0", t0, t0 + 60 * S, True, 150, 15, 0, {"length": 1}, meter)
    for counters in (first, last):
        traffic.event(EventName.COUNTERS, counters, counters.at_ns)
    ingest(ledger, [traffic.write(tmp_path)], example, now)
    book_spans(ledger, t0, t0 + HOUR, example, now)
    assert unexplained(ledger, t0, t0 + HOUR) == []
    gaps = engine_gaps(ledger, t0, t0 + HOUR)
    assert [(gap.what, gap.smaller, gap.difference, dict(gap.causes), gap.unexplained) for gap in gaps] == [
        ("prompt tokens", "engine", 0, {}, 0),
        ("prompt tokens", "usage", 0, {}, 0),
        ("output tokens", "engine", 2, {"abort": 2}, 0),
        ("output tokens", "usage", 0, {}, 0),
        ("preemptions", "engine", 0, {}, 0),
    ]

"""What many tests stand on: an instant, a catalog, a ledger on the real engine, and a builder of what a gateway would have written."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from msgspec.structs import replace

from billing.invoice.credit import CreditNote, draft_credit_note, issue_credit_note, spread
from billing.store.catalog_history import remember_catalog
from billing.store.clickhouse import Ledger
from billing.store.cost.engine_time import write_cold_starts, write_engine_time
from billing.store.cost.tenant_cost import write_tenant_cost
from billing.store.finance import month_window
from billing.store.focus import write_charges
from billing.store.intake.ingest import ingest
from billing.store.intake.usage import book_lost, book_spans
from billing.store.invoice.invoices import issue_month, issued
from billing.store.invoice.issuing import issue
from billing.store.invoice.settling import post
from billing.store.migrate import migrate
from catalog.durations import MINUTE_NS, QUARTER_NS, SECOND_NS
from catalog.load import load
from catalog.model import Catalog
from telemetry.engine_time import (
    AdapterLeft,
    AdapterLoad,
    EngineSession,
    LoadCause,
    MeterValue,
    MeterWindow,
    Opened,
    SessionEvent,
    Share,
)
from telemetry.names import Attr, EventName
from telemetry.otlp_encode import event_line, span_line
from telemetry.usage import Slice, Status, UsageRecord

EXAMPLE = Path(__file__).parent.parent / "examples" / "catalog.yaml"


@dataclass
class Traffic:
    """Writes the spool lines of one engine and one gateway: sessions, windows, attempts. All instants are UTC nanoseconds."""

    engine: str = "cpu-0"
    gateway: str = "gw-0123456789ab"
    meter: str = "meter-1"
    gpu_type: str = "demo-cpu"
    gpu_count: int = 1
    lines: list[str] = field(default_factory=list)
    seq: int = 0
    windows: int = 0
    sessions: int = 0
    loads: int = 0
    departures: int = 0

    def event(self, name: str, value: Opened | MeterValue | EngineSession, at_ns: int) -> None:
        self.lines.append(event_line(name, value.to_json(), at_ns, None, value.emitter, value.seq))

    def session(self, event: SessionEvent, at_ns: int, session: str = "run-1") -> None:
        value = EngineSession(
            self.meter, self.sessions, self.engine, session, event, at_ns, self.gpu_type, self.gpu_count
        )
        self.sessions += 1
        self.event(EventName.SESSION, value, at_ns)

    def window(
        self,
        start_ns: int,
        end_ns: int,
        shares: tuple[Share, ...] = (),
        cold: dict[str, int] | None = None,
        system_ns: int = 0,
    ) -> MeterWindow:
        """A window whose idle time is what the other parts leave, as a meter would have measured it."""
        spent = sum(s.base_ns + s.adapter_ns + s.recompute_ns for s in shares) + sum((cold or {}).values()) + system_ns
        value = MeterWindow(
            self.meter,
            self.windows,
            self.engine,
            start_ns,
            end_ns,
            len(shares),
            end_ns - start_ns - spent,
            {"loop": system_ns} if system_ns else {},
            cold or {},
            shares=shares,
            predicted_ns=spent,
        )
        self.windows += 1
        self.event(EventName.WINDOW, value, end_ns)
        return value

    def idle(self, start_ns: int, end_ns: int) -> None:
        """Windows of nothing, cut at minutes."""
        while start_ns < end_ns:
            cut = min(end_ns, start_ns - start_ns % MINUTE_NS + MINUTE_NS)
            self.window(start_ns, cut)
            start_ns = cut

    def load(self, adapter: str, start_ns: int, engine_ns: int, size_bytes: int | None = None) -> None:
        value = AdapterLoad(
            self.meter,
            self.loads,
            self.engine,
            adapter,
            "ab" * 32,
            LoadCause.REQUEST,
            start_ns,
            engine_ns,
            size_bytes=size_bytes,
        )
        self.loads += 1
        self.event(EventName.LOAD, value, start_ns + engine_ns)

    def left(self, adapter: str, at_ns: int) -> None:
        self.event(EventName.LEFT, AdapterLeft(self.meter, self.departures, self.engine, adapter, at_ns), at_ns)
        self.departures += 1

    def open(
        self, tenant: str, arrival_ns: int, adapter: str | None = None, engine: str | None = "cpu-0"
    ) -> UsageRecord:
        """An attempt enters; what comes back is its record so far, with status lost."""
        seq, self.seq = self.seq, self.seq + 1
        request, trace = f"{seq:032x}", f"{seq + 1:032x}"
        self.event(
            EventName.OPENED, Opened(self.gateway, seq, request, tenant, arrival_ns, trace, adapter, engine), arrival_ns
        )
        return UsageRecord(
            self.gateway,
            seq,
            request,
            tenant,
            arrival_ns,
            None,
            Status.LOST,
            trace_id=trace,
            adapter=adapter,
            engine=engine,
        )

    def share(self, record: UsageRecord, base_ns: int, adapter_ns: int = 0, recompute_ns: int = 0) -> Share:
        return Share(
            record.attempt_key,
            record.tenant,
            record.adapter,
            base_ns,
            adapter_ns,
            recompute_ns,
            prefill_tokens=10,
            decode_tokens=5,
        )

    def close(self, record: UsageRecord) -> UsageRecord:
        """The attempt's root span, with its record."""
        assert record.finished_ns is not None
        attributes = {Attr.TENANT: record.tenant, Attr.USAGE_RECORD: record.to_json()}
        name = "POST /v1/chat/completions"
        resource = {"service.name": "loraledger"}
        self.lines.append(
            span_line(
                record.trace_id or "f" * 32,
                f"{record.seq + 1:016x}",
                "",
                name,
                record.arrival_ns,
                record.finished_ns,
                attributes,
                resource,
            )
        )
        return record

    def serve(
        self,
        tenant: str,
        start_ns: int,
        base_ns: int,
        adapter_ns: int = 0,
        *,
        adapter: str | None = None,
        length_ns: int = SECOND_NS,
        status: Status = Status.OK,
        tokens: tuple[int, int, int] = (100, 20, 10),
        cold_ns: int = 0,
        system_ns: int = 0,
        recompute_ns: int = 0,
        saved: tuple[int, int] = (0, 0),
    ) -> UsageRecord:
        """One whole attempt in one window [start, start + length): opened, measured, closed at the window's end."""
        opened = self.open(tenant, start_ns, adapter)
        cold = {adapter: cold_ns} if adapter and cold_ns else None
        self.window(
            start_ns,
            start_ns + length_ns,
            (self.share(opened, base_ns, adapter_ns, recompute_ns),),
            cold,
            system_ns,
        )
        if adapter and cold_ns:
            self.load(adapter, start_ns, cold_ns)
        part = Slice(start_ns - start_ns % QUARTER_NS, base_ns, adapter_ns, recompute_ns, *saved)
        return self.close(
            replace(
                opened,
                finished_ns=start_ns + length_ns,
                status=status,
                input_tokens=tokens[0],
                cached_tokens=tokens[1],
                output_tokens_computed=tokens[2],
                output_tokens_delivered=tokens[2],
                gpu_type=self.gpu_type,
                gpu_count=self.gpu_count,
                slices=(part,),
                method="engine-step/1",
                profile="0123456789ab",
            )
        )

    def write(self, directory: Path, name: str = "spool-0000000000000000001-1.jsonl") -> Path:
        """All lines so far, as one spool file."""
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / name
        path.write_text("".join(line + "\n" for line in self.lines), encoding="utf-8")
        return path


@pytest.fixture
def ns() -> Callable[..., int]:
    """UTC nanoseconds of a date: `ns(2026, 10, 1, 12, 30)`."""

    def of(*parts: int) -> int:
        return int(datetime(*parts, tzinfo=UTC).timestamp()) * SECOND_NS  # type: ignore[arg-type, misc]

    return of


@pytest.fixture
def now() -> datetime:
    """After the months that tests talk about."""
    return datetime(2026, 11, 10, 8, tzinfo=UTC)


@pytest.fixture(scope="session")
def example() -> Catalog:
    return load(EXAMPLE)


@pytest.fixture
def traffic() -> Traffic:
    return Traffic()


@pytest.fixture(scope="session")
def empty_ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed, empty ledger with the whole schema, to be copied: quicker than making each anew."""
    path = tmp_path_factory.mktemp("empty") / "ledger"
    with Ledger.open(f"chdb://{path}") as opened:
        migrate(opened, datetime(2026, 10, 1, tzinfo=UTC))
    return path


@pytest.fixture(scope="session")
def busy_catalog(example: Catalog) -> Catalog:
    """The example with idle time shared by use, and a tenant billed in dollars who owes a minimum."""
    declared = example.model_dump(mode="json")
    declared["prices"] |= {"idle": "usage"}
    declared["prices"]["fx"] = [
        {"currency": "USD", "day": f"2026-{month:02d}-30", "rate": f"1.0876543{month % 10}", "source": "ECB"}
        for month in (9, 10, 11)
    ]
    for tenant in declared["tenants"]:
        if tenant["id"] == "bank":
            tenant |= {"currency": "USD", "purchase_order": "PO-77"}
            tenant["plan"] |= {"minimum": "25"}
    return Catalog.model_validate(declared)


@pytest.fixture(scope="session")
def closed_books(
    tmp_path_factory: pytest.TempPathFactory, empty_ledger: Path, busy_catalog: Catalog
) -> tuple[Path, Catalog]:
    """A ledger to be copied, closed, in which five tenants' September and October 2026 are issued, and a part of a September
    invoice was credited in October; and its catalog."""
    root = tmp_path_factory.mktemp("closed")
    shutil.copytree(empty_ledger, root / "ledger", symlinks=True)
    with Ledger.open(f"chdb://{root / 'ledger'}") as opened:
        for month, scale in ((9, 1), (10, 2)):
            traffic = busy_days(datetime(2026, month, 5, 10, tzinfo=UTC), scale)
            after = datetime(2026, month + 1, 10, 8, tzinfo=UTC)
            derive_month(opened, busy_catalog, f"2026-{month:02d}", [traffic.write(root / f"spool-{month}")], after)
            issue_month(opened, f"2026-{month:02d}", busy_catalog, after)
            if month == 9:
                credit_clinic(opened, after)
            write_charges(opened, f"2026-{month:02d}", busy_catalog, after)
    return root / "ledger", busy_catalog


def credit_clinic(ledger: Ledger, now: datetime) -> None:
    """One euro off the clinic's September, as a credit note."""

    def make() -> list[CreditNote]:
        invoice = next(invoice for invoice in issued(ledger, "2026-09") if invoice.tenant == "clinic")
        draft = draft_credit_note(invoice, spread(invoice, Decimal(1)), "goodwill", cutoff=now)
        return [issue_credit_note(draft, "CN", 1, now.date())]

    issue(ledger, make, now)
    post(ledger)


def busy_days(first: datetime, scale: int) -> Traffic:
    """Three hours on two days of five tenants: cold loads, cache hits, an abort, a fault, a rejection, and idle time."""
    day_ns, hour_ns = 24 * 3600 * SECOND_NS, 3600 * SECOND_NS
    traffic = Traffic(gateway=f"gw-{first:%m}0000000000")
    for at in (0, hour_ns, day_ns):
        t0 = int(first.timestamp()) * SECOND_NS + at
        run = traffic.meter = f"run-{t0}"
        traffic.windows = traffic.sessions = traffic.loads = 0
        traffic.session(SessionEvent.STARTED, t0, run)
        traffic.serve(
            "clinic", t0 + SECOND_NS, 300_000_000 * scale, 50_000_001, adapter="icd10-coder", cold_ns=30_000_007,
            saved=(50_000_000, 5_000_003), tokens=(1000, 400, 50),
        )  # fmt: skip
        traffic.serve("clinic", t0 + 2 * SECOND_NS, 90_000_000, 10_000_001, adapter="clinic-tone", system_ns=77)
        traffic.serve("campus", t0 + 3 * SECOND_NS, 400_000_001, tokens=(5000, 0, 700), recompute_ns=5)
        traffic.serve("freeride", t0 + 4 * SECOND_NS, 900_000_001, adapter="brand-voice", tokens=(9, 0, 3000))
        traffic.serve("forge", t0 + 5 * SECOND_NS, 123_456_789 * scale, 7_654_321, adapter="code-complete")
        traffic.serve("bank", t0 + 6 * SECOND_NS, 66_666_667, 1_000_003, adapter="ledger-lingo")
        traffic.serve("campus", t0 + 7 * SECOND_NS, 10_000_001, status=Status.CLIENT_ABORT, tokens=(50, 0, 3))
        traffic.serve("campus", t0 + 8 * SECOND_NS, 20_000_003, status=Status.SERVER_ERROR, tokens=(50, 0, 0))
        refused = traffic.open("clinic", t0 + 9 * SECOND_NS, engine=None)
        traffic.close(replace(refused, status=Status.REJECTED, finished_ns=t0 + 9 * SECOND_NS + 5, slices=()))
        traffic.idle(t0 + 9 * SECOND_NS, t0 + 90 * SECOND_NS)
        traffic.session(SessionEvent.STOPPED, t0 + 100 * SECOND_NS, run)
    return traffic


def derive_month(ledger: Ledger, catalog: Catalog, month: str, files: list[Path], now: datetime) -> None:
    """Take spool files and derive everything of a month up to its cost."""
    ingest(ledger, files, catalog, now)
    window = month_window(month, catalog)
    remember_catalog(ledger, catalog, now)
    book_spans(ledger, *window, catalog, now)
    book_lost(ledger, [], catalog, now)
    write_engine_time(ledger, *window, catalog, now)
    write_cold_starts(ledger, *window, now)
    write_tenant_cost(ledger, *window, catalog, now)


@pytest.fixture
def ledger(tmp_path: Path, empty_ledger: Path) -> Iterator[Ledger]:
    """An empty ledger with the whole schema, in a directory of this test."""
    shutil.copytree(empty_ledger, tmp_path / "ledger", symlinks=True)
    with Ledger.open(f"chdb://{tmp_path / 'ledger'}") as opened:
        yield opened


@pytest.fixture(scope="module")
def shared_ledger(tmp_path_factory: pytest.TempPathFactory, empty_ledger: Path) -> Iterator[Ledger]:
    """One ledger for all tests of a module, none of which changes what the others see.

    A process has one embedded engine: a module takes this fixture or `ledger`, never both.
    """
    path = tmp_path_factory.mktemp("shared") / "ledger"
    shutil.copytree(empty_ledger, path, symlinks=True)
    with Ledger.open(f"chdb://{path}") as opened:
        yield opened
